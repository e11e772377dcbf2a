#!/usr/bin/env python3
"""Makes test/data/text and seeds for the fuzz targets: small vocabularies, nasty strings and their ids by the reference libraries, chat templates and
Jinja's renderings of them.

    scripts/make_text_fixtures.py            writes everything under test/data/text
    scripts/make_text_fixtures.py --model F  adds ids for the vocabulary of the GGUF file F (named smollm2.ids)
    scripts/make_text_fixtures.py --compare F DIR   writes F's whole vocabulary and ids to DIR, for test_tokenizer

Needs the Python packages tokenizers, sentencepiece, jinja2 and, for GGUF files, gguf. The tests themselves need none of
them: what this script writes is committed.

Formats (all text; %XX stands for a byte):
  strings.txt   one case a line; "@N TEXT" is TEXT repeated N times
  *.vocab       a header "kind pre n_tokens n_merges bos eos unk prefix", then "TYPE SCORE TEXT" for each token and
                "LEFT RIGHT" (ids) for each merge
  *.ids         a line of ids for each case, "ID*N" for N in a row, "-" for none, "#N HASH" for many,
                "?" for ids that may differ; after a line
                "special" the same cases with special tokens recognised, "=" where that changes nothing
  *.chat        see test/template/test_chat_template.c
"""

import os
import sys

from text_cases import STRINGS, corpus, escape, escape_text, write  # beside this file

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OUT = os.path.join(ROOT, "test", "data", "text")


def ids_line(ids) -> str:
    if not ids:
        return "-"
    out, i = [], 0
    while i < len(ids):
        j = i
        while j < len(ids) and ids[j] == ids[i]:
            j += 1
        out.append(str(ids[i]) if j - i == 1 else "%d*%d" % (ids[i], j - i))
        i = j
    line = " ".join(out)
    if len(line) <= 300:
        return line
    h = 0xcbf29ce484222325  # FNV-1a over the ids as 32-bit little-endian numbers
    for b in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return "#%d %016x" % (len(ids), h)


def both(plain, special):
    """Lines without and with special tokens recognised; "=" where they agree."""
    return plain + ["special"] + ["=" if a == b else b for a, b in zip(plain, special)]


def expand(case):
    return case if isinstance(case, str) else case[1] * case[0]


def strings_lines():
    return [escape_text(c) if isinstance(c, str) else "@%d %s" % (c[0], escape_text(c[1])) for c in STRINGS]


# ---- byte-level BPE: HF's tokenizers ----

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED = QWEN2.replace(r"\p{N}| ", r"\p{N}{1}| ").replace(r"\p{N}]+[\r\n]*", r"\p{N}\r\n]+")
TEKKEN = GPT4O.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")

# In several steps: expressions, or what tokenizers has for the step.
ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LLM = [r"[\r\n]", r"\s?[%s]+",
                "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                r"\s+$", ASIAN, "digit"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, "digit"]
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
               r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
STEPS = {"deepseek-llm": DEEPSEEK_LLM, "deepseek-coder": DEEPSEEK_CODER, "deepseek-v3": DEEPSEEK_V3}


# pre-tokenizer -> special tokens; the last of each is user-defined
SPECIAL = {
    "gpt-2": ["<|endoftext|>", "<user>"],
    "llama-bpe": ["<|begin_of_text|>", "<|eot_id|>", "<|end|>", "<|endless|>", "<tool_call>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"],
    "smollm": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<tool_call>"],
    "gpt-4o": ["<|endoftext|>", "<|end|>", "<|user|>", "<|tool_call|>"],
    "tekken": ["<s>", "</s>", "[INST]", "[TOOL_CALLS]"],
    "qwen35": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"],
    "falcon": ["<|endoftext|>", "<user>"],
    "deepseek-llm": ["<s>", "</s>", "<tool>"],
    "deepseek-coder": ["<s>", "</s>", "<tool>"],
    "deepseek-v3": ["<s>", "</s>", "<|user|>", "<tool>"],
}
NORMALISED = ("qwen2", "qwen35")  # to NFC


def deepseek_letters():
    """The list of src/model/letters.h."""
    import re
    with open(os.path.join(ROOT, "src", "model", "letters.h"), encoding="utf-8") as f:
        text = "".join(re.findall('^ +"(.*)"', f.read(), re.M))
    return text.encode().decode("unicode_escape")


def pre_tokenizer(pre):
    from tokenizers import Regex, pre_tokenizers as p
    byte_level = p.ByteLevel(add_prefix_space=False, use_regex=False)
    if pre == "gpt-2":
        return p.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "smollm":
        return p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False, use_regex=True)])
    if pre == "falcon":
        return p.Sequence([p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False, use_regex=True),
                           p.Digits(individual_digits=False), p.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    if pre in STEPS:
        steps = [p.Digits(individual_digits=True) if step == "digit" else
                 p.Split(Regex(step.replace("%s", deepseek_letters())), "isolated") for step in STEPS[pre]]
        return p.Sequence(steps + [byte_level])
    pattern = {"llama-bpe": LLAMA3, "qwen2": QWEN2, "gpt-4o": GPT4O, "tekken": TEKKEN, "qwen35": QWEN35, "seed-coder": SEED}[pre]
    return p.Sequence([p.Split(Regex(pattern), "isolated", invert=False), byte_level])


def bpe_tokenizer(pre, vocab, merges, control, user, strips=False):
    from tokenizers import AddedToken, Tokenizer, models, normalizers
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre in ("llama-bpe", "tekken")))
    if pre in NORMALISED:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizer(pre)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False, rstrip=strips) for t in control])
    tok.add_tokens([AddedToken(t, special=False, normalized=False, lstrip=strips, rstrip=strips) for t in user])
    return tok


