"""The target writes its own questions and answers (Magpie, Xu et al., 2024): after the beginning of
a conversation it writes what a user would ask, then answers. A round writes `rows` texts together
and becomes one file. The whole step, choice of tokens and change of turns included, is in tensors:
on a GPU it is one CUDA graph, and the program waits for nothing but the end of a round."""

from __future__ import annotations

import io
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from target import Decoder, Target
from torch import Tensor
from torch.nn import functional as F
from work import RANK, RANKS, say, write

LIKELIEST = 32  # a draw is among so many tokens
BLOCK = 128
QUESTION_TEMPERATURE, LONGEST_QUESTION = 0.9, 160
OPENING = 16  # tokens that are drawn as a question is, where texts have no questions
ANSWER_TEMPERATURES = (0.0, 0.0, 0.6, 0.8)


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest values of each row and their places, descending. The k greatest values are in
    the k blocks with the greatest maxima, so only these are sorted."""
    rows, n = logits.shape
    if n < 4 * LIKELIEST * BLOCK:
        values, places = logits.float().topk(LIKELIEST, -1)
        return values, places
    if n % BLOCK:
        logits = F.pad(logits, (0, BLOCK - n % BLOCK), value=-torch.inf)
    blocks = logits.view(rows, -1, BLOCK)
    chosen = blocks.amax(-1).topk(LIKELIEST, -1).indices
    taken = blocks.gather(1, chosen.unsqueeze(-1).expand(-1, -1, BLOCK)).flatten(1)
    values, places = taken.topk(LIKELIEST, -1)
    return values.float(), chosen.gather(1, places // BLOCK) * BLOCK + places % BLOCK


def choose(logits: Tensor, temperatures: Tensor) -> Tensor:
    """A token for each row; temperature 0: the likeliest."""
    values, places = likeliest(logits)
    shares = torch.softmax(values / temperatures.clamp(min=1e-3).unsqueeze(-1), -1)
    drawn = (shares / torch.empty_like(shares).exponential_()).argmax(-1)
    return places.gather(-1, (drawn * (temperatures > 0)).unsqueeze(-1)).squeeze(-1)


class Writer:
    """Texts of `length` tokens in `rows` rows. At each step a row's next token is forced, or
    chosen."""

    def __init__(self, target: Target, ids: dict[str, Any], rows: int, length: int):
        self.decoder, self.length, self.ids = Decoder(target, rows, length), length, ids
        self.chat = torch.tensor(ids["chat"], device=target.device)
        self.opening = torch.zeros((), dtype=torch.long, device=target.device)
        longest = max(len(turn) for turn in ids["turns"])

        def whole(*size: int) -> Tensor:
            return torch.zeros(*size, dtype=torch.long, device=target.device)

        self.turns = torch.tensor([t + [-1] * (longest - len(t)) for t in ids["turns"]],
                                  device=target.device)
        self.ends = torch.tensor(ids["ends"], dtype=torch.long, device=target.device)
        self.position, self.tokens, self.texts = whole(1), whole(rows), whole(rows, length + 1)
        self.answering, self.written = whole(rows), whole(rows)
        self.forced = whole(rows, length + longest + 1)
        self.learned = torch.zeros(rows, length + 1, dtype=torch.bool, device=target.device)
        self.temperatures = torch.zeros(rows, device=target.device)
        self.after = torch.arange(2, 1 + longest, device=target.device)
        # Attention reads the beginning of the cache that the position has reached.
        self.limits = sorted({min(length, n) for n in range(128, length + 128, 128)})
        self.graphs = {n: self.record(n) for n in self.limits} if target.device != "cpu" else {}

    @torch.no_grad()
    def step(self, limit: int) -> None:
        logits = self.decoder.step(self.tokens, self.position, limit)
        place = self.position + 1
        # No constant stands in torch.where: a graph forbids to copy it to the device.
        asking = (self.answering == 0) & self.chat
        drawn = asking | (self.position < self.opening)
        new = choose(logits, drawn * QUESTION_TEMPERATURE + ~drawn * self.temperatures)
        forced = self.forced.index_select(1, place).squeeze(1)
        free = forced < 0
        self.written.copy_((self.written + 1) * (free & asking))
        end = free & ((new.unsqueeze(-1) == self.ends).any(-1) | (self.written > LONGEST_QUESTION))
        turn = self.turns[self.answering]  # what follows this part
        new = torch.where(free, torch.where(end, turn[:, 0], new), forced)
        self.learned.index_copy_(1, place, (free & ~asking).unsqueeze(1))
        following = self.position + self.after
        kept = self.forced.index_select(1, following)
        self.forced.index_copy_(1, following, torch.where(end.unsqueeze(1), turn[:, 1:], kept))
        self.answering.copy_((self.answering == 1) ^ (end & self.chat))
        self.texts.index_copy_(1, place, new.unsqueeze(1))
        self.tokens.copy_(new)
        self.position.add_(1)

    def record(self, limit: int) -> Any:
        """A CUDA graph of one step."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.position.zero_()
                self.step(limit)
        torch.cuda.current_stream().wait_stream(stream)
        self.position.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(limit)
        return graph

    def begin(self, starts: list[list[int]], answering: list[int],
              temperatures: list[float]) -> None:
        forced = torch.full(self.forced.shape, -1, dtype=torch.long)
        for row, start in enumerate(starts):
            forced[row, :len(start)] = torch.tensor(start)
        self.forced.copy_(forced)
        self.tokens.copy_(forced[:, 0])
        self.texts.zero_()
        self.texts[:, 0] = self.tokens
        self.learned.zero_()
        self.written.zero_()
        self.position.zero_()
        self.answering.copy_(torch.tensor(answering))
        self.temperatures.copy_(torch.tensor(temperatures))

    def run(self, steps: int) -> None:
        for position in range(steps):
            limit = next(n for n in self.limits if position < n)
            if self.graphs:
                self.graphs[limit].replay()
            else:
                self.step(limit)

    def round(self, seed: int, questions: float) -> tuple[np.ndarray, np.ndarray]:
        """Texts [rows, length], and where the model wrote what a head learns to draft. A share of
        them begins with a question."""
        draw, rows = random.Random(seed), len(self.answering)
        starts, answering = [], []
        for _ in range(rows):
            asked = bool(self.ids["questions"]) and draw.random() < questions
            start = draw.choice(self.ids["questions" if asked else "headers"])
            starts.append(start[:max(1, self.length - 64)])
            answering.append(int(asked))
        torch.manual_seed(seed)
        self.begin(starts, answering, [draw.choice(ANSWER_TEMPERATURES) for _ in range(rows)])
        self.opening.fill_(0 if self.ids["chat"] else OPENING)
        self.run(self.length - 1)
        return (self.texts[:, :self.length].to(torch.int32).cpu().numpy(),
                self.learned[:, :self.length].cpu().numpy())


