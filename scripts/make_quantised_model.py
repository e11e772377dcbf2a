#!/usr/bin/env python3
"""Writes test/data/stories260K-q.gguf: stories260K.gguf with its matrices in four types of blocks of 32.

The one matrix whose rows of 172 no block fits (ffn_down) stays F32, so that the file has layers of both kinds.

    pip install gguf numpy; scripts/make_quantised_model.py
"""
import pathlib

import gguf
from gguf.constants import GGMLQuantizationType as Type

folder = pathlib.Path(__file__).resolve().parent.parent / "test" / "data"
reader = gguf.GGUFReader(folder / "stories260K.gguf")
writer = gguf.GGUFWriter(folder / "stories260K-q.gguf", arch="llama")
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
        continue
    kind = field.types[0]
    writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
TYPES = {"token_embd": Type.Q8_0, "output": Type.Q8_0, "attn_q": Type.Q4_0, "attn_k": Type.Q4_1, "attn_v": Type.Q8_0,
         "attn_output": Type.Q4_0, "ffn_gate": Type.Q5_0, "ffn_up": Type.Q4_1}
for tensor in reader.tensors:
    kind = TYPES.get(tensor.name.removesuffix(".weight").split(".")[-1])
    if kind is None:
        writer.add_tensor(tensor.name, tensor.data)
    else:
        writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, kind), raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
