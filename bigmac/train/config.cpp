#include "bigmac/train/config.h"

#include <c10/core/Device.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "bigmac/data/text.h"
#include "bigmac/formats/yaml_section.h"
#include "bigmac/schedule/make.h"

namespace bigmac::train {
namespace {

const std::vector<std::string> kOrderNames{"as-is", "balanced"};

// Reads from a YamlSection or writes to a YAML::Emitter: one description of the file for both.
class Reader {
 public:
  explicit Reader(YamlSection section) : section_(std::move(section)) {}

  template <class Value>
  void field(const char* key, Value& value) {
    section_.read(key, value);
  }
  template <class Value, class Parse, class Name>
  void named(const char* key, Value& value, Parse parse, Name) {
    section_.read(key, value, parse);
  }
  template <class Fields>
  void section(const char* key, Fields&& fields) {
    Reader inner(section_.section(key));
    fields(inner);
    inner.done();
  }
  void done() const { section_.done(); }

 private:
  YamlSection section_;
};

class Writer {
 public:
  Writer() {
    out_.SetDoublePrecision(17);
    out_ << YAML::BeginMap;
  }
  template <class Value>
  void field(const char* key, Value& value) {
    out_ << YAML::Key << key << YAML::Value << value;
  }
  template <class Value, class Parse, class Name>
  void named(const char* key, Value& value, Parse, Name name) {
    out_ << YAML::Key << key << YAML::Value << std::string(name(value));
  }
  template <class Value, class Parse, class Name>
  void named(const char* key, std::optional<Value>& value, Parse parse, Name name) {
    if (value) named(key, *value, parse, name);
  }
  template <class Fields>
  void section(const char* key, Fields&& fields) {
    out_ << YAML::Key << key << YAML::Value << YAML::BeginMap;
    fields(*this);
    out_ << YAML::EndMap;
  }
  std::string text() {
    out_ << YAML::EndMap;
    return std::string(out_.c_str()) + "\n";
  }

