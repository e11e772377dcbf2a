#!/usr/bin/env python3
"""Tiny random encoders with windows, modern-bert and gemma-embedding, with the vectors and scores that transformers' own code
computes with them.

    pip install torch transformers gguf sentencepiece protobuf tokenizers safetensors
    scripts/make_window_encoders.py test/data/encoders

writes the folders modern, modern_rank and gemma as make_encoder_models.py does. Each has a second GGUF file in Q8_0. modern_rank
has expected_cls.json besides: the scores of the same weights where config.json has the classifier_pooling "cls".
"""
import json
import os
import sys

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from make_encoder_models import scores, write_numbers, write_prompts
from safetensors.numpy import save_file
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

N_CTX = 640  # positions; longer than two chunks of attention
WIDTH = 32
CORPUS = ["The river reads unreadable tokens, writing 42 houses.", "Über naïve cafés in $5.00 or 50%!", "x = [1, 2, 3]; return x",
          "中文 of the 中文中", "the house of tokens is unable to write the river"] * 4
TEXTS = ["The river.", "Reading  unreadable   tokens,\n\n\twriting houses!", "Café naïve ÀÉÎ e\u0301a\u0300", "中文 of the 中文中", "日本 🙂 ½",
         "x = [1,2]; 1234567", "", " ", "the house", "un-able $5.00 <x> 50%", "The river reads the house " * 8]


# ---- tokenizers ----

def modern_tokenizer():
    """Byte-level BPE as ModernBERT's: NFC, gpt-2's words, added tokens for runs of spaces."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False))
    made.add_tokens([tokenizers.AddedToken(" " * n, normalized=True) for n in (2, 3)])
    made.add_special_tokens([tokenizers.AddedToken(t, normalized=False, lstrip=t == "[MASK]")
                             for t in ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")])
    ends = [(t, made.token_to_id(t)) for t in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends)
    return made


GEMMA_SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]


def gemma_tokenizer():
    """BPE of characters with a fallback to bytes, as Gemma's."""
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    made = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.train_from_iterator([line.replace(" ", " ▁") for line in CORPUS], trainers.BpeTrainer(
        vocab_size=440, special_tokens=GEMMA_SPECIAL + byte_tokens, show_progress=False, limit_alphabet=70))
    given = json.loads(made.to_str())
    given["added_tokens"] = [t for t in given["added_tokens"] if t["content"] in GEMMA_SPECIAL]
    made = tokenizers.Tokenizer.from_str(json.dumps(given))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    return made


def vocabulary(made):
    given = json.loads(made.to_str())
    by_id = {i: t for t, i in given["model"]["vocab"].items()} | {t["id"]: t["content"] for t in given["added_tokens"]}
    return given, [by_id[i] for i in range(len(by_id))]


def write_tokenizer(folder, made, names):
    made.save(f"{folder}/tokenizer.json")
    return transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", model_input_names=["input_ids", "attention_mask"],
                                                **{f"{kind}_token": text for kind, text in names.items()})


def gemma_scores(given, vocab):
    """Scores by which sentencepiece merges in the same order; a token is what one merge makes."""
    ranks = {}
    for rank, merge in enumerate(given["model"]["merges"]):
        ranks.setdefault("".join(merge), rank)
    return [-float(ranks.get(t, 0)) for t in vocab]


def check_sentencepiece(cases, given, vocab):
    """sentencepiece itself makes the same pieces of the texts."""
    proto = sentencepiece_model_pb2.ModelProto()
    for t, score in zip(vocab, gemma_scores(given, vocab)):
        kind = 2 if t == "<unk>" else 3 if t in GEMMA_SPECIAL else 6 if t.startswith("<0x") else 1
        proto.pieces.add(piece=t, score=score, type=kind)
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id, proto.trainer_spec.pad_id = 3, 2, 1, 0
    proto.normalizer_spec.add_dummy_prefix = proto.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    for case in cases:
        assert case["tokens"] == [2, *processor.encode(case["text"]), 1], (case["text"], case["tokens"])


# ---- models ----

def fill(model):
    generator = torch.Generator().manual_seed(21)
    for path, tensor in model.named_parameters():
        noise = torch.randn(tensor.shape, generator=generator)
        if "norm" in path.lower():
            tensor.data = noise / 4 + ("embed_tokens" not in path and model.config.model_type == "modernbert")
        elif tensor.dim() == 2 and "embed" not in path:
            tensor.data = noise / tensor.shape[1] ** 0.5
        else:
            tensor.data = noise / 2
    return model


