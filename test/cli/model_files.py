"""Writers of small model files of which every part can be made wrong. They follow the formats' descriptions:
docs/gguf.md of ggml, README of safetensors."""

import functools
import json
import os
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q",
        F64: "<d"}

# Name in GGUF, name in safetensors, dimensions as in GGUF.
TENSORS = [("token_embd", "model.embed_tokens", (32, 300)), ("output_norm", "model.norm", (32,)),
           ("blk.0.attn_norm", "model.layers.0.input_layernorm", (32,)),
           ("blk.0.attn_q", "model.layers.0.self_attn.q_proj", (32, 32)),
           ("blk.0.attn_k", "model.layers.0.self_attn.k_proj", (32, 16)),
           ("blk.0.attn_v", "model.layers.0.self_attn.v_proj", (32, 16)),
           ("blk.0.attn_output", "model.layers.0.self_attn.o_proj", (32, 32)),
           ("blk.0.ffn_norm", "model.layers.0.post_attention_layernorm", (32,)),
           ("blk.0.ffn_gate", "model.layers.0.mlp.gate_proj", (32, 64)),
           ("blk.0.ffn_up", "model.layers.0.mlp.up_proj", (32, 64)),
           ("blk.0.ffn_down", "model.layers.0.mlp.down_proj", (64, 32))]
N_VOCAB = TENSORS[0][2][1]


@functools.cache
def weights(n):
    """n numbers that are not all the same, as F32."""
    return struct.pack("<%df" % n, *[((i * 2654435761 >> 7) % 201 - 100) / 100 for i in range(n)])


def byte_letters():
    """The 256 letters by which byte-level BPE spells the bytes, as in GPT-2."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    return [chr(b) for b in plain] + [chr(0x100 + i) for i in range(256 - len(plain))]


def spm_vocabulary():
    pieces = ["<unk>", "<s>", "</s>", *["<0x%02X>" % b for b in range(256)], "\u2581"]
    types = [2, 3, 3, *[6] * 256, 1]
    while len(pieces) < N_VOCAB:
        pieces.append("w%d" % len(pieces))
        types.append(1)
    return pieces, types


def bpe_vocabulary(n=N_VOCAB):
    tokens = byte_letters()
    return tokens + ["<|%d|>" % i for i in range(len(tokens), n)]


def gguf_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind != ARRAY:
        return struct.pack(PACK[kind], value)
    element, values = value
    count = struct.pack("<IQ", element, len(values))
    if element in PACK:
        return count + struct.pack("<%d%s" % (len(values), PACK[element][1]), *values)
    return count + b"".join(gguf_value(element, v) for v in values)


class Tensor:
    def __init__(self, name, ne):
        self.name, self.ne, self.type, self.offset, self.n_dims = name, list(ne), 0, None, None
        self.data = None  # None: weights

    def bytes(self):
        n = 1
        for size in self.ne:
            n *= size
        return weights(n) if self.data is None else self.data


class Gguf:
    """A Llama of one layer with a sentencepiece vocabulary, or with a byte-level BPE."""

    def __init__(self, vocabulary="llama"):
        self.magic, self.version, self.alignment, self.trailing = b"GGUF", 3, 32, b""
        self.extra_tensors = self.extra_values = 0  # claimed, but not there
        self.values = []                            # (key, encoded type and value)
        self.tensors = [Tensor(name + ".weight", ne) for name, _, ne in TENSORS]
        self.set("general.architecture", STRING, "llama")
        for key, value in [("block_count", 1), ("context_length", 64), ("embedding_length", 32),
                           ("feed_forward_length", 64), ("attention.head_count", 2),
                           ("attention.head_count_kv", 1), ("rope.dimension_count", 16)]:
            self.set("llama." + key, U32, value)
        self.set("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)
        self.set("tokenizer.ggml.model", STRING, vocabulary)
        if vocabulary == "llama":
            pieces, types = spm_vocabulary()
            self.set("tokenizer.ggml.scores", ARRAY, (F32, [-float(i) for i in range(N_VOCAB)]))
            self.set("tokenizer.ggml.token_type", ARRAY, (I32, types))
            self.set("tokenizer.ggml.tokens", ARRAY, (STRING, pieces))
        else:
            self.set("tokenizer.ggml.pre", STRING, "gpt-2")
            self.set("tokenizer.ggml.tokens", ARRAY, (STRING, bpe_vocabulary()))
            self.set("tokenizer.ggml.merges", ARRAY, (STRING, []))

    def raw(self, key, data):
        """Sets a key to the bytes of a type and a value, which need not be right."""
        self.values = [v for v in self.values if v[0] != key] + [(key, data)]
        return self

    def set(self, key, kind, value):
        return self.raw(key, struct.pack("<I", kind) + gguf_value(kind, value))

    def again(self, key, kind, value):
        self.values.append((key, struct.pack("<I", kind) + gguf_value(kind, value)))
        return self

    def drop(self, key):
        self.values = [v for v in self.values if v[0] != key]
        return self

    def tensor(self, name, called=None, **changes):
        found = next(t for t in self.tensors if t.name == name + ".weight")
        vars(found).update(changes)
        found.name = found.name if called is None else called
        return self

    def claim(self, **changes):
        vars(self).update(changes)
        return self

    def vocabulary(self, tokens, types=None, merges=None):
        """Other tokens, and an embedding with a row for each."""
        self.set("tokenizer.ggml.tokens", ARRAY, (STRING, tokens))
        if types:
            self.set("tokenizer.ggml.token_type", ARRAY, (I32, types))
            self.set("tokenizer.ggml.scores", ARRAY, (F32, [-float(i) for i in range(len(tokens))]))
        if merges is not None:
            self.set("tokenizer.ggml.merges", ARRAY, (STRING, merges))
        n = 32 * len(tokens)
        return self.tensor("token_embd", ne=[32, len(tokens)], type=1, data=b"\0\x3c" * n)

    def parts(self):
        header = [self.magic, struct.pack("<IQQ", self.version, len(self.tensors) + self.extra_tensors,
                                          len(self.values) + self.extra_values)]
        header += [gguf_string(key) + data for key, data in self.values]
        data, at = [], 0
        for tensor in self.tensors:
            content = tensor.bytes()
            content += bytes(-len(content) % self.alignment)
            header.append(gguf_string(tensor.name) +
                          struct.pack("<I", len(tensor.ne) if tensor.n_dims is None else tensor.n_dims) +
                          struct.pack("<%dQ" % len(tensor.ne), *[n % 2**64 for n in tensor.ne]) +
                          struct.pack("<IQ", tensor.type, at if tensor.offset is None else tensor.offset))
            data.append(content)
            at += len(content)
        header = b"".join(header)
        return [header, bytes(-len(header) % self.alignment), *data, self.trailing]

    def write(self, folder):
        path = os.path.join(folder, "model.gguf")
        with open(path, "wb") as file:
            file.writelines(self.parts())
        return path


class Folder:
    """The same model as a Hugging Face folder with a byte-level BPE. A file is a text, bytes, or a JSON value."""

    def __init__(self):
        self.config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
                       "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                       "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                       "tie_word_embeddings": True, "vocab_size": N_VOCAB}
        tokens = byte_letters()
        self.tokenizer = {"added_tokens": [{"id": i, "content": "<|%d|>" % i, "special": True}
                                           for i in range(len(tokens), N_VOCAB)],
                          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                          "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                                    "merges": []}}
        self.header, self.data = {}, []
        at = 0
        for _, name, ne in TENSORS:
            content = weights(ne[0] * (ne[1] if len(ne) > 1 else 1))
            self.header[name + ".weight"] = {"dtype": "F32", "shape": list(reversed(ne)),
                                             "data_offsets": [at, at + len(content)]}
            self.data.append(content)
            at += len(content)
        self.files = {"config.json": self.config, "tokenizer.json": self.tokenizer}
        self.header_text = self.header_bytes = None  # instead of what they are
        self.sparse = {}                             # file: size that it is extended to

    def file(self, name, content):
        self.files[name] = content
        return self

    def claim(self, **changes):
        vars(self).update(changes)
        return self

    def tensor(self, name, **changes):
        self.header[name + ".weight"].update(changes)
        return self

    def shard(self):
        header = self.header_text
        if header is None:
            header = json.dumps(self.header).encode()
        n = len(header) if self.header_bytes is None else self.header_bytes
        return b"".join([struct.pack("<Q", n), header, *self.data])

    def write(self, folder):
        files = dict(self.files)
        files.setdefault("model.safetensors", self.shard())
        for name, content in files.items():
            if content is None:
                continue
            if isinstance(content, (dict, list)):
                content = json.dumps(content)
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        for name, size in self.sparse.items():
            with open(os.path.join(folder, name), "ab") as file:
                file.truncate(size)
        return folder


def skip_value(data, at, kind):
    """The place behind a value of a GGUF file."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + struct.calcsize(PACK[kind])
    element, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = skip_value(data, at, element)
    return at


