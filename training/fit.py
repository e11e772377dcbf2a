"""Training: the head learns the target's own distribution of the next tokens, several steps
ahead."""

from __future__ import annotations

import math
import time
from pathlib import Path

import torch
from head import Head
from target import Target
from torch import Tensor
from torch.nn import functional as F
from work import RANK, RANKS, agreed, average, read_state, say, upload, write_state

DECAY = 0.8  # of the loss, by step of the draft
ROUND_FROM = 0.6  # share of the training after which weights are rounded as in the file
CHECKPOINT_SECONDS = 60


class Trainer:
    def __init__(self, head: Head, target: Target, tokens: Tensor, learned: Tensor, batch: int,
                 rate: float, steps: int, seed: int, folder: Path):
        self.head, self.target, self.tokens, self.learned = head, target, tokens, learned
        self.batch, self.rate, self.steps, self.seed, self.folder = batch, rate, steps, seed, folder
        self.rows = target.output[head.shape.tokens().to(target.device)]
        options = {"fused": True} if target.device != "cpu" else {}
        self.optimizer = torch.optim.AdamW(head.parameters(), lr=rate, betas=(0.9, 0.95),
                                           weight_decay=0.01, **options)
        self.done, self.seconds, self.saved = 0, 0.0, 0.0
        state = read_state(folder, target.device)
        if state is not None:
            self.head.load_state_dict(state["head"]["weights"])
            if "optimizer" in state:  # else only the weights were carried here
                self.optimizer.load_state_dict(state["optimizer"])
            self.done, self.seconds = state["head"]["steps"], state["head"]["seconds"]

    def save(self) -> None:
        self.saved = self.seconds
        if RANK > 0:
            return
        weights = {"weights": self.head.state_dict(), "steps": self.done, "seconds": self.seconds}
        write_state(self.folder, self.done,
                    {"head": weights, "optimizer": self.optimizer.state_dict()})

    def texts(self, step: int) -> Tensor:
        """Which texts this process reads in a step: its part of all in an order of their epoch."""
        each = max(1, len(self.tokens) // self.batch)
        order = torch.randperm(len(self.tokens), generator=torch.Generator().manual_seed(
            self.seed + step // each))
        return order[step % each * self.batch:][:self.batch][RANK::RANKS]

    def loss(self, chosen: Tensor, stored: bool) -> tuple[Tensor, Tensor]:
        """The cross entropy to the target's distribution over the head's tokens, and the share of
        first tokens that are the target's likeliest."""
        device, target = self.target.device, self.target
        tokens, learned = self.tokens[chosen].long(), self.learned[chosen]
        length = tokens.shape[1] - 1 - self.steps
        # Which places are learned is known here, so the program need not wait for the GPU's count.
        places = [
            learned[:, 2 + j:2 + j + length].flatten().nonzero().squeeze(1)
            for j in range(self.steps)
        ]
        tokens, places = upload(tokens, device), [upload(p, device) for p in places]
        taps, final = target.read(tokens, self.head.shape.layers)
        loss, first = torch.zeros((), device=device), torch.zeros((), device=device)
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=device != "cpu"):
            weights = self.head.weights(stored)
            embedded = target.embedding[tokens]
            for j, x in enumerate(self.head.unroll(weights, embedded, taps, self.steps)):
                place = places[j]
                wanted = final[:, 1 + j:1 + j + length].flatten(0, 1)[place]
                shares = torch.softmax(F.linear(wanted, self.rows).float(), -1)
                logits = F.linear(x.flatten(0, 1)[place], self.rows).float()
                entropy = -(shares * torch.log_softmax(logits, -1)).sum(-1)
                loss = loss + DECAY ** j * entropy.sum() / max(1, len(place))
                if j == 0:
                    first = (logits.argmax(-1) == shares.argmax(-1)).float().mean()
        return loss, first

    def run(self, seconds: float, most_steps: int | None) -> None:
        """Goes on until the time or the steps are used up. The rate falls by a cosine of the share
        used."""
        began, before = time.monotonic(), self.seconds
        warm = min(100, most_steps // 10 + 1) if most_steps else 100

        def share() -> float:
            return max(self.seconds / seconds, self.done / most_steps if most_steps else 0.0)

        while share() < 1.0:
            rate = self.rate * min(1.0, (self.done + 1) / warm) * (
                0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share())))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            loss, first = self.loss(self.texts(self.done), share() >= ROUND_FROM)
            loss.backward()
            average([parameter.grad for parameter in self.head.parameters()])
            torch.nn.utils.clip_grad_norm_(self.head.parameters(), 0.5)
            for parameter in self.head.parameters():
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)  # a step that overflowed changes little
            self.optimizer.step()
            self.done += 1
            if self.done % 100 == 0 or self.done == 10:
                say(f"step {self.done}, {share():.0%}: loss {loss.item():.3f}, first token right "
                    f"{first.item():.3f}, rate {rate:.1e}")
            self.seconds = agreed(before + time.monotonic() - began)
            if self.seconds - self.saved >= CHECKPOINT_SECONDS:
                self.save()
        self.save()
