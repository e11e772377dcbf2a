#!/usr/bin/env python3
"""Writes src/model/grids.c: the points of the grids that IQ1, IQ2 and IQ3 store numbers of.

The grids are part of these types' definition, as their makers found them by experiment. The source is gguf.quants of the
Python package `gguf` (llama.cpp's own).

    pip install gguf numpy; scripts/make_grids.py
"""
import pathlib

import gguf

OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "model" / "grids.c"
HEAD = """/* The grids of IQ1, IQ2 and IQ3, which define these types: scripts/make_grids.py wrote them from
 * the Python package gguf (THIRD-PARTY.md). iq.c reads them. */
#include "model/grids.h"

/* clang-format off */
"""


def main():
    text = HEAD
    for name in ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        kind = getattr(gguf.quants, name)
        kind.init_grid()
        points = kind.grid.reshape(kind.grid_shape)
        levels = {float(level): i for i, level in enumerate(kind.grid_map)}
        bits = (len(levels) - 1).bit_length()
        words = [sum(levels[float(x)] << bits * i for i, x in enumerate(point)) for point in points]
        text += f"const uint16_t rf_grid_{name.lower()}[{len(words)}] = {{\n"
        for i in range(0, len(words), 12):
            text += "    " + " ".join(f"0x{word:x}," for word in words[i : i + 12]) + "\n"
        text += "};\n"
    OUT.write_text(text + "/* clang-format on */\n")


main()
