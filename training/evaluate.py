"""How many drafted tokens the target would keep, on prompts that training has not seen. The target
answers greedily; each position of an answer is then drafted from."""

from __future__ import annotations

from typing import Any

import torch
from head import Head
from target import Target
from texts import Writer
from torch import Tensor
from torch.nn import functional as F
from work import say

STEPS = 6
LONGEST_PROMPT = 896


def answer(target: Target, ids: dict[str, Any], prompts: list[list[int]],
           most: int) -> dict[str, Tensor]:
    """Greedy answers of at most `most` tokens: tokens [prompts, length], and first and end of each
    answer's places."""
    prompts = [p for p in prompts if len(p) <= LONGEST_PROMPT]
    length = -(-(max(map(len, prompts)) + most) // 16) * 16
    writer = Writer(target, dict(ids, chat=False, turns=[[ids["ends"][0]]] * 2), len(prompts),
                    length)
    writer.begin(prompts, [1] * len(prompts), [0.0] * len(prompts))
    writer.run(length - 1)
    tokens = writer.texts[:, :length].cpu()
    first = torch.tensor([len(p) for p in prompts])
    places = torch.arange(length)
    ended = torch.isin(tokens, torch.tensor(ids["ends"])) & (places >= first.unsqueeze(1))
    end = torch.where(ended, places, length).amin(1)
    return {"tokens": tokens, "first": first, "end": torch.minimum(end, first + most)}


@torch.no_grad()
def measure(head: Head, target: Target, answers: dict[str, Tensor], batch: int) -> dict[str, Any]:
    """By depth, the share of drafted tokens that are right if all before them were; the tokens kept
    of a draft of six; and how often the first is among the 1, 2 and 3 likeliest."""
    weights, names = head.weights(True), head.shape.tokens().to(target.device)
    if target.device != "cpu":
        weights = {name: w.to(target.dtype) for name, w in weights.items()}
    rows = target.output[names]
    right, reached, among = torch.zeros(STEPS), torch.zeros(STEPS), torch.zeros(3)
    for i in range(0, len(answers["first"]), batch):
        tokens = answers["tokens"][i:i + batch].to(target.device)
        first, end = answers["first"][i:i + batch], answers["end"][i:i + batch]
        taps, _ = target.read(tokens, head.shape.layers)
        embedded = target.embedding[tokens]
        length, good = tokens.shape[1] - 1 - STEPS, []
        for j, x in enumerate(head.unroll(weights, embedded, taps, STEPS)):
            best = names[F.linear(x, rows).topk(3, -1).indices]
            hits = (best == tokens[:, 2 + j:2 + j + length].unsqueeze(-1)).cpu()
            good.append(hits[..., 0])
            if j == 0:
                three = hits
        # A draft counts if its first and last tokens are of the answer.
        places = torch.arange(length)
        counted = (places >= (first - 2).unsqueeze(1)) & (places + 1 + STEPS < end.unsqueeze(1))
        kept = torch.stack(good).long().cumprod(0)[:, counted].float()
        right += kept.sum(1)
        reached += torch.cat([torch.ones(1, kept.shape[1]), kept[:-1]]).sum(1)
        among += three[counted].long().cumsum(-1).clamp(max=1).float().sum(0)
    number = reached[0].clamp(min=1)
    return {"positions": int(reached[0]), "right by depth": (right / reached.clamp(min=1)).tolist(),
            "kept of 6": (right.sum() / number).item(), "among 1, 2, 3": (among / number).tolist()}


def show(when: str, name: str, result: dict[str, Any]) -> None:
    listed = lambda values: " ".join(f"{v:.3f}" for v in values)  # noqa: E731
    say(f"{when}, {name}: kept of 6 {result['kept of 6']:.2f}; right by depth "
        f"{listed(result['right by depth'])}; among the likeliest 1, 2, 3: "
        f"{listed(result['among 1, 2, 3'])} ({result['positions']} positions)")
