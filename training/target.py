"""The model whose tokens are drafted: a GGUF file of any tensor types, in BF16 on a GPU or F32 on a
processor. It computes what the runtime computes, for the architectures qwen2, qwen3 and llama."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from torch import Tensor
from torch.nn import functional as F

# True: rotation of pairs (i, i + n/2)
ARCHITECTURES = {"llama": False, "qwen2": True, "qwen3": True}
FUSED = hasattr(F, "scaled_dot_product_attention")  # PyTorch 2


class Refused(Exception):
    """A sentence for the user."""


@dataclass
class Shape:
    """Sizes of a transformer, under the names of GGUF's keys."""

    architecture: str
    name: str
    hidden: int
    layers: int
    heads: int
    heads_kv: int
    head_dim: int
    epsilon: float
    rope_base: float
    rope_dim: int
    context: int


def fields(reader: GGUFReader) -> dict[str, Any]:
    """All keys of the file but the vocabulary's long lists."""
    long = ("tokens", "merges", "scores", "token_type")
    return {k: f.contents() for k, f in reader.fields.items() if k.rsplit(".", 1)[-1] not in long}


def read_shape(path: str, keys: dict[str, Any]) -> Shape:
    arch = keys["general.architecture"]
    if arch not in ARCHITECTURES:
        raise Refused(f"{path}: the architecture {arch} is not one of {', '.join(ARCHITECTURES)}")
    scaling = keys.get(f"{arch}.rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise Refused(f"{path}: {arch}.rope.scaling.type {scaling} is not supported")
    hidden, heads = keys[f"{arch}.embedding_length"], keys[f"{arch}.attention.head_count"]
    head_dim = keys.get(f"{arch}.attention.key_length", hidden // heads)
    return Shape(arch, keys.get("general.name", os.path.basename(path)), hidden,
                 keys[f"{arch}.block_count"], heads,
                 keys.get(f"{arch}.attention.head_count_kv", heads), head_dim,
                 keys[f"{arch}.attention.layer_norm_rms_epsilon"],
                 keys.get(f"{arch}.rope.freq_base", 10000.0),
                 keys.get(f"{arch}.rope.dimension_count", head_dim),
                 keys[f"{arch}.context_length"])


def fingerprint(gains: list[np.ndarray]) -> str:
    """FNV-1a 64 of the gains' bytes in F32: the same for every form of the same weights."""
    value = 0xCBF29CE484222325
    for byte in b"".join(g.astype("<f4").tobytes() for g in gains):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def rms(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """RMSNorm in F32, in the type of x."""
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, (x.shape[-1],), gain.to(x.dtype), epsilon)
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + epsilon)
    return y.to(x.dtype) * gain.to(x.dtype)


class Rotation:
    """Rotary embeddings of the first `dim` values: pairs (i, i + dim/2) if `halves`, else
    (2i, 2i + 1)."""

    def __init__(self, base: float, dim: int, halves: bool, device: str,
                 factors: Tensor | None = None, scale: float = 1.0):
        inverse = base ** -(torch.arange(0, dim, 2, device=device).float() / dim) / scale
        self.inverse = inverse if factors is None else inverse / factors.float()
        self.dim, self.halves = dim, halves

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What `turn` multiplies values and their partners by, [length, dim]."""
        angle = positions.float().unsqueeze(-1) * self.inverse
        cos, sin = angle.cos(), angle.sin()
        if self.halves:
            return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        return torch.stack([cos, cos], -1).flatten(-2), torch.stack([-sin, sin], -1).flatten(-2)

    def turn(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """x [..., length, head_dim]"""
        part = x[..., :self.dim]
        if self.halves:
            partner = part.roll(self.dim // 2, -1)
        else:
            partner = part.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        turned = (part * tables[0] + partner * tables[1]).to(x.dtype)
        return turned if self.dim == x.shape[-1] else torch.cat([turned, x[..., self.dim:]], -1)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of q [rows, heads, length, dim]. A mask is added to the scores; without one it is
    causal."""
    if FUSED:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    if mask is None:
        mask = torch.full((q.shape[2], k.shape[2]), -torch.inf, device=q.device).triu(1)
    scores = (q @ k.transpose(-1, -2)).float() / q.shape[-1] ** 0.5 + mask
    return scores.softmax(-1).to(v.dtype) @ v


class Target:
    """Weights by their GGUF names, and passes over whole texts. Matrices that read the same input
    are one: attn_qkv and ffn_gate_up."""

    def __init__(self, path: str, device: str):
        reader = GGUFReader(path)
        keys = fields(reader)
        self.shape = shape = read_shape(path, keys)
        self.device = device
        self.dtype = torch.bfloat16 if device != "cpu" else torch.float32
        tensors = {t.name: t for t in reader.tensors}
        for name in ("token_embd.weight", "output_norm.weight", "blk.0.ffn_gate.weight"):
            if name not in tensors:
                raise Refused(f"{path}: the tensor {name} is missing, which {shape.architecture} "
                              "without experts has")

        def values(name: str) -> np.ndarray:
            t = tensors[name]
            return dequantize(t.data, t.tensor_type).reshape([int(n) for n in reversed(t.shape)])

        def one(name: str) -> tuple[str, Tensor]:
            return name, torch.from_numpy(np.array(values(name), np.float32)).to(self.dtype)

        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            self.weights = {name: w.to(device) for name, w in pool.map(one, tensors)}
        for layer in range(shape.layers):
            self.join(layer, "attn_qkv", ("attn_q", "attn_k", "attn_v"))
            self.join(layer, "ffn_gate_up", ("ffn_gate", "ffn_up"))
        self.embedding = self.weights["token_embd.weight"]
        self.output = self.weights.get("output.weight", self.embedding)
        self.vocabulary = self.embedding.shape[0]
        names = ["output_norm.weight"] + [f"blk.{i}.{n}.weight" for i in range(shape.layers)
                                          for n in ("attn_norm", "ffn_norm")]
        self.fingerprint = fingerprint([values(n) for n in names if n in tensors])
        linear = keys.get(f"{shape.architecture}.rope.scaling.type") == "linear"
        self.rotation = Rotation(
            shape.rope_base, shape.rope_dim, ARCHITECTURES[shape.architecture], device,
            self.weights.get("rope_freqs.weight"),
            keys.get(f"{shape.architecture}.rope.scaling.factor", 1.0) if linear else 1.0)

    def join(self, layer: int, name: str, parts: tuple[str, ...]) -> None:
        for kind in ("weight", "bias"):
            found = [self.weights.pop(f"blk.{layer}.{part}.{kind}", None) for part in parts]
            if found[0] is not None:
                self.weights[f"blk.{layer}.{name}.{kind}"] = torch.cat(found)

    def linear(self, layer: int, name: str, x: Tensor) -> Tensor:
        prefix = f"blk.{layer}.{name}."
        return F.linear(x, self.weights[prefix + "weight"], self.weights.get(prefix + "bias"))

    def norm(self, name: str, x: Tensor) -> Tensor:
        return rms(x, self.weights[name + ".weight"], self.shape.epsilon)

    def project(self, layer: int, x: Tensor, tables: tuple[Tensor, Tensor]) -> list[Tensor]:
        """Rotated queries and keys, and values, of x [rows, length, hidden], each
        [rows, heads, length, head_dim]."""
        shape = self.shape
        y = self.linear(layer, "attn_qkv", self.norm(f"blk.{layer}.attn_norm", x))
        y = y.unflatten(-1, (-1, shape.head_dim))
        turned, values = y.split([shape.heads + shape.heads_kv, shape.heads_kv], 2)
        if f"blk.{layer}.attn_q_norm.weight" in self.weights:
            q, k = turned.split([shape.heads, shape.heads_kv], 2)
            turned = torch.cat([self.norm(f"blk.{layer}.attn_q_norm", q),
                                self.norm(f"blk.{layer}.attn_k_norm", k)], 2)
        turned = self.rotation.turn(turned.transpose(1, 2), tables)
        q, k = turned.split([shape.heads, shape.heads_kv], 1)
        return [q, k, values.transpose(1, 2)]

    def finish(self, layer: int, x: Tensor, attended: Tensor) -> Tensor:
        """The rest of a layer after its attention."""
        x = x + self.linear(layer, "attn_output", attended)
        n = self.norm(f"blk.{layer}.ffn_norm", x)
        gate, up = self.linear(layer, "ffn_gate_up", n).chunk(2, -1)
        return x + self.linear(layer, "ffn_down", F.silu(gate) * up)

    @torch.no_grad()
    def read(self, tokens: Tensor, taps: list[int]) -> tuple[Tensor, Tensor]:
        """The inputs of the layers `taps`, concatenated, and what the output rows multiply, of
        tokens [rows, length]."""
        x, tapped = self.embedding[tokens], []
        tables = self.rotation.tables(torch.arange(tokens.shape[1], device=self.device))
        group = self.shape.heads // self.shape.heads_kv
        for layer in range(self.shape.layers):
            if layer in taps:
                tapped.append(x)
            q, k, v = self.project(layer, x, tables)
            a = attend(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), None)
            x = self.finish(layer, x, a.transpose(1, 2).flatten(2))
        return torch.cat(tapped, -1) if tapped else x, self.norm("output_norm", x)


