"""Writes a head as GGUF v3, architecture eagle3: matrices in MXFP4, gains in F32, no vocabulary."""

from __future__ import annotations

import os

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
from head import GROUP, Head, mxfp4


def pack(w: torch.Tensor) -> np.ndarray:
    """MXFP4's blocks of a matrix, [rows, bytes]: the exponent, then 16 bytes whose low halves are
    the first 16 codes."""
    _, codes, exponents = mxfp4(w.cpu())
    halves = codes.numpy()
    packed = halves[:, :GROUP // 2] | halves[:, GROUP // 2:] << 4
    return np.concatenate([exponents.numpy(), packed], -1).reshape(w.shape[0], -1)


def write_head(path: str, head: Head, recipe: str) -> None:
    shape = head.shape
    temporary = path + ".part"
    out = GGUFWriter(temporary, "eagle3")
    out.add_name(f"Draft head for {shape.name}")
    for key, value in (
        ("block_count", 1), ("context_length", shape.context),
        ("embedding_length", shape.hidden), ("feed_forward_length", shape.width),
        ("attention.head_count", shape.heads), ("attention.head_count_kv", shape.heads_kv),
        ("attention.key_length", shape.head_dim), ("attention.value_length", shape.head_dim),
        ("rope.dimension_count", shape.head_dim), ("vocab_size", shape.vocabulary),
        ("target_hidden_size", shape.hidden),
    ):
        out.add_uint32("eagle3." + key, value)
    out.add_float32("eagle3.attention.layer_norm_rms_epsilon", shape.epsilon)
    out.add_float32("eagle3.rope.freq_base", shape.rope_base)
    out.add_array("eagle3.target_layers", shape.layers)
    out.add_bool("eagle3.norm_before_residual", False)
    out.add_bool("eagle3.norm_before_fc", False)
    out.add_key_value("riffle.head.output_rows", shape.rows, GGUFValueType.ARRAY,
                      GGUFValueType.UINT32)
    out.add_string("riffle.head.target", shape.target)
    out.add_string("riffle.head.recipe", recipe)
    for name, value in head.weights(False).items():
        value = value.detach().float().cpu()
        if value.dim() == 1:
            out.add_tensor(name + ".weight", value.numpy())
        else:
            out.add_tensor(name + ".weight", pack(value), raw_dtype=GGMLQuantizationType.MXFP4)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.replace(temporary, path)
