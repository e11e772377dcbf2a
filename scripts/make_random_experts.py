#!/usr/bin/env python3
"""Writes a GGUF file of random weights with the shapes of a published model with experts, for measuring.

    pip install gguf numpy; scripts/make_random_experts.py qwen3-30b-a3b 6 out.gguf      # layers: 2.1 GB
    scripts/make_random_experts.py gpt-oss-20b 5 out.gguf

The vocabulary is small, so that experts are most of what a pass reads. All layers have the same values.
"""
import sys

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type
from make_expert_models import N_VOCAB, tokens

EOS = 256
SHAPES = {
    "qwen3-30b-a3b": dict(arch="qwen3moe", embd=2048, heads=32, kv=4, dim=128, ff=768, experts=128, used=8,
                          kind=Type.Q4_K),
    "gpt-oss-20b": dict(arch="gpt-oss", embd=2880, heads=64, kv=8, dim=64, ff=2880, experts=32, used=4,
                        kind=Type.MXFP4),
}
random = np.random.default_rng(1)


def blocks(kind, *shape):
    """Random blocks whose values are about 1 / sqrt(columns)."""
    if kind == Type.F32:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (*shape[:-1], shape[-1] // values, size), np.uint8)
    scale = 1 / np.sqrt(shape[-1])
    if kind == Type.Q4_K:  # d, dmin, then scales and minima of about 32
        data[..., 0:4] = np.array([scale / 32 / 7, scale / 32], np.float16).view(np.uint8)
    elif kind == Type.MXFP4:
        data[..., 0] = 127 + round(np.log2(scale / 3))
    else:
        data[..., 0:2] = np.array([scale / 64], np.float16).view(np.uint8)
    return data.reshape(*shape[:-1], -1)


def main(name, n_layer, path):
    shape = SHAPES[name]
    arch, embd, heads, kv, dim = (shape[k] for k in ("arch", "embd", "heads", "kv", "dim"))
    ff, experts, kind = shape["ff"], shape["experts"], shape["kind"]
    dense = kind if embd % 256 == 0 else Type.Q8_0
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(n_layer)
    writer.add_context_length(32768)
    writer.add_embedding_length(embd)
    writer.add_feed_forward_length(ff)
    writer.add_expert_feed_forward_length(ff)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(shape["used"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * 256 + [3, 1] + [3] * (N_VOCAB - 258))
    writer.add_token_merges(["\u0120 t"])
    writer.add_bos_token_id(EOS)
    writer.add_eos_token_id(EOS)

    def add(tensor, data, of=Type.F32):
        writer.add_tensor(tensor, data, raw_dtype=None if of == Type.F32 else of)

    ones = np.ones(embd, np.float32)
    embedding = blocks(dense, N_VOCAB, embd)
    add("token_embd.weight", embedding, dense)
    if arch == "gpt-oss":
        add("output.weight", embedding, dense)
    add("output_norm.weight", ones)
    matrices = {"attn_q": (heads * dim, embd), "attn_k": (kv * dim, embd), "attn_v": (kv * dim, embd),
                "attn_output": (embd, heads * dim)}
    made = {n: blocks(dense, *s) for n, s in matrices.items()}
    of_experts = {"ffn_gate_exps": (experts, ff, embd), "ffn_up_exps": (experts, ff, embd),
                  "ffn_down_exps": (experts, embd, ff)}
    made_experts = {n: blocks(kind, *s) for n, s in of_experts.items()}
    router = 3 * blocks(Type.F32, experts, embd)
    for i in range(n_layer):
        add(f"blk.{i}.attn_norm.weight", ones)
        for n, data in made.items():
            add(f"blk.{i}.{n}.weight", data, dense)
        for n, data in made_experts.items():
            add(f"blk.{i}.{n}.weight", data, kind)
        add(f"blk.{i}.ffn_gate_inp.weight", np.roll(router, i, 0))
        if arch == "qwen3moe":
            add(f"blk.{i}.ffn_norm.weight", ones)
            add(f"blk.{i}.attn_q_norm.weight", ones[:dim])
            add(f"blk.{i}.attn_k_norm.weight", ones[:dim])
            continue
        add(f"blk.{i}.post_attention_norm.weight", ones)
        add(f"blk.{i}.attn_sinks.weight", ones[:heads])
        for n, (rows, _) in matrices.items():
            add(f"blk.{i}.{n}.bias", np.zeros(rows, np.float32))
        add(f"blk.{i}.ffn_gate_inp.bias", np.zeros(experts, np.float32))
        for n, (_, rows, _) in of_experts.items():
            add(f"blk.{i}.{n}.bias", np.zeros((experts, rows), np.float32))
    if arch == "gpt-oss":
        writer.add_sliding_window(128)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
