#include "bigmac/cost/architectures.h"

namespace bigmac::cost {
namespace {

using Names = std::vector<std::string>;

Names joined(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

TowerReader at(std::vector<std::string> path, TowerReader reader) {
  reader.path = std::move(path);
  return reader;
}

std::vector<Architecture> make() {
  const Names decoder = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"};
  const Names grouped = joined(decoder, {"num_key_value_heads"});
  const Names dense = joined(grouped, {"intermediate_size"});
  const Names mixture = joined(grouped, {"num_experts", "num_experts_per_tok", "moe_intermediate_size"});
  const Names vision = {"depth",      "hidden_size",    "num_heads", "intermediate_size",
                        "patch_size", "out_hidden_size"};
  const Names audio = {"d_model", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"};
  const Names diffusion = {"num_layers", "num_attention_heads", "attention_head_dim", "joint_attention_dim"};

  const TowerReader llama{Tower::text, {}, false, joined(decoder, {"intermediate_size"}), read_llama};
  const TowerReader qwen2{Tower::text, {}, false, dense, read_qwen2};
  const TowerReader qwen3{Tower::text, {}, false, dense, read_qwen3};
  const TowerReader qwen3_moe{Tower::text, {}, false, mixture, read_qwen3_moe};
  const TowerReader qwen25_vision{Tower::vision, {}, false, vision, read_qwen25_vision};
  const TowerReader qwen3_vision{Tower::vision, {}, false, vision, read_qwen3_vision};
  const TowerReader dots_vision{Tower::vision,
                                {},
                                false,
                                {"embed_dim", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                 "intermediate_size", "patch_size"},
                                read_dots_vision};
  const TowerReader qwen3_audio{Tower::audio, {}, false, joined(audio, {"output_dim"}), read_qwen3_audio};
  const TowerReader whisper{Tower::audio, {}, false, audio, read_whisper};
  const TowerReader qwen_image{Tower::whole, {}, false, diffusion, read_qwen_image};
  const TowerReader flux{Tower::whole, {}, false, joined(diffusion, {"num_single_layers"}), read_flux};

  // Files older than transformers 4.52 hold Qwen2.5-VL's LLM beside vision_config, not in an object of its
  // own.
  TowerReader beside = at({"text_config"}, qwen2);
  beside.loose = true;
  auto with_vision = [&](const TowerReader& text, const TowerReader& encoder) {
    return std::vector<TowerReader>{text, at({"vision_config"}, encoder)};
  };
  auto omni = [&](const std::vector<std::string>& path) {
    return std::vector<TowerReader>{at(joined(path, {"text_config"}), qwen3_moe),
                                    at(joined(path, {"vision_config"}), qwen3_vision),
                                    at(joined(path, {"audio_config"}), qwen3_audio)};
  };
  return {
      {"LlamaForCausalLM", "llama", {llama}},
      {"Qwen2ForCausalLM", "qwen2", {qwen2}},
      {"Qwen3ForCausalLM", "qwen3", {qwen3}},
      {"Qwen3MoeForCausalLM", "qwen3_moe", {qwen3_moe}},
      {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", with_vision(beside, qwen25_vision)},
      {"Qwen3VLForConditionalGeneration", "qwen3_vl", with_vision(at({"text_config"}, qwen3), qwen3_vision)},
      {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe",
       with_vision(at({"text_config"}, qwen3_moe), qwen3_vision)},
      {"DotsOCRForCausalLM", "dots_ocr", with_vision(qwen2, dots_vision)},
      {"Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe", omni({"thinker_config"})},
      {"Qwen3OmniMoeThinkerForConditionalGeneration", "qwen3_omni_moe_thinker", omni({})},
      {"Qwen2_5_VisionTransformerPretrainedModel", "", {qwen25_vision}},
      {"Qwen3VLVisionModel", "", {qwen3_vision}},
      {"DotsVisionTransformer", "dots_vit", {dots_vision}},
      {"Qwen3OmniMoeVisionEncoder", "qwen3_omni_moe_vision_encoder", {qwen3_vision}},
      {"Qwen3OmniMoeAudioEncoder", "qwen3_omni_moe_audio_encoder", {qwen3_audio}},
      {"WhisperForConditionalGeneration", "whisper", {whisper}},
      {"QwenImageTransformer2DModel", "", {qwen_image}},
      {"FluxTransformer2DModel", "", {flux}},
  };
}

}  // namespace

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> known = make();
  return known;
}

}  // namespace bigmac::cost
