#!/usr/bin/env python3
"""Small random draft heads for test/data/stories260K.gguf, and what they draft.

    pip install numpy gguf
    scripts/make_head_fixtures.py test/data

writes into test/data/heads, for each head below, the same weights as a GGUF file with the names, keys and permutations
of llama.cpp's converter, as a folder in the layout of EAGLE's repository and as one in that of `speculators`; quantised
heads have a GGUF file alone, and `chosen` uses rows of its target, as training writes it. drafts.json has the lines that
they draft.

The pass below is EAGLE-3's (Li et al., 2025) over oracle.py's target, with the engine's roundings: the input rows of
linear layers to BF16, keys and values to F16. Weights are exact in BF16 or those of the quantised file. A line begins after the `position` + 1 first
tokens of the text: row `position` - 1 of the head has the target's hidden states of that position and the text's token
after it, and answers with the first draft; each later row has the stream of the row before it and the last draft.
Among all positions those are kept whose closest choice is the clearest.
"""
import json
import os
import sys

import gguf
import numpy as np

import oracle
from oracle import linear, to_bf16

N_TEXT, N_LINES, N_DRAFTS, EPS, THETA = 160, 20, 5, 1e-5, 10000.0
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}

# width, heads, heads for keys and values, elements of a head, feed-forward; `layers`: of the target, whose inputs are
# read; `rows`: of the head's own output; `chosen`: how many of the target's; `types`: of matrices that are not BF16, or
# of all others; `seed`: one whose lines differ from each other.
HEADS = {
    "plain": dict(n=64, n_head=2, n_head_kv=1, dim=16, n_ff=32, layers=[1, 3, 4], rows=128),
    "normed": dict(n=32, n_head=4, n_head_kv=2, dim=8, n_ff=64, layers=[2, 3, 5], rows=64, own_embd=True, bias=True,
                   norm_before_fc=True, norm_before_residual=True, rope=LLAMA3),
    "chosen": dict(n=64, n_head=2, n_head_kv=1, dim=32, n_ff=64, layers=[1, 2, 4], chosen=200,
                   types={"others": "MXFP4"}),
    "q8_0": dict(n=64, n_head=2, n_head_kv=1, dim=32, n_ff=64, layers=[1, 3, 4], rows=128, types={"others": "Q8_0"},
                 seed=11),
    "q4_k": dict(n=64, n_head=4, n_head_kv=2, dim=64, n_ff=256, layers=[2, 3, 4], chosen=160,
                 types={"o": "Q4_K", "down": "Q4_K", "up": "BF16", "others": "Q8_0"}, seed=15),
}
# What the layer adds outweighs the stream, and attention chooses few rows: else a line repeats one token.
GAINS = {"fc": 0.25, "q": 2, "k": 2, "v": 2, "o": 4, "gate": 2, "down": 4, "o_bias": 16}
MATRICES = ("fc", "q", "k", "v", "o", "gate", "up", "down", "output", "token_embd")
NAMES = {  # of GGUF and of safetensors; L is the layer
    "fc": ("fc.weight", "fc.weight"), "fc_norm": ("enc.output_norm.weight", "input_norm.weight"),
    "embd_norm": ("blk.0.attn_norm.weight", "L.input_layernorm.weight"),
    "feature_norm": ("blk.0.attn_norm_2.weight", "L.hidden_norm.weight"),
    "q": ("blk.0.attn_q.weight", "L.self_attn.q_proj.weight"),
    "k": ("blk.0.attn_k.weight", "L.self_attn.k_proj.weight"),
    "v": ("blk.0.attn_v.weight", "L.self_attn.v_proj.weight"),
    "o": ("blk.0.attn_output.weight", "L.self_attn.o_proj.weight"),
    "q_bias": ("blk.0.attn_q.bias", "L.self_attn.q_proj.bias"),
    "k_bias": ("blk.0.attn_k.bias", "L.self_attn.k_proj.bias"),
    "v_bias": ("blk.0.attn_v.bias", "L.self_attn.v_proj.bias"),
    "o_bias": ("blk.0.attn_output.bias", "L.self_attn.o_proj.bias"),
    "ffn_norm": ("blk.0.ffn_norm.weight", "L.post_attention_layernorm.weight"),
    "gate": ("blk.0.ffn_gate.weight", "L.mlp.gate_proj.weight"),
    "up": ("blk.0.ffn_up.weight", "L.mlp.up_proj.weight"),
    "down": ("blk.0.ffn_down.weight", "L.mlp.down_proj.weight"),
    "output_norm": ("output_norm.weight", "norm.weight"), "output": ("output.weight", "lm_head.weight"),
    "token_embd": ("token_embd.weight", "embed_tokens.weight"),
}


