#include "bigmac/system/system_model.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/torch_versions.h"
#include "bigmac/system/random.h"
#include "bigmac/system/ties.h"

namespace bigmac {
namespace {

void check_fits(const torch::Tensor& tensor, const Port* port, const std::string& taker,
                const std::string& giver) {
  if (port && !fits(tensor, *port))
    throw InvalidInput(concat("[system] '", port->name, "' of ", giver, " is ", describe(tensor), ", but ",
                              taker, " says ", describe(*port)));
}

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

}  // namespace

SystemModel::SystemModel(const System& system, const Step& placed, Cut cut, int rank,
                         SystemModelOptions options)
    : system_(system), placed_(placed, {}), cut_(std::move(cut)), rank_(rank), options_(std::move(options)) {
  if (cut_.stages() != placed_.stages())
    throw InvalidInput(
        concat("[system] the cut has ", cut_.stages(), " stages, the step ", placed_.stages()));
  for (const auto& name : options_.recomputed) {
    auto names = system.names();
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw InvalidInput("[system] recompute: " + unknown_name("module", name, names));
    for (const auto& module : system.modules())
      if (module.name == name && module.kind == Module::generator)
        throw InvalidInput(
            concat("[system] recompute: generator '", name,
                   "' keeps nothing between its forward and its backward, which are one operator"));
  }
  make_parts();
  for (const auto& tie : system_.backbone().ties)
    ties_.emplace(system_.backbone().name + "." + tie.parameter, system_.backbone().name + "." + tie.to);
  tie_parameters(system_, parts_, options_.seed, options_.precision);
  std::map<const void*, std::string> seen;
  auto list = [&](const PartModule& part) { return list_parameters(part, seen); };
  for (const auto& module : modules_) module_parameters_.push_back(list(module));
  for (int64_t stage = 0; stage < placed_.stages(); ++stage) {
    if (placed_.rank_of(stage) != rank_) continue;
    chunk_parameters_.emplace_back();
    for (int64_t p = cut_.first[size_t(stage)]; p < cut_.first[size_t(stage) + 1]; ++p)
      for (auto& parameter : list(parts_.at(p))) chunk_parameters_.back().push_back(std::move(parameter));
  }
  part_seconds_.assign(system_.backbone().all().size(), 0);
  losses_.resize(system_.losses().size());
}

void SystemModel::bind(const Batch& batch, int64_t step) {
  batch_ = &batch;
  step_ = step;
  for (auto& losses : losses_) losses.clear();
}

// What is thrown says where. Refuses a forward that would be another one at its recomputation.
template <class Run>
void SystemModel::run_part(const std::string& part, int64_t microbatch, int64_t number, bool recomputed,
                           const std::string& module, Run&& run) {
  auto where = [&] {
    return concat(part, ", step ", step_, ", microbatch ", batch_->first() + microbatch, ": ");
  };
  bool watched = recomputed && options_.shares_generators;
  auto device = options_.precision.device;
  GeneratorStates before;
  if (watched) before = generator_states(device);
  if (!options_.shares_generators)
    seed_generators(device, hash_of(options_.seed, part, {step_, batch_->first() + microbatch, number}));
  try {
    run();
  } catch (const InvalidInput& error) {
    throw InvalidInput(where() + error.what());
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    throw Failure(where() + text.substr(0, text.find('\n')));
  } catch (const std::exception& error) {
    throw Failure(where() + error.what());
  } catch (...) {
    throw Failure(where() + "it threw something that is no std::exception");
  }
  if (watched && have_drawn(before, device))
    throw InvalidInput(
        concat("[system] recompute: random numbers were drawn while '", module,
               "' ran (dropout?), and ranks that are threads share them, so that its recomputation "
               "would draw others; take ranks that are processes"));
}

// As a module takes them: on the device, floating values in the model's dtype.
Values SystemModel::prepared(const Values& values, const Ports& consumed, const std::string& taker) const {
  const auto& precision = options_.precision;
  Values ready;
  for (const auto& port : consumed) {
    const Port* data = find_port(system_.data(), port.name);
    if (!data || !values.has(port.name)) continue;
    Tensors group;
    for (const auto& tensor : values.group(port.name)) {
      check_fits(tensor, data, "their declaration", "the data");
      check_fits(tensor, &port, taker, "the data");
      group.push_back(tensor.is_floating_point() ? tensor.to(precision.device, precision.dtype)
                                                 : tensor.to(precision.device));
    }
    ready.set(port.name, std::move(group));
  }
  return ready;
}

std::vector<Bundle> SystemModel::encode(int module, std::span<const ModelItem> items) {
  const auto& declaration = system_.modules().at(size_t(module));
  std::string title = "encoder " + quoted(declaration.name);
  std::vector<Values> inputs;
  for (const auto& [microbatch, number] : items) {
    auto [sample, index] = batch_->items(module, microbatch).at(size_t(number));
    inputs.push_back(
        prepared(item_data(system_, declaration, batch_->microbatch(microbatch)[size_t(sample)], index),
                 declaration.consumes, title));
  }
  std::vector<Values> made;
  if (!items.empty())
    run_part(title, items[0].microbatch, items[0].number, recomputes_encoder(module), declaration.name,
             [&] { made = declaration.encode(*modules_[size_t(module)].module, inputs); });
  if (made.size() != items.size())
    throw InvalidInput(
        concat("[system] ", title, " gave values of ", made.size(), " items for ", items.size()));
  std::vector<Bundle> bundles;
  for (const auto& values : made) {
    for (const auto& name : values.names())
      if (!find_port(declaration.produces, name))
        throw InvalidInput(concat("[system] ", title, " gave '", name,
                                  "', which it does not say it produces: ",
                                  unknown_name("value", name, names_of(declaration.produces))));
    for (const auto& port : declaration.produces) {
      if (!values.has(port.name))
        throw InvalidInput(
            concat("[system] ", title, " gave no '", port.name, "', which it says it produces"));
      const Port* taken = find_port(system_.backbone().consumes, port.name);
      for (const auto& tensor : values.group(port.name)) {
        check_fits(tensor, &port, "its declaration", title);
        check_fits(tensor, taken, "backbone " + quoted(system_.backbone().name), title);
      }
    }
    bundles.push_back(bundle_of(values, [](const auto&) { return true; }));
  }
  return bundles;
}

// Data, and where `items` is given what the encoders made of each sample's items.
std::vector<Values> SystemModel::samples_of(int microbatch, const ItemValues* items) const {
  const auto& backbone = system_.backbone();
  std::vector<Values> samples;
  for (const auto& sample : batch_->microbatch(microbatch))
    samples.push_back(prepared(sample, backbone.consumes, "backbone " + quoted(backbone.name)));
  if (!items) return samples;
  for (size_t n = 0; n < system_.modules().size(); ++n) {
    const auto& module = system_.modules()[n];
    if (module.kind != Module::encoder) continue;
    std::vector<std::map<std::string, Tensors>> groups(samples.size());
    const auto& places = batch_->items(int(n), microbatch);
    for (size_t k = 0; k < places.size(); ++k) {
      auto values = values_of(items->at(n).at(k));
      for (const auto& name : values.names()) {
        auto& group = groups[size_t(places[k].sample)][name];
        const auto& more = values.group(name);
        group.insert(group.end(), more.begin(), more.end());
      }
    }
    for (size_t i = 0; i < samples.size(); ++i)
      for (const auto& port : module.produces)
        if (find_port(backbone.consumes, port.name)) samples[i].set(port.name, groups[i][port.name]);
  }
  return samples;
}

Model::Output SystemModel::forward(int chunk, int microbatch, const Inputs& inputs) {
  int64_t stage = placed_.stage(rank_, chunk);
  auto all = system_.backbone().all();
  bool first = stage == 0, last = stage + 1 == cut_.stages();
  std::vector<Values> samples, out;
  if (first || last) samples = samples_of(microbatch, first ? &inputs.items : nullptr);
  if (last) out.resize(samples.size());
  Flow flow(values_of(inputs.values));
  for (int64_t p = cut_.first[size_t(stage)]; p < cut_.first[size_t(stage) + 1]; ++p) {
    const auto& part = parts_.at(p);
    double start = now();
    run_part(part.prefix.substr(0, part.prefix.size() - 1), microbatch, 0, recomputes_backbone(),
             system_.backbone().name, [&] { all[size_t(p)]->run_on(*part.module, samples, flow, out); });
    if (options_.measures_parts) synchronize(options_.precision.device);
    if (!inputs.recomputed) part_seconds_[size_t(p)] += now() - start;
  }
  Output output;
  for (const auto& [name, sum] : flow.losses()) {
    auto loss = scaled(name, sum, !inputs.recomputed);
    output.loss = output.loss.defined() ? output.loss + loss : loss;
  }
  if (last)
    output.items = for_generators(microbatch, out);
  else
    output.values =
        bundle_of(flow, [&](const auto& name) { return flows_on(name, cut_.first[size_t(stage) + 1]); });
  // What only passes through is handed on as a value of this stage's own.
  for (auto& tensor : output.values.tensors)
    if (tensor.requires_grad() && tensor.is_leaf()) tensor = tensor.view_as(tensor);
  return output;
}

// What each generator item takes of what the head gave its sample.
ItemValues SystemModel::for_generators(int microbatch, const std::vector<Values>& out) const {
  const auto& backbone = system_.backbone();
  for (const auto& values : out)
    for (const auto& name : values.names())
      if (!find_port(backbone.produces, name))
        throw InvalidInput(concat("[system] backbone '", backbone.name, "' gave '", name,
                                  "', which it does not say it produces: ",
                                  unknown_name("value", name, names_of(backbone.produces))));
  ItemValues items(system_.modules().size());
  for (size_t n = 0; n < items.size(); ++n) {
    const auto& module = system_.modules()[n];
    if (module.kind != Module::generator) continue;
    const auto& places = batch_->items(int(n), microbatch);
    std::vector<size_t> counts(out.size(), 0);
    for (const auto& place : places) ++counts[size_t(place.sample)];
    for (const auto& [sample, index] : places) {
      Values values;
      for (const auto& port : module.consumes) {
        const Port* made = find_port(backbone.produces, port.name);
        if (!made) continue;
        size_t given = out[size_t(sample)].count(port.name), count = counts[size_t(sample)];
        if (given != 1 && given != count)
          throw InvalidInput(concat("[system] backbone '", backbone.name, "' gave ", given, " tensors of '",
                                    port.name, "' for sample ", sample, " of microbatch ", microbatch,
                                    ", of which generator '", module.name, "' has ", count,
                                    " items; give one for all of them or one for each"));
        const auto& tensor = out[size_t(sample)].group(port.name)[given == 1 ? 0 : size_t(index)];
        check_fits(tensor, made, "its declaration", "backbone " + quoted(backbone.name));
        check_fits(tensor, &port, "generator " + quoted(module.name), "backbone " + quoted(backbone.name));
        values.set(port.name, tensor);
      }
      items[n].push_back(bundle_of(values, [](const auto&) { return true; }));
    }
  }
  return items;
}

torch::Tensor SystemModel::generate(int module, std::span<const ModelItem> items,
                                    const std::vector<Bundle>& inputs) {
  const auto& declaration = system_.modules().at(size_t(module));
  std::vector<Values> values;
  for (size_t i = 0; i < items.size(); ++i) {
    auto [sample, index] = batch_->items(module, items[i].microbatch).at(size_t(items[i].number));
    values.push_back(prepared(
        item_data(system_, declaration, batch_->microbatch(items[i].microbatch)[size_t(sample)], index),
        declaration.consumes, "generator " + quoted(declaration.name)));
    auto made = values_of(inputs[i]);
    for (const auto& name : made.names()) values.back().set(name, made.group(name));
  }
  torch::Tensor sum;
  run_part("generator " + quoted(declaration.name), items[0].microbatch, items[0].number, false,
           declaration.name, [&] { sum = declaration.generate(*modules_[size_t(module)].module, values); });
  return scaled(declaration.name, sum, true);
}

torch::Tensor SystemModel::scaled(const std::string& loss, const torch::Tensor& sum, bool counts) {
  const auto& losses = system_.losses();
  auto found = std::find_if(losses.begin(), losses.end(), [&](const auto& l) { return l.name == loss; });
  if (found == losses.end()) {
    std::vector<std::string> names;
    for (const auto& declared : losses) names.push_back(declared.name);
    throw InvalidInput("[system] " + unknown_name("loss", loss, names));
  }
  if (!sum.defined() || sum.numel() != 1)
    throw InvalidInput(concat("[system] loss '", loss, "' is ", sum.defined() ? describe(sum) : "undefined",
                              ", expected one number: the sum over the microbatch"));
  auto number = size_t(found - losses.begin());
  // In float32 at least: a sum of 16 bits would not hold its count.
  auto wide = sum.to(main_dtype(sum.scalar_type()));
  auto value = (wide * batch_->scale(number)).reshape({});
  if (counts) losses_[number].push_back(value.detach());
  return value;
}

std::vector<double> SystemModel::losses() const {
  std::vector<double> sums;
  for (const auto& list : losses_) {
    double sum = 0;
    for (const auto& loss : list) sum += loss.item<double>();
    sums.push_back(sum);
  }
  return sums;
}

std::vector<int64_t> SystemModel::losses_given() const {
  std::vector<int64_t> counts;
  for (const auto& list : losses_) counts.push_back(int64_t(list.size()));
  return counts;
}

bool SystemModel::flows_on(const std::string& name, int64_t next_part) const {
  auto all = system_.backbone().all();
  return std::any_of(all.begin() + next_part, all.end(), [&](const LayerDeclaration* part) {
    return !part->uses || std::find(part->uses->begin(), part->uses->end(), name) != part->uses->end();
  });
}

bool SystemModel::recomputes_encoder(int module) const {
  const auto& list = options_.recomputed;
  return std::find(list.begin(), list.end(), system_.modules()[size_t(module)].name) != list.end();
}

bool SystemModel::recomputes_backbone() const {
  const auto& list = options_.recomputed;
  return std::find(list.begin(), list.end(), system_.backbone().name) != list.end();
}

torch::nn::Module* SystemModel::find(const std::string& prefix) const {
  for (const auto& part : modules_)
    if (part.prefix == prefix) return part.module.get();
  for (const auto& [number, part] : parts_)
    if (part.prefix == prefix) return part.module.get();
  return nullptr;
}

}  // namespace bigmac
