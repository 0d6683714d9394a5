#!/usr/bin/env python3
"""Makes the small Qwen3 checkpoints under tests/nn/data and the logits that they must give.

Plain Python in float64, one token after the other, written from the published description (Qwen3 technical
report, arXiv 2505.09388; names and config.json as on the Hugging Face hub) and sharing nothing with the
C++ code. Run it as: python3 tests/nn/oracle/qwen3_oracle.py tests/nn/data
"""

import json
import math
import pathlib
import random
import struct
import sys


def round_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16_bits(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even


def round_bf16(x):
    return struct.unpack("<f", struct.pack("<I", bf16_bits(x) << 16))[0]


ENCODE = {
    "F64": lambda values: struct.pack(f"<{len(values)}d", *values),
    "F32": lambda values: struct.pack(f"<{len(values)}f", *values),
    "BF16": lambda values: struct.pack(f"<{len(values)}H", *map(bf16_bits, values)),
    "I64": lambda values: struct.pack(f"<{len(values)}q", *values),
}


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, flat values)"""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, values) in sorted(tensors.items()):
        encoded = ENCODE[dtype](values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(encoded)]}
        data += encoded
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Weights:
    """Random weights under their hub names; a matrix is a list of rows, [out][in]."""

    def __init__(self, seed, dtype):
        self.random, self.dtype = random.Random(seed), dtype
        self.round = round_bf16 if dtype == "BF16" else round_f32
        self.values = {}

    def matrix(self, name, rows, columns, deviation):
        self.values[name] = [
            [self.round(self.random.gauss(0, deviation)) for _ in range(columns)] for _ in range(rows)
        ]

    def vector(self, name, size):
        self.values[name] = [self.round(self.random.uniform(0.5, 1.5)) for _ in range(size)]

    def __getitem__(self, name):
        return self.values[name]

    def tensors(self):
        result = {}
        for name, value in self.values.items():
            if isinstance(value[0], list):
                flat = [x for row in value for x in row]
                result[name] = (self.dtype, [len(value), len(value[0])], flat)
            else:
                result[name] = (self.dtype, [len(value)], value)
        return result


def make_mlp(w, name, hidden, ffn):
    w.matrix(name + "gate_proj.weight", ffn, hidden, 0.3)
    w.matrix(name + "up_proj.weight", ffn, hidden, 0.3)
    w.matrix(name + "down_proj.weight", hidden, ffn, 0.3)


def make_weights(c, seed, dtype):
    w = Weights(seed, dtype)
    hidden, head = c["hidden_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    w.matrix("model.embed_tokens.weight", c["vocab_size"], hidden, 1.0)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        w.vector(at + "input_layernorm.weight", hidden)
        w.matrix(at + "self_attn.q_proj.weight", queries, hidden, 0.4)
        w.matrix(at + "self_attn.k_proj.weight", keys, hidden, 0.4)
        w.matrix(at + "self_attn.v_proj.weight", keys, hidden, 0.4)
        w.matrix(at + "self_attn.o_proj.weight", hidden, queries, 0.4)
        w.vector(at + "self_attn.q_norm.weight", head)
        w.vector(at + "self_attn.k_norm.weight", head)
        w.vector(at + "post_attention_layernorm.weight", hidden)
        if "num_experts" in c:
            w.matrix(at + "mlp.gate.weight", c["num_experts"], hidden, 0.5)
            for e in range(c["num_experts"]):
                make_mlp(w, f"{at}mlp.experts.{e}.", hidden, c["moe_intermediate_size"])
        else:
            make_mlp(w, at + "mlp.", hidden, c["intermediate_size"])
    w.vector("model.norm.weight", hidden)
    if not c["tie_word_embeddings"]:
        w.matrix("lm_head.weight", c["vocab_size"], hidden, 0.3)
    return w


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def times(matrix, x):
    return [dot(row, x) for row in matrix]


def rms_norm(x, weight, eps):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [value * scale * factor for value, factor in zip(x, weight)]


def softmax(x):
    largest = max(x)
    powers = [math.exp(value - largest) for value in x]
    total = math.fsum(powers)
    return [power / total for power in powers]


def turned(x, position, theta):
    """Rotary embedding: channel i is paired with channel i + half."""
    half = len(x) // 2
    result = list(x)
    for i in range(half):
        angle = position / theta ** (2 * i / len(x))
        result[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        result[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return result


def attention(w, at, c, rows):
    """rows: the normalised inputs of all positions. Query head h reads key head h // (heads / key heads)."""
    head, eps, theta = c["head_dim"], c["rms_norm_eps"], c["rope_theta"]
    share = c["num_attention_heads"] // c["num_key_value_heads"]
    split = lambda x: [x[i : i + head] for i in range(0, len(x), head)]
    q, k, v = [], [], []
    for t, x in enumerate(rows):
        heads = split(times(w[at + "q_proj.weight"], x))
        q.append([turned(rms_norm(h, w[at + "q_norm.weight"], eps), t, theta) for h in heads])
        heads = split(times(w[at + "k_proj.weight"], x))
        k.append([turned(rms_norm(h, w[at + "k_norm.weight"], eps), t, theta) for h in heads])
        v.append(split(times(w[at + "v_proj.weight"], x)))
    results = []
    for t in range(len(rows)):
        joined = []
        for h in range(c["num_attention_heads"]):
            g = h // share
            weights = softmax([dot(q[t][h], k[s][g]) / math.sqrt(head) for s in range(t + 1)])
            joined += [math.fsum(weights[s] * v[s][g][i] for s in range(t + 1)) for i in range(head)]
        results.append(times(w[at + "o_proj.weight"], joined))
    return results


