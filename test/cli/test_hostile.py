"""Files made to harm: each is refused with one sentence that says why, or is harmless; in bounded time and memory.

A case is a line: what the sentence says (None: nothing is wrong), and what is changed in a small model that works.
The classes of cases come from published faults of readers of GGUF and safetensors files: lengths and counts that do
not fit, products that overflow, types and alignments, overlaps and holes, tokens, bombs of time and of memory."""

import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from harness import MODEL, RIFFLE, Case, main
from model_files import (ARRAY, BOOL, F32, F64, I32, N_VOCAB, STRING, U8, U32, U64, Folder, Gguf, Tensor, byte_letters,
                         spm_vocabulary)

CPU_SECONDS = 10
MIB = 1 << 20
with open(RIFFLE, "rb") as program:
    INSTRUMENTED = b"san_init" in program.read()  # of AddressSanitizer or ThreadSanitizer

HUGE = 2**64 - 1
ALMOST = 2**63 - 1
SPARSE = 1 << 40  # bytes of a file that takes next to nothing on the disk


def array(kind, count, data=b""):
    """The type and value of an array whose length need not be that of its data."""
    return struct.pack("<IIQ", ARRAY, kind, count % 2**64) + data


def text(length, data=b""):
    return struct.pack("<IQ", STRING, length % 2**64) + data


class Cut(Gguf):
    """A file that ends within its header, or goes on with a hole."""

    def __init__(self, keep, size=None):
        super().__init__()
        self.keep, self.size = keep, size

    def write(self, folder):
        path = super().write(folder)
        header = len(self.parts()[0])
        os.truncate(path, int(header * self.keep))
        if self.size:
            os.truncate(path, self.size)
        return path


def hole(key, data):
    """A value that reaches into a hole behind it."""
    model = Cut(1, SPARSE)
    model.tensors = []
    return model.raw(key, data)


def with_pieces(extra, kind):
    pieces, types = spm_vocabulary()
    return Gguf().vocabulary(pieces + extra, types + [kind] * len(extra))


def with_tokens(extra, merges=(), types=None):
    letters = byte_letters()
    types = types and [1] * len(letters) + [types] * len(extra)
    return Gguf("gpt2").vocabulary(letters + extra, types, list(merges))


def merge_grid(step):
    """Every merge of two sets of tokens. The ids within a set are `step` apart, so hashes without a seed, which take
    the low bits of a product, put them all in few places."""
    n = 380
    extra = ["x%x" % i for i in range(n * step)] + ["y%x" % i for i in range(n)]
    pairs = [("x%x" % (i * step), "y%x" % j) for i in range(n) for j in range(n)]
    return with_tokens(extra + [a + b for a, b in pairs], ["%s %s" % pair for pair in pairs])


