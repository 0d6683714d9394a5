#pragma once

#include <functional>
#include <map>
#include <string>

#include "bigmac/runtime/threads_transport.h"
#include "tests/runtime/processes.h"

namespace bigmac {

// Test bodies that run on ranks as threads and as processes alike. No test framework listens in processes, so
// that they throw.
using Bodies = std::map<std::string, std::function<void(Transport&)>>;

enum class RanksAs { threads, processes };

inline void require(bool condition, const std::string& what) {
  if (!condition) throw Failure("expected " + what);
}

// Makes the bodies known as roles; at namespace scope, as roles::add.
inline bool add_bodies(const std::string& of, const Bodies& bodies) {
  for (const auto& [name, body] : bodies)
    roles::add(of + name, [body = body](Transport& transport, const std::string&) { body(transport); });
  return true;
}

inline void run_body(RanksAs as, const std::string& of, const Bodies& bodies, const std::string& name,
                     int ranks) {
  if (as == RanksAs::threads)
    run_threads(ranks, bodies.at(name));
  else
    roles::run(of + name, ranks);
}

inline std::string name_of(const testing::TestParamInfo<RanksAs>& info) {
  return info.param == RanksAs::threads ? "Threads" : "Processes";
}

}  // namespace bigmac
