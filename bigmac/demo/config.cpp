#include "bigmac/demo/config.h"

#include <cmath>

#include "bigmac/common/read_file.h"
#include "bigmac/data/text.h"
#include "bigmac/demo/model.h"
#include "bigmac/train/options_file.h"

namespace bigmac::demo {
namespace {

// No configuration is larger.
constexpr size_t kMostBytes = size_t{1} << 20;

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
  file.optional("audio", c.audio, [&](auto& s, nn::AudioConfig& audio) {
    s.field("mels", audio.mels);
    s.field("hidden", audio.hidden);
    s.field("layers", audio.layers);
    s.field("heads", audio.heads);
    s.field("ffn", audio.ffn);
    s.field("merge", audio.merge);
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
    s.optional("moe", c.backbone.moe, [&](auto& of_moe, nn::MoeConfig& moe) {
      of_moe.field("experts", moe.experts);
      of_moe.field("experts_per_token", moe.experts_per_token);
      of_moe.field("ffn", moe.ffn);
      of_moe.field("normalise_top_k", moe.normalise_top_k);
      of_moe.field("balance_weight", c.balance_weight);
      of_moe.field("z_weight", c.router_z_weight);
    });
  });
  file.section("generator", [&](auto& s) {
    s.field("patch", c.generator.patch);
    s.field("hidden", c.generator.hidden);
    s.field("layers", c.generator.layers);
    s.field("heads", c.generator.heads);
    s.field("ffn", c.generator.ffn);
    s.field("loss_weight", c.drawing_weight);
  });
  file.section("batch", [&](auto& s) {
    s.field("samples", c.batch.samples);
    s.field("draws", c.batch.draws);
    s.field("caption_share", c.batch.caption_share);
    s.field("draw_share", c.batch.draw_share);
    s.field("hear_share", c.batch.hear_share);
  });
  file.section("data", [&](auto& s) {
    s.field("font", c.data.font);
    s.field("emoji_list", c.data.emoji_list);
    s.field("held_out", c.data.held_out);
    s.field("spoken_cache", c.spoken_cache);
  });
  train::describe(file, c.options);
}

void check_weight(const char* what, double weight) {
  if (!(weight >= 0) || !std::isfinite(weight))
    throw InvalidInput(concat("[config] ", what, " must be at least 0, got ", weight));
}

}  // namespace

train::TrainOptions default_options() {
  train::TrainOptions options;
  options.microbatches = 8;
  options.steps = 100;
  options.optimizer = {.learning_rate = 1e-3,
                       .warmup_steps = 40,
                       .final_learning_rate = 1e-4,
                       .weight_decay = 0.05,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .clip_norm = 1};
  return options;
}

void Config::complete() {
  encoder.out = backbone.hidden;
  generator.text = backbone.hidden;
  generator.picture = encoder.picture;
  data.picture = encoder.picture;
  backbone.vocabulary = data::kVocabulary;
  if (audio) audio->out = backbone.hidden;
  try {
    encoder.check();
    backbone.check();
    generator.check();
    if (audio) audio->check();
    batch.seed = options.seed;
    batch.picture_tokens = encoder.tokens();
    batch.sound_tokens = nullptr;
    if (audio) batch.sound_tokens = [](int64_t) { return 1; };  // until make_batches() knows the clips
    batch.check();
  } catch (const InvalidInput& error) {
    throw InvalidInput(concat("[config] ", error.what()));
  }
  check_weight("generator.loss_weight", drawing_weight);
  check_weight("backbone.moe.balance_weight", balance_weight);
  check_weight("backbone.moe.z_weight", router_z_weight);
  auto checked = options;
  if (checked.dp == 0) checked.dp = 1;
  train::check_options(checked, make_system(*this));
}

Config parse_config(const std::string& yaml, const std::string& file) {
  Config config;
  train::YamlReader reader(YamlSection(load_yaml(yaml, file), file, ""));
  describe(reader, config);
  reader.done();
  config.complete();
  return config;
}

Config read_config(const std::string& file) {
  return parse_config(read_file(file, kMostBytes, "a YAML configuration"), file);
}

std::string to_yaml(const Config& config) {
  train::YamlWriter writer;
  Config copy = config;
  describe(writer, copy);
  return writer.text();
}

}  // namespace bigmac::demo