def train_bpe(pre):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    tok = Tokenizer(models.BPE())
    if pre in NORMALISED:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizer(pre)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if pre == "smollm":  # the real one lacks bytes that its training text lacked
        alphabet = [c for c in alphabet if c not in "\u0104\u0106\u0113\u00c0\u00f1\u00ff"]
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=sorted(alphabet), special_tokens=[],
                                  show_progress=False, min_frequency=1)
    tok.train_from_iterator(corpus(), trainer)
    import json
    model = json.loads(tok.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    return model["vocab"], merges


def bpe_ids(tok):
    lines = []
    for special in (False, True):
        tok.encode_special_tokens = not special
        lines.append([ids_line(tok.encode(expand(case), add_special_tokens=False).ids) for case in STRINGS])
    return both(*lines)


def vocab_lines(kind, pre, tokens, types, scores, merges, bos, eos, unk, prefix):
    yield "%s %s %d %d %d %d %d %d" % (kind, pre, len(tokens), len(merges), bos, eos, unk, prefix)
    for i, t in enumerate(tokens):
        yield "%d %s %s" % (types[i], repr(float(scores[i])) if scores else "0", escape_text(t))
    ids = {t: i for i, t in enumerate(tokens)}
    for a, b in merges:
        yield "%d %d" % (ids[a], ids[b])


def make_bpe(pre):
    vocab, merges = train_bpe(pre)
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda kv: kv[1])]
    special = SPECIAL[pre]
    types = [1] * len(tokens) + [3] * (len(special) - 1) + [4]
    all_tokens = tokens + special
    first = len(tokens)
    name = "bpe-" + pre
    write(OUT, name + ".vocab", vocab_lines("bpe", pre, all_tokens, types, None, merges, first,
                                            first + min(1, len(special) - 2), -1, -1))
    lines = bpe_ids(bpe_tokenizer(pre, vocab, merges, special[:-1], special[-1:]))
    if pre == "deepseek-v3":  # U+1FAE9 is a symbol since Unicode 16, which not every libpcre2 knows
        lines[STRINGS.index("\U0001fae8 \U0001fae9")] = "?"
    write(OUT, name + ".ids", lines)
    if pre == "qwen2":  # the same tokens with other words
        write(OUT, "bpe-seed-coder.ids", bpe_ids(bpe_tokenizer("seed-coder", vocab, merges, special[:-1], special[-1:])))
    if pre == "gpt-2":
        write(OUT, "bpe-strips.ids", bpe_ids(bpe_tokenizer(pre, vocab, merges, special[:-1], special[-1:], True)))


# ---- sentencepiece ----

