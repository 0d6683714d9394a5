#pragma once

#include <map>
#include <memory>

#include "bigmac/runtime/gloo_parts.h"
#include "bigmac/runtime/group.h"
#include "bigmac/runtime/turn_sum.h"

namespace bigmac {

class GlooMesh;

// One member's side of a window, on the CPU.
struct OpenWindow {
  int64_t number = 0;
  std::mutex mutex;  // of shard and sum
  torch::Tensor shard;
  TurnSum sum{torch::kCPU};
  int closed = 0;  // by how many members
};

// Serves the windows of one group: a thread for each other member answers its requests and takes its parts
// of sums, without this rank's own thread. Requests and answers go in order on each pair of members.
class WindowServer {
 public:
  explicit WindowServer(GlooMesh& mesh);
  ~WindowServer();

  std::shared_ptr<OpenWindow> open(torch::Tensor shard);  // numbered alike on all members
  void close(OpenWindow& window);

  // Asks for a member's shard, to be written to `values`; `missing` then counts one less.
  void fetch(const OpenWindow& window, int member, torch::Tensor values, std::shared_ptr<int> missing);
  void send_part(const OpenWindow& window, int member, int64_t step, int64_t turn, const torch::Tensor& part);
  // Looks again whenever something has come. Throws RankFailure.
  void wait_until(const std::function<bool()>& holds);

  // Whether all members have closed every window, and all that was sent has been taken.
  bool is_idle();
  void stop();

 private:
  struct Answer {
    torch::Tensor values;
    std::shared_ptr<int> missing;
  };
  struct Lane {
    std::deque<Answer> expected;
    GlooWork work;  // the receive in progress
    std::thread thread;
  };

  void serve(int member);
  void take(int member, const int64_t* header);
  bool receive(int member, torch::Tensor values);
  void send(int member, std::vector<int64_t> header, const torch::Tensor& body = {});
  void count_closed(OpenWindow& window);
  std::shared_ptr<OpenWindow> find(int64_t number);

  GlooMesh& mesh_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<OpenWindow>> windows_;
  int64_t opened_ = 0;
  bool stopping_ = false;
  std::mutex sending_;  // header and body of a message go together
  Sends sends_;
  std::vector<Lane> lanes_;  // by member
};

std::unique_ptr<Window> make_gloo_window(std::shared_ptr<GlooMesh> mesh, const torch::Tensor& shard);

}  // namespace bigmac