GGUF = [
    ("does not begin with", lambda g: g.claim(magic=b"GGML")),
    ("version 1;", lambda g: g.claim(version=1)),
    ("big-endian", lambda g: g.claim(version=3 << 24)),
    ("metadata values do not fit", lambda g: g.claim(extra_values=ALMOST)),
    ("tensors do not fit", lambda g: g.claim(extra_tensors=ALMOST)),
    ("needs", lambda g: g.claim(extra_values=1)),
    ("bytes", lambda g: g.claim(extra_tensors=1)),
    ("bytes follow the last tensor", lambda g: g.claim(trailing=bytes(64))),
    # Strings, arrays, types.
    ("metadata string", lambda g: g.raw("general.name", text(HUGE))),
    ("metadata string", lambda g: g.raw("general.name", text(ALMOST))),
    ("metadata string", lambda g: g.raw("general.name", text(1 << 32))),
    ("metadata string", lambda g: g.raw("general.name", text(-8))),
    (None, lambda g: g.set("general.name", STRING, b"\x1b[2J\0\xff\xfe" * 100)),
    (None, lambda g: g.set("general.name", STRING, "x" * 3000000)),
    ("does not fit", lambda g: g.raw("x", array(U8, HUGE))),
    ("does not fit", lambda g: g.raw("x", array(U64, 1 << 61))),
    ("does not fit", lambda g: g.raw("x", array(F64, (1 << 61) + 1))),
    ("does not fit", lambda g: g.raw("x", array(STRING, HUGE))),
    ("a string of an array", lambda g: g.raw("x", array(STRING, 3, struct.pack("<QQ", 0, HUGE)))),
    ("array of arrays", lambda g: g.raw("x", array(ARRAY, 1, array(U8, 0)[4:]))),
    ("unknown type 13", lambda g: g.raw("x", struct.pack("<I", 13))),
    ("unknown type 4294967295", lambda g: g.raw("x", array(2**32 - 1, 1))),
    ("boolean of value 7", lambda g: g.raw("x", struct.pack("<IB", BOOL, 7))),
    ("there twice", lambda g: g.again("llama.block_count", U32, 1)),
    ("is there twice", lambda g: g.again("general.name", STRING, "a").again("general.name", STRING, "b")),
    ("has 0 bytes", lambda g: g.set("", U32, 1)),
    ("metadata key", lambda g: g.set("k" * 70000, U32, 1)),
    (None, lambda g: g.set("x", ARRAY, (U8, []))),
    (None, lambda g: [g.again("key.%d" % i, U8, 0) for i in range(20000)]),
    ("general.alignment is 0", lambda g: g.set("general.alignment", U32, 0)),
    ("general.alignment is 24", lambda g: g.set("general.alignment", U32, 24)),
    ("general.alignment is 2147483648", lambda g: g.set("general.alignment", U32, 1 << 31)),
    ("UINT32", lambda g: g.set("general.alignment", U64, 32)),
    # Parameters.
    ("block_count is 0", lambda g: g.set("llama.block_count", U32, 0)),
    ("blk.1.attn_norm.weight is missing", lambda g: g.set("llama.block_count", U32, 2**31 - 1)),
    ("block_count is 4294967295", lambda g: g.set("llama.block_count", U32, 2**32 - 1)),
    ("block_count", lambda g: g.set("llama.block_count", F32, 1.0)),
    ("embedding_length", lambda g: g.set("llama.embedding_length", U64, 1 << 40)),
    ("token_embd.weight", lambda g: g.set("llama.embedding_length", U32, 2**31 - 2)),
    ("head_count is 0", lambda g: g.set("llama.attention.head_count", U32, 0)),
    ("head_count_kv is 0", lambda g: g.set("llama.attention.head_count_kv", U32, 0)),
    ("attention heads", lambda g: g.set("llama.attention.head_count_kv", U32, 3)),
    ("too many", lambda g: g.set("llama.attention.key_length", U32, 2**31 - 2)),
    ("rope.dimension_count is 0", lambda g: g.set("llama.rope.dimension_count", U32, 0)),
    ("rotated dimension", lambda g: g.set("llama.rope.dimension_count", U32, 2**31 - 2)),
    ("epsilon", lambda g: g.set("llama.attention.layer_norm_rms_epsilon", F32, float("nan"))),
    ("context_length is 0", lambda g: g.set("llama.context_length", U32, 0)),
    (None, lambda g: g.set("llama.context_length", U32, 2**31 - 1)),
    ("3 elements", lambda g: g.set("llama.feed_forward_length", ARRAY, (U32, [64] * 3))),
    ("\"mamba", lambda g: g.set("general.architecture", STRING, "mamba")),
    ("is not known", lambda g: g.set("general.architecture", STRING, "a" * 100000)),
    # Tensors.
    ("0 dimensions", lambda g: g.tensor("blk.0.attn_q", n_dims=0)),
    ("5 dimensions", lambda g: g.tensor("blk.0.attn_q", n_dims=5)),
    ("4294967295 dimensions", lambda g: g.tensor("blk.0.attn_q", n_dims=2**32 - 1)),
    ("dimension 0 is 0", lambda g: g.tensor("blk.0.attn_q", ne=[0, 32], data=b"")),
    ("dimension 1 is 18446744073709551615", lambda g: g.tensor("blk.0.attn_q", ne=[32, HUGE], data=b"")),
    ("larger than any file", lambda g: g.tensor("blk.0.attn_q", ne=[1 << 32, 1 << 32], data=b"")),
    ("larger than any file", lambda g: g.tensor("blk.0.attn_q", ne=[1 << 16] * 4, data=b"")),
    ("larger than any file", lambda g: g.tensor("blk.0.attn_q", ne=[ALMOST, 3], data=b"")),
    ("attn_q.weight", lambda g: g.tensor("blk.0.attn_q", ne=[1 << 30, 1 << 20], data=b"")),
    ("larger than any file", lambda g: g.tensor("blk.0.attn_q", ne=[32, ALMOST], type=8, data=b"")),
    ("attn_q.weight is [32, 32, 2", lambda g: g.tensor("blk.0.attn_q", ne=[32, 32, 2])),
    ("blocks of 256", lambda g: g.tensor("blk.0.attn_q", type=12, data=bytes(144))),
    ("type 4 (unknown)", lambda g: g.tensor("blk.0.attn_q", type=4)),
    ("which is not read", lambda g: g.tensor("blk.0.attn_q", type=2**31)),
    ("is not that behind the tensor before", lambda g: g.tensor("blk.0.attn_q", type=2)),
    ("must be of a float type", lambda g: g.tensor("output_norm", type=8, data=bytes(34))),
    ("is not that behind the tensor before", lambda g: g.tensor("blk.0.attn_k", offset=0)),
    ("is not that behind the tensor before", lambda g: g.tensor("blk.0.attn_k", offset=2**64 - 32)),
    ("multiple of the alignment", lambda g: g.tensor("blk.0.attn_k", offset=1)),
    ("go beyond", lambda g: g.tensor("blk.0.ffn_down", data=b"")),
    ("two tensors are called blk.0.attn_k", lambda g: g.tensor("blk.0.attn_v", called="blk.0.attn_k.weight")),
    ("two tensors are called", lambda g: g.tensors.append(Tensor("output_norm.weight", (32,)))),
    ("a tensor's name", lambda g: g.tensor("blk.0.attn_v", called="")),
    ("a tensor's name", lambda g: g.tensor("blk.0.attn_v", called="a\0b")),
    ("a tensor's name", lambda g: g.tensor("blk.0.attn_v", called="n" * 100000)),
    ("has no place", lambda g: g.tensors.append(Tensor("blk.18446744073709551616.x", (32,)))),
    ("has no place", lambda g: g.tensors.extend(Tensor("t%d" % i, (1,)) for i in range(5000))),
    # Vocabularies.
    ("there are 300 tokens", lambda g: g.set("tokenizer.ggml.scores", ARRAY, (F32, [0.0]))),
    ("not a finite number", lambda g: g.set("tokenizer.ggml.scores", ARRAY, (F32, [float("nan")] * N_VOCAB))),
    ("unknown type", lambda g: g.set("tokenizer.ggml.token_type", ARRAY, (I32, [-1] * N_VOCAB))),
    ("byte token", lambda g: g.set("tokenizer.ggml.token_type", ARRAY, (I32, [6] * N_VOCAB))),
    ("has no word pieces", lambda g: g.set("tokenizer.ggml.token_type", ARRAY, (I32, [3] * N_VOCAB))),
    ("are both", lambda g: with_pieces(["same", "same"], 1)),
    ("bos_token_id is", lambda g: g.set("tokenizer.ggml.bos_token_id", U32, N_VOCAB)),
    ("eos_token_id", lambda g: g.set("tokenizer.ggml.eos_token_id", STRING, "x")),
    ("\"bert\"", lambda g: g.set("tokenizer.ggml.model", STRING, "bert")),
    ("at most 2048", lambda g: with_pieces(["a" * 5000000], 1)),
    ("at most 256", lambda g: with_pieces(["a" * 300], 4)),
    ("zero byte", lambda g: with_pieces(["a\0b"], 1)),
    ("is missing", lambda g: Gguf("gpt2").drop("tokenizer.ggml.merges")),
    ("two pieces", lambda g: with_tokens([], ["a b c"])),
    ("not in the vocabulary", lambda g: with_tokens([], ["a b"])),
    ("not in the vocabulary", lambda g: with_tokens([], ["a " + "b" * 10000000])),
    # Bombs.
    (None, lambda g: with_pieces(["a" * i for i in range(1, 2000)], 5)),
    (None, lambda g: with_pieces(["%06d" % i + "x" * 2000 for i in range(3000)], 1)),
    (None, lambda g: with_pieces(["x" * 2000 + "%06d" % i for i in range(3000)], 1)),
    (None, lambda g: with_pieces(["u%d" % i for i in range(60000)], 4)),
    (None, lambda g: with_tokens(["<|x%d|>" % i for i in range(60000)], types=3)),
    (None, lambda g: with_tokens(["a" * i for i in range(2, 3000)], ["a " + "a" * i for i in range(1, 2999)])),
    (None, lambda g: with_tokens(["a" * 1000000])),
    (None, lambda g: merge_grid(1)),
    (None, lambda g: merge_grid(256)),
    (None, lambda g: with_tokens(["ab"], ["a b"] * 1000000)),
    ("metadata_items", lambda g: with_tokens(["ab"], ["a b"] * 1100000)),
    (None, lambda g: g.set("tokenizer.chat_template", STRING, "{% if a %}" * 300000)),
    (None, lambda g: g.set("tokenizer.chat_template", STRING, "{{" + "(" * 3000000)),
    # Holes: the file is a terabyte long and takes some kilobytes.
    ("bytes follow", lambda g: Cut(1, SPARSE)),
    ("", lambda g: Cut(0.5, SPARSE)),
    ("metadata_bytes", lambda g: hole("x", array(STRING, 1 << 34))),
    ("metadata_bytes", lambda g: hole("tokenizer.ggml.tokens", array(STRING, 1 << 34))),
    ("metadata_bytes", lambda g: hole("tokenizer.ggml.tokens", array(STRING, N_VOCAB, struct.pack("<Q", 1 << 38)))),
    ("bytes follow", lambda g: hole("tokenizer.ggml.scores", array(F32, 1 << 36))),
    ("bytes follow", lambda g: hole("tokenizer.chat_template", text(1 << 38))),
]