def varint(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(n, v):
    return varint(n << 3) + varint(v)


def spm_proto(tokens, scores, types, unigram, prefix, unk):
    import struct
    out = b""
    for i, t in enumerate(tokens):
        kind = 2 if i == unk else (3 if types[i] in (2, 4) else types[i])
        out += field(1, field(1, t.encode("utf-8")) + varint(2 << 3 | 5) + struct.pack("<f", scores[i]) + number(3, kind))
    fallback = 6 in types
    out += field(2, number(3, 1 if unigram else 2) + number(35, int(fallback)))
    return out + field(3, number(3, int(prefix)) + number(4, 0) + number(5, 1))


def spm_ids(tokens, scores, types, unigram, prefix, unk, special_ids):
    """Special tokens split first; the space prefix at the start and after each of them, as llama.cpp and HF's
    legacy Llama tokenizers have it."""
    import re
    import sentencepiece
    models = []
    for with_prefix in (False, True):
        sp = sentencepiece.SentencePieceProcessor()
        sp.LoadFromSerializedProto(spm_proto(tokens, scores, types, unigram, with_prefix, unk))
        models.append(sp)
    lines = [[], []]
    for special in (False, True):
        names = {tokens[i].replace("\u2581", " "): i for i in special_ids if special or types[i] == 4}
        pattern = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
        for case in STRINGS:
            text, ids = expand(case), []
            for i, part in enumerate(re.split("(%s)" % pattern, text) if names else [text]):
                if i % 2:
                    ids.append(names[part])
                elif part:
                    ids += models[prefix].EncodeAsIds(part)
            lines[special].append(ids_line(ids))
    return both(*lines)


def make_spm(name, model_type):
    import io
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in corpus() for line in text.split("\n") if line.strip()]),
        model_writer=model, vocab_size=1200, hard_vocab_limit=False, model_type=model_type, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2,
        control_symbols=["<|im_end|>", "[INST]"], user_defined_symbols=["<tool>"])
    proto = model.getvalue()
    if model_type == "unigram":
        with open(os.path.join(OUT, name + ".model"), "wb") as f:
            f.write(proto)
    sp = sentencepiece.SentencePieceProcessor(model_proto=proto)
    n = sp.GetPieceSize()
    tokens = [sp.IdToPiece(i) for i in range(n)]
    scores = [sp.GetScore(i) for i in range(n)]
    types = [2 if sp.IsUnknown(i) else 3 if sp.IsControl(i) else 6 if sp.IsByte(i) else
             4 if tokens[i] == "<tool>" else 1 for i in range(n)]
    if model_type == "bpe":
        make_piece_merges(tokens, scores, types)
    special = [i for i in range(n) if types[i] in (3, 4)]
    write(OUT, name + ".vocab", vocab_lines("spm", "default", tokens, types, scores, [], 1, 2, 0, 1))
    lines = spm_ids(tokens, scores, types, model_type == "unigram", True, 0, special)
    if model_type == "unigram":
        make_unigram_json(tokens, scores, types)
    if model_type == "unigram":  # several paths are best there, and rounding chooses: versions differ
        lines[STRINGS.index((100000, " "))] = "?"
    write(OUT, name + ".ids", lines)


# ---- sentencepiece's vocabulary in a tokenizer.json ----

def piece_merges(tokens, scores, types):
    """The merges that transformers makes of pieces: every pair that joins to a piece, by score, then by ids."""
    ids = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    pairs = []
    for t, i in ids.items():
        pairs += sorted((-scores[i], i, ids[t[:k]], ids[t[k:]]) for k in range(1, len(t)) if t[:k] in ids and t[k:] in ids)
    return [(tokens[a], tokens[b]) for _, _, a, b in sorted(pairs, key=lambda p: p[0])]


def piece_tokenizer(tokens, merges, types, prefix):
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, byte_fallback=True,
                               fuse_unk=True, unk_token="<unk>"))
    replace = normalizers.Replace(" ", "\u2581")
    if prefix == 1:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace])
    elif prefix == 0:
        tok.normalizer = replace
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first" if prefix & 2 else "always", split=False)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t, k in zip(tokens, types) if k == 4])
    return tok


def make_piece_merges(tokens, scores, types):
    merges = piece_merges(tokens, scores, types)
    write(OUT, "spm-json.vocab", vocab_lines("spm", "default", tokens, types, None, merges, 1, 2, 0, 1))
    for prefix in (0, 1, 7):  # bits of enum rf_space_prefix
        write(OUT, "spm-json-%d.ids" % prefix, bpe_ids(piece_tokenizer(tokens, merges, types, prefix)))


