#include "tests/support/roles.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"

namespace bigmac::roles {
namespace {

std::map<std::string, Role>& all() {
  static std::map<std::string, Role> roles;
  return roles;
}
std::map<std::string, Program>& programs() {
  static std::map<std::string, Program> programs;
  return programs;
}

int run_here(const std::string& name) {
  at::set_num_threads(1);
  std::unique_ptr<Transport> transport;
  try {
    if (auto program = programs().find(name); program != programs().end()) {
      program->second(std::getenv("BIGMAC_TEST_FOLDER"));
      return 0;
    }
    transport = connect_gloo(*read_environment());
    all().at(name)(*transport, std::getenv("BIGMAC_TEST_FOLDER"));
    return 0;
  } catch (const RankFailure& error) {
    std::cerr << error.what() << "\n";
  } catch (const std::exception& error) {
    if (transport) transport->fail(concat("rank ", transport->rank(), ": ", error.what()));
    std::cerr << error.what() << "\n";
  }
  return 1;
}

}  // namespace

bool add(const std::string& name, Role role) {
  return all().emplace(name, std::move(role)).second;
}
bool add_program(const std::string& name, Program program) {
  return programs().emplace(name, std::move(program)).second;
}

void run(const std::string& name, int ranks, const std::string& folder) {
  setenv("BIGMAC_TEST_ROLE", name.c_str(), 1);
  setenv("BIGMAC_TEST_FOLDER", folder.c_str(), 1);
  auto clear = [] { unsetenv("BIGMAC_TEST_ROLE"); };
  try {
    launch_processes({"/proc/self/exe"}, {.ranks = ranks});
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

}  // namespace bigmac::roles

int main(int argc, char** argv) {
  if (const char* role = std::getenv("BIGMAC_TEST_ROLE")) return bigmac::roles::run_here(role);
  at::set_num_threads(1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