class Decoder:
    """Writes texts: one token of each row a step. All state is in tensors of fixed places, so that
    a step may be recorded as a CUDA graph."""

    def __init__(self, target: Target, rows: int, length: int):
        shape = target.shape
        self.target, self.rows, self.length = target, rows, length
        size = (shape.layers, rows, shape.heads_kv, length, shape.head_dim)
        self.keys = torch.zeros(size, device=target.device, dtype=target.dtype)
        self.values = torch.zeros_like(self.keys)
        self.places = torch.arange(length, device=target.device)

    @torch.no_grad()
    def step(self, tokens: Tensor, position: Tensor, limit: int) -> Tensor:
        """Logits after tokens [rows] at position [1], which is below limit: a length of the cache
        that attention reads."""
        target, shape = self.target, self.target.shape
        x = target.embedding[tokens].unsqueeze(1)
        tables = target.rotation.tables(position)
        mask = torch.zeros(1, 1, 1, limit, device=target.device, dtype=target.dtype)
        mask = mask.masked_fill(self.places[:limit] > position, -torch.inf)
        for layer in range(shape.layers):
            q, k, v = target.project(layer, x, tables)
            self.keys[layer].index_copy_(2, position, k)
            self.values[layer].index_copy_(2, position, v)
            # The queries that share keys are rows of one product.
            q = q.reshape(self.rows, shape.heads_kv, -1, shape.head_dim)
            a = attend(q, self.keys[layer][:, :, :limit], self.values[layer][:, :, :limit], mask)
            x = target.finish(layer, x, a.reshape(self.rows, 1, -1))
        return F.linear(target.norm("output_norm", x[:, 0]), target.output)
