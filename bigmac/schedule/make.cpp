#include "bigmac/schedule/make.h"

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/disttrain.h"
#include "bigmac/schedule/megatron.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/schedule/optimus.h"

namespace bigmac {

Schedule make_schedule(const Step& step, const Costs& nominal, int64_t most_passes) {
  check_step(step);
  if (step.arrangement == Arrangement::llm_only || step.modules.empty()) return base_table(step);
  switch (step.arrangement) {
    case Arrangement::nested:
    case Arrangement::three_phase:
      return nested_schedule(step, nominal);
    case Arrangement::nested_fill:
      return fill_schedule(step, nominal, most_passes);
    case Arrangement::optimus:
      return optimus_schedule(step, nominal);
    case Arrangement::megatron:
      return megatron_schedule(step);
    case Arrangement::disttrain:
      return disttrain_schedule(step, best_split(step, nominal));
    default:
      break;
  }
  throw InvalidInput(concat("[schedule] no table is made for the schedule '", name(step.arrangement), "'"));
}

}  // namespace bigmac
