#include "bigmac/runtime/transport.h"

namespace bigmac {

void Transport::barrier() {
  auto token = torch::zeros({1});
  all_reduce(token);
}

std::vector<Message> all_gather(Transport& transport, const Message& message) {
  std::vector<Message> messages(transport.size());
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) continue;
    transport.post_receives(peer, 1);
    transport.send(peer, message);
  }
  for (int peer = 0; peer < transport.size(); ++peer)
    messages[peer] = peer == transport.rank() ? message : transport.receive(peer);
  return messages;
}

}  // namespace bigmac