def split_gguf(data, counts, changes=None, n_tensors=None):
    """Cuts a GGUF file into parts as llama.cpp's gguf-split does: the first has the metadata, and part i has
    counts[i] tensors. `changes` maps a part to other keys for it; `n_tensors` is what the first says of all."""
    _, version, n_all, n_values = struct.unpack_from("<IIQQ", data)
    assert sum(counts) == n_all
    at = 24
    for _ in range(n_values):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at = skip_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    values, infos = data[24:at], []
    for _ in range(n_all):
        begin = at
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        infos.append((data[begin:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    at += -at % 32
    ends = [offset for _, offset in infos[1:]] + [len(data) - at]
    parts, first = [], 0
    for no, count in enumerate(counts):
        keys = {"split.no": (4, no), "split.count": (4, len(counts)),
                "split.tensors.count": (5, n_all if n_tensors is None else n_tensors), **(changes or {}).get(no, {})}
        header = b"".join(gguf_string(key) + struct.pack("<I", {4: 2}.get(kind, kind)) +
                          struct.pack({4: "<H", 5: "<i"}[kind], value) for key, (kind, value) in keys.items())
        n_keys, begin = len(keys), infos[first][1] if first < n_all else 0
        if no == 0:
            header, n_keys = values + header, n_keys + n_values
        for info, offset in infos[first:first + count]:
            header += info + struct.pack("<Q", offset - begin)
        header = b"GGUF" + struct.pack("<IQQ", version, count, n_keys) + header
        end = ends[first + count - 1] if count else begin
        parts.append(header + bytes(-len(header) % 32) + data[at + begin:at + end])
        first += count
    return parts
