#pragma once

#include "tests/demo/support.h"

namespace bigmac::demo {

// The sizes of configs/emoji.yaml.
inline Config emoji_config(int64_t pp, int64_t vpp, int64_t microbatches = 16) {
  Config config;
  config.encoder = {.picture = 24, .patch = 4, .hidden = 96, .layers = 2, .heads = 4, .ffn = 256, .merge = 2};
  config.generator = {.picture = 24, .patch = 4, .hidden = 128, .layers = 3, .heads = 4, .ffn = 384};
  config.options.pp = pp;
  config.options.vpp = vpp;
  config.options.microbatches = microbatches;
  config.batch.draws = 4;
  config.batch.caption_share = 0.3;
  config.complete();
  return config;
}

}  // namespace bigmac::demo
