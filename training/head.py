"""A draft head: EAGLE-3 (Li et al., 2025) with one layer, whose output rows are some of the
target's.

The row of position t has the feature of t, made of three hidden states of the target, and the
embedding of token t + 1. It predicts token t + 2. The next step of a draft takes the row's result
as the feature of t + 1. Training unrolls these steps, so that the head learns to read its own
results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator

import torch
from target import Rotation, Shape, Target, rms
from torch import Tensor, nn
from torch.nn import functional as F

GROUP = 32  # values of an MXFP4 block


@dataclass
class HeadShape:
    hidden: int
    heads: int
    heads_kv: int
    head_dim: int
    width: int  # of the feed-forward layer
    layers: list[int]  # whose inputs are the target's hidden states
    epsilon: float
    rope_base: float
    context: int
    vocabulary: int  # the target's
    target: str  # its fingerprint
    name: str
    rows: list[int] = field(default_factory=list)  # ascending tokens, whose output rows it has

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Matrices by their GGUF names: rows, columns."""
        wide, narrow, h = self.heads * self.head_dim, self.heads_kv * self.head_dim, self.hidden
        return {"fc": (h, 3 * h), "blk.0.attn_q": (wide, 2 * h), "blk.0.attn_k": (narrow, 2 * h),
                "blk.0.attn_v": (narrow, 2 * h), "blk.0.attn_output": (h, wide),
                "blk.0.ffn_gate": (self.width, h), "blk.0.ffn_up": (self.width, h),
                "blk.0.ffn_down": (h, self.width)}

    def gains(self) -> list[str]:
        return ["blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm", "output_norm"]

    def tokens(self) -> Tensor:
        """The token of each output row."""
        return torch.tensor(self.rows, dtype=torch.long)


