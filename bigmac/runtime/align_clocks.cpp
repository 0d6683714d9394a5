#include "bigmac/runtime/align_clocks.h"

#include <algorithm>

namespace bigmac {
namespace {

constexpr size_t kMostProbes = 4096;

Message times(double a, double b) {
  return {{torch::tensor({a, b}, torch::kFloat64)}, {false}};
}

double time_of(const Message& message, int which) {
  return message.tensors.at(0).cpu().data_ptr<double>()[which];
}

// Rank 0's side: each message holds when it was sent and when the answer before it came.
void ask(Transport& transport, int peer, int rounds, const Clock& clock) {
  double back = 0;
  for (int round = 0; round < rounds; ++round) {
    transport.post_receives(peer, 1);
    transport.send(peer, times(clock(), back));
    transport.receive(peer);
    back = clock();
  }
  transport.send(peer, times(0, back));
}

}  // namespace

void ClockAligner::exchange(Transport& transport, int rounds, const Clock& clock) {
  if (transport.rank() == 0) {
    for (int peer = 1; peer < transport.size(); ++peer) ask(transport, peer, rounds, clock);
    return;
  }
  std::vector<ClockProbe> probes;
  for (int round = 0; round <= rounds; ++round) {
    transport.post_receives(0, 1);
    auto message = transport.receive(0);
    double arrived = clock();
    if (round > 0) probes.back().back = time_of(message, 1);
    if (round == rounds) break;
    probes.push_back({time_of(message, 0), arrived, clock(), 0});
    transport.send(0, times(0, 0));
  }
  // The middle ones are let go: the first and the last tell the drift.
  if (probes_.size() + probes.size() > kMostProbes)
    probes_.erase(probes_.begin() + kMostProbes / 4, probes_.begin() + kMostProbes / 2);
  probes_.insert(probes_.end(), probes.begin(), probes.end());
}

}  // namespace bigmac
