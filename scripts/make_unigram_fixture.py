#!/usr/bin/env python3
"""A vocabulary that sentencepiece's trainer makes (unigrams, the map nmt_nfkc), as tokenizer.json and as GGUF, with the ids
of many texts.

    pip install torch transformers gguf sentencepiece protobuf tokenizers
    scripts/make_unigram_fixture.py test/data/encoders/unigram

writes a folder with a tiny random XLM-RoBERTa, model.gguf with its vocabulary, and texts.txt: a line for each text, its bytes in
hexadecimal digits, the number of ids and the ids that the package tokenizers makes from tokenizer.json, then those that
sentencepiece makes. The two differ where characters have several marks: test/api/test_unigram.c compares with both.
"""
import base64
import io
import json
import os
import random
import sys

import gguf
import numpy as np
import sentencepiece
import tokenizers
import transformers
from sentencepiece import sentencepiece_model_pb2

WIDTH, N_CTX = 32, 62
CORPUS = ["The river reads the house of tokens, writing 42 letters for $5.00.", "Der Fluss liest über Straßen und Häuser, naïve Cafés.",
          "日本語の文章を読む。東京の川", "река читает дом и пишет слова", "النهر يقرأ البيت", "강은 집을 읽는다 한국어", "แม่น้ำอ่านบ้าน คำ ภาษาไทย",
          "नदी घर पढ़ती है हिन्दी", "ガラスの家 キログラム", "Łódź, Å, Ω, fi, 1⁄2, kg, TM"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
BLOCKS = [(0x20, 0x7f), (0xa0, 0x250), (0x250, 0x370), (0x370, 0x500), (0x590, 0x700), (0x900, 0xa00), (0xe00, 0xe80),
          (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2070), (0x2100, 0x2200), (0x2460, 0x2500), (0x3000, 0x3100),
          (0x3130, 0x3190), (0x3200, 0x3400), (0x4e00, 0x4e80), (0xac00, 0xad00), (0xf900, 0xfb00), (0xfb00, 0xfe00),
          (0xfe70, 0xff00), (0xff00, 0xfff0), (0x1d400, 0x1d500), (0x1f1e6, 0x1f640)]
BETWEEN = ["\t", "\n", "\r\n", "\u3000", "\u00a0", "\u200b", "  ", "\u0301", "\u3099", "\u0e33", "\u200d", "\ufe0f", "▁"]


def train():
    """Characters of all blocks become pieces, and words of the corpus."""
    made, source = io.BytesIO(), random.Random(3)
    letters = ["".join(chr(c) for c in source.sample(range(*block), min(block[1] - block[0], 40))) for block in BLOCKS]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3 + letters), model_writer=made, model_type="unigram", vocab_size=1200, character_coverage=1.0,
        hard_vocab_limit=False, bos_id=0, pad_id=1, eos_id=2, unk_id=3, bos_piece="<s>", pad_piece="<pad>", eos_piece="</s>",
        minloglevel=2, num_threads=1)
    return sentencepiece_model_pb2.ModelProto.FromString(made.getvalue())


def tokenizer_json(proto):
    special = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
               for i, t in enumerate(SPECIAL)]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    piece = lambda text: {"SpecialToken": {"id": text, "type_id": 0}}
    return {"version": "1.0", "added_tokens": special,
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
            "post_processor": {"type": "TemplateProcessing", "single": [piece("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, piece("</s>")],
                               "pair": [piece("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, piece("</s>"), piece("</s>"),
                                        {"Sequence": {"id": "B", "type_id": 0}}, piece("</s>")],
                               "special_tokens": {t: {"id": t, "ids": [SPECIAL.index(t)], "tokens": [t]} for t in ("<s>", "</s>")}},
            "decoder": space, "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
                                        "vocab": [[p.piece, p.score] for p in proto.pieces]}}


def texts():
    source = random.Random(11)
    yield from ["", " ", "  The  river ", *CORPUS, "e\u0301a\u0300 \u1112\u1161\u11ab", "ｶﾞﾗｽ ㎏ ﬁ ½ ﷺ", "Ａ\u0301 x▁y ▁z", "a ‴", "<s> the </s>"]
    for _ in range(600):
        blocks, text = source.sample(BLOCKS, source.randint(1, 3)), ""
        for _ in range(source.randint(1, 24)):
            kind = source.random()
            low, end = source.choice(blocks)
            text += " " if kind < 0.15 else source.choice(BETWEEN) if kind < 0.25 else chr(source.randrange(low, end))
        yield text


def write_gguf(path, proto):
    kinds = {"<unk>": gguf.TokenType.UNKNOWN} | {t: gguf.TokenType.CONTROL for t in SPECIAL if t != "<unk>"}
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("unigram")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("t5")
    writer.add_token_list([p.piece for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([kinds.get(p.piece, gguf.TokenType.NORMAL) for p in proto.pieces])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    for add, id in ((writer.add_bos_token_id, 0), (writer.add_pad_token_id, 1), (writer.add_eos_token_id, 2), (writer.add_unk_token_id, 3)):
        add(id)
    zeros = lambda *shape: np.zeros(shape, np.float16)
    vector = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", zeros(len(proto.pieces), WIDTH))
    writer.add_tensor("position_embd.weight", zeros(N_CTX, WIDTH))
    for norm in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        writer.add_tensor(f"{norm}.weight", vector)
        writer.add_tensor(f"{norm}.bias", vector)
    for matrix in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{matrix}.weight", zeros(WIDTH, WIDTH))
        writer.add_tensor(f"blk.0.{matrix}.bias", vector)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    proto = train()
    given = json.dumps(tokenizer_json(proto))
    with open(f"{folder}/tokenizer.json", "w") as file:
        file.write(given)
    config = transformers.XLMRobertaConfig(
        vocab_size=len(proto.pieces), hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1, num_attention_heads=1,
        max_position_embeddings=N_CTX + 2, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    transformers.XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    write_gguf(f"{folder}/model.gguf", proto)
    ours = tokenizers.Tokenizer.from_str(given)
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    n = different = 0
    with open(f"{folder}/texts.txt", "w") as file:
        for text in texts():
            ids = [ours.encode(text, add_special_tokens=False).ids, processor.encode(text)]
            if "<s>" in text or "‴" in text:
                ids[1] = ids[0]  # special tokens are found before sentencepiece sees a text; equal sums, which it rounds
            n += 1
            different += ids[0] != ids[1]
            print(text.encode().hex() or "-", *(value for some in ids for value in (len(some), *some)), file=file)
    print(f"{n} texts, {len(proto.pieces)} pieces; in {different} texts tokenizers and sentencepiece differ")


if __name__ == "__main__":
    main()
