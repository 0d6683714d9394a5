#pragma once

#include <memory>

#include "bigmac/runtime/gloo_parts.h"
#include "bigmac/runtime/gloo_window.h"
#include "bigmac/runtime/group.h"

namespace bigmac {

// What a transport lends to its groups, which must not outlive it.
struct GlooHost {
  Failed& failed;
  Lost lost;
  std::function<void(const std::string& reason)> fail;
};

// The connections among a group's members, and what goes over them. A transport keeps those of all its
// groups until it closes, so that a group can be dropped while others still read from it.
class GlooMesh {
 public:
  GlooMesh(c10::intrusive_ptr<c10d::ProcessGroupGloo> connected, std::vector<int> members, int own,
           GlooHost lent)
      : gloo(std::move(connected)), ranks(std::move(members)), index(own), host(std::move(lent)) {}
  // Leaves a collective behind that does not end.
  ~GlooMesh();

  int size() const { return int(ranks.size()); }
  int rank() const { return ranks[size_t(index)]; }
  GlooWork keep(GlooWork work);  // a collective that has been started
  WindowServer& server();        // made when first asked for
  bool is_idle();                // as WindowServer::is_idle
  bool is_done();                // whether all collectives have ended
  void stop();                   // serving

  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  const std::vector<int> ranks;
  const int index;
  const GlooHost host;

 private:
  std::deque<GlooWork> works_;
  std::unique_ptr<WindowServer> server_;
};

// Tensors of other devices go through the CPU. Reductions of 16-bit floats are in float32.
std::unique_ptr<Group> make_gloo_group(std::shared_ptr<GlooMesh> mesh);

}  // namespace bigmac
