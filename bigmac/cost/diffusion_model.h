#pragma once

#include <string>
#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// Diffusion transformer of double-stream blocks (image and text with weights of their own, joint attention)
// and, behind them, single-stream blocks over both, all modulated by an embedding of the time (AdaLN).
struct DiffusionShape {
  int64_t double_blocks = 0, single_blocks = 0;
  int64_t heads = 0, head_dim = 0;
  int64_t ffn = 0;      // in every stream
  int64_t text_in = 0;  // width of the text encoder's states
  bool text_norm = false;
  int64_t latent_in = 0, latent_out = 0;  // values of a latent patch read and predicted
  int64_t patch = 2;                      // latent pixels of a patch's edge
  int64_t pooled_in = 0;                  // width of a pooled text embedding beside the time; 0: none
  bool guidance = false;                  // the guidance's strength is embedded as the time is
};
// Layers: "embedding"; "double block"; "single block"; "head". The text stream's rows are Rows::text.
Model diffusion_model(const DiffusionShape& shape);

}  // namespace bigmac::cost
