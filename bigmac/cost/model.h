#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bigmac::cost {

// What a part runs on. A sequence is an LLM's sample, an image, a clip or a picture to generate.
enum class Rows : uint8_t {
  tokens,   // the tokens of a sequence: of text, patches, latent patches
  text,     // the tokens of the second stream of a double-stream block
  joint,    // both, one behind the other
  merged,   // groups of Model::merge tokens
  samples,  // one a sequence
};

// What computes it. `elementwise` stands for work that only moves bytes: activations, gates, residuals, RoPE,
// norms without weights.
enum class PartKind : uint8_t { linear, embedding, norm, attention, elementwise };

// How tensor parallelism cuts a part. The rest of a layer's tokens are cut by sequence parallelism, where
// that is on.
enum class Cut : uint8_t { none, columns, rows, heads, vocabulary };

// A tensor that a part keeps from its forward for its backward, or for that of the parts behind it that read
// it. It stands with the part that makes it, once; inputs that no part of the layer makes stand with the
// first part that reads them. So what a selective recompute runs again are the parts with a `selective`
// tensor.
struct Saved {
  std::string name;
  double width = 0;  // elements a row (of a mixture's part: a copy of a row); with `per_key`, elements
                     // a row and key (attention heads)
  double bytes = 2;  // an element
  bool cut = false;  // divided by tensor parallelism; else by sequence parallelism only
  bool for_weights = false;  // only the weight gradient needs it: not kept where the weights are frozen
  bool selective = false;    // not kept, but computed again, under selective recompute
  bool per_key = false;

  bool operator==(const Saved&) const = default;
};

// A piece of a layer. Everything that is counted (parameters, FLOPs, bytes) is counted from these. A part of
// a mixture of experts (experts > 0), of whatever kind, runs on top_k copies of each row, and its `in`, `out`
// and saved widths are those of one copy; only linear ones have parameters, `experts` times.
struct Part {
  std::string name;  // as in the model's own files: "self_attn.q_proj"
  PartKind kind = PartKind::linear;
  Rows rows = Rows::tokens;
  int64_t in = 0, out = 0;  // linear: width in and out; embedding: entries, width; norm: in == out;
                            // elementwise: elements that a row reads and writes
  int64_t per_row = 1;      // times that each row passes the same weights, `in` and `out` being those of one
                            // time: heads of a QK-norm, positions of a convolution that end in one row
  bool bias = false;        // `out` more parameters
  bool tied = false;        // the parameters are those of another part
  bool of_data = false;     // its input is data (pixels), which needs no gradient
  Cut cut = Cut::none;

  // Parts of a mixture of experts: how many there are alike, and how many of them see each row.
  int64_t experts = 0;  // 0: dense
  int64_t top_k = 0;

  // Attention: softmax(q k^T) v, no parameters.
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
  int64_t window = 0;  // rows that a row sees, in windows that do not overlap; 0: all of its sequence

  std::vector<Saved> saved;

  bool operator==(const Part&) const = default;
};

struct Layer {
  std::string name;  // what it is: "embedding", "layer", "double block", "head"
  std::vector<Part> parts;

  bool operator==(const Layer&) const = default;
};

enum class Family : uint8_t { decoder, vision, diffusion, audio };

// A model as the list of its layers, first to last.
struct Model {
  std::string name;
  Family family = Family::decoder;
  std::vector<Layer> layers;
  int64_t hidden = 0;    // width of what goes from layer to layer
  int64_t out = 0;       // width of what it hands on: an encoder's after its merger, else `hidden`
  int64_t features = 1;  // tensors of that width which it hands on: more than one with deepstack mergers
  int64_t merge = 1;     // tokens that become one token of the LLM
};

// Sequences alike, as one operator runs them.
struct Sequences {
  double count = 1;
  double tokens = 0;  // of each; patches before merging, for vision
  double text = 0;    // of each, in the second stream of double-stream blocks
  int64_t merge = 1;
};

// Rows of all sequences that a part of this kind runs on.
double rows_of(Rows rows, const Sequences& sequences);
// Mean number of keys that each row of an attention part sees: half of its sequence where causal (exactly
// (n + 1) / 2), its window, or its sequence.
double keys_of(const Part& attention, const Sequences& sequences);
// Times that a part's weights are passed for each of its rows: per_row, and top_k of a mixture's part.
int64_t passes_of(const Part& part);

}  // namespace bigmac::cost
