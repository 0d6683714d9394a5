#include "apps/bigmac/stage_costs.h"

#include <algorithm>
#include <numeric>

namespace bigmac {
namespace {

// One "layer", the chunk, a stage.
Layout even_layout(int64_t stages) {
  Layout layout;
  layout.stages.assign(size_t(stages), {.layers = 1});
  layout.stages.front().embedding = true;
  layout.stages.back().loss = true;
  return layout;
}

bool takes_time(const WorkTimes& work) {
  return work.forward > 0 || work.backward > 0;
}

}  // namespace

std::optional<Layout> read_layout(const StepArguments& arguments) {
  if (!arguments.layout) return {};
  try {
    auto layout = parse_layout(*arguments.layout);
    check_layout(layout, arguments.layers.value_or(layout.layers()), {}, arguments.ranks);
    auto chunks = int64_t(layout.stages.size()) / arguments.ranks;
    if (arguments.chunks && *arguments.chunks != chunks)
      throw InvalidInput(concat("[layout] holds ", layout.stages.size(), " stages, which is V=", chunks,
                                " on ", arguments.ranks, " ranks; leave --vpp ", *arguments.chunks, " out"));
    return layout;
  } catch (const InvalidInput& error) {
    std::string text = error.what();
    const std::string own = "[layout] ";
    throw InvalidInput("--layout: " + (text.starts_with(own) ? text.substr(own.size()) : text));
  }
}

Costs stage_costs(const StepArguments& arguments, const std::optional<Layout>& given, int64_t stages) {
  if (!takes_time(arguments.backbone))
    throw InvalidInput("--backbone must have a forward or a backward that takes time, got 0,0");
  Layout layout = given ? *given : even_layout(stages);
  bool splits = arguments.backbone.weight || arguments.embedding.weight || arguments.head.weight;
  Costs costs{.forward = {}, .backward = {}, .weight = {}, .modules = {}, .latency = arguments.latency};
  for (const auto& stage : layout.stages) {
    double forward = 0, backward = 0, weight = 0;
    auto add = [&](double times, const WorkTimes& work) {
      forward += times * work.forward;
      backward += times * work.backward;
      weight += times * work.weight.value_or(work.backward / 2);
    };
    add(double(stage.layers + stage.mtp), arguments.backbone);
    if (stage.embedding) add(1, arguments.embedding);
    if (stage.loss) add(1, arguments.head);
    costs.forward.push_back(forward);
    costs.backward.push_back(backward);
    // As sums of parts both may differ from the true value in their last digit.
    if (splits) costs.weight.push_back(std::min(weight, backward));
  }
  auto sum = [](const std::vector<double>& times) {
    return std::accumulate(times.begin(), times.end(), 0.0);
  };
  if (sum(costs.forward) + sum(costs.backward) == 0)
    throw InvalidInput("--layout: no stage takes any time; give it layers, or --embedding or --head");
  return costs;
}

}  // namespace bigmac
