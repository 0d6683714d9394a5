#include "bigmac/common/error.h"
#include "bigmac/cost/architectures.h"
#include "bigmac/cost/audio_model.h"
#include "bigmac/cost/vision_model.h"

namespace bigmac::cost {
namespace {

constexpr int64_t kMostPatch = 256, kMostMerge = 16, kMostChannels = 1024, kMostPositions = 1 << 24;

std::vector<bool> flags(const std::vector<int64_t>& indexes, int64_t layers, bool value) {
  std::vector<bool> flags(size_t(layers), !value);
  for (int64_t index : indexes) flags[size_t(index)] = value;
  return flags;
}

// What the Qwen vision encoders share.
VisionShape qwen_vision_shape(const ConfigFields& fields) {
  VisionShape shape;
  shape.layers = fields.whole("depth", kMostLayers);
  shape.hidden = fields.whole("hidden_size", kMostWidth);
  shape.heads = fields.whole("num_heads", kMostWidth);
  fields.check_divides("num_heads", shape.heads, "hidden_size", shape.hidden);
  shape.ffn = fields.whole("intermediate_size", 4 * kMostWidth);
  shape.out = fields.whole("out_hidden_size", kMostWidth);
  shape.patch = fields.whole("patch_size", kMostPatch);
  shape.frames = fields.whole_or("temporal_patch_size", 2, kMostPatch);
  shape.channels = fields.whole_or("in_channels", 3, kMostChannels);
  shape.merge = fields.whole_or("spatial_merge_size", 2, kMostMerge);
  shape.bias = true;
  return shape;
}

AudioShape audio_shape(const ConfigFields& fields) {
  AudioShape shape;
  shape.hidden = fields.whole("d_model", kMostWidth);
  shape.layers = fields.whole("encoder_layers", kMostLayers);
  shape.heads = fields.whole("encoder_attention_heads", kMostWidth);
  fields.check_divides("encoder_attention_heads", shape.heads, "d_model", shape.hidden);
  shape.ffn = fields.whole("encoder_ffn_dim", 4 * kMostWidth);
  return shape;
}

int64_t halved(int64_t length) {
  return (length + 1) / 2;
}

}  // namespace

Model read_qwen25_vision(const ConfigFields& fields, bool) {
  auto shape = qwen_vision_shape(fields);
  int64_t pixels = fields.whole_or("window_size", 112, 1 << 16);
  fields.check_divides("patch_size", shape.patch, "window_size", pixels);
  fields.check_divides("spatial_merge_size", shape.merge, "window_size / patch_size", pixels / shape.patch);
  shape.window = (pixels / shape.patch) * (pixels / shape.patch);
  shape.windowed = flags(fields.indexes_or("fullatt_block_indexes", {7, 15, 23, 31}, shape.layers - 1),
                         shape.layers, false);
  return vision_model(shape);
}

Model read_qwen3_vision(const ConfigFields& fields, bool) {
  auto shape = qwen_vision_shape(fields);
  shape.layer_norm = shape.merger_layer_norm = true;
  shape.gated = false;
  shape.patch_bias = true;
  shape.positions = fields.whole_or("num_position_embeddings", 2304, kMostPositions);
  shape.taps =
      flags(fields.indexes_or("deepstack_visual_indexes", {8, 16, 24}, shape.layers - 1), shape.layers, true);
  return vision_model(shape);
}

Model read_dots_vision(const ConfigFields& fields, bool) {
  VisionShape shape;
  shape.layers = fields.whole("num_hidden_layers", kMostLayers);
  shape.hidden = fields.whole("embed_dim", kMostWidth);
  shape.heads = fields.whole("num_attention_heads", kMostWidth);
  fields.check_divides("num_attention_heads", shape.heads, "embed_dim", shape.hidden);
  shape.ffn = fields.whole("intermediate_size", 4 * kMostWidth);
  shape.out = fields.whole("hidden_size", kMostWidth);
  shape.patch = fields.whole("patch_size", kMostPatch);
  shape.frames = fields.whole_or("temporal_patch_size", 1, kMostPatch);
  shape.channels = fields.whole_or("num_channels", 3, kMostChannels);
  shape.merge = fields.whole_or("spatial_merge_size", 2, kMostMerge);
  shape.bias = fields.flag_or("use_bias", false);
  shape.patch_bias = shape.patch_norm = shape.merger_layer_norm = true;
  shape.last_norm = fields.flag_or("post_norm", true);
  return vision_model(shape);
}

// Three convolutions of stride 2 in time and frequency, over chunks of 2 n_window mel frames.
Model read_qwen3_audio(const ConfigFields& fields, bool) {
  auto shape = audio_shape(fields);
  int64_t bins = fields.whole_or("num_mel_bins", 128, kMostWidth);
  int64_t channels = fields.whole_or("downsample_hidden_size", 480, kMostWidth / 16);
  int64_t frames = 2 * fields.whole_or("n_window", 50, 1 << 16);
  int64_t reach = fields.whole_or("n_window_infer", 800, 1 << 24);
  if (reach < frames) fields.refuse("n_window_infer", concat("must be at least 2 n_window, ", frames));
  int64_t first = halved(bins), second = halved(first), third = halved(second);
  // A token's share of the convolutions before: 4, 2 and 1 steps of time.
  shape.convolutions = {
      {9, channels, 4 * first}, {9 * channels, channels, 2 * second}, {9 * channels, channels, third}};
  shape.flattened = channels * third;
  shape.window = halved(halved(halved(frames))) * (reach / frames);
  shape.out = fields.whole("output_dim", kMostWidth);
  return audio_model(shape);
}

Model read_whisper(const ConfigFields& fields, bool) {
  auto shape = audio_shape(fields);
  int64_t bins = fields.whole_or("num_mel_bins", 80, kMostWidth);
  shape.convolutions = {{3 * bins, shape.hidden, 2}, {3 * shape.hidden, shape.hidden, 1}};
  shape.key_bias = false;
  shape.positions = fields.whole_or("max_source_positions", 1500, kMostPositions);
  return audio_model(shape);
}

}  // namespace bigmac::cost
