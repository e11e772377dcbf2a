#!/usr/bin/env python3
"""Tiny random encoders, with the vectors and scores that transformers' own code computes with them.

    pip install torch transformers gguf sentencepiece protobuf
    scripts/make_encoder_models.py test/data/encoders

writes for each name a folder with config.json, model.safetensors, tokenizer.json and the files of sentence-transformers,
model.gguf (names and metadata as llama.cpp's converter writes them), expected.json: texts, their tokens, and their
vectors of length 1, or of a reranker pairs and scores; and expected.txt. Weights are in F32; bert has a second GGUF file in Q8_0.

The weights are random and of no licence; transformers (Apache-2.0) is only run.
"""
import base64
import json
import os
import sys
import tempfile
import unicodedata

import gguf
import numpy as np
import sentencepiece
import torch
import transformers
from sentencepiece import sentencepiece_model_pb2

N_CTX = 288
SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
             max_position_embeddings=N_CTX, pad_token_id=0)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "of", "river", "token", "read", "write", "house", "un", "able", "中", "文", "naive", "cafe", "ß"]
ROBERTAS = ("roberta", "roberta_rank")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
TEXTS = ["The river.", "Reading unreadable tokens, writing houses!", "Café naïve ÀÉÎ", "中文 of the 中文中",
         "a\tb\nc\u00a0d", "un-able $5.00 <x> 50%", "日本", "STRASSE straße İ", "x" * 101 + " the", "", "한국 е\u0301",
         " ".join(["the house of tokens reads the river", "unable to write"] * 16)]
PAIRS = [("river house", "The river is read."), ("who writes?", "unable"), ("the", "of " * 140)]


# XLM-RoBERTa's: pieces of unigrams, a map of characters, and texts of characters that the map has. The package tokenizers does
# not look up clusters of six bytes and more, such as half-width ｶﾞ, as sentencepiece does; the texts have none.
ENDS = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = ["▁the", "▁of", "▁river", "▁", "er", "re", "ing", "▁un", "able", "token", "▁token", "s", "▁house", "中", "中文", "é", "a",
          "fi", "ガ", "kg", "1⁄2", "▁1", "صلى", ".", ",", "!", "$", "5", "0", "%", *"bcdefghijklmnopqrtuvwxyz", *"ABCDEFGTRU", "ο", "ß"]
MAPPED = [*map(chr, range(0xff01, 0xff5f)), "ﬁ", "ﬃ", "㎏", "ﷺ", "①", "½", "e\u0301", "a\u0300", "ｶﾞ", "ｶ", "¨", "\u3000", "\u00a0"]
ROBERTA_TEXTS = ["The river.", "  Reading \tunreadable   tokens, housing!  ", "ｔｈｅ ｒｉｖｅｒ Ｔ５０％", "eﬁ ﬃ ㎏ ½ ①", "ﷺ", "e\u0301a\u0300 é ｶ",
                 "the\u3000river\u00a0of\u00adtokens", "a\u0001b\nc", "中文中 the 中", "日本 of 日本", "x¨y ¨", "", "x < y",
                 " ".join(["the house of tokens", "unable ｒiver"] * 24)]


def tokens(name=None):
    if name in ROBERTAS:
        return [*ENDS, *PIECES, "<mask>"]
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


def score_of(piece):
    return 0.0 if piece in ENDS or piece == "<mask>" else round(-12 + 2 * len(piece) - PIECES.index(piece) / 64, 6)


def charsmap():
    """NFKC of some characters, as sentencepiece compiles it."""
    rules = {c: unicodedata.normalize("NFKC", c) for c in MAPPED} | {"\t": " ", "\n": " ", "\u0001": "", "\u00ad": ""}
    words = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.writelines(f"{words(a)}\t{words(b)}\n" for a, b in rules.items())
        file.flush()
        made = sentencepiece.SentencePieceNormalizer(rule_tsv=file.name).serialized_model_proto()
    return sentencepiece_model_pb2.ModelProto.FromString(made).normalizer_spec.precompiled_charsmap


