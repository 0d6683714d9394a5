#include "bigmac/common/error.h"
#include "bigmac/cost/architectures.h"
#include "bigmac/cost/diffusion_model.h"

namespace bigmac::cost {
namespace {

// What both published classes share: MLPs of four times the width, and an output patch of patch_size^2 pixels
// of each channel.
DiffusionShape diffusion_shape(const ConfigFields& fields, int64_t default_patch) {
  DiffusionShape shape;
  shape.double_blocks = fields.whole("num_layers", kMostLayers, 0);
  shape.heads = fields.whole("num_attention_heads", kMostWidth);
  shape.head_dim = fields.whole("attention_head_dim", kMostWidth);
  if (shape.heads * shape.head_dim > kMostWidth)
    fields.refuse("attention_head_dim", concat("is too large: ", shape.heads, " heads of ", shape.head_dim,
                                               " are wider than ", kMostWidth));
  shape.ffn = 4 * shape.heads * shape.head_dim;
  shape.text_in = fields.whole("joint_attention_dim", kMostWidth);
  shape.latent_in = fields.whole_or("in_channels", 64, kMostWidth);
  int64_t patch = fields.whole_or("patch_size", default_patch, 256);
  shape.patch = patch;
  shape.latent_out = patch * patch * fields.whole_or("out_channels", shape.latent_in, kMostWidth / 256);
  return shape;
}

}  // namespace

Model read_qwen_image(const ConfigFields& fields, bool) {
  auto shape = diffusion_shape(fields, 2);
  if (shape.double_blocks == 0) fields.refuse("num_layers", "must be at least 1");
  if (!fields.has("out_channels")) shape.latent_out = shape.patch * shape.patch * 16;
  shape.text_norm = true;
  return diffusion_model(shape);
}

Model read_flux(const ConfigFields& fields, bool) {
  auto shape = diffusion_shape(fields, 1);
  shape.single_blocks = fields.whole("num_single_layers", kMostLayers, 0);
  if (shape.double_blocks + shape.single_blocks == 0)
    fields.refuse("num_layers", "and num_single_layers must not both be 0");
  shape.pooled_in = fields.whole_or("pooled_projection_dim", 768, kMostWidth);
  shape.guidance = fields.flag_or("guidance_embeds", false);
  return diffusion_model(shape);
}

}  // namespace bigmac::cost