def config(**changes):
    return lambda f: f.config.update(changes)


def tokenizer(**changes):
    return lambda f: f.tokenizer.update(changes)


def header(**changes):
    return lambda f: f.header.update(changes)


def in_index(content):
    return lambda f: f.file("model.safetensors", None).file("model.safetensors.index.json", content)


def shards(names):
    return in_index({"weight_map": {"t%d" % i: name for i, name in enumerate(names)}})


def twice(f):
    f.file("a.safetensors", f.shard()).file("b.safetensors", f.shard())
    return shards(["a.safetensors", "b.safetensors"])(f)


def many_shards(f):
    names = ["s%d.safetensors" % i for i in range(500)]
    for name in names[1:]:
        f.file(name, struct.pack("<Q", 2) + b"{}")
    f.file(names[0], f.shard())
    return shards(names)(f)


def merges(n, merge):
    def change(f):
        f.tokenizer["model"]["vocab"]["ab"] = f.tokenizer["added_tokens"].pop()["id"]
        f.tokenizer["model"]["merges"] = [merge] * n
    return change


def sparse(name, start=b""):
    def change(f):
        if name not in f.files and name != "model.safetensors":
            f.file(name, start)
        f.sparse[name] = SPARSE
    return change


FOLDER = [
    (None, lambda f: f),
    # config.json and the other texts.
    ("config.json", lambda f: f.file("config.json", "")),
    ("config.json", lambda f: f.file("config.json", "[]")),
    ("nested too deeply", lambda f: f.file("config.json", '{"a":' + "[" * 100000)),
    ("metadata_bytes", lambda f: f.file("config.json", '{"a":' + "[" * 4000000)),
    ("metadata_bytes", lambda f: f.file("config.json", '{"a":[' + "1," * 9000000 + "1]}")),
    (None, lambda f: f.file("generation_config.json", '{"a":"' + "x" * 20000000 + '"}')),
    (None, lambda f: f.file("generation_config.json", '{"a":' + '{"a":' * 2000 + "1" + "}" * 2001)),
    (None, lambda f: f.file("generation_config.json",
                            "{" + ",".join('"k%d":1' % i for i in range(200000)) + "}")),
    (None, lambda f: f.file("generation_config.json", '{"a":1,"a":2,"b\\u0000":"\\u0000"}')),
    (None, lambda f: f.file("generation_config.json", '{"a":' + "9" * 5000000 + "}")),
    (None, lambda f: f.file("generation_config.json", '{"a":1e99999}')),
    ("top_p", lambda f: f.file("generation_config.json", '{"top_p":1e99999}')),
    (None, lambda f: f.file("generation_config.json", '{"top_p":0,"temperature":-5,"top_k":1e300}')),
    ("is not a number", lambda f: f.file("generation_config.json", '{"top_p":"x"}')),
    ("eos_token_id", lambda f: f.file("generation_config.json", '{"eos_token_id":99999999999}')),
    ("config.json", lambda f: f.file("config.json", b"\xff\xfe{")),
    ("num_hidden_layers", config(num_hidden_layers=2**63 - 1)),
    ("num_hidden_layers", config(num_hidden_layers=0)),
    ("is missing", config(num_hidden_layers=2**31 - 1)),
    ("hidden_size", config(hidden_size="32")),
    ("num_attention_heads", config(num_attention_heads=-1)),
    ("vocab_size", config(vocab_size=N_VOCAB + 1)),
    ("rope_scaling", config(rope_scaling=[])),
    ("", config(rope_scaling={"rope_type": "llama3", "factor": 0})),
    ("NotOne", config(architectures=["NotOne"])),
    # The container.
    ("", lambda f: f.claim(header_bytes=HUGE)),
    ("", lambda f: f.claim(header_bytes=100 << 20)),
    ("are allowed", lambda f: f.claim(header_bytes=(100 << 20) + 1)),
    ("model.safetensors", lambda f: f.claim(header_bytes=0)),
    ("model.safetensors", lambda f: f.file("model.safetensors", b"")),
    ("model.safetensors", lambda f: f.file("model.safetensors", b"\x02")),
    (None, lambda f: f.claim(header_text=json.dumps(f.header).encode() + b" " * 20000000)),
    ("metadata_bytes", lambda f: f.claim(header_text=b"{" + b",".join(b'"t%d":{}' % i for i in range(700000)) + b"}")),
    ("__metadata__", header(__metadata__={"format": 1})),
    ("__metadata__", header(__metadata__=[])),
    (None, lambda f: f.header.update({"%d.rotary_emb.inv_freq" % i: {"data_offsets": [0, 0]} for i in range(50000)})),
    ("overlap", lambda f: f.header.update({"x.rotary_emb.inv_freq": {"data_offsets": [4, 8]}})),
    ("rising numbers", lambda f: f.tensor("model.norm", data_offsets=[-1, 127])),
    ("rising numbers", lambda f: f.tensor("model.norm", data_offsets=[128, 0])),
    ("rising numbers", lambda f: f.tensor("model.norm", data_offsets=[0])),
    ("rising numbers", lambda f: f.tensor("model.norm", data_offsets=["0", "128"])),
    ("ends at byte", lambda f: f.tensor("model.norm", data_offsets=[0, 2**63 - 1])),
    ("data_offsets", lambda f: f.tensor("model.norm", data_offsets=[0, 2**64])),
    ("shape", lambda f: f.tensor("model.norm", shape=[])),
    ("shape", lambda f: f.tensor("model.norm", shape=[0])),
    ("shape", lambda f: f.tensor("model.norm", shape=[-32])),
    ("shape", lambda f: f.tensor("model.norm", shape=[2**62, 2**62])),
    ("shape", lambda f: f.tensor("model.norm", shape=[1] * 100)),
    ("data_offsets span", lambda f: f.tensor("model.norm", dtype="F16")),
    ("F8_E4M3", lambda f: f.tensor("model.norm", dtype="F8_E4M3")),
    ("bytes follow", lambda f: f.data.append(bytes(8))),
    ("ends at byte", lambda f: f.data.pop()),
    ("is not one that", lambda f: f.header.update({"model.layers.99999999999999999999.mlp.up_proj.weight":
                                                   {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})),
    # Shards.
    ("weight_map", in_index({})),
    ("weight_map", in_index({"weight_map": {}})),
    ("weight_map", in_index({"weight_map": [1, 2]})),
    ("index.json", in_index("{")),
    ("same folder", shards(["../model.safetensors"])),
    ("same folder", shards(["/etc/passwd.safetensors"])),
    ("same folder", shards(["model.safetensors.index.json"])),
    ("same folder", shards(["a/../b.safetensors"])),
    ("same folder", in_index({"weight_map": {"a": 5}})),
    ("cannot open", shards(["model-%05d-of-99999.safetensors" % i for i in range(50000)])),
    ("two tensors", twice),
    (None, many_shards),
    # Tokenizers.
    ("tokenizer.json", lambda f: f.file("tokenizer.json", "{}")),
    ("holds neither", lambda f: f.file("tokenizer.json", None)),
    ("WordPiece", tokenizer(model={"type": "WordPiece"})),
    ("normalizer", tokenizer(normalizer={"type": "NFKC"})),
    ("pre-tokenizer", tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"},
        {"type": "ByteLevel", "use_regex": False}]})),
    ("has the id", lambda f: f.tokenizer["model"]["vocab"].update(zz=2**63 - 1)),
    ("has the id", lambda f: f.tokenizer["model"]["vocab"].update(zz=-1)),
    ("both have the id", lambda f: f.tokenizer["model"]["vocab"].update(zz=0)),
    ("has the id", lambda f: f.tokenizer["model"]["vocab"].update(zz="1")),
    ("no content", tokenizer(added_tokens=[{"id": 256}])),
    (None, lambda f: f.tokenizer["added_tokens"].extend([{"id": N_VOCAB - 1,
                                                          "content": "<|%d|>" % (N_VOCAB - 1)}] * 100000)),
    ("two pieces", merges(1, "ab")),
    ("two pieces", merges(1, ["a"])),
    (None, merges(300000, "a b")),
    ("metadata_", merges(1100000, "a b")),
    # Holes.
    ("metadata_bytes", sparse("config.json")),
    ("metadata_bytes", sparse("tokenizer.json")),
    ("metadata_bytes", sparse("generation_config.json")),
    ("metadata_bytes", sparse("tokenizer_config.json")),
    ("metadata_bytes", sparse("chat_template.json")),
    ("metadata_bytes", sparse("chat_template.jinja")),
    ("bytes follow", sparse("model.safetensors")),
    ("metadata_bytes", lambda f: (f.tokenizer.update(pre_tokenizer=None), sparse("tokenizer.model")(f))),
]