def shapes_of(head, target):
    """Shapes as torch has them: [rows][columns]."""
    n, q, kv, n_ff = head["n"], head["n_head"] * head["dim"], head["n_head_kv"] * head["dim"], head["n_ff"]
    n_vocab, n_target = target.embedding.shape
    shapes = {"fc": (n, 3 * n_target), "embd_norm": (n,), "feature_norm": (n,), "q": (q, 2 * n), "k": (kv, 2 * n),
              "v": (kv, 2 * n), "o": (n, q), "ffn_norm": (n,), "gate": (n_ff, n), "up": (n_ff, n), "down": (n, n_ff),
              "output_norm": (n,)}
    if head.get("norm_before_fc"):
        shapes["fc_norm"] = (3 * n_target,)
    if head.get("bias"):
        shapes |= {"q_bias": (q,), "k_bias": (kv,), "v_bias": (kv,), "o_bias": (n,)}
    if head.get("rows"):
        shapes["output"] = (head["rows"], n)
    if head.get("own_embd"):
        shapes["token_embd"] = (n_vocab, n)
    return shapes


def random_weights(head, target, seed):
    """On a coarse grid: exact in BF16, and small when compressed."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes_of(head, target).items():
        noise = np.round(2 * rng.standard_normal(shape)) / 2
        if "norm" in name:
            noise = 1 + noise / 4
        elif len(shape) == 2:
            noise *= GAINS.get(name, 1) / 2 ** round(np.log2(shape[1]) / 2)
        else:
            noise *= GAINS.get(name, 1) / 4
        weights[name] = noise.astype(np.float32)
    return weights


def type_of(head, name):
    types = head.get("types", {})
    return gguf.GGMLQuantizationType[types.get(name, types.get("others", "BF16"))]


def random_q4_k(shape, seed, gain):
    """Blocks of a half for scales and one for minima, 12 bytes of these in 6 bits, and 256 codes: gguf cannot quantise
    to this type, so random bytes are the matrix. Minima are the scales, which makes codes lie around 0."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (shape[0], shape[1] // 256, 144), np.uint8)
    scale = gain / shape[1] ** 0.5 / 143
    raw[..., :4] = np.array([scale, 7.5 * scale], np.float16).view(np.uint8)
    raw[..., 8:12] = raw[..., 4:8]
    raw[..., 12:16] = (raw[..., 12:16] & 15) * 17
    return raw.reshape(shape[0], -1)


def quantised(head, weights, seed):
    """The values that the file has, and the bytes of what `file_bytes` cannot make of these."""
    values, raw = dict(weights), {}
    for name in weights:
        kind = type_of(head, name)
        if name not in MATRICES or kind.name == "BF16":
            continue
        if kind.name == "Q4_K":
            raw[name] = random_q4_k(weights[name].shape, seed, GAINS.get(name, 1))
        coded = raw[name] if name in raw else gguf.quants.quantize(weights[name], kind)
        values[name] = gguf.quants.dequantize(coded, kind)
    return values, raw


def file_bytes(kind, values):
    return bf16(values).view(np.uint8) if kind.name == "BF16" else gguf.quants.quantize(values, kind)


# ---- the pass ----

def norm(x, gamma):
    x = x.astype(np.float64)
    return (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS) * gamma).astype(np.float32)


def llama3_factors(dim, scaling):
    wavelength = 2 * np.pi * THETA ** (np.arange(0, dim, 2) / dim)
    low, high, factor = (scaling[k] for k in ("low_freq_factor", "high_freq_factor", "factor"))
    smooth = (scaling["original_max_position_embeddings"] / wavelength - low) / (high - low)
    return 1 / ((1 - np.clip(smooth, 0, 1)) / factor + np.clip(smooth, 0, 1))


