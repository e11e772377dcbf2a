#!/usr/bin/env python3
"""Writes the draft in a model's file (`mtp`) as a file of its own that reads fewer output rows:
those of the tokens that occur most in texts. A draft's cost is mostly these rows.

    pip install gguf
    training/choose_rows.py --model MODEL.gguf --riffle RIFFLE --out HEAD.gguf [--rows N] TEXT...

Riffle takes HEAD.gguf by `--head`. Other tokens are never drafted, but the answer is the same. It
prints which share of the texts the rows cover: the texts should be as the answers will be. Special
tokens are among the rows, since answers end with one."""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys

from export_llama_cpp import ROWS, Refused, copy_field, copy_tensor, open_file, value_of, write
from gguf import GGUFReader, GGUFValueType, GGUFWriter

NORMAL, BYTE = 1, 6  # types of tokens that are not special


def draft_layer(model: GGUFReader, path: str) -> int:
    arch = value_of(model, "general.architecture")
    further = value_of(model, f"{arch}.nextn_predict_layers")
    if further != 1:
        raise Refused(f"{path}: has no draft of its own ({arch}.nextn_predict_layers is "
                      f"{further or 0}, not 1)")
    layer = int(value_of(model, f"{arch}.block_count")) - 1
    if not any(t.name == f"blk.{layer}.nextn.eh_proj.weight" for t in model.tensors):
        raise Refused(f"{path}: has no blk.{layer}.nextn.eh_proj.weight")
    return layer


def count_tokens(riffle: str, model: str, texts: list[str]) -> collections.Counter[int]:
    counts: collections.Counter[int] = collections.Counter()
    for text in texts:
        done = subprocess.run([riffle, "tokenize", model, "--json", "--no-bos", "-f", text],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip())
        counts.update(json.loads(done.stdout)["tokens"])
    return counts


def choose(counts: collections.Counter[int], types: list[int], n: int) -> list[int]:
    """Special tokens, then those that occur most, then the lowest ids, which in a vocabulary of
    merges are those of the earliest."""
    special = [i for i, kind in enumerate(types) if kind not in (NORMAL, BYTE)]
    order = sorted(range(len(types)), key=lambda i: (-counts[i], i))
    return sorted(list(dict.fromkeys([*special, *order]))[:n])


def write_head(model: GGUFReader, layer: int, rows: list[int], path: str) -> None:
    temporary = path + ".part"
    out = GGUFWriter(temporary, value_of(model, "general.architecture"))
    for name, field in model.fields.items():
        if not name.startswith(("GGUF.", "tokenizer.")) and name != "general.architecture":
            copy_field(out, field, name)
    out.add_key_value(ROWS, rows, GGUFValueType.ARRAY, GGUFValueType.INT32)
    out.add_string("riffle.head.recipe", f"trained with the model (mtp), {len(rows)} output rows")
    for tensor in model.tensors:
        if tensor.name.startswith(f"blk.{layer}."):
            copy_tensor(out, tensor.name, tensor.data, tensor.tensor_type)
    write(out, temporary, path)


def main() -> None:
    p = argparse.ArgumentParser(description="Writes a model's own draft with fewer output rows.")
    p.add_argument("--model", required=True, help="a GGUF file with a draft, not a split one")
    p.add_argument("--riffle", default="build/riffle", help="the program, for its tokenizer")
    p.add_argument("--out", required=True, help="the file to write")
    p.add_argument("--rows", type=int, default=32768)
    p.add_argument("texts", nargs="+", help="files of text in UTF-8")
    o = p.parse_args()
    try:
        model = open_file(o.model)
        if value_of(model, "split.count"):
            raise Refused(f"{o.model}: is one of several parts")
        layer = draft_layer(model, o.model)
        counts = count_tokens(o.riffle, o.model, o.texts)
        rows = choose(counts, value_of(model, "tokenizer.ggml.token_type"), o.rows)
        write_head(model, layer, rows, o.out)
    except Refused as reason:
        sys.exit(f"choose_rows: {reason}")
    covered = sum(counts[row] for row in rows) / max(1, sum(counts.values()))
    print(f"{o.out}: {len(rows)} rows, of {100 * covered:.1f} % of the texts' tokens")


if __name__ == "__main__":
    main()
