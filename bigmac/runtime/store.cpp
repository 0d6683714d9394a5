#include "bigmac/runtime/store.h"

#include <signal.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "bigmac/common/error.h"
#include "bigmac/runtime/keepalive.h"

namespace bigmac {
namespace {

constexpr const char* kFailure = "bigmac/failure";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Sockets of libtorch and Gloo write without MSG_NOSIGNAL: a rank that has gone would take with it whoever
// still writes to it.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

}  // namespace

StoreConnection connect_store(const std::string& address, int port, bool serves,
                              std::chrono::milliseconds timeout) {
  ignore_broken_pipes();
  c10d::TCPStoreOptions options;
  options.port = uint16_t(port);
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = timeout;
  auto before = open_files();
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
    watch_new_connections(before, Watched::sent);
    int real_port = store->getPort();
    return {std::move(store), real_port};
  } catch (const std::exception& error) {
    if (serves)
      throw InvalidInput(
          concat("[launch] cannot listen on port ", port,
                 " (is it in use? set MASTER_PORT to a free one): ", first_line(error.what())));
    throw InvalidInput(concat("[launch] cannot reach rank 0's store at ", address, ":", port, ": ",
                              first_line(error.what())));
  }
}

std::string publish_failure(c10d::Store& store, const std::string& reason) {
  auto held = store.compareSet(kFailure, {}, std::vector<uint8_t>(reason.begin(), reason.end()));
  return {held.begin(), held.end()};
}

std::optional<std::string> published_failure(c10d::Store& store) {
  if (!store.check({kFailure})) return std::nullopt;
  auto bytes = store.get(kFailure);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace bigmac