def mlp(w, at, x):
    gate, up = times(w[at + "gate_proj.weight"], x), times(w[at + "up_proj.weight"], x)
    return times(w[at + "down_proj.weight"], [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])


def mixture(w, at, c, x):
    p = softmax(times(w[at + "gate.weight"], x))
    chosen = sorted(range(len(p)), key=lambda e: -p[e])[: c["num_experts_per_tok"]]
    total = math.fsum(p[e] for e in chosen) if c["norm_topk_prob"] else 1.0
    result = [0.0] * len(x)
    for e in chosen:
        y = mlp(w, f"{at}experts.{e}.", x)
        result = [r + p[e] / total * value for r, value in zip(result, y)]
    return result


def logits(w, c, tokens):
    eps = c["rms_norm_eps"]
    add = lambda a, b: [[x + y for x, y in zip(p, q)] for p, q in zip(a, b)]
    rows = [list(w["model.embed_tokens.weight"][token]) for token in tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        normed = [rms_norm(x, w[at + "input_layernorm.weight"], eps) for x in rows]
        rows = add(rows, attention(w, at + "self_attn.", c, normed))
        normed = [rms_norm(x, w[at + "post_attention_layernorm.weight"], eps) for x in rows]
        if "num_experts" in c:
            rows = add(rows, [mixture(w, at + "mlp.", c, x) for x in normed])
        else:
            rows = add(rows, [mlp(w, at + "mlp.", x) for x in normed])
    head = w["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    return [times(head, rms_norm(x, w["model.norm.weight"], eps)) for x in rows]


COMMON = {"hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "rope_scaling": None,
          "sliding_window": None, "use_sliding_window": False, "use_cache": True, "rms_norm_eps": 1e-06,
          "initializer_range": 0.02, "max_position_embeddings": 4096}  # fmt: skip
DENSE = COMMON | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
                  "vocab_size": 48, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 40, "rope_theta": 1000000,
                  "tie_word_embeddings": True}  # fmt: skip
MOE = COMMON | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "float32",
                "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "rope_theta": 10000.0,
                "tie_word_embeddings": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
                "moe_intermediate_size": 12, "norm_topk_prob": True, "num_experts": 6,
                "num_experts_per_tok": 2, "router_aux_loss_coef": 0.001}  # fmt: skip


def make(folder, config, seed, dtype):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    weights = make_weights(config, seed, dtype)
    write_safetensors(folder / "model.safetensors", weights.tensors())
    length, vocabulary = 9, config["vocab_size"]
    samples = [[weights.random.randrange(vocabulary) for _ in range(length)] for _ in range(2)]
    rows = [row for sample in samples for row in logits(weights, config, sample)]
    write_safetensors(folder / "expected.safetensors", {
        "tokens": ("I64", [2, length], [token for sample in samples for token in sample]),
        "logits": ("F64", [2, length, vocabulary], [x for row in rows for x in row]),
    })  # fmt: skip


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    make(target / "qwen3-dense", DENSE, 1, "BF16")
    make(target / "qwen3-moe", MOE, 2, "F32")
