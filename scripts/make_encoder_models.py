#!/usr/bin/env python3
"""Tiny random encoders, with the vectors and scores that transformers' own code computes with them.

    pip install torch transformers gguf
    scripts/make_encoder_models.py test/data/encoders

writes for each name a folder with config.json, model.safetensors, tokenizer.json and the files of sentence-transformers,
model.gguf (names and metadata as llama.cpp's converter writes them), expected.json: texts, their tokens, and their
vectors of length 1, or of a reranker pairs and scores; and expected.txt. Weights are in F32; bert has a second GGUF file in Q8_0.

The weights are random and of no licence; transformers (Apache-2.0) is only run.
"""
import json
import os
import sys

import gguf
import numpy as np
import torch
import transformers

N_CTX = 288
SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
             max_position_embeddings=N_CTX, pad_token_id=0)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "of", "river", "token", "read", "write", "house", "un", "able", "中", "文", "naive", "cafe", "ß"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
TEXTS = ["The river.", "Reading unreadable tokens, writing houses!", "Café naïve ÀÉÎ", "中文 of the 中文中",
         "a\tb\nc\u00a0d", "un-able $5.00 <x> 50%", "日本", "STRASSE straße İ", "x" * 101 + " the", "", "한국 е\u0301",
         " ".join(["the house of tokens reads the river", "unable to write"] * 16)]
PAIRS = [("river house", "The river is read."), ("who writes?", "unable"), ("the", "of " * 140)]


def tokens():
    return [*SPECIAL, *WORDS, *LETTERS, *SIGNS, *("##" + t for t in [*LETTERS, "ing", "able", "ss"])]