def make_unigram_json(tokens, scores, types):
    """The vocabulary of spm-unigram, as a tokenizer.json has it."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
    for prefix in (0, 7):
        tok = Tokenizer(models.Unigram(list(zip(tokens, scores)), unk_id=0, byte_fallback=True))
        if prefix:
            tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            tok.normalizer = normalizers.Replace(" ", "\u2581")
        tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
        tok.add_tokens([AddedToken(t, special=False, normalized=False) for t, k in zip(tokens, types) if k == 4])
        lines = bpe_ids(tok)
        for i, case in enumerate(map(expand, STRINGS)):
            # There several paths are best, or tokenizers finds pieces that a text only spells.
            several = len(case) > 20 and not case.strip(" ")
            spelled = {k for t, k in zip(tokens, types) if t in case}
            if several or spelled & {2, 3, 6}:
                lines[i] = "?"
            if several or spelled & {2, 6} or (lines[i] == "?" and lines[len(STRINGS) + 1 + i] == "="):
                lines[len(STRINGS) + 1 + i] = "?"
        write(OUT, "spm-unigram-json-%d.ids" % prefix, lines)


# ---- whole vocabularies of GGUF files ----

def gguf_vocab(path):
    import gguf
    fields = gguf.GGUFReader(path).fields

    def get(key, default=None):
        return fields[key].contents() if key in fields else default

    tokens = get("tokenizer.ggml.tokens")
    return {
        "kind": get("tokenizer.ggml.model"), "pre": get("tokenizer.ggml.pre", "default"), "tokens": tokens,
        "types": get("tokenizer.ggml.token_type") or [1] * len(tokens), "scores": get("tokenizer.ggml.scores"),
        "merges": [tuple(m.split(" ", 1)) for m in get("tokenizer.ggml.merges", [])],
        "bos": get("tokenizer.ggml.bos_token_id", -1), "eos": get("tokenizer.ggml.eos_token_id", -1),
        "unk": get("tokenizer.ggml.unknown_token_id", -1),
    }


def gguf_ids(v):
    special = [i for i, t in enumerate(v["types"]) if t in (3, 4)]
    if v["kind"] == "gpt2":
        vocab = {t: i for i, t in enumerate(v["tokens"])}
        control = [v["tokens"][i] for i in special if v["types"][i] == 3]
        user = [v["tokens"][i] for i in special if v["types"][i] == 4]
        return bpe_ids(bpe_tokenizer(v["pre"], vocab, v["merges"], control, user))
    return spm_ids(v["tokens"], v["scores"], v["types"], False, True, max(v["unk"], 0), special)


def compare(path, directory):
    v = gguf_vocab(path)
    write(directory, "strings.txt", strings_lines())
    kind = "bpe" if v["kind"] == "gpt2" else "spm"
    write(directory, "model.vocab", vocab_lines(kind, v["pre"], v["tokens"], v["types"], v["scores"], v["merges"],
                                                v["bos"], v["eos"], v["unk"], -1))
    write(directory, "model.ids", gguf_ids(v))


# ---- seeds of the fuzz targets; their sources state the formats ----

def write_seed(target, name, data):
    folder = os.path.join(ROOT, "test", "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def make_seeds():
    bpe = [(b"<|im_end|>", 3), (b"<tool>", 4), (b"he", 1), (b"ll", 1), (b"hell", 1), ("\u0120a".encode(), 1), (b"12", 1)]
    spm = [(b"<s>", 3), (b"</s>", 3), (b"<tool>", 4), (b"a", 1), (b"b", 1), (b"ab", 1), ("\u2581".encode(), 1),
           ("\u2581ab".encode(), 1), (b"abab", 5), ("\u2581\u2581".encode(), 1)]
    merges = [(ord("h"), ord("e")), (ord("l"), ord("l")), (259, 260), (32, ord("a")), (ord("1"), ord("2"))]
    text = "hello <|im_end|>\xfe 12  a's\n\n ab abab <tool> e\u0301".encode("utf-8").replace(b"\xc3\xbe", b"\xfe")
    tail = text + b"\xff\x80 ab\xff<|im_end|>\xfe"
    for name, flags in (("gpt2", 0), ("llama3", 2), ("qwen2", 4), ("smollm", 6), ("falcon", 38), ("deepseek-llm", 64),
                        ("deepseek-coder", 66), ("deepseek-v3", 68), ("spm", 1), ("spm-strip", 17), ("spm-merges", 1)):
        tokens, joins = (spm, []) if flags & 1 else (bpe, merges)
        if name == "spm-merges":
            joins = [(260, 261), (263, 262)]
        data = bytes([flags, len(tokens), len(joins)])
        for i, (t, kind) in enumerate(tokens):
            data += bytes([len(t), kind, 256 - i - 1 if kind == 1 else 0]) + t
        data += b"".join(a.to_bytes(2, "little") + b.to_bytes(2, "little") for a, b in joins)
        write_seed("tokenizer", name, data + tail)
    folder = os.path.join(OUT, "templates")
    talk = ["system", " be brief ", "user", "hi\n", "assistant", "<think>x</think>\ny ", "user", "bye"]
    for name in ("chatml", "llama2", "llama3.2", "mistral-nemo", "gemma", "phi3.5", "qwen3", "qwen2.5-coder-0.5b", "zephyr"):
        with open(os.path.join(folder, name + ".jinja"), "rb") as f:
            write_seed("template", name, f.read() + b"\0" + b"\0".join(t.encode() for t in talk))


def main():
    if sys.argv[1:2] == ["--compare"]:
        return compare(sys.argv[2], sys.argv[3])
    if sys.argv[1:2] == ["--model"]:
        return write(OUT, "smollm2.ids", gguf_ids(gguf_vocab(sys.argv[2])))
    write(OUT, "strings.txt", strings_lines())
    for pre in SPECIAL:
        make_bpe(pre)
    make_spm("spm-bpe", "bpe")
    make_spm("spm-unigram", "unigram")
    write(OUT, "stories260K.ids", gguf_ids(gguf_vocab(os.path.join(OUT, "..", "stories260K.gguf"))))
    import text_templates
    text_templates.make(OUT)
    make_seeds()


if __name__ == "__main__":
    main()
