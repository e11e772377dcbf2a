#!/usr/bin/env python3
"""Compares `riffle tokenize` with llama.cpp's public vectors.

    pip install gguf numpy; test/text/vocab_vectors.py RIFFLE FOLDER

FOLDER is llama.cpp's `models`: ggml-vocab-NAME.gguf with .inp (texts) and .out (the ids of each). These files have a
vocabulary only, so each becomes a llama model of one tiny layer. Exits with 1 if ids differ, unless NFC changes the
text: Qwen's tokenizers normalise, llama.cpp does not. Vocabularies that Riffle refuses are listed with the reason.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

import gguf
import numpy as np

SEPARATOR = "\n__ggml_vocab_test__\n"
WIDTH = 32


def copy_vocabulary(reader, writer):
    for name, field in reader.fields.items():
        if not name.startswith("tokenizer.ggml."):
            continue
        kinds = [gguf.GGUFValueType(t) for t in field.types]
        writer.add_key_value(name, field.contents(), kinds[0], kinds[1] if len(kinds) > 1 else None)


def write_model(vocabulary, path):
    reader = gguf.GGUFReader(vocabulary)
    n_vocab = len(reader.fields["tokenizer.ggml.tokens"].data)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    copy_vocabulary(reader, writer)
    writer.add_tensor("token_embd.weight", np.zeros((n_vocab, WIDTH), np.float16))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH), np.float16))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.zeros(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ids_of(riffle, model, text):
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        done = subprocess.run([riffle, "tokenize", model, "--no-bos", "--json", "-f", file.name],
                              capture_output=True, check=False)
    if done.returncode:
        return None, done.stderr.decode().strip().splitlines()[-1].removeprefix(f"riffle: {model}: ")
    return json.loads(done.stdout)["tokens"], ""


def compare(riffle, vocabulary, model):
    texts = pathlib.Path(f"{vocabulary}.inp").read_bytes().decode().split(SEPARATOR)
    wanted = [[int(i) for i in line.split()] for line in pathlib.Path(f"{vocabulary}.out").read_text().splitlines()]
    bad = normalised = 0
    write_model(vocabulary, model)
    for text, ids in zip(texts, wanted):
        got, reason = ids_of(riffle, model, text)
        if got is None:
            print(f"{vocabulary.name}: refused: {reason}")
            return 0
        if got != ids and unicodedata.normalize("NFC", text) != text:
            normalised += 1
        elif got != ids:
            bad += 1
            print(f"{vocabulary.name}: {text!r}: {got}, not {ids}")
    print(f"{vocabulary.name}: {len(wanted) - bad - normalised} of {len(wanted)} equal, {normalised} normalised", flush=True)
    return bad


def main():
    riffle, folder = sys.argv[1:]
    found = sorted(m for m in pathlib.Path(folder).glob("*.gguf") if pathlib.Path(f"{m}.inp").exists())
    with tempfile.TemporaryDirectory() as scratch:
        bad = sum(compare(riffle, vocabulary, f"{scratch}/model.gguf") for vocabulary in found)
    sys.exit(1 if bad or not found else 0)


if __name__ == "__main__":
    main()
