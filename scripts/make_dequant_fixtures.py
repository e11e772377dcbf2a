#!/usr/bin/env python3
"""Writes test/data/dequant/TYPE.blocks and TYPE.f32: blocks of random bytes, and what the reference makes of them.

The reference is gguf.quants of the Python package `gguf` (llama.cpp's own). The first blocks of each type have scales at
the borders of half precision: zeros, denormals, the largest finite value, infinities and NaNs.

    pip install gguf numpy; scripts/make_dequant_fixtures.py
"""
import pathlib

import gguf
import numpy as np

# Byte offsets of the half-precision fields in a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [], "F16": [0], "BF16": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
    "IQ3_XXS": [0], "IQ3_S": [0], "TQ1_0": [52], "TQ2_0": [64],
}
BORDERS = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01]

folder = pathlib.Path(__file__).resolve().parent.parent / "test" / "data" / "dequant"
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(20240607)
for name, halves in HALVES.items():
    kind = gguf.GGMLQuantizationType[name]
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, size=(max(24, 1024 // elems), size), dtype=np.uint8)
    for row, value in enumerate(BORDERS):
        for field, at in enumerate(halves):
            half = BORDERS[(row + 3 * field) % len(BORDERS)] if field else value
            blocks[row, at : at + 2] = half & 255, half >> 8
    if name == "MXFP4":
        blocks[:8, 0] = [0, 1, 2, 3, 127, 128, 254, 255]
    with np.errstate(all="ignore"):
        floats = gguf.quants.dequantize(blocks.reshape(1, -1), kind).astype(np.float32)
    (folder / f"{name}.blocks").write_bytes(blocks.tobytes())
    (folder / f"{name}.f32").write_bytes(floats.tobytes())
