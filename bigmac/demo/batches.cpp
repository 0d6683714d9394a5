#include "bigmac/demo/batches.h"

#include <cmath>
#include <mutex>
#include <unordered_map>

#include "bigmac/data/spoken.h"
#include "bigmac/nn/log_mel.h"

namespace bigmac::demo {
namespace {

data::SpokenConfig spoken_config(const Config& config) {
  data::SpokenConfig spoken;
  spoken.seed = config.options.seed;
  spoken.cache = config.spoken_cache;
  return spoken;
}

Values values_of(const data::Sample& sample, const data::Dataset& dataset,
                 const std::optional<Clips>& clips) {
  Values values;
  values.set("tokens", sample.tokens);
  values.set("labels", sample.labels);
  auto later = [&](const char* name, auto load) {
    values.set_each_later(name, 1, [load](size_t) { return load(); });
  };
  auto picture = [&dataset, index = sample.index] { return dataset.picture(index); };
  switch (sample.task) {
    case data::Task::captioning:
      later("pixels", picture);
      break;
    case data::Task::hearing:
      values.set("frames", torch::tensor(clips->frames(sample.index), torch::dtype(torch::kInt64)));
      later("clip", [clips = *clips, index = sample.index] { return clips.load(index); });
      break;
    case data::Task::drawing:
      values.set("times", sample.times);
      later("target", picture);
      later("noise", [sample, side = dataset.side()] { return data::make_noise(sample, side); });
      break;
  }
  return values;
}

}  // namespace

struct Clips::Spoken {
  data::Spoken names;
  nn::LogMelConfig log_mel;
  int64_t hop;  // in samples
  std::mutex mutex;
  std::unordered_map<int64_t, int64_t> frames;  // as they became known
};

Clips::Clips(const Config& config, const data::Dataset& dataset)
    : spoken_(
          new Spoken{data::Spoken(dataset, spoken_config(config)), {.mels = config.audio->mels}, 1, {}, {}}) {
  spoken_->hop = std::lround(spoken_->log_mel.hop * double(spoken_->names.sample_rate()));
}

// One thread speaks at a time, so that ranks in one process do not all speak the same name.
int64_t Clips::frames(int64_t index) const {
  std::lock_guard lock(spoken_->mutex);
  auto [place, added] = spoken_->frames.try_emplace(index, 0);
  if (place->second == 0) place->second = spoken_->names.waveform(index).size(0) / spoken_->hop;
  return place->second;
}

torch::Tensor Clips::load(int64_t index) const {
  return nn::log_mel(spoken_->names.waveform(index), spoken_->names.sample_rate(), spoken_->log_mel);
}

train::Batches make_batches(const Config& config, const data::Dataset& dataset) {
  auto batch = config.batch;
  batch.microbatches = config.options.microbatches * config.options.dp;
  std::optional<Clips> clips;
  if (config.audio) {
    clips.emplace(config, dataset);
    batch.sound_tokens = [clips = *clips, audio = *config.audio](int64_t index) {
      return audio.tokens(clips.frames(index));
    };
  }
  return [=, &dataset](int64_t step) {
    std::vector<Values> samples;
    for (const auto& sample : data::make_samples(dataset, batch, step))
      samples.push_back(values_of(sample, dataset, clips));
    return samples;
  };
}

}  // namespace bigmac::demo
