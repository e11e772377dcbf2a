#!/usr/bin/env python3
"""Trains a draft head for a model and says what it brings. README.md explains the steps.

    train_head.py --model FILE.gguf --out HEAD.gguf [--work FOLDER] [options]
    torchrun --nproc-per-node GPUS train_head.py ...   # several GPUs: texts, train and evaluate

The work folder has the results of the steps: ids.json (prepare), texts/, head.json and checkpoint/
(train), answers.pt and results.json (evaluate). A second call goes on where the first one ended."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from evaluate import answer, measure, show
from fit import Trainer
from gguf_write import write_head
from head import GROUP, Head, HeadShape, choose_rows, head_shape
from prompts import prepare
from target import Refused, Target
from texts import read_texts, write_texts
from work import RANK, RANKS, join, leave, read_state, say, wait_for_all, write_json

STEPS = ("prepare", "texts", "train", "evaluate")


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Trains a draft head for a model.")
    add = p.add_argument
    add("--model", required=True,
        help="the target: a GGUF file of the architecture qwen2, qwen3 or llama")
    add("--out", help="the head's file, or a folder: there the model's fingerprint names it")
    add("--work", default="head-work", type=Path, help="the work folder (head-work)")
    add("--only", default=",".join(STEPS), help=f"which steps: some of {','.join(STEPS)}")
    add("--riffle", default="riffle", help="the program riffle, for its tokenizer (prepare)")
    add("--questions", help="JSON lines with a prompt, text or turns each: questions to train with")
    add("--eval",
        help="JSON lines likewise, not trained with, perhaps with a set: prompts to measure on")
    add("--time-texts", type=float, default=600, help="seconds for texts (600)")
    add("--time-train", type=float, default=900, help="seconds for training (900)")
    add("--rounds", type=int, help="at most so many rounds of texts")
    add("--steps", type=int, help="at most so many steps of training")
    add("--rows", type=int, default=768, help="texts that are written together (768)")
    add("--length", type=int, default=512, help="tokens of a text (512)")
    add("--share", type=float, default=0.2,
        help="share of texts that begin with a question of --questions (0.2)")
    add("--width", type=int,
        help="of the feed-forward layer, a multiple of 32 (twice the hidden size)")
    add("--heads", type=int, help="attention heads (about 4/7 of the target's)")
    add("--layers", help="three layers whose inputs the head reads, such as 2,12,21")
    add("--vocab", type=int, default=12288,
        help="output rows, the target's of the tokens it writes most (12288)")
    add("--unroll", type=int, default=4, help="steps of a draft that are trained (4)")
    add("--batch", type=int, default=24,
        help="texts of a training step; fewer need less memory (24)")
    add("--rate", type=float, help="learning rate (0.016 / sqrt(hidden size))")
    add("--answer", type=int, default=160, help="tokens of an answer that is measured on (160)")
    add("--seed", type=int, default=1)
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return p.parse_args()


def new_shape(o: argparse.Namespace, target: Target, written: torch.Tensor) -> HeadShape:
    s = target.shape
    if s.hidden % GROUP or s.layers < 4:
        raise Refused(
            f"{o.model}: a head needs a hidden size that is a multiple of {GROUP}, and 4 layers")
    heads = o.heads or max(2, round(s.hidden / s.head_dim * 4 / 7 / 2) * 2)
    width = o.width or max(64, 2 * s.hidden // 64 * 64)
    layers = [int(n) for n in o.layers.split(",")] if o.layers else [
        min(2, s.layers // 3), s.layers // 2, s.layers - 3 if s.layers > 6 else s.layers - 1]
    if (width % GROUP or heads * s.head_dim % GROUP or len(set(layers)) != 3
            or layers != sorted(layers) or not 0 <= layers[0] <= layers[2] < s.layers):
        raise Refused(
            f"--width and heads times {s.head_dim} are multiples of {GROUP}; --layers are three "
            f"ascending numbers below {s.layers}")
    shape = head_shape(target, s.name, heads, width, layers)
    shape.rows, covered = choose_rows(written, target.vocabulary, o.vocab)
    say("output rows and the share of written tokens that they cover: " +
        ", ".join(f"{n}: {share:.2%}" for n, share in covered))
    return shape


class Run:
    """The steps of one call, in one work folder."""

    def __init__(self, o: argparse.Namespace):
        self.o, self.work = o, o.work
        self.loaded: Target | None = None

    @property
    def target(self) -> Target:
        if self.loaded is None:
            self.loaded = Target(self.o.model, self.o.device)
            s = self.loaded.shape
            say(f"{s.name}: {s.architecture}, {s.layers} layers of {s.hidden}, on {self.o.device}")
            if self.loaded.vocabulary < self.ids["vocabulary"]:
                raise Refused(f"{self.work}/ids.json is of another model")
        return self.loaded

    @property
    def ids(self) -> dict[str, Any]:
        path = self.work / "ids.json"
        if not path.exists():
            raise Refused(f"{path} is missing: the step prepare makes it")
        return json.loads(path.read_text())

    def head(self) -> Head:
        path = self.work / "head.json"
        if not path.exists():
            tokens, learned = read_texts(self.work / "texts")
            write_json(path, asdict(new_shape(self.o, self.target, tokens[learned])))
        shape = HeadShape(**json.loads(path.read_text()))
        if shape.target != self.target.fingerprint:
            raise Refused(f"{path} is of another model")
        torch.manual_seed(self.o.seed)
        return Head(shape, self.target)

    def prepare(self) -> None:
        path = self.work / "ids.json"
        if not path.exists():
            write_json(path, prepare(self.o.model, self.o.riffle, self.o.questions, self.o.eval,
                                     say))
            say(f"{path} is written")

    def texts(self) -> None:
        o = self.o
        write_texts(self.target, self.ids, self.work / "texts", o.rows, o.length, o.seed,
                    o.time_texts, o.rounds, o.share)
        wait_for_all()

    def trainer(self, head: Head) -> Trainer:
        o, (tokens, learned) = self.o, read_texts(self.work / "texts")
        rate = o.rate or 0.016 / self.target.shape.hidden ** 0.5
        return Trainer(head, self.target, tokens, learned, o.batch, rate, o.unroll, o.seed,
                       self.work / "checkpoint")

    def train(self) -> None:
        if RANK == 0:
            self.head()  # writes the shape that all read
        wait_for_all()
        head = self.head()
        trainer = self.trainer(head)
        size = sum(p.numel() for p in head.parameters())
        shape = head.shape
        say(f"{len(trainer.tokens)} texts, {int(trainer.learned.sum()):,} learned tokens; a head "
            f"of {size / 1e6:.2f} M parameters, {shape.heads} heads, width {shape.width}, layers "
            f"{shape.layers}; {trainer.done} steps are done")
        trainer.run(self.o.time_train, self.o.steps)
        if self.o.out and RANK == 0:
            out = Path(self.o.out)
            out = out / f"{shape.target}.gguf" if out.is_dir() else out
            recipe = (f"{int(trainer.learned.sum())} tokens of {len(trainer.tokens)} texts by the "
                      f"target, {trainer.done} steps of {self.o.batch} texts, seed {self.o.seed}")
            write_head(str(out), head, recipe)
            say(f"{out}: {out.stat().st_size:,} bytes")

    def evaluate(self) -> None:
        if RANK > 0:
            return
        sets = self.ids["eval"]
        if not sets:
            say("no prompts to measure on (--eval of the step prepare)")
            return
        path = self.work / "answers.pt"
        if not path.exists():
            torch.save({name: answer(self.target, self.ids, prompts, self.o.answer)
                        for name, prompts in sets.items()}, path)
        answers, head, results = torch.load(path), self.head(), {}
        for when in ("untrained", "trained"):
            if when == "trained":
                state = read_state(self.work / "checkpoint", self.o.device)
                if state is None:
                    break
                head.load_state_dict(state["head"]["weights"])
            results[when] = {
                name: measure(head, self.target, a, self.o.batch) for name, a in answers.items()
            }
            for name, result in results[when].items():
                show(when, name, result)
        write_json(self.work / "results.json", results)


def main() -> int:
    o = options()
    unknown = set(o.only.split(",")) - set(STEPS)
    if unknown:
        print(f"train_head.py: --only: no step is called {', '.join(sorted(unknown))}",
              file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = True
    if RANKS > o.batch or (RANKS > 1 and "prepare" in o.only.split(",")):
        print("train_head.py: several processes need --only without prepare, and at least as many "
              "texts in --batch", file=sys.stderr)
        return 2
    o.device = join(o.device)
    run = Run(o)
    try:
        for step in STEPS:
            if step in o.only.split(","):
                getattr(run, step)()
        leave()
    except Refused as refusal:
        print(f"train_head.py: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