def modern_model(name, vocab):
    ids = {f"{kind}_token_id": vocab.index(t) for kind, t in
           (("pad", "[PAD]"), ("bos", "[CLS]"), ("cls", "[CLS]"), ("eos", "[SEP]"), ("sep", "[SEP]"))}
    config = transformers.ModernBertConfig(
        vocab_size=len(vocab), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2,
        max_position_embeddings=N_CTX, local_attention=16, num_labels=1, classifier_pooling="mean", **ids)
    config._attn_implementation = "eager"
    of_class = transformers.ModernBertForSequenceClassification if name == "modern_rank" else transformers.ModernBertModel
    return fill(of_class(config).float().eval())


def gemma_model(vocab):
    config = transformers.Gemma3TextConfig(
        vocab_size=len(vocab), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=7, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, max_position_embeddings=N_CTX, sliding_window=16,
        use_bidirectional_attention=True)
    config._attn_implementation = "eager"
    return fill(transformers.Gemma3TextModel(config).float().eval())


def dense_layers():
    generator = np.random.default_rng(5)
    return [generator.normal(size=shape).astype(np.float32) * np.float32(0.2) for shape in ((2 * WIDTH, WIDTH), (WIDTH, 2 * WIDTH))]


# ---- GGUF, as llama.cpp's converter writes it ----

MODERN_NAMES = {"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
                "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
                "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down", "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"}
GEMMA_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm",
               "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
               "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_tensors(model, names):
    for path, tensor in model.state_dict().items():
        stem, last = path.removeprefix("model.").rsplit(".", 1)
        values = tensor.float().numpy()
        if names is GEMMA_NAMES and "norm" in stem:
            values = values + 1
        if stem.startswith("layers."):
            _, number, rest = stem.split(".", 2)
            yield f"blk.{number}.{names[rest]}.{last}", values
        else:
            yield f"{names[stem]}.{last}", values


def write_common(writer, config):
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])