 private:
  YAML::Emitter out_;
};

template <class File>
void describe(File& file, Config& c) {
  file.section("encoder", [&](auto& s) {
    s.field("picture", c.encoder.picture);
    s.field("patch", c.encoder.patch);
    s.field("hidden", c.encoder.hidden);
    s.field("layers", c.encoder.layers);
    s.field("heads", c.encoder.heads);
    s.field("ffn", c.encoder.ffn);
    s.field("merge", c.encoder.merge);
  });
  file.section("backbone", [&](auto& s) {
    s.field("hidden", c.backbone.hidden);
    s.field("layers", c.backbone.layers);
    s.field("heads", c.backbone.heads);
    s.field("kv_heads", c.backbone.kv_heads);
    s.field("head_dim", c.backbone.head_dim);
    s.field("ffn", c.backbone.ffn);
    s.field("rope_theta", c.backbone.rope_theta);
    s.field("tied_embeddings", c.backbone.tied_embeddings);
  });
  file.section("generator", [&](auto& s) {
    s.field("patch", c.generator.patch);
    s.field("hidden", c.generator.hidden);
    s.field("layers", c.generator.layers);
    s.field("heads", c.generator.heads);
    s.field("ffn", c.generator.ffn);
    s.field("loss_weight", c.generator_weight);
  });
  file.section("parallel", [&](auto& s) {
    s.field("pp", c.pp);
    s.field("vpp", c.vpp);
    s.named("schedule", c.schedule, arrangement_from_name, [](Arrangement a) { return name(a); });
    s.named("base", c.base, base_from_name, [](Base b) { return name(b); });
    s.field("warmup_units", c.warmup_units);
    s.field("generator_unit", c.generator_unit);
    s.named("order", c.order, order_from_name, [](Order o) { return kOrderNames[size_t(o)]; });
    s.named("ranks_as", c.ranks_as, ranks_as_from_name,
            [](RanksAs r) { return r == RanksAs::threads ? "threads" : "processes"; });
    s.field("threads_per_rank", c.threads_per_rank);
  });
  file.section("batch", [&](auto& s) {
    s.field("microbatches", c.batch.microbatches);
    s.field("samples", c.batch.samples);
    s.field("draws", c.batch.draws);
    s.field("caption_share", c.batch.caption_share);
    s.field("draw_share", c.batch.draw_share);
  });
  file.section("optimizer", [&](auto& s) {
    s.field("learning_rate", c.optimizer.learning_rate);
    s.field("warmup_steps", c.optimizer.warmup_steps);
    s.field("final_learning_rate", c.optimizer.final_learning_rate);
    s.field("weight_decay", c.optimizer.weight_decay);
    s.field("beta1", c.optimizer.beta1);
    s.field("beta2", c.optimizer.beta2);
    s.field("clip_norm", c.optimizer.clip_norm);
  });
  file.section("data", [&](auto& s) {
    s.field("font", c.data.font);
    s.field("emoji_list", c.data.emoji_list);
    s.field("held_out", c.data.held_out);
  });
  file.field("steps", c.steps);
  file.field("seed", c.seed);
  file.field("device", c.device);
  file.field("dtype", c.dtype);
}

void at_least(const char* what, double value, double least) {
  if (!(value >= least))
    throw InvalidInput(concat("[config] ", what, " must be at least ", least, ", got ", value));
}

}  // namespace

RanksAs ranks_as_from_name(const std::string& text) {
  if (text == "threads") return RanksAs::threads;
  if (text == "processes") return RanksAs::processes;
  throw InvalidInput(unknown_name("kind of ranks", text, {"threads", "processes"}));
}

Order order_from_name(const std::string& text) {
  auto found = std::find(kOrderNames.begin(), kOrderNames.end(), text);
  if (found == kOrderNames.end()) throw InvalidInput(unknown_name("order", text, kOrderNames));
  return Order(found - kOrderNames.begin());
}

Step step_of(const Config& config) {
  Step step;
  step.ranks = config.pp;
  step.chunks = config.vpp;
  step.microbatches = config.batch.microbatches;
  step.base = config.base.value_or(config.vpp == 1 ? Base::one_f_one_b : Base::interleaved);
  step.arrangement = config.schedule;
  step.generator_unit = config.generator_unit;
  return step;
}

Step with_items(Step step, const Config& config, std::vector<Item> pictures, std::vector<Item> targets) {
  step.modules = {{"image", Module::encoder, std::move(pictures), config.warmup_units},
                  {"drawing", Module::generator, std::move(targets)}};
  return step;
}

double picture_size(const Config& config) {
  int64_t side = config.encoder.picture / config.encoder.patch;
  return double(side * side);
}

double target_size(const Config& config) {
  int64_t side = config.generator.picture / config.generator.patch;
  return double(config.batch.draws * side * side);
}

void Config::complete() {
  encoder.out = backbone.hidden;
  generator.text = backbone.hidden;
  generator.picture = encoder.picture;
  data.picture = encoder.picture;
  backbone.vocabulary = data::kVocabulary;
  batch.seed = seed;
  try {
    encoder.check();
    backbone.check();
    generator.check();
  } catch (const std::invalid_argument& error) {
    throw InvalidInput(concat("[config] ", error.what()));
  }
  batch.picture_tokens = encoder.tokens();
  at_least("steps", double(steps), 0);
  at_least("parallel.threads_per_rank", double(threads_per_rank), 1);
  at_least("optimizer.learning_rate", optimizer.learning_rate, 0);
  at_least("optimizer.final_learning_rate", optimizer.final_learning_rate, 0);
  at_least("optimizer.warmup_steps", double(optimizer.warmup_steps), 0);
  at_least("optimizer.weight_decay", optimizer.weight_decay, 0);
  at_least("optimizer.clip_norm", optimizer.clip_norm, 0);
  at_least("generator.loss_weight", generator_weight, 0);
  if (schedule == Arrangement::llm_only)
    throw InvalidInput(
        "[config] parallel.schedule llm-only leaves the encoder and the generator out; take nested, "
        "nested-fill, "
        "three-phase, optimus or megatron");
  if (schedule == Arrangement::disttrain)
    throw InvalidInput(
        "[config] parallel.schedule disttrain, with ranks that hold no layers, is not trained with; take "
        "nested, nested-fill, three-phase, optimus or megatron");
  Step step = step_of(*this);
  check_counts(step);
  auto items = one_item_each("", Module::encoder, step.microbatches).items;
  make_schedule(with_items(step, *this, items, items));
  if (dtype != "float32" && dtype != "float64")
    throw InvalidInput("[config] " + unknown_name("dtype", dtype, {"float32", "float64"}));
  try {
    c10::Device parsed(device);
    static_cast<void>(parsed);
  } catch (const std::exception&) {
    throw InvalidInput(concat("[config] device must be cpu, cuda or cuda:<number>, got '", device, "'"));
  }
}

Config parse_config(const std::string& yaml, const std::string& file) {
  Config config;
  Reader reader(YamlSection(load_yaml(yaml, file), file, ""));
  describe(reader, config);
  reader.done();
  config.complete();
  return config;
}

Config read_config(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) throw InvalidInput(concat("[config] cannot read '", file, "'"));
  return parse_config(text.str(), file);
}

std::string to_yaml(const Config& config) {
  Writer writer;
  Config copy = config;
  describe(writer, copy);
  return writer.text();
}

}  // namespace bigmac::train