class Bounded(Case):
    """Runs of the program within bounds of time and, without instruments, of memory."""

    def bounded(self, arguments, size, stdin=b""):
        def limit():
            seconds = CPU_SECONDS * (10 if INSTRUMENTED else 1)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen([RIFFLE, *arguments], stdin=given, stdout=out, stderr=err, env=self.env,
                                       cwd=self.folder, preexec_fn=limit)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read().decode(), err.read().decode()
        self.assertNotEqual(process.returncode, -signal.SIGXCPU, "it takes more than %d seconds" % CPU_SECONDS)
        self.assertIn(process.returncode, [0, 1], self.err)
        most = 3 * size + 256 * MIB
        if not INSTRUMENTED:
            self.assertLessEqual(used.ru_maxrss * 1024, most, "memory: more than 3 times the file's and 256 MiB")
        return process.returncode

    def refused_with(self, says):
        self.assertEqual(self.out, "")
        self.assertRegex(self.err, r"\Ariffle: [^\n]*\n\Z")
        self.assertIn(says, self.err)

    def written(self, make, model):
        """Writes a model in a process of its own, whose memory does not count: (path, bytes on the disk)."""
        folder = tempfile.mkdtemp(dir=self.folder)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                made = model()
                changed = make(made)
                (changed if hasattr(changed, "write") else made).write(folder)
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0, "the case itself fails")
        files = [os.path.join(folder, name) for name in os.listdir(folder)]
        path = os.path.join(folder, "model.gguf")
        return path if path in files else folder, sum(os.stat(file).st_blocks * 512 for file in files)

    def each(self, cases, model):
        for number, (says, make) in enumerate(cases):
            with self.subTest(number=number, says=says):
                path, size = self.written(make, model)
                if self.bounded(["info", path], size):
                    self.assertIsNotNone(says, self.err)
                    self.refused_with(says)
                    self.assertIn(os.path.basename(path), self.err)
                else:
                    self.assertIsNone(says, "it is accepted")
                    self.assertEqual(self.bounded(["tokenize", path, "-p", "hello <|256|> aaaa " * 50], size), 0)
                shutil.rmtree(path if os.path.isdir(path) else os.path.dirname(path))