def write_modern_keys(writer, config, given, vocab, is_rank):
    write_common(writer, config)
    writer.add_layer_norm_eps(config.norm_eps)
    writer.add_causal_attention(False)
    writer.add_sliding_window(config.local_attention)
    writer.add_sliding_window_pattern(3)
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    writer.add_vocab_size(len(vocab))
    writer.add_string("modern-bert.hidden_activation", "gelu")
    if is_rank:
        writer.add_uint32("modern-bert.classifier.pooling_type", gguf.PoolingType.MEAN)
    else:
        writer.add_pooling_type(gguf.PoolingType.CLS)
    special = {t["content"]: gguf.TokenType.CONTROL if t["special"] else gguf.TokenType.USER_DEFINED for t in given["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("modern-bert")
    writer.add_token_list(vocab)
    writer.add_token_types([special.get(t, gguf.TokenType.NORMAL) for t in vocab])
    writer.add_token_merges([" ".join(m) for m in given["model"]["merges"]])
    for add, text in ((writer.add_bos_token_id, "[CLS]"), (writer.add_eos_token_id, "[SEP]"), (writer.add_unk_token_id, "[UNK]"),
                      (writer.add_sep_token_id, "[SEP]"), (writer.add_pad_token_id, "[PAD]"), (writer.add_mask_token_id, "[MASK]")):
        add(vocab.index(text))
    for add in (writer.add_add_bos_token, writer.add_add_eos_token, writer.add_add_sep_token):
        add(True)


def write_gemma_keys(writer, config, given, vocab):
    write_common(writer, config)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.to_dict()["sliding_window"])
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_uint32("gemma-embedding.dense_2_feat_in", WIDTH)
    writer.add_uint32("gemma-embedding.dense_2_feat_out", 2 * WIDTH)
    writer.add_uint32("gemma-embedding.dense_3_feat_in", 2 * WIDTH)
    writer.add_uint32("gemma-embedding.dense_3_feat_out", WIDTH)
    kinds = {t: gguf.TokenType.CONTROL for t in GEMMA_SPECIAL} | {"<unk>": gguf.TokenType.UNKNOWN}
    kind_of = lambda t: gguf.TokenType.BYTE if t.startswith("<0x") else kinds.get(t, gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(vocab)
    writer.add_token_scores(gemma_scores(given, vocab))
    writer.add_token_types([kind_of(t) for t in vocab])
    writer.add_add_space_prefix(False)
    for add, id in ((writer.add_pad_token_id, 0), (writer.add_eos_token_id, 1), (writer.add_bos_token_id, 2), (writer.add_unk_token_id, 3)):
        add(id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def write_gguf(path, name, arch, write_keys, tensors, is_q8):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name)
    write_keys(writer)
    for new, values in tensors:
        if is_q8 and values.ndim == 2 and not new.startswith("cls"):
            q8 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(new, gguf.quants.quantize(values, q8), raw_dtype=q8)
        else:
            writer.add_tensor(new, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- the files of sentence-transformers ----

def write_modules(folder, pooling, dense):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), *(("Dense", f"{i + 2}_Dense") for i in range(len(dense))),
               ("Normalize", f"{len(dense) + 2}_Normalize")]
    with open(f"{folder}/modules.json", "w") as file:
        json.dump([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                   for i, (kind, path) in enumerate(modules)], file)
    os.makedirs(f"{folder}/1_Pooling", exist_ok=True)
    with open(f"{folder}/1_Pooling/config.json", "w") as file:  # the newer form, then the older one
        json.dump({"embedding_dimension": WIDTH, "pooling_mode": pooling} if not dense else
                  {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, file)
    for i, weight in enumerate(dense):
        os.makedirs(f"{folder}/{i + 2}_Dense", exist_ok=True)
        with open(f"{folder}/{i + 2}_Dense/config.json", "w") as file:
            json.dump({"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": False,
                       "activation_function": "torch.nn.modules.linear.Identity"}, file)
        save_file({"linear.weight": weight}, f"{folder}/{i + 2}_Dense/model.safetensors")


# ---- what is expected ----

@torch.no_grad()
def vectors(model, tokenizer, pooling, dense):
    cases, longest, part = [], "", "the house of 12 quartz vexes jumps, "
    while len(tokenizer(longest + part)["input_ids"]) <= 600:
        longest += part
    for text in [*TEXTS, longest]:
        ids = tokenizer(text)["input_ids"]
        assert len(ids) <= N_CTX, len(ids)
        rows = model(torch.tensor([ids])).last_hidden_state[0].double()
        row = rows[0] if pooling == "cls" else rows.mean(0)
        for weight in dense:
            row = torch.tensor(weight).double() @ row
        cases.append({"text": text, "tokens": ids, "vector": [round(float(v), 6) for v in row / row.norm()]})
    assert 512 < max(len(c["tokens"]) for c in cases)
    return cases


def write_cases(folder, cases):
    with open(f"{folder}/expected.json", "w") as file:
        json.dump(cases, file, ensure_ascii=False, indent=1)
    write_numbers(f"{folder}/expected.txt", cases)


def write_modern(folder, name):
    made = modern_tokenizer()
    given, vocab = vocabulary(made)
    tokenizer = write_tokenizer(folder, made, {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"})
    model = modern_model(name, vocab)
    model.save_pretrained(folder)
    is_rank = name == "modern_rank"
    for file, is_q8 in (("model", False), ("q8", True)):
        write_gguf(f"{folder}/{file}.gguf", name, "modern-bert", lambda w: write_modern_keys(w, model.config, given, vocab, is_rank),
                   gguf_tensors(model, MODERN_NAMES), is_q8)
    if not is_rank:
        write_modules(folder, "cls", [])
        write_cases(folder, vectors(model, tokenizer, "cls", []))
        return
    write_cases(folder, scores(model, tokenizer))
    model.config.classifier_pooling = "cls"
    with open(f"{folder}/expected_cls.json", "w") as file:
        json.dump(scores(model, tokenizer), file, ensure_ascii=False, indent=1)


def write_gemma(folder):
    made = gemma_tokenizer()
    given, vocab = vocabulary(made)
    tokenizer = write_tokenizer(folder, made, {"bos": "<bos>", "eos": "<eos>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"})
    model, dense = gemma_model(vocab), dense_layers()
    model.save_pretrained(folder)
    for file, is_q8 in (("model", False), ("q8", True)):
        tensors = [*gguf_tensors(model, GEMMA_NAMES), *((f"dense_{i + 2}.weight", w) for i, w in enumerate(dense))]
        write_gguf(f"{folder}/{file}.gguf", "gemma", "gemma-embedding", lambda w: write_gemma_keys(w, model.config, given, vocab),
                   tensors, is_q8)
    write_modules(folder, "mean", dense)
    write_prompts(folder)
    cases = vectors(model, tokenizer, "mean", dense)
    check_sentencepiece(cases, given, vocab)
    write_cases(folder, cases)


def main():
    for name in ("modern", "modern_rank", "gemma"):
        folder = f"{sys.argv[1]}/{name}"
        os.makedirs(folder, exist_ok=True)
        if name == "gemma":
            write_gemma(folder)
        else:
            write_modern(folder, name)


if __name__ == "__main__":
    main()