def write_unigram(folder, name):
    vocab = tokens(name)
    special = [{"id": vocab.index(t), "content": t, "special": True, "single_word": False, "lstrip": t == "<mask>",
                "rstrip": False, "normalized": False} for t in [*ENDS, "<mask>"]]
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    pre = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
    if name == "roberta_rank":  # as newer converters write them
        normalizer = {"type": "Sequence", "normalizers": [
            normalizer, {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
        pre = space
    piece = lambda text: {"SpecialToken": {"id": text, "type_id": 0}}
    text = lambda which: {"Sequence": {"id": which, "type_id": 0}}
    post = {"type": "TemplateProcessing", "single": [piece("<s>"), text("A"), piece("</s>")],
            "pair": [piece("<s>"), text("A"), piece("</s>"), piece("</s>"), text("B"), piece("</s>")],
            "special_tokens": {t: {"id": t, "ids": [vocab.index(t)], "tokens": [t]} for t in ("<s>", "</s>")}}
    model = {"type": "Unigram", "unk_id": 3, "vocab": [[t, score_of(t)] for t in vocab], "byte_fallback": False}
    with open(f"{folder}/tokenizer.json", "w") as file:
        json.dump({"version": "1.0", "added_tokens": special, "normalizer": normalizer, "pre_tokenizer": pre,
                   "post_processor": post, "decoder": space, "model": model}, file)
    return transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", bos_token="<s>", eos_token="</s>",
                                                unk_token="<unk>", pad_token="<pad>", mask_token="<mask>",
                                                model_input_names=["input_ids", "attention_mask"])


def check_sentencepiece(cases, vocab):
    """sentencepiece itself makes the same pieces of the texts."""
    proto = sentencepiece_model_pb2.ModelProto()
    kinds = {"<unk>": 2} | {t: 3 for t in (*ENDS, "<mask>") if t != "<unk>"}
    for t in vocab:
        proto.pieces.add(piece=t, score=score_of(t), type=kinds.get(t, 1))
    proto.trainer_spec.model_type = 1
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id, proto.trainer_spec.pad_id = 3, 0, 2, 1
    proto.normalizer_spec.precompiled_charsmap = charsmap()
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    for case in cases:
        ids = processor.encode(case["text"])
        assert case["tokens"] == [0, *ids, 2], (case["text"], case["tokens"], ids)


def make_model(name, kind):
    sizes = SIZES | {"vocab_size": len(tokens(name))}
    if kind == "xlm_roberta":
        sizes |= {"max_position_embeddings": N_CTX + 2, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        config = transformers.XLMRobertaConfig(**sizes, num_labels=1)
        config._attn_implementation = "eager"
        model = (transformers.XLMRobertaForSequenceClassification(config) if name == "roberta_rank"
                 else transformers.XLMRobertaModel(config, add_pooling_layer=False))
    elif kind == "nomic_bert":
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
         "post_mlp_layernorm": "layer_output_norm", "pooler.dense": "cls", "classifier.dense": "cls",
         "classifier.out_proj": "cls.output", "classifier": "cls.output"}


def gguf_name(path):
    stem, last = path.rsplit(".", 1)
    parts = stem.replace("encoder.layer.", "layers.").removeprefix("bert.").removeprefix("roberta.").split("layers.")
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
        if kind == "xlm_roberta" and "position_embeddings" in path:
            values = values[model.config.pad_token_id + 1:]
        yield gguf_name(path), values


def write_gguf(path, name, kind, model, pooling, is_q8=False):
    config = model.config
    writer = gguf.GGUFWriter(path, "nomic-bert" if kind == "nomic_bert" else "bert")
    writer.add_name(name)
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    if kind == "nomic_bert":
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if kind == "xlm_roberta":
        write_gguf_unigram(writer, name)
    else:
        write_gguf_words(writer, config)
    for new, values in gguf_tensors(model, kind):
        if is_q8 and values.ndim == 2 and not new.startswith(("token_types", "position", "cls")):
            q8 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(new, gguf.quants.quantize(values, q8), raw_dtype=q8)
        else:
            writer.add_tensor(new, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf_unigram(writer, name):
    vocab = tokens(name)
    kind = {"<unk>": gguf.TokenType.UNKNOWN} | {t: gguf.TokenType.CONTROL for t in (*ENDS, "<mask>") if t != "<unk>"}
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(vocab)
    writer.add_token_scores([score_of(t) for t in vocab])
    writer.add_token_types([kind.get(t, gguf.TokenType.NORMAL) for t in vocab])
    writer.add_add_space_prefix(True)
    writer.add_token_type_count(1)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(charsmap())
    for add, id in ((writer.add_bos_token_id, 0), (writer.add_pad_token_id, 1), (writer.add_eos_token_id, 2),
                    (writer.add_unk_token_id, 3), (writer.add_sep_token_id, 2), (writer.add_mask_token_id, len(vocab) - 1)):
        add(id)
    writer.add_add_bos_token(True)
    writer.add_add_sep_token(True)
    writer.add_add_eos_token(True)


def write_gguf_words(writer, config):
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_type_count(config.type_vocab_size)
    writer.add_token_list([t if t in SPECIAL else t[2:] if t.startswith("##") and len(t) > 2 else "\u2581" + t for t in tokens()])
    writer.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens()])
    for token, add in (("[PAD]", writer.add_pad_token_id), ("[UNK]", writer.add_unk_token_id), ("[CLS]", writer.add_bos_token_id),
                       ("[SEP]", writer.add_sep_token_id), ("[MASK]", writer.add_mask_token_id)):
        add(SPECIAL.index(token))


# ---- the files of sentence-transformers ----

def write_prompts(folder):
    with open(f"{folder}/config_sentence_transformers.json", "w") as file:
        json.dump({"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": None,
                   "similarity_fn_name": "cosine"}, file)


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
def vectors(model, tokenizer, pooling, texts):
    cases = []
    for text in texts:
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
        assert "token_type_ids" not in given or given["token_type_ids"].max() == 1
        assert given["input_ids"].shape[1] <= N_CTX
        score = model(**{k: given[k] for k in given if k != "attention_mask"}).logits.item()
        cases.append({"query": query, "document": document, "tokens": given["input_ids"][0].tolist(), "score": round(score, 6)})
    return cases


def write_numbers(path, cases):
    """The same without texts, for programs in C: numbers of tokens and tokens, of values and values."""
    with open(path, "w") as file:
        for case in cases:
            values = case.get("vector") or [case["score"]]
            print(len(case["tokens"]), *case["tokens"], len(values), *values, file=file)


def main():
    for name, kind, pooling in (("bert", "bert", "cls"), ("nomic", "nomic_bert", "mean"), ("rank", "bert", "rank"),
                                ("roberta", "xlm_roberta", "cls"), ("roberta_rank", "xlm_roberta", "rank")):
        folder = f"{sys.argv[1]}/{name}"
        os.makedirs(folder, exist_ok=True)
        tokenizer = write_unigram(folder, name) if name in ROBERTAS else write_tokenizer(folder)
        model = make_model(name, kind)
        model.save_pretrained(folder)
        number = {"mean": 1, "cls": 2, "rank": 4}[pooling]
        write_gguf(f"{folder}/model.gguf", name, kind, model, gguf.PoolingType(number))
        if name == "bert":
            write_gguf(f"{folder}/q8.gguf", name, kind, model, gguf.PoolingType(number), is_q8=True)
        if pooling != "rank":
            write_modules(folder, pooling)
        if name == "roberta":
            write_prompts(folder)
        cases = (scores(model, tokenizer) if pooling == "rank"
                 else vectors(model, tokenizer, pooling, ROBERTA_TEXTS if name in ROBERTAS else TEXTS))
        if name == "roberta":
            check_sentencepiece(cases, tokens(name))
        with open(f"{folder}/expected.json", "w") as file:
            json.dump(cases, file, ensure_ascii=False, indent=1)
        write_numbers(f"{folder}/expected.txt", cases)


if __name__ == "__main__":
    main()