def write_texts(target: Target, ids: dict[str, Any], folder: Path, rows: int, length: int,
                seed: int, seconds: float, rounds: int | None, questions: float) -> None:
    """Rounds until their time is spent; those in the folder count. Each process writes the rounds
    of its own numbers."""
    written = {int(f.stem): float(np.load(f)["seconds"]) for f in sorted(folder.glob("*.npz"))}
    spent = sum(took for number, took in written.items() if number % RANKS == RANK)
    writer = None
    for number in range(RANK, rounds if rounds is not None else 1_000_000, RANKS):
        if spent >= seconds:
            break
        if number in written:
            continue
        if writer is None:
            writer = Writer(target, ids, rows, length)
            say(f"writing {rows} texts of {length} tokens together")
        started = time.monotonic()
        tokens, learned = writer.round(seed * 1_000_000 + number, questions)
        took = time.monotonic() - started
        spent += took
        buffer = io.BytesIO()
        np.savez_compressed(buffer, tokens=tokens, learned=np.packbits(learned, -1), seconds=took)
        write(folder / f"{number:06d}.npz", buffer.getvalue())
        if number < 2 or number // RANKS % 10 == 9:
            say(f"round {number + 1}: {tokens.size / took:,.0f} tokens/s, {learned.mean():.0%} "
                f"learned, {spent:.0f} of {seconds:.0f} s")


def read_texts(folder: Path) -> tuple[Tensor, Tensor]:
    """All texts and what is learned of them, [texts, length]."""
    tokens, learned = [], []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            tokens.append(data["tokens"])
            learned.append(np.unpackbits(data["learned"], -1, tokens[-1].shape[1]).astype(bool))
    return torch.from_numpy(np.concatenate(tokens)), torch.from_numpy(np.concatenate(learned))
