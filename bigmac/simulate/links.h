#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// How ranks exchange messages. An operator sends one message to each rank that needs its output (messages.h).
//
//   overlapped  a message leaves when its operator has ended and travels beside computing; messages do not
//               wait for one another. It arrives after Costs::latency + LinkTime::of(bytes).
//   in_order    the same, but one queue for each pair of ranks and direction: the link carries one message
//               after the other, in the order of the sender's row, and they are delivered in that order
//               (latency adds to each, but does not occupy the link). A message that is needed may stand
//               behind one that is not: that wait is Spent::order.
//   batched     Megatron Core's exchange without overlap: a rank sends when an operator has ended, all of its
//               messages at once, and does nothing else until they have arrived. Where ranks have several
//               chunks, a forward and the backward directly behind it in the row are one exchange, at the
//               backward's end, as in Megatron's steady state of the interleaved order (its 1F1B exchanges
//               after each operator). An exchange takes what its slowest peer takes: links carry both
//               directions and different peers at the same time; two messages to one peer share its link
//               and one latency. Where the backward depends, over other ranks, on what its forward sends, the
//               forward's message leaves at once.
//
// At the same costs and links each of them is at least as slow as the one before.
enum class Exchange : uint8_t { overlapped, in_order, batched };
std::string_view name(Exchange exchange);            // overlapped, in-order, batched
Exchange exchange_from_name(std::string_view text);  // InvalidInput with the nearest known name

struct LinkTime {
  double latency = 0;        // units of time a message
  double time_per_byte = 0;  // of time
  double of(double bytes) const { return latency + time_per_byte * bytes; }
};

// What messages between ranks take. Chunks on the same rank hand over for nothing.
//
//   F(s) to F(s+1), B(s+1) to B(s)              stage_bytes
//   encoder F of a share to stage 0's rank      item_bytes * size of the share; so the gradient of a
//                                               generator's share to the last stage's rank
//   B(0, m) to a rank that has encoded some of  item_bytes * size of that rank's items of m; so F(last, m) to
//   m's items                                   the ranks that generate for it
struct Links {
  Exchange exchange = Exchange::overlapped;
  LinkTime inside{}, between{};         // ranks of one node; of different nodes
  std::vector<int32_t> node_of_rank{};  // empty: all on one node
  double stage_bytes = 0;               // a microbatch's activation, and its gradient, between two stages
  std::vector<double> item_bytes{};     // by Step::modules: of what an item of size 1 hands over, either way;
                                        // one value stands for all, empty: nothing
};

// As simulate(schedule, costs), with messages that take what `links` says beside costs.latency. Where links
// are free and overlapped, the operators' times are the same. Waits and transfers are intervals of the
// timeline's rows, with the operator that waited (transfer: whose output was sent) and the peer:
//   Spent::wait      the input had not been made, or was on its way
//   Spent::order     the input would have been there, but for messages before it in the queue (in_order)
//   Spent::transfer  the rank itself was exchanging (batched)
// Throws InvalidInput for a table with a deadlock, negative or non-finite figures, lists of a wrong length.
Timeline simulate(const Schedule& schedule, const Costs& costs, const Links& links);

}  // namespace bigmac
