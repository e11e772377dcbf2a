#!/usr/bin/env python3
"""Writes a GGUF file of random weights with the shapes of Qwen3.5-0.8B, or of a dense model with as many parameters,
for measuring.

    pip install gguf numpy; scripts/make_random_states.py qwen35-0.8b Q4_K out.gguf
    scripts/make_random_states.py dense Q4_K out.gguf

The former has a draft layer (mtp). `dense` is a qwen3 whose layers have the same width and feed-forward, and heads that
make up the same number of weights. Layers of a kind have the same values.
"""
import sys

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type

EMBD, FF, LAYERS, N_VOCAB = 1024, 3584, 24, 248320
HEADS, KV, DIM = 8, 2, 256  # of the layers with attention, each fourth
KEYS, VALUES, STATE, CONV = 16, 16, 128, 4  # of the others
DENSE_HEADS, DENSE_KV, DENSE_DIM = 32, 4, 128
SCALES = {Type.Q4_K: [1 / 32 / 7, 1 / 32], Type.IQ4_XS: [1 / 16 / 64], Type.Q8_0: [1 / 64]}
random = np.random.default_rng(1)


def blocks(kind, rows, columns):
    """Random blocks whose values are about 1 / sqrt(columns)."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (rows, columns // values, size), np.uint8)
    halves = np.array(SCALES[kind], np.float32) / np.sqrt(columns)
    data[..., : 2 * len(halves)] = halves.astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def attention(heads, kv, dim, gates):
    return {"attn_q": (heads * dim * (2 if gates else 1), EMBD), "attn_k": (kv * dim, EMBD), "attn_v": (kv * dim, EMBD),
            "attn_output": (EMBD, heads * dim)}


def main(name, kind, path):
    kind = Type[kind]
    is_dense = name == "dense"
    writer = gguf.GGUFWriter(path, "qwen3" if is_dense else "qwen35")
    heads, kv, dim = (DENSE_HEADS, DENSE_KV, DENSE_DIM) if is_dense else (HEADS, KV, DIM)
    writer.add_block_count(LAYERS + (not is_dense))
    writer.add_context_length(131072)
    writer.add_embedding_length(EMBD)
    writer.add_feed_forward_length(FF)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e7)
    if not is_dense:
        writer.add_rope_dimension_count(dim // 4)
        writer.add_rope_dimension_sections([11, 11, 10, 0])
        writer.add_ssm_conv_kernel(CONV)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_group_count(KEYS)
        writer.add_ssm_time_step_rank(VALUES)
        writer.add_ssm_inner_size(VALUES * STATE)
        writer.add_full_attention_interval(4)
        writer.add_nextn_predict_layers(1)
    from make_expert_models import N_VOCAB as N_WORDS, tokens
    words = tokens()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2" if is_dense else "qwen35")
    writer.add_token_list(words + [b"[word %d]" % i for i in range(N_VOCAB - N_WORDS)])
    writer.add_token_types([1] * 256 + [3, 1] + [3] * (N_WORDS - 258) + [1] * (N_VOCAB - N_WORDS))
    writer.add_token_merges(["\u0120 t"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(256)

    def add(tensor, data, of=None):
        writer.add_tensor(tensor, data, raw_dtype=of)

    ones = np.ones(EMBD, np.float32)
    add("token_embd.weight", blocks(kind, N_VOCAB, EMBD), kind)
    add("output_norm.weight", ones)
    feed = {n: blocks(kind, *s) for n, s in {"ffn_gate": (FF, EMBD), "ffn_up": (FF, EMBD), "ffn_down": (EMBD, FF)}.items()}
    full = {n: blocks(kind, *s) for n, s in attention(heads, kv, dim, not is_dense).items()}
    mixed = 2 * KEYS * STATE + VALUES * STATE
    delta = {n: blocks(kind, *s) for n, s in {
        "attn_qkv": (mixed, EMBD), "attn_gate": (VALUES * STATE, EMBD), "ssm_out": (EMBD, VALUES * STATE),
        "ssm_beta": (VALUES, EMBD), "ssm_alpha": (VALUES, EMBD)}.items()}
    vectors = {"ssm_conv1d.weight": floats(mixed, CONV), "ssm_a": -random.uniform(0.02, 1, VALUES).astype(np.float32),
               "ssm_dt.bias": random.uniform(-2, 0, VALUES).astype(np.float32), "ssm_norm.weight": ones[:STATE]}
    for i in range(LAYERS + (not is_dense)):
        is_full = is_dense or i % 4 == 3 or i == LAYERS
        add(f"blk.{i}.attn_norm.weight", ones)
        add(f"blk.{i}.{'ffn_norm' if is_dense else 'post_attention_norm'}.weight", ones)
        for n, data in {**feed, **(full if is_full else delta)}.items():
            add(f"blk.{i}.{n}.weight", data, kind)
        for n, data in ({f"attn_{n}_norm.weight": ones[:dim] for n in "qk"} if is_full else vectors).items():
            add(f"blk.{i}.{n}", data)
    if not is_dense:
        add(f"blk.{LAYERS}.nextn.eh_proj.weight", blocks(kind, EMBD, 2 * EMBD), kind)
        for n in ("enorm", "hnorm", "shared_head_norm"):
            add(f"blk.{LAYERS}.nextn.{n}.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("qwen35-0.8b", "dense") or sys.argv[2] not in ("Q4_K", "IQ4_XS", "Q8_0"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
