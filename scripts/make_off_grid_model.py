#!/usr/bin/env python3
"""Moves a model's weights off the grid of the quantised file that they came from: the same model, as if unrounded.

Columns of matrices are scaled at random by 0.7 to 1.4, and what computes their inputs inversely: the norm before
them, or the rows of another matrix. The file, a llama, qwen2 or qwen3 in BF16, is changed where it is.

    pip install gguf numpy
    riffle quantize FILE.gguf OFF.gguf --type bf16; scripts/make_off_grid_model.py OFF.gguf
"""
import sys

import gguf
import numpy as np

reader = gguf.GGUFReader(sys.argv[1], "r+")
random = np.random.default_rng(1)
tensors = {tensor.name: tensor for tensor in reader.tensors}
arch = reader.fields["general.architecture"].contents()
n_layer = reader.fields[f"{arch}.block_count"].contents()
n_head = reader.fields[f"{arch}.attention.head_count"].contents()
n_head_kv = reader.fields[f"{arch}.attention.head_count_kv"].contents()


def scale(name, factors):
    """factors: of the columns; or [n, 1], of the rows."""
    tensor = tensors[name]
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        tensor.data[:] *= factors.reshape(tensor.data.shape)
        return
    assert tensor.tensor_type == gguf.GGMLQuantizationType.BF16, name
    bits = tensor.data.view(np.uint16)
    values = ((bits.astype(np.uint32) << 16).view(np.float32) * factors.astype(np.float32)).view(np.uint32)
    bits[:] = (values + 0x7FFF + (values >> 16 & 1) >> 16).astype(np.uint16)


def move(before, after, n, repeats=1):
    """`before`: names and shapes of what computes the inputs. repeats: query heads that read the same values."""
    factors = np.exp(random.uniform(np.log(0.7), np.log(1.4), n)).astype(np.float32)
    for name, shape in before:
        if name in tensors:
            scale(name, (1 / factors).reshape(shape))
    wide = np.repeat(factors.reshape(n_head_kv, -1), repeats, axis=0).ravel() if repeats > 1 else factors
    for name in after:
        scale(name, wide)


for layer in range(n_layer):
    prefix = f"blk.{layer}."
    n_embd, n_value = (int(size) for size in tensors[prefix + "attn_v.weight"].shape)
    n_ff = int(tensors[prefix + "ffn_down.weight"].shape[0])
    move([(prefix + "attn_norm.weight", -1)], [f"{prefix}attn_{name}.weight" for name in "qkv"], n_embd)
    move([(prefix + "attn_v.weight", (-1, 1)), (prefix + "attn_v.bias", -1)], [prefix + "attn_output.weight"], n_value,
         n_head // n_head_kv)
    move([(prefix + "ffn_norm.weight", -1)], [prefix + "ffn_gate.weight", prefix + "ffn_up.weight"], n_embd)
    move([(prefix + "ffn_up.weight", (-1, 1))], [prefix + "ffn_down.weight"], n_ff)
reader.data.flush()