class Pass:
    """A head's rows of one text. Keys and values grow with each call."""

    def __init__(self, head, weights, target):
        self.head, self.w, self.target = head, weights, target
        self.tokens = head["tokens"]
        embedding, output = target.embedding, target.output[self.tokens]
        self.embedding, self.output = weights.get("token_embd", embedding), weights.get("output", output)
        factors = llama3_factors(head["dim"], head["rope"]) if head.get("rope") else 1
        self.frequencies = THETA ** (-np.arange(0, head["dim"], 2) / head["dim"]) / factors
        self.keys = self.values = np.zeros((0, head["n_head_kv"], head["dim"]), np.float16)

    def features(self, taps):
        """taps [n][3 * the target's width]."""
        if self.head.get("norm_before_fc"):
            taps = norm(taps, self.w["fc_norm"])
        return linear(to_bf16(taps), self.w["fc"])

    def project(self, z, name):
        return (linear(z, self.w[name]) + self.w.get(f"{name}_bias", 0)).reshape(len(z), -1, self.head["dim"])

    def rotate(self, heads, positions):
        """Pair (i, i + dim / 2) turns."""
        angles = positions[:, None, None] * self.frequencies
        a, b = np.split(heads, 2, axis=-1)
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)],
                              axis=-1).astype(np.float32)

    def attend(self, q, positions):
        group = self.head["n_head"] // self.head["n_head_kv"]
        keys, values = (np.repeat(x.astype(np.float64), group, axis=1) for x in (self.keys, self.values))
        scores = np.einsum("qhd,khd->hqk", q, keys) / np.sqrt(self.head["dim"])
        scores[:, np.arange(len(keys))[None, :] > positions[:, None]] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return np.einsum("hqk,khd->qhd", shares, values).reshape(len(q), -1)

    def rows(self, features, tokens):
        """The stream after rows that follow those before, each of a feature and the token after its position."""
        positions = len(self.keys) + np.arange(len(tokens))
        feature = norm(features, self.w["feature_norm"])
        z = to_bf16(np.concatenate([norm(self.embedding[tokens], self.w["embd_norm"]), feature], axis=-1))
        q, k, v = (self.project(z, name) for name in "qkv")
        self.keys = np.concatenate([self.keys, self.rotate(k, positions).astype(np.float16)])
        self.values = np.concatenate([self.values, v.astype(np.float16)])
        attended = self.attend(self.rotate(q, positions).astype(np.float64), positions)
        x = feature if self.head.get("norm_before_residual") else features
        x = x + linear(to_bf16(attended), self.w["o"]) + self.w.get("o_bias", 0)
        h = to_bf16(norm(x, self.w["ffn_norm"]))
        gate = linear(h, self.w["gate"])
        return x + linear(to_bf16(gate / (1 + np.exp(-gate)) * linear(h, self.w["up"])), self.w["down"])

    def draft(self, x):
        """The likeliest token after a row, its lead over the next, and how far the logits spread."""
        logits = linear(to_bf16(norm(x, self.w["output_norm"])), self.output)
        first, second = np.argsort(-logits, kind="stable")[:2]
        return int(self.tokens[first]), float(logits[first] - logits[second]), float(logits.std())


def lines_of(head, weights, target, text):
    target.forward(text, 0)
    taps = np.concatenate([target.hidden[i - 1] for i in head["layers"]], axis=-1)
    run = Pass(head, weights, target)
    streams = run.rows(run.features(taps[:-1]), text[1:])
    keys, values = run.keys, run.values
    lines = []
    for position in range(1, len(text)):
        run.keys, run.values = keys[:position], values[:position]
        x, line = streams[position - 1], []
        for _ in range(N_DRAFTS):
            line.append(run.draft(x))
            x = run.rows(x[None], [line[-1][0]])[0]
        lines.append({"position": position, "drafts": [d for d, _, _ in line],
                      "leads": [round(lead / spread, 4) for _, lead, spread in line]})
    clearest = sorted(lines, key=lambda line: -min(line["leads"]))[:N_LINES]
    return sorted(clearest, key=lambda line: line["position"])


# ---- files ----

