#!/usr/bin/env python3
"""Writes test/data/stories260K-latent.gguf: a deepseek2 with the vocabulary and feed-forwards of stories260K.gguf.

Its latent attention has random matrices, and YaRN. Matrices are in Q8_0; those whose rows of 172 no block fits are in
BF16.

    pip install gguf numpy; scripts/make_latent_model.py
"""
import pathlib

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type

LATENT, LATENT_Q, ROPE, NOPE, VALUE = 64, 32, 8, 32, 32
folder = pathlib.Path(__file__).resolve().parent.parent / "test" / "data"
reader = gguf.GGUFReader(folder / "stories260K.gguf")
writer = gguf.GGUFWriter(folder / "stories260K-latent.gguf", arch="deepseek2")
random = np.random.default_rng(7)


def add_matrix(name, values):
    kind = Type.BF16 if values.shape[-1] % 32 else Type.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind), raw_dtype=kind)


def add_random(name, *shape, factor=1.0):
    add_matrix(name, factor * random.standard_normal(shape) * shape[-1] ** -0.5)


def add_norm(name, width):
    writer.add_tensor(name, random.uniform(0.8, 1.2, width).astype(np.float32))


def add_attention(layer, width, heads):
    add_random(f"blk.{layer}.attn_q_a.weight", LATENT_Q, width)
    add_norm(f"blk.{layer}.attn_q_a_norm.weight", LATENT_Q)
    add_random(f"blk.{layer}.attn_q_b.weight", heads * (NOPE + ROPE), LATENT_Q)
    add_random(f"blk.{layer}.attn_kv_a_mqa.weight", LATENT + ROPE, width)
    add_norm(f"blk.{layer}.attn_kv_a_norm.weight", LATENT)
    add_random(f"blk.{layer}.attn_k_b.weight", heads, LATENT, NOPE)
    add_random(f"blk.{layer}.attn_v_b.weight", heads, VALUE, LATENT)
    add_random(f"blk.{layer}.attn_output.weight", width, heads * VALUE, factor=0.3)  # else texts repeat one word


number = {name: reader.fields[f"llama.{name}"].contents() for name in (
    "block_count", "embedding_length", "attention.head_count", "feed_forward_length")}
for field in reader.fields.values():
    kind = field.types[0]
    if field.name.startswith("GGUF.") or field.name in (
            "general.architecture", "general.file_type", "llama.attention.head_count_kv", "llama.rope.dimension_count"):
        continue
    writer.add_key_value(field.name.replace("llama.", "deepseek2."), field.contents(), kind,
                         field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
writer.add_head_count_kv(1)
writer.add_kv_lora_rank(LATENT)
writer.add_q_lora_rank(LATENT_Q)
writer.add_key_length(LATENT + ROPE)
writer.add_value_length(LATENT)
writer.add_key_length_mla(NOPE + ROPE)
writer.add_value_length_mla(VALUE)
writer.add_rope_dimension_count(ROPE)
writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
writer.add_rope_scaling_factor(4.0)
writer.add_rope_scaling_orig_ctx_len(64)
writer.add_rope_scaling_yarn_log_mul(0.1)
writer.add_leading_dense_block_count(number["block_count"])
writer.add_expert_feed_forward_length(number["feed_forward_length"])
writer.add_expert_shared_count(0)
for tensor in reader.tensors:
    name = tensor.name.split(".")[-2]
    if name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        continue
    if tensor.data.ndim == 2:
        add_matrix(tensor.name, tensor.data)
    else:
        writer.add_tensor(tensor.name, tensor.data.astype(np.float32))
for layer in range(number["block_count"]):
    add_attention(layer, number["embedding_length"], number["attention.head_count"])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