def choose_rows(tokens: Tensor, vocabulary: int,
                number: int) -> tuple[list[int], list[tuple[int, float]]]:
    """The tokens that were written most often, and what share of the text some numbers of them
    cover."""
    counts = torch.bincount(tokens.long(), minlength=vocabulary)
    order = counts.argsort(descending=True, stable=True)
    covered = counts[order].cumsum(0).double() / max(1, len(tokens))
    number = min(vocabulary, number)
    shown = [
        n for n in {number // 2, 3 * number // 4, number, 3 * number // 2} if 0 < n <= vocabulary
    ]
    return sorted(order[:number].tolist()), [(n, covered[n - 1].item()) for n in sorted(shown)]


def mxfp4(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest values of MXFP4, their codes (the sign is bit 3), and the exponent byte of each
    block of 32. The exponent is floor(log2 of the greatest magnitude) - 2, or one more where the
    squared error is less, which is the runtime's rule."""
    blocks = w.detach().float().view(-1, GROUP)
    magnitude = blocks.abs()
    most = magnitude.amax(-1, keepdim=True)
    between = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=w.device)
    steps = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=w.device)
    low = torch.frexp(most)[1] - 3

    def rounded(exponent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale = torch.ldexp(torch.ones_like(most), exponent)
        codes = torch.bucketize(magnitude / scale, between)
        values = steps[codes] * scale
        return values, codes, (values - magnitude).pow(2).sum(-1, keepdim=True)

    (v0, c0, e0), (v1, c1, e1) = rounded(low), rounded(low + 1)
    higher, some = e1 < e0, most > 2.0 ** -100
    values = torch.where(higher, v1, v0).copysign(blocks) * some
    codes = (torch.where(higher, c1, c0) + 8 * (blocks < 0)) * some
    exponents = (low + higher.to(low.dtype) + 127) * some
    return values.view_as(w), codes.to(torch.uint8), exponents.to(torch.uint8)


class Head(nn.Module):
    def __init__(self, shape: HeadShape, target: Target):
        """Random matrices. The output gains are the target's, since the output rows are."""
        super().__init__()
        self.shape, self.device = shape, target.device
        values = {}
        for name, size in shape.matrices().items():
            values[name] = (torch.rand(size) * 2 - 1) / size[1] ** 0.5
        for name in shape.gains():
            values[name] = torch.ones(shape.hidden)
        values["output_norm"] = target.weights["output_norm.weight"].float()
        self.values = nn.ParameterDict({
            name.replace(".", ":"): nn.Parameter(value.to(target.device))
            for name, value in values.items()
        })
        self.rotation = Rotation(shape.rope_base, shape.head_dim, False, target.device)

    def weights(self, stored: bool) -> dict[str, Tensor]:
        """Weights by GGUF names. `stored`: as the file has them; gradients pass through the
        rounding."""
        out = {}
        for name, value in self.values.items():
            if stored and value.dim() == 2:
                value = value + (mxfp4(value)[0] - value).detach()
            out[name.replace(":", ".")] = value
        return out

    def unroll(self, weights: dict[str, Tensor], embedded: Tensor, taps: Tensor,
               steps: int) -> Iterator[Tensor]:
        """What the output rows multiply in each step j, [rows, length - 1 - steps, hidden]: its row
        t predicts token t + 2 + j. embedded: of all tokens, [rows, length, hidden]."""
        length = embedded.shape[1] - 1 - steps
        x = F.linear(taps[:, :length], weights["fc"])
        read: list[tuple[Tensor, Tensor]] = []
        later = torch.ones(length, length, dtype=torch.bool, device=self.device).triu(1)
        places = torch.arange(length, device=self.device)
        for j in range(steps):
            x = self.layer(weights, embedded[:, 1 + j:1 + j + length], x,
                           self.rotation.tables(places + j), read, later)
            yield rms(x, weights["output_norm"], self.shape.epsilon)

    def layer(self, weights: dict[str, Tensor], e: Tensor, f: Tensor, tables: tuple[Tensor, Tensor],
              read: list[tuple[Tensor, Tensor]], later: Tensor) -> Tensor:
        """One step of all rows. `read` has keys and values of the steps before, and gets this
        step's. Row t reads the first step's rows up to t, and of the others its own draft's."""
        shape, w = self.shape, lambda name: weights["blk.0." + name]
        norm = lambda x, name: rms(x, w(name), shape.epsilon)  # noqa: E731
        z = torch.cat([norm(e.to(f.dtype), "attn_norm"), norm(f, "attn_norm_2")], -1)
        group = shape.heads // shape.heads_kv

        def heads(name: str) -> Tensor:
            return F.linear(z, w(name)).unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)

        q = self.rotation.turn(heads("attn_q"), tables)
        k = self.rotation.turn(heads("attn_k"), tables).repeat_interleave(group, 1)
        read.append((k, heads("attn_v").repeat_interleave(group, 1)))
        first = (q @ read[0][0].transpose(-1, -2)).float().masked_fill(later, -1e30)
        own = [(q * k).sum(-1, keepdim=True).float() for k, _ in read[1:]]
        shares = torch.softmax(torch.cat([first] + own, -1) / shape.head_dim ** 0.5, -1).to(q.dtype)
        length = first.shape[-1]
        a = shares[..., :length] @ read[0][1]
        for i, (_, v) in enumerate(read[1:]):
            a = a + shares[..., length + i:length + i + 1] * v
        x = f + F.linear(a.transpose(1, 2).flatten(2), w("attn_output"))
        n = norm(x, "ffn_norm")
        return x + F.linear(
            F.silu(F.linear(n, w("ffn_gate"))) * F.linear(n, w("ffn_up")), w("ffn_down"))


def head_shape(target: Target, name: str, heads: int, width: int, layers: list[int]) -> HeadShape:
    s: Shape = target.shape
    kv = 2 if heads % 2 == 0 else 1
    return HeadShape(s.hidden, heads, kv, s.head_dim, width, layers, s.epsilon, s.rope_base,
                     s.context, target.vocabulary, target.fingerprint, name)
