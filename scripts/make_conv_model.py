#!/usr/bin/env python3
"""Writes test/data/stories260K-conv.gguf: an lfm2 with the vocabulary, embeddings and feed-forwards of stories260K.gguf.

Three of its five layers have random convolutions. Matrices are in Q8_0; those whose rows of 172 no block fits are in
BF16.

    pip install gguf numpy; scripts/make_conv_model.py
"""
import pathlib

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Type

CONVS, ROWS = {0, 2, 3}, 3
folder = pathlib.Path(__file__).resolve().parent.parent / "test" / "data"
reader = gguf.GGUFReader(folder / "stories260K.gguf")
writer = gguf.GGUFWriter(folder / "stories260K-conv.gguf", arch="lfm2")
random = np.random.default_rng(5)


def add_matrix(name, values):
    kind = Type.BF16 if values.shape[1] % 32 else Type.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind), raw_dtype=kind)


def add_convolution(layer, width):
    add_matrix(f"blk.{layer}.shortconv.in_proj.weight", random.standard_normal((3 * width, width)) * width ** -0.5)
    add_matrix(f"blk.{layer}.shortconv.out_proj.weight", random.standard_normal((width, width)) * width ** -0.5)
    writer.add_tensor(f"blk.{layer}.shortconv.conv.weight", random.standard_normal((width, ROWS)).astype(np.float32))


def add_norms(layer, head_dim):
    for name in "qk":
        gains = random.uniform(0.8, 1.2, head_dim).astype(np.float32)
        writer.add_tensor(f"blk.{layer}.attn_{name}_norm.weight", gains)


number = {name: reader.fields[f"llama.{name}"].contents() for name in (
    "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv")}
for field in reader.fields.values():
    kind = field.types[0]
    if field.name.startswith("GGUF.") or field.name in (
            "general.architecture", "general.file_type", "llama.attention.head_count_kv"):
        continue
    writer.add_key_value(field.name.replace("llama.", "lfm2."), field.contents(), kind,
                         field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
writer.add_head_count_kv([number["attention.head_count_kv"] * (i not in CONVS) for i in range(number["block_count"])])
writer.add_shortconv_l_cache(ROWS)
for tensor in reader.tensors:
    part = tensor.name.split(".")
    layer = int(part[1]) if part[0] == "blk" else None
    if layer in CONVS and part[2] in ("attn_q", "attn_k", "attn_v", "attn_output"):
        continue
    if tensor.data.ndim == 2:
        add_matrix(tensor.name, tensor.data)
    else:
        writer.add_tensor(tensor.name.replace("output_norm", "token_embd_norm"), tensor.data)
for layer in range(number["block_count"]):
    if layer in CONVS:
        add_convolution(layer, number["embedding_length"])
    else:
        add_norms(layer, number["embedding_length"] // number["attention.head_count"])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
