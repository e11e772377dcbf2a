#!/usr/bin/env python3
"""Writes test/data/stories260K-delta.gguf: a qwen35 with the vocabulary, embeddings and feed-forwards of stories260K.gguf.

Three of its five layers have the gated delta rule with random matrices; attention of the others has random gates. A
layer behind them drafts (mtp), with random matrices and the feed-forward of the last.
Matrices are in Q8_0; those whose rows of 172 no block fits are in BF16.

    pip install gguf numpy; scripts/make_delta_model.py
"""
import pathlib

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type

DELTAS, ROWS, KEYS, VALUES, KEY_DIM, VALUE_DIM = {0, 2, 3}, 4, 2, 4, 16, 24
MIXED = 2 * KEYS * KEY_DIM + VALUES * VALUE_DIM
folder = pathlib.Path(__file__).resolve().parent.parent / "test" / "data"
reader = gguf.GGUFReader(folder / "stories260K.gguf")
writer = gguf.GGUFWriter(folder / "stories260K-delta.gguf", arch="qwen35")
random = np.random.default_rng(6)


def add_matrix(name, values):
    kind = Type.BF16 if values.shape[1] % 32 else Type.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind), raw_dtype=kind)


def add_random(name, rows, columns):
    add_matrix(name, random.standard_normal((rows, columns)) * columns ** -0.5)


def add_vector(name, values):
    writer.add_tensor(name, values.astype(np.float32))


def add_delta(layer, width):
    add_random(f"blk.{layer}.attn_qkv.weight", MIXED, width)
    add_random(f"blk.{layer}.attn_gate.weight", VALUES * VALUE_DIM, width)
    add_random(f"blk.{layer}.ssm_beta.weight", VALUES, width)
    add_random(f"blk.{layer}.ssm_alpha.weight", VALUES, width)
    add_random(f"blk.{layer}.ssm_out.weight", width, VALUES * VALUE_DIM)
    add_vector(f"blk.{layer}.ssm_conv1d.weight", random.standard_normal((MIXED, ROWS)))
    add_vector(f"blk.{layer}.ssm_a", -random.uniform(0.02, 1, VALUES))  # forgets over a few rows to some hundred
    add_vector(f"blk.{layer}.ssm_dt.bias", random.uniform(-2, 0, VALUES))
    add_vector(f"blk.{layer}.ssm_norm.weight", random.uniform(0.8, 1.2, VALUE_DIM))


def with_gates(weights, head_dim):
    """For each head its rows of q, then random ones of its gate."""
    heads = weights.reshape(-1, head_dim, weights.shape[1])
    gates = random.standard_normal(heads.shape) * weights.shape[1] ** -0.5
    return np.concatenate([heads, gates], axis=1).reshape(-1, weights.shape[1])


def add_norms(layer, head_dim):
    for name in "qk":
        add_vector(f"blk.{layer}.attn_{name}_norm.weight", random.uniform(0.8, 1.2, head_dim))


number = {name: reader.fields[f"llama.{name}"].contents() for name in (
    "block_count", "embedding_length", "attention.head_count")}
head_dim = number["embedding_length"] // number["attention.head_count"]
for field in reader.fields.values():
    kind = field.types[0]
    if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
        continue
    writer.add_key_value(field.name.replace("llama.", "qwen35."), field.contents(), kind,
                         field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
writer.add_ssm_conv_kernel(ROWS)
writer.add_ssm_state_size(KEY_DIM)
writer.add_ssm_group_count(KEYS)
writer.add_ssm_time_step_rank(VALUES)
writer.add_ssm_inner_size(VALUES * VALUE_DIM)
writer.add_rope_dimension_sections([1, 1, 2, 0])
writer.add_array("qwen35.attention.recurrent_layers", [i in DELTAS for i in range(number["block_count"] + 1)])
draft = number["block_count"]
random = np.random.default_rng(7)
writer.kv_data[0]["qwen35.block_count"].value = draft + 1
writer.add_nextn_predict_layers(1)
last = {name: next(t.data for t in reader.tensors if t.name == f"blk.{draft - 1}.{name}") for name in (
    "attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "ffn_norm.weight",
    "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")}
for name, values in last.items():
    name = f"blk.{draft}.{name.replace('ffn_norm', 'post_attention_norm')}"
    if values.ndim == 1:
        add_vector(name, values)
    else:
        add_matrix(name, with_gates(values, head_dim) if "attn_q" in name else values)
add_norms(draft, head_dim)
width = number["embedding_length"]
# The draft's row begins as the target's last row, so that what it drafts is sometimes right.
add_matrix(f"blk.{draft}.nextn.eh_proj.weight", np.concatenate([
    0.3 * random.standard_normal((width, width)) * width ** -0.5, np.eye(width)], axis=1))
for name in ("enorm", "hnorm", "shared_head_norm"):
    add_vector(f"blk.{draft}.nextn.{name}.weight", random.uniform(0.8, 1.2, width))
random = np.random.default_rng(6)
for tensor in reader.tensors:
    part = tensor.name.split(".")
    layer = int(part[1]) if part[0] == "blk" else None
    if layer in DELTAS and part[2] in ("attn_q", "attn_k", "attn_v", "attn_output"):
        continue
    if tensor.data.ndim == 2:
        add_matrix(tensor.name, with_gates(tensor.data, head_dim) if part[-2] == "attn_q" else tensor.data)
    else:
        add_vector(tensor.name.replace("ffn_norm", "post_attention_norm"), tensor.data)
for layer in range(number["block_count"]):
    if layer in DELTAS:
        add_delta(layer, number["embedding_length"])
    else:
        add_norms(layer, head_dim)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