class Models(Bounded):
    def test_the_models_work(self):
        for model in [Gguf, lambda: Gguf("gpt2"), Folder]:
            path, size = self.written(lambda made: made, model)
            self.assertEqual(self.bounded(["run", path, "--raw", "-p", "ab", "--max-tokens", "3"], size), 0, self.err)

    def test_gemma4_vocabulary(self):
        """Merges go by their place in the list; other text is bytes; BOS comes first though the file denies it."""
        pieces, types = spm_vocabulary()
        pieces[260:263] = ["a", "\u2581a", "\u2581\u2581"]
        made = Gguf("gemma4").vocabulary(pieces, types, ["\u2581 a", "\u2581 \u2581"])
        made.set("tokenizer.ggml.bos_token_id", U32, 1).set("tokenizer.ggml.add_bos_token", BOOL, False)
        path, _ = self.written(lambda _: made, Gguf)
        for text, tokens in [("a a  a", [260, 261, 259, 261]), ("   b", [262, 259, 101]), ("\n", [13])]:
            self.assertEqual(self.json("tokenize", path, "-p", text)["tokens"], [1, *tokens])

    def test_gguf(self):
        self.each(GGUF, Gguf)

    def test_folders(self):
        self.each(FOLDER, Folder)


CONVERSATIONS = [
    ("is not JSON", "[" * 5000000),
    ("zero byte", '[{"role":"user","content":"\\u0000"}]'),
    ("is not JSON", b'[{"role":"user","content":"\xff\xfe"}]'),
    ("is not JSON", ""),
    ("has no array", "{}"),
    ("needs", "[1,2]"),
    ("needs", '[{"role":"user"}]'),
    ("has the role", '[{"role":"' + "x" * 1000000 + '","content":""}]'),
    ("can only be the first", '[{"role":"user","content":"a"},{"role":"system","content":"b"}]'),
    ("more than", None),  # a hole of a terabyte
]