def bf16(values):
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def permute(values, n_head):
    """llama.cpp's: halves of a head interleaved, for rotation of neighbours."""
    return values.reshape(n_head, 2, values.shape[0] // n_head // 2, -1).swapaxes(1, 2).reshape(values.shape)


def fingerprint(target):
    """FNV-1a of the gains."""
    hash = 0xCBF29CE484222325
    gains = [target.output_norm]
    for layer in target.layers:
        gains += [layer["attn_norm"], layer["ffn_norm"]]
    for byte in np.concatenate(gains).astype("<f4").tobytes():
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return f"{hash:016x}"


def write_gguf(path, name, head, weights, raw, target):
    n_vocab, n_target = target.embedding.shape
    writer = gguf.GGUFWriter(path, "eagle3")
    writer.add_name(name)
    writer.add_block_count(1)
    writer.add_context_length(2048)
    writer.add_embedding_length(head["n"])
    writer.add_feed_forward_length(head["n_ff"])
    writer.add_head_count(head["n_head"])
    writer.add_head_count_kv(head["n_head_kv"])
    writer.add_key_length(head["dim"])
    writer.add_value_length(head["dim"])
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(head["dim"])
    writer.add_vocab_size(n_vocab)
    writer.add_array("eagle3.target_layers", head["layers"])
    writer.add_uint32("eagle3.target_hidden_size", n_target)
    writer.add_bool("eagle3.norm_before_residual", head.get("norm_before_residual", False))
    writer.add_bool("eagle3.norm_before_fc", head.get("norm_before_fc", False))
    if head.get("chosen"):
        writer.add_array("riffle.head.output_rows", head["tokens"])
        writer.add_string("riffle.head.target", fingerprint(target))
        writer.add_string("riffle.head.recipe", "random weights, seed 2, no training")
    if head.get("rope"):
        writer.add_tensor("rope_freqs.weight", llama3_factors(head["dim"], head["rope"]).astype(np.float32))
    for key, values in weights.items():
        if key in ("q", "k", "q_bias", "k_bias"):
            values = permute(values, head["n_head"] if key[0] == "q" else head["n_head_kv"])
        if key not in MATRICES:
            writer.add_tensor(NAMES[key][0], values)
            continue
        kind = type_of(head, key)
        writer.add_tensor(NAMES[key][0], raw[key] if key in raw else file_bytes(kind, values), raw_dtype=kind)
    if head.get("rows"):
        writer.add_tensor("d2t", np.array(head["tokens"], np.int64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_safetensors(path, tensors):
    """tensors: {name: (type, array of its bytes)}."""
    header, at = {}, 0
    for name, (kind, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


def write_folder(folder, head, weights, target, layer, config):
    os.makedirs(folder, exist_ok=True)
    n_vocab = len(target.embedding)
    tensors = {NAMES[key][1].replace("L.", layer): ("BF16", bf16(values)) for key, values in weights.items()}
    ids = np.array(head["tokens"], np.int64)
    is_drafted = np.zeros(n_vocab, bool)
    is_drafted[ids] = True
    tensors |= {"d2t": ("I64", ids - np.arange(len(ids))), "t2d": ("BOOL", is_drafted)}
    write_safetensors(f"{folder}/model.safetensors", tensors)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")


def layer_config(head, target):
    return {"model_type": "llama", "hidden_size": head["n"], "intermediate_size": head["n_ff"], "num_hidden_layers": 1,
            "num_attention_heads": head["n_head"], "num_key_value_heads": head["n_head_kv"], "head_dim": head["dim"],
            "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": EPS, "rope_theta": THETA,
            "rope_scaling": head.get("rope"), "vocab_size": len(target.embedding), "tie_word_embeddings": False}


def write_folders(base, head, weights, target):
    flags = {key: head.get(key, False) for key in ("norm_before_residual", "norm_before_fc")}
    common = {"draft_vocab_size": head["rows"], "target_hidden_size": target.embedding.shape[1]}
    eagle = {"architectures": ["LlamaForCausalLMEagle3"]} | layer_config(head, target) | common
    if any(flags.values()):
        eagle |= flags | {"eagle_aux_hidden_state_layer_ids": head["layers"]}
    else:
        eagle["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [i - 1 for i in head["layers"]],
                                 "use_aux_hidden_state": True}
    write_folder(f"{base}-eagle", head, weights, target, "midlayer.", eagle)
    speculators = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"} | common | flags
    speculators |= {"eagle_aux_hidden_state_layer_ids": head["layers"],
                    "transformer_layer_config": layer_config(head, target)}
    write_folder(f"{base}-speculators", head, weights, target, "layers.0.", speculators)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_head_fixtures.py test/data")
    name = "stories260K.gguf"
    target = oracle.Model(f"{sys.argv[1]}/{name}")
    folder = f"{sys.argv[1]}/heads"
    os.makedirs(folder, exist_ok=True)
    n_vocab = len(target.embedding)
    rng = np.random.default_rng(11)
    text = [1, *(int(i) for i in rng.integers(259, n_vocab, N_TEXT - 1))]
    cases = []
    for number, (key, head) in enumerate(HEADS.items()):
        seed = head.get("seed", number)
        weights, raw = quantised(head, random_weights(head, target, seed), seed)
        n_rows = head.get("chosen") or head["rows"]
        chooser = np.random.default_rng(seed) if "seed" in head else rng
        head["tokens"] = sorted(int(i) for i in chooser.choice(n_vocab, n_rows, replace=False))
        write_gguf(f"{folder}/{key}.gguf", key, head, weights, raw, target)
        files = [f"{key}.gguf"]
        if not head.get("types"):
            write_folders(f"{folder}/{key}", head, weights, target)
            files += [f"{key}-eagle", f"{key}-speculators"]
        cases.append({"files": files, "lines": lines_of(head, weights, target, text)})
        least = min(min(line["leads"]) for line in cases[-1]["lines"])
        print(f"{key}: the least lead is {least} of the spread of the logits")
    with open(f"{folder}/drafts.json", "w") as file:
        json.dump({"target": name, "text": text, "heads": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
