#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bigmac/schedule/operator.h"
#include "bigmac/system/port.h"
#include "bigmac/system/values.h"

namespace bigmac {

// Items of one encoder or generator, or samples of one microbatch, with the values that the module consumes:
// floating ones in the model's dtype, all on its device.
using Items = std::span<const Values>;

// What flows through the backbone: values that the embedding sets, layers change and the head reads. Losses
// are the sums of a microbatch; the system divides them by what it counts in the whole step (System::loss).
class Flow : public Values {
 public:
  Flow() = default;
  explicit Flow(Values values) : Values(std::move(values)) {}

  // Nothing where the sum is undefined.
  void loss(const std::string& name, torch::Tensor sum) {
    if (sum.defined()) losses_.emplace_back(name, std::move(sum));
  }
  const std::vector<std::pair<std::string, torch::Tensor>>& losses() const { return losses_; }

 private:
  std::vector<std::pair<std::string, torch::Tensor>> losses_;
};

using MakeModule = std::function<std::shared_ptr<torch::nn::Module>()>;

// An encoder or a generator, as it was declared.
struct ModuleDeclaration {
  std::string name;
  Module kind = Module::encoder;
  Ports consumes, produces;
  MakeModule make;
  std::function<std::vector<Values>(torch::nn::Module&, Items)> encode;
  std::function<torch::Tensor(torch::nn::Module&, Items)> generate;
  std::function<double(const Values&)> size;
};

// A part of the backbone that one stage holds whole.
struct LayerDeclaration {
  std::string name;  // "embedding", "layers.7", "head"; parameters are called "llm.layers.7.*"
  MakeModule make;
  std::function<void(torch::nn::Module&, Items, Flow&, std::vector<Values>&)> run;
  std::optional<std::vector<std::string>> uses;  // of the flow; none: it may use all of it
  double cost = 1;

  // Runs it on what it uses of the flow.
  void run_on(torch::nn::Module& module, Items samples, Flow& flow, std::vector<Values>& out) const;
};

struct Tie {
  std::string parameter, to;  // within the backbone: "head.weight", "embedding.weight"
};

struct BackboneDeclaration {
  std::string name;
  Ports consumes, produces;
  std::optional<LayerDeclaration> embedding, head;
  std::vector<LayerDeclaration> layers;
  std::vector<Tie> ties;

  // Embedding, layers, head.
  std::vector<const LayerDeclaration*> all() const;
};

struct LossDeclaration {
  std::string name;
  std::function<double(const Values&)> count;
  double weight = 1;
};

namespace internal {

// A maker of modules returns a holder (TORCH_MODULE) or a shared_ptr.
template <class Made>
struct ModuleOf {
  static_assert(sizeof(Made) == 0,
                "a maker returns a module's holder (TORCH_MODULE) or a std::shared_ptr to it");
};
template <class Implementation>
struct ModuleOf<std::shared_ptr<Implementation>> {
  using Type = Implementation;
  static std::shared_ptr<torch::nn::Module> pointer(std::shared_ptr<Implementation> made) { return made; }
};
template <class Holder>
requires requires(Holder holder) {
  holder.ptr();
}
struct ModuleOf<Holder> {
  using Type = typename std::remove_reference_t<decltype(*std::declval<Holder&>())>;
  static std::shared_ptr<torch::nn::Module> pointer(Holder made) { return made.ptr(); }
};

template <class Make, class... Arguments>
using MadeBy = typename ModuleOf<std::invoke_result_t<Make, Arguments...>>::Type;

template <class Make>
MakeModule erase(Make make) {
  return [make] { return ModuleOf<std::invoke_result_t<Make>>::pointer(make()); };
}

}  // namespace internal

// The builder of the backbone. Functions that run a part take its module, so that all parameters are the
// module's; what they capture must not change.
class Backbone {
 public:
  explicit Backbone(BackboneDeclaration& declaration) : declaration_(declaration) {}

  // run(module, Items samples, Flow& x): samples hold the data and, as groups, what the encoders made of each
  // sample's items. It sets what flows on.
  template <class Make, class Run>
  Backbone& embedding(Make make, Run run) {
    using Impl = internal::MadeBy<Make>;
    declaration_.embedding =
        LayerDeclaration{"embedding",
                         internal::erase(make),
                         [run](torch::nn::Module& module, Items samples, Flow& x, std::vector<Values>&) {
                           run(dynamic_cast<Impl&>(module), samples, x);
                         },
                         {},
                         0};
    return *this;
  }

  // `count` layers behind those there are: make(int64_t index), run(module, Flow& x). With `uses`, they read
  // and change these values of the flow alone, and what no later part uses is not handed on. A layer's cost
  // is in any unit, the same for all.
  template <class Make, class Run>
  Backbone& layers(int64_t count, Make make, Run run, std::optional<std::vector<std::string>> uses = {},
                   double cost = 1) {
    using Impl = internal::MadeBy<Make, int64_t>;
    for (int64_t i = 0; i < count; ++i) {
      auto index = int64_t(declaration_.layers.size());
      declaration_.layers.push_back({"layers." + std::to_string(index),
                                     internal::erase([make, index] { return make(index); }),
                                     [run](torch::nn::Module& module, Items, Flow& x, std::vector<Values>&) {
                                       run(dynamic_cast<Impl&>(module), x);
                                     },
                                     uses, cost});
    }
    return *this;
  }

