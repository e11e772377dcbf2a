#!/usr/bin/env python3
"""Writes a head of ours as llama.cpp's converter writes EAGLE-3 heads: with the target's
vocabulary, a copy of the output rows that the head uses, and their tokens. Weights keep their bits.

    pip install gguf
    training/export_llama_cpp.py --model MODEL.gguf --head HEAD.gguf --out FILE.gguf
                                 [--target TARGET.gguf]

llama.cpp takes FILE by `--spec-type draft-eagle3 -md FILE`, and Riffle by `--head FILE`. The rows
are of the type that MODEL has them in, so a head for another file of the same model is another
FILE.

llama.cpp (0c1e570) gives out hidden states of some architectures only; with a target of qwen2 it
stops at an assertion. --target writes such a model as one of the architecture llama, which computes
the same: rows of q and k are brought into the order of llama's rotation. Both programs take
TARGET."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, ReaderField

ROWS = "riffle.head.output_rows"


class Refused(Exception):
    """A sentence for the user."""


def open_file(path: str) -> GGUFReader:
    try:
        return GGUFReader(path)
    except (OSError, ValueError) as reason:
        raise Refused(f"{path}: cannot be read as GGUF: {reason}") from None


def value_of(reader: GGUFReader, key: str) -> Any:
    return reader.fields[key].contents() if key in reader.fields else None


def copy_field(out: GGUFWriter, field: ReaderField, name: str) -> None:
    kind = field.types[0]
    inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
    out.add_key_value(name, field.contents(), kind, inner)


def copy_tensor(out: GGUFWriter, name: str, data: np.ndarray, kind: GGMLQuantizationType) -> None:
    """Whole rows are written as they are. The reader has bytes where numpy has no such type."""
    out.add_tensor(name, np.ascontiguousarray(data), raw_dtype=kind)


def write(out: GGUFWriter, temporary: str, path: str) -> None:
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.replace(temporary, path)


def output_of(model: GGUFReader, path: str) -> Any:
    tensors = {t.name: t for t in model.tensors}
    for name in ("output.weight", "token_embd.weight"):
        if name in tensors:
            return tensors[name]
    raise Refused(f"{path}: has neither output.weight nor token_embd.weight")


def rotated_rows(heads: int, rows: int) -> np.ndarray:
    """The order of q's or k's rows in which pairs to rotate are neighbours."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)


def export_target(path: str, out_path: str) -> None:
    """The model as one of the architecture llama; one that is so already is copied."""
    model, temporary = open_file(path), out_path + ".part"
    architecture = value_of(model, "general.architecture")
    if architecture == "llama":
        shutil.copyfile(path, out_path)
        return
    if architecture != "qwen2":
        raise Refused(f"{path}: --target is for models of the architecture qwen2 or llama")
    heads = value_of(model, "qwen2.attention.head_count")
    heads_kv = value_of(model, "qwen2.attention.head_count_kv") or heads
    heads_of = {"attn_q": heads, "attn_k": heads_kv}
    out = GGUFWriter(temporary, "llama")
    for name, field in model.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            copy_field(out, field, name.replace("qwen2.", "llama.", 1)
                       if name.startswith("qwen2.") else name)
    for t in model.tensors:
        part = t.name.split(".")[-2]
        turned = part in heads_of and t.name.startswith("blk.")
        rows = rotated_rows(heads_of[part], len(t.data)) if turned else slice(None)
        copy_tensor(out, t.name, t.data[rows], t.tensor_type)
    write(out, temporary, out_path)


def check(head: GGUFReader, head_path: str, model: GGUFReader, model_path: str) -> list[int]:
    """The tokens of the head's output rows."""
    if value_of(head, "general.architecture") != "eagle3":
        raise Refused(f"{head_path}: is not a draft head: general.architecture is not eagle3")
    rows, output = value_of(head, ROWS), output_of(model, model_path)
    if rows is None:
        raise Refused(f"{head_path}: has no {ROWS}, so it is not a head of ours")
    hidden, vocabulary = (int(n) for n in output.shape)
    if hidden != value_of(head, "eagle3.target_hidden_size"):
        raise Refused(f"{head_path}: is a head of another target: its hidden size is not that of "
                      f"{model_path}, {hidden}")
    if not rows or rows[-1] >= vocabulary:
        raise Refused(f"{head_path}: is a head of another target: it chooses output row {rows[-1:]}"
                      f", and {model_path} has {vocabulary}")
    if "tokenizer.ggml.tokens" not in model.fields:
        raise Refused(f"{model_path}: has no vocabulary (tokenizer.ggml.tokens)")
    return rows


def export(head_path: str, model_path: str, out_path: str) -> None:
    head, model = open_file(head_path), open_file(model_path)
    rows = np.array(check(head, head_path, model, model_path), np.int64)
    output, temporary = output_of(model, model_path), out_path + ".part"
    out = GGUFWriter(temporary, "eagle3")
    for name, field in head.fields.items():
        if not name.startswith(("GGUF.", "riffle.")) and name != "general.architecture":
            copy_field(out, field, name)
    for name, field in model.fields.items():
        if name.startswith("tokenizer."):
            copy_field(out, field, name)
    for tensor in head.tensors:
        copy_tensor(out, tensor.name, tensor.data, tensor.tensor_type)
    copy_tensor(out, "output.weight", output.data[rows], output.tensor_type)
    out.add_tensor("d2t", rows, raw_dtype=GGMLQuantizationType.I64)
    write(out, temporary, out_path)


def main() -> None:
    p = argparse.ArgumentParser(description="Writes a draft head for llama.cpp's draft-eagle3.")
    p.add_argument("--model", required=True, help="the target: a GGUF file")
    p.add_argument("--head", required=True, help="its head, as training writes it")
    p.add_argument("--out", required=True, help="the file to write")
    p.add_argument("--target", help="a file to write: the target as an architecture llama")
    o = p.parse_args()
    try:
        export(o.head, o.model, o.out)
        if o.target:
            export_target(o.model, o.target)
    except Refused as reason:
        sys.exit(f"export_llama_cpp: {reason}")


if __name__ == "__main__":
    main()
