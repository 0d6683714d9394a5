#include "bigmac/runtime/gloo_connect.h"

#include <cstdlib>
#include <future>
#include <thread>

#include "bigmac/common/error.h"
#include "bigmac/runtime/interface.h"
#include "bigmac/runtime/keepalive.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

using Device = std::shared_ptr<::gloo::transport::Device>;

std::vector<Device> make_devices(const std::string& address) {
  std::vector<Device> devices;
  if (!is_this_machine_alone(address))
    for (const auto& interface : interfaces_from(std::getenv("GLOO_SOCKET_IFNAME")))
      devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  if (!devices.empty()) return devices;
  auto own = address_towards(address);
  return {own.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                      : c10d::ProcessGroupGloo::createDeviceForHostname(own)};
}

}  // namespace

std::string listens_on(const std::string& address) {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  return interfaces && *interfaces && !is_this_machine_alone(address) ? interfaces : address_towards(address);
}

void meet(c10d::Store& store, const std::string& name, const std::vector<int>& ranks, int rank,
          std::chrono::milliseconds timeout, const std::function<void()>& look) {
  std::vector<std::string> all;
  for (int other : ranks) all.push_back(concat(name, other));
  store.set(concat(name, rank), std::vector<uint8_t>{1});
  auto start = std::chrono::steady_clock::now();
  while (!store.check(all)) {
    look();
    if (std::chrono::steady_clock::now() - start > timeout) {
      std::string missing;
      for (size_t i = 0; i < ranks.size(); ++i)
        if (!store.check({all[i]})) missing += concat(missing.empty() ? "" : ", ", ranks[i]);
      throw Failure(concat("rank ", rank, ": [gloo] not all ", ranks.size(), " ranks came together within ",
                           double(timeout.count()) / 1000, " s; missing: rank ", missing));
    }
    std::this_thread::sleep_for(5ms);
  }
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_all(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::string& address, int index, int size,
                                                       std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices = make_devices(address);
  options->threads = 1;
  auto before = open_files();
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, index, size, options);
  watch_new_connections(before, Watched::idle_too);
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_all(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::string& address, int index, int size,
                                                       std::chrono::milliseconds timeout,
                                                       const std::function<void()>& look) {
  std::packaged_task<c10::intrusive_ptr<c10d::ProcessGroupGloo>()> task(
      [=] { return connect_all(store, address, index, size, timeout); });
  auto connected = task.get_future();
  std::thread thread(std::move(task));
  try {
    while (connected.wait_for(5ms) != std::future_status::ready) look();
  } catch (...) {
    thread.detach();
    throw;
  }
  thread.join();
  return connected.get();
}

}  // namespace bigmac