  // run(module, Items samples, Flow& x, std::vector<Values>& out): gives losses to x and, where the backbone
  // produces something, sets out[i] for sample i: a group of one tensor, which all items of a generator
  // share, or of one for each.
  template <class Make, class Run>
  Backbone& head(Make make, Run run, std::optional<std::vector<std::string>> uses = {}) {
    using Impl = internal::MadeBy<Make>;
    declaration_.head =
        LayerDeclaration{"head", internal::erase(make),
                         [run](torch::nn::Module& module, Items samples, Flow& x, std::vector<Values>& out) {
                           run(dynamic_cast<Impl&>(module), samples, x, out);
                         },
                         std::move(uses), 0};
    return *this;
  }

  // The parameters are one, wherever their layers stand: `parameter` takes the values of `to`, its gradient
  // is added to that one's, and it has no name of its own. tie("head.weight", "embedding.weight")
  Backbone& tie(std::string parameter, std::string to) {
    declaration_.ties.push_back({std::move(parameter), std::move(to)});
    return *this;
  }

  // What the embedding or the head costs beside layers of 1.
  Backbone& embedding_cost(double cost);
  Backbone& head_cost(double cost);

 private:
  BackboneDeclaration& declaration_;
};

struct Wiring {
  Ports consumes, produces{};
  // What an item costs beside others: its patches, its frames. 1 for each where it is not given.
  std::function<double(const Values&)> size{};
};

// What is trained: encoders, a backbone and generators, what each consumes and produces, and the losses. It
// knows nothing of ranks, stages, microbatches or messages, and is not changed when it runs: one object may
// serve many ranks.
//
// A sample holds data by name. Of an encoder's data the sample has one tensor an item (0 pictures or more),
// as many of each; of a generator's likewise. An encoder's values go to the backbone; a generator takes data
// and what the backbone produces. Parameters are called by module: "vision.*", "llm.layers.7.*".
class System {
 public:
  // What a sample may hold.
  System& data(Ports ports);

  // run(module, Items) -> std::vector<Values>, one an item, with what it produces. Items of several samples
  // come in one call.
  template <class Make, class Run>
  System& encoder(std::string name, Wiring wiring, Make make, Run run) {
    using Impl = internal::MadeBy<Make>;
    modules_.push_back({std::move(name),
                        Module::encoder,
                        std::move(wiring.consumes),
                        std::move(wiring.produces),
                        internal::erase(make),
                        [run](torch::nn::Module& module, Items items) -> std::vector<Values> {
                          return run(dynamic_cast<Impl&>(module), items);
                        },
                        {},
                        std::move(wiring.size)});
    return *this;
  }

  Backbone backbone(std::string name, Wiring wiring);

  // run(module, Items) -> torch::Tensor, the sum of these items' losses; it counts as the loss of the
  // generator's name.
  template <class Make, class Run>
  System& generator(std::string name, Wiring wiring, Make make, Run run) {
    using Impl = internal::MadeBy<Make>;
    modules_.push_back({std::move(name),
                        Module::generator,
                        std::move(wiring.consumes),
                        std::move(wiring.produces),
                        internal::erase(make),
                        {},
                        [run](torch::nn::Module& module, Items items) -> torch::Tensor {
                          return run(dynamic_cast<Impl&>(module), items);
                        },
                        std::move(wiring.size)});
    return *this;
  }

  // A loss that the backbone gives or that of a generator: weight * (sum over the step) / (sum of `count`
  // over the step's samples), wherever the borders of microbatches and replicas fall. With a count of 0 the
  // loss is 0.
  System& loss(std::string name, std::function<double(const Values&)> count, double weight = 1);

  // Called for every module once it is made, with the seed and its name ("llm.layers.7."); without it the
  // values are those that its constructor draws, from a generator seeded by both.
  System& initialise(std::function<void(torch::nn::Module&, uint64_t, std::string_view)> function);

  // Throws InvalidInput for whatever is wired wrongly: a name that nobody knows (with the nearest), that
  // nothing or two modules produce, or that nothing consumes; a cycle; shapes or dtypes that do not fit (both
  // sides named); a part that is missing.
  void check() const;

  const Ports& data() const { return data_; }
  const std::vector<ModuleDeclaration>& modules() const { return modules_; }  // encoders and generators
  const BackboneDeclaration& backbone() const { return *backbone_; }
  const std::vector<LossDeclaration>& losses() const { return losses_; }
  const auto& initialise() const { return initialise_; }
  // Names of all modules.
  std::vector<std::string> names() const;

 private:
  Ports data_;
  std::vector<ModuleDeclaration> modules_;
  std::shared_ptr<BackboneDeclaration> backbone_;
  int backbones_ = 0;
  std::vector<LossDeclaration> losses_;
  std::function<void(torch::nn::Module&, uint64_t, std::string_view)> initialise_;
};

}  // namespace bigmac