def write_tokenizer(folder):
    vocab = {t: i for i, t in enumerate(tokens())}
    special = [{"id": vocab[t], "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for t in SPECIAL]
    piece = lambda name, kind: {"SpecialToken": {"id": name, "type_id": kind}}
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    post = {"type": "TemplateProcessing", "single": [piece("[CLS]", 0), text("A", 0), piece("[SEP]", 0)],
            "pair": [piece("[CLS]", 0), text("A", 0), piece("[SEP]", 0), text("B", 1), piece("[SEP]", 1)],
            "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                  "lowercase": True}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": vocab}
    with open(f"{folder}/tokenizer.json", "w") as file:
        json.dump({"version": "1.0", "added_tokens": special, "normalizer": normalizer,
                   "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": post,
                   "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": model}, file)
    return transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", pad_token="[PAD]",
                                                unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
                                                model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def make_model(name, kind):
    sizes = SIZES | {"vocab_size": len(tokens())}
    if kind == "nomic_bert":
        config = transformers.NomicBertConfig(**sizes)
        model = transformers.NomicBertModel(config)
    else:
        config = transformers.BertConfig(**sizes, num_labels=1)
        config._attn_implementation = "eager"
        model = (transformers.BertForSequenceClassification(config) if name == "rank"
                 else transformers.BertModel(config, add_pooling_layer=False))
    model = model.float().eval()
    generator = torch.Generator().manual_seed(20)
    for path, tensor in model.named_parameters():
        noise = torch.randn(tensor.shape, generator=generator)
        if "norm" in path.lower():
            tensor.data = noise / 4 + (path.endswith("weight"))
        elif tensor.dim() == 2 and "embeddings" not in path:
            tensor.data = noise * 1.5 / tensor.shape[1] ** 0.5
        else:
            tensor.data = noise / 2
    return model


# ---- GGUF ----

NAMES = {"word_embeddings": "token_embd", "position_embeddings": "position_embd", "token_type_embeddings": "token_types",
         "embeddings.LayerNorm": "token_embd_norm", "attention.self.query": "attn_q", "attention.self.key": "attn_k",
         "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
         "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down",
         "output.LayerNorm": "layer_output_norm", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_attention_layernorm": "attn_output_norm",
         "post_mlp_layernorm": "layer_output_norm", "pooler.dense": "cls", "classifier": "cls.output"}


def gguf_name(path):
    stem, last = path.rsplit(".", 1)
    parts = stem.replace("encoder.layer.", "layers.").removeprefix("bert.").split("layers.")
    if len(parts) == 2:
        number, rest = parts[1].split(".", 1)
        return f"blk.{number}.{NAMES[rest]}.{last}"
    name = next(new for old, new in NAMES.items() if parts[0].endswith(old) and "LayerNorm" in old or
                "LayerNorm" not in parts[0] and parts[0].endswith(old))
    return f"{name}.{last}"


def gguf_tensors(model, kind):
    state = {path: tensor.float().numpy() for path, tensor in model.state_dict().items()}
    if kind == "nomic_bert":
        for n in range(SIZES["num_hidden_layers"]):
            parts = [state.pop(f"layers.{n}.self_attn.{p}_proj.weight") for p in "qkv"]
            yield f"blk.{n}.attn_qkv.weight", np.concatenate(parts)
    for path, values in state.items():
        yield gguf_name(path), values


def write_gguf(path, name, kind, model, pooling, is_q8=False):
    config = model.config
    writer = gguf.GGUFWriter(path, "nomic-bert" if kind == "nomic_bert" else "bert")
    writer.add_name(name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    if kind == "nomic_bert":
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_type_count(config.type_vocab_size)
    writer.add_token_list([t if t in SPECIAL else t[2:] if t.startswith("##") and len(t) > 2 else "\u2581" + t for t in tokens()])
    writer.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens()])
    for token, add in (("[PAD]", writer.add_pad_token_id), ("[UNK]", writer.add_unk_token_id), ("[CLS]", writer.add_bos_token_id),
                       ("[SEP]", writer.add_sep_token_id), ("[MASK]", writer.add_mask_token_id)):
        add(SPECIAL.index(token))
    for new, values in gguf_tensors(model, kind):
        if is_q8 and values.ndim == 2 and not new.startswith(("token_types", "position", "cls")):
            q8 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(new, gguf.quants.quantize(values, q8), raw_dtype=q8)
        else:
            writer.add_tensor(new, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- the files of sentence-transformers ----

def write_modules(folder, pooling):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    with open(f"{folder}/modules.json", "w") as file:
        json.dump([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                   for i, (kind, path) in enumerate(modules)], file)
    os.makedirs(f"{folder}/1_Pooling", exist_ok=True)
    with open(f"{folder}/1_Pooling/config.json", "w") as file:
        json.dump({"word_embedding_dimension": SIZES["hidden_size"], "pooling_mode_cls_token": pooling == "cls",
                   "pooling_mode_mean_tokens": pooling == "mean"}, file)


# ---- what is expected ----

@torch.no_grad()
def vectors(model, tokenizer, pooling):
    cases = []
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert len(ids) <= N_CTX
        rows = model(torch.tensor([ids])).last_hidden_state[0].double()
        row = rows[0] if pooling == "cls" else rows.mean(0)
        cases.append({"text": text, "tokens": ids, "vector": [round(float(v), 6) for v in row / row.norm()]})
    return cases


@torch.no_grad()
def scores(model, tokenizer):
    cases = []
    for query, document in PAIRS:
        given = tokenizer(query, document, return_tensors="pt")
        assert given["token_type_ids"].max() == 1 and given["input_ids"].shape[1] <= N_CTX
        score = model(**{k: given[k] for k in ("input_ids", "token_type_ids")}).logits.item()
        cases.append({"query": query, "document": document, "tokens": given["input_ids"][0].tolist(), "score": round(score, 6)})
    return cases


def write_numbers(path, cases):
    """The same without texts, for programs in C: numbers of tokens and tokens, of values and values."""
    with open(path, "w") as file:
        for case in cases:
            values = case.get("vector") or [case["score"]]
            print(len(case["tokens"]), *case["tokens"], len(values), *values, file=file)


def main():
    for name, kind, pooling in (("bert", "bert", "cls"), ("nomic", "nomic_bert", "mean"), ("rank", "bert", "rank")):
        folder = f"{sys.argv[1]}/{name}"
        os.makedirs(folder, exist_ok=True)
        tokenizer = write_tokenizer(folder)
        model = make_model(name, kind)
        model.save_pretrained(folder)
        number = {"mean": 1, "cls": 2, "rank": 4}[pooling]
        write_gguf(f"{folder}/model.gguf", name, kind, model, gguf.PoolingType(number))
        if name == "bert":
            write_gguf(f"{folder}/q8.gguf", name, kind, model, gguf.PoolingType(number), is_q8=True)
        if name != "rank":
            write_modules(folder, pooling)
        cases = scores(model, tokenizer) if name == "rank" else vectors(model, tokenizer, pooling)
        with open(f"{folder}/expected.json", "w") as file:
            json.dump(cases, file, ensure_ascii=False, indent=1)
        write_numbers(f"{folder}/expected.txt", cases)


main()