GRAMMARS = [
    ("nested too deeply", "root ::= " + "(" * 100000),
    ("no closing", 'root ::= "' + "a" * 1000000),
    ("left recursion", 'root ::= root "a" | "a"'),
    ("no text that ends", 'root ::= "a" r0\nr0 ::= "b" root'),
    ("at most", "root ::= r0\n" + "".join('r%d ::= "a" r%d\n' % (i, i + 1) for i in range(20000)) + 'r20000 ::= "b"'),
    ("too ambiguous", "root ::= r0\n" + "".join('r%d ::= r%d "x" | r%d "y"\n' % (i, i + 1, i + 1) for i in range(60))
     + 'r60 ::= "b"'),
    ("ranges", "root ::= [" + "".join("\\U%08X" % (4096 + 2 * i) for i in range(60000)) + "]"),
    ("nested too deeply", '{"type":"array","items":' * 3000),
    ("refers to itself", '{"$ref":"#"}'),
    ("back to themselves", '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}'),
    ("too large", '{"type":"array","items":{"type":"integer"},"minItems":1000000000}'),
    ("too large", '{"type":"string","minLength":5000,"maxLength":100000}'),
    ("too many schemas", '{"$defs":{' + ",".join('"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}'
                                                 % (i, i + 1, i + 1) for i in range(40))
     + ',"a40":{"type":"null"}},"$ref":"#/$defs/a0"}'),
    (None, 'root ::= "' + "a" * 1000000 + '"'),
    (None, 'root ::= ("a"? "a"? "a"?){1000} "b"'),
    (None, 'root ::= (("a"*)*)*'),
    (None, json.dumps({"enum": ["x%d" % i for i in range(20000)]})),
    (None, json.dumps({"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"})),
]

