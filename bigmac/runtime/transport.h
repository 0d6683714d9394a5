#pragma once

#include <memory>
#include <string>

#include "bigmac/common/error.h"
#include "bigmac/runtime/group.h"
#include "bigmac/runtime/message.h"

namespace bigmac {

// A rank of the group has failed. Every rank gets the same text, which starts with the failed rank's number.
class RankFailure : public Failure {
 public:
  using Failure::Failure;
};

// How the ranks of one pipeline exchange tensors. One object a rank, used by that rank's thread alone.
// Blocking calls throw RankFailure once any rank has failed.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Hands a message over and returns at once. Messages from one rank to another arrive in order. The tensors
  // must not be written to any more.
  virtual void send(int peer, Message message) = 0;

  // Posts the receives of the next `count` messages from `peer`, so that they travel while this rank
  // computes.
  virtual void post_receives(int peer, int64_t count) = 0;

  // The next message from `peer`, whose receive must have been posted. Blocks until it is there.
  virtual Message receive(int peer) = 0;
  // Whether receive(peer) would return at once.
  virtual bool has_message(int peer) = 0;

  // Sums a contiguous tensor over all ranks, in place. All ranks call it in the same order.
  virtual void all_reduce(torch::Tensor& values) = 0;
  void barrier();

  // All of `ranks`, and only they, make the group together, groups of the same ranks in the same order. This
  // rank must be one of them. It must not outlive the transport.
  virtual std::unique_ptr<Group> make_group(std::vector<int> ranks) = 0;

  // Whether other ranks are threads of this process.
  virtual bool shares_process() const { return false; }

  // Tells every rank that this one has failed. The first failure counts.
  virtual void fail(const std::string& reason) = 0;
  // Throws RankFailure if a rank has failed; for whoever waits for something else.
  virtual void check() = 0;
};

// Every rank's message, by rank; all ranks call it. Posts the receives it needs.
std::vector<Message> all_gather(Transport& transport, const Message& message);

}  // namespace bigmac
