#!/usr/bin/env python3
"""Golden logits: a forward pass in numpy over the gguf package, independent of Riffle's own code.

    pip install numpy gguf
    scripts/oracle.py stories260K test/data/stories260K.gguf > test/data/golden/stories260K.txt
    scripts/oracle.py smollm2-135m FILE.gguf > test/data/golden/smollm2-135m.txt

It rounds where the engine rounds: embeddings and the weights of linear layers to BF16, the input rows of linear layers
to BF16, keys and values to F16; all else is F32 or better. For each prompt below it prints, of the last position,
the 64 largest logits and those of 256 ids spread over the vocabulary, and then the ids that greedy decoding appends,
each with its lead over the next best: a test can insist on an id only while the leads are clear.
SmolLM2-135M takes 0.8 GiB and twenty seconds.
"""
import hashlib
import sys

import gguf
import numpy as np

# Ids, so that the golden logits do not depend on a tokenizer; beside each prompt, its text.
PROMPTS = {
    "stories260K": [
        ("<s> Once upon a time", [1, 403, 407, 261, 378]),
        ("<s> Lily and Tom went to the park. They saw a big red ball and",
         [1, 317, 269, 274, 287, 263, 377, 267, 265, 282, 295, 433, 426, 342, 394, 261, 370, 352, 266, 268, 388, 269]),
    ],
    "smollm2-135m": [
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("def fibonacci(n):\n    ", [1604, 3987, 46477, 24, 94, 727, 2367]),
        ("In 1969, 3 astronauts flew to the Moon. Their names were",
         [788, 216, 33, 41, 38, 41, 28, 216, 35, 17885, 18927, 288, 260, 8872, 30, 3855, 3834, 592]),
        ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
         "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
         [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2,
          198, 1, 4093, 198, 1780, 314, 9354, 47, 2, 198, 1, 520, 9531, 198]),
    ],
}
N_TOP, N_SPREAD, N_GREEDY = 64, 256, 16


def to_bf16(x):
    """F32 values rounded to the nearest BF16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)).view(np.float32)


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        self.arch = reader.fields["general.architecture"].contents()
        assert self.arch == "llama", f"{path}: the oracle computes llama models, not {self.arch}"

        def get(key, default=None):
            field = reader.fields.get(f"{self.arch}.{key}")
            return field.contents() if field else default

        self.n_layer = get("block_count")
        self.n_head = get("attention.head_count")
        self.n_head_kv = get("attention.head_count_kv", self.n_head)
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.theta = get("rope.freq_base", 10000.0)
        self.head_dim = get("embedding_length") // self.n_head
        self.embedding = self.matrix("token_embd.weight")
        self.output = self.matrix("output.weight") if "output.weight" in self.tensors else self.embedding
        self.output_norm = self.vector("output_norm.weight")
        names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        self.layers = [{n: self.matrix(f"blk.{i}.{n}.weight") for n in names}
                       | {n: self.vector(f"blk.{i}.{n}.weight") for n in ("attn_norm", "ffn_norm")}
                       for i in range(self.n_layer)]
        self.keys = [[] for _ in range(self.n_layer)]
        self.values = [[] for _ in range(self.n_layer)]
        self.hidden = [None] * self.n_layer  # of the last call, [n][width]: the residual stream after each layer

    def vector(self, name):
        tensor = self.tensors[name]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def matrix(self, name):
        return to_bf16(self.vector(name))

    def norm(self, x, gamma):
        x = x.astype(np.float64)
        return (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * gamma).astype(np.float32)

    def rope(self, heads, positions):
        """heads [n][n_head][head_dim]: pair (2i, 2i+1) turns by position / theta^(2i / head_dim)."""
        angles = positions[:, None] * self.theta ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
        a, b = heads[..., 0::2], heads[..., 1::2]
        turned = np.empty_like(heads)
        turned[..., 0::2], turned[..., 1::2] = a * cos - b * sin, a * sin + b * cos
        return turned

    def attention(self, q, keys, values, positions):
        """q [n][n_head][head_dim]; keys, values [n_past + n][n_head_kv][head_dim]."""
        group = self.n_head // self.n_head_kv
        keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, keys) / np.sqrt(self.head_dim)
        scores[:, np.arange(keys.shape[0])[None, :] > positions[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.einsum("hqk,khd->qhd", weights, values)

    def forward(self, tokens, n_past):
        """Logits of the last of `tokens`, which go to positions n_past and on."""
        positions = np.arange(n_past, n_past + len(tokens))
        x = self.embedding[tokens]
        for i, layer in enumerate(self.layers):
            h = to_bf16(self.norm(x, layer["attn_norm"]))
            q, k, v = (linear(h, layer[n]).reshape(len(tokens), -1, self.head_dim)
                       for n in ("attn_q", "attn_k", "attn_v"))
            self.keys[i] = self.keys[i][:n_past] + list(self.rope(k, positions).astype(np.float16))
            self.values[i] = self.values[i][:n_past] + list(v.astype(np.float16))
            heads = self.attention(self.rope(q, positions).astype(np.float64), np.array(self.keys[i], np.float64),
                                   np.array(self.values[i], np.float64), positions)
            x = x + linear(to_bf16(heads.reshape(len(tokens), -1)), layer["attn_output"])
            h = to_bf16(self.norm(x, layer["ffn_norm"]))
            gate = linear(h, layer["ffn_gate"])
            x = x + linear(to_bf16(gate / (1 + np.exp(-gate)) * linear(h, layer["ffn_up"])), layer["ffn_down"])
            self.hidden[i] = x
        return linear(to_bf16(self.norm(x[-1:], self.output_norm)), self.output)[0]


def linear(x, w):
    return x @ w.T


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in PROMPTS:
        sys.exit(f"usage: oracle.py {'|'.join(PROMPTS)} FILE.gguf")
    name, path = sys.argv[1:]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    model = Model(path)
    print(f"# Made by scripts/oracle.py {name} from the file with sha256")
    print(f"# {digest}")
    for text, ids in PROMPTS[name]:
        logits = model.forward(ids, 0)
        top = np.argsort(-logits, kind="stable")[:N_TOP]
        spread = np.arange(N_SPREAD) * len(logits) // N_SPREAD
        print(f"# {text!r}")
        print("prompt", len(ids), *ids)
        for word, some in (("top", top), ("spread", spread)):
            print(word, len(some))
            for id in some:
                print(id, f"{logits[id]:.5f}")
        print("greedy", N_GREEDY)
        for n_past in range(len(ids), len(ids) + N_GREEDY):
            first, second = np.argsort(-logits, kind="stable")[:2]
            print(first, f"{logits[first] - logits[second]:.5f}")
            logits = model.forward([int(first)], n_past)


if __name__ == "__main__":
    main()