PACES = [b"", b"\0" * 100000, b"riffle pace 2\n" + b'"' * 60000, b"riffle pace 2\n" + b'"ngram" ' + b"9" * 10000,
         b'riffle pace 2\n"ngram" nan 1 inf 2\n"target" 1e-999 -1\n', b"riffle pace 2\n" + b"\n" * 20000,
         b'riffle pace 2\n"target"' + b" 1e-300 4294967296" * 64 + b" 1e5 1e5\n", b"\xff" * 5000, None]


class Texts(Bounded):
    def size(self, path):
        return os.stat(path).st_blocks * 512 + os.path.getsize(MODEL)

    def test_conversations(self):
        for number, (says, content) in enumerate(CONVERSATIONS):
            with self.subTest(number=number, says=says):
                path = self.path("talk.json", b"" if content is None else content)
                if content is None:
                    os.truncate(path, SPARSE)
                load = ["chat", MODEL, "--template", "chatml", "--ctx", "64", "--max-tokens", "1"]
                self.assertEqual(self.bounded(load, self.size(path), b"/load talk.json\n"), 1)
                self.refused_with(says)

    def test_grammars(self):
        for number, (says, content) in enumerate(GRAMMARS):
            with self.subTest(number=number, says=says):
                path = self.path("grammar", content)
                option = "--json-schema" if content.startswith("{") else "--grammar"
                run = ["run", MODEL, "--raw", "-p", "a", "--max-tokens", "3", option, path]
                status = self.bounded(run, self.size(path))
                self.assertEqual(status, 0 if says is None else 1, self.err)
                if says is not None:
                    self.refused_with(says)

    def test_pace_files(self):
        """What was measured before is never trusted: whatever the files say, the answer is the same."""
        run = ["run", MODEL, "--raw", "-p", "Once upon a time", "--max-tokens", "40", "--chain", "ngram"]
        self.assertEqual(self.bounded(run, self.size(MODEL)), 0)
        expected = self.out
        cache = os.path.join(self.folder, ".cache", "riffle")
        names = sorted(os.listdir(cache)) if os.path.isdir(cache) else []
        self.assertTrue(names)
        for number, content in enumerate(PACES):
            with self.subTest(number=number):
                for name in names:
                    with open(os.path.join(cache, name), "wb") as file:
                        file.write(content or b"riffle pace 2\n")
                        file.truncate(SPARSE if content is None else len(content))
                self.assertEqual(self.bounded(run, self.size(MODEL)), 0, self.err)
                self.assertEqual(self.out, expected)


if __name__ == "__main__":
    main()
