#!/usr/bin/env python3
"""Measures what a head's drafts gain as lines and as trees, along recorded answers and by fixed
costs: no clock is read. docs/lab has what came of it.

    replay_trees.py --model MODEL.gguf --head HEAD.gguf [--tables] [--work FILE] ANSWERS.jsonl...

ANSWERS are of `bench_replay MODEL record`. --work keeps the drafts, which take minutes. With
--tables n-grams draft beside the head.

At every place of an answer the head drafts a tree: of each depth it continues the MOST likeliest
nodes and those of its line, by the product of its probabilities. A round then takes what it would
have: a line whose every place has runners-up, or the tree, both as far as a row is worth its
cost."""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import dataclass, field

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from head import Head, HeadShape
from target import Target, fields, rms
from torch import Tensor
from torch.nn import functional as F

MOST, CHILDREN, DEPTH, LEAST = 4, 3, 15, 0.02  # nodes a depth, children of each, and their least p
# Costs of target passes over 1, 2, 4, 8, 16, 32 rows, as in bench/replay; the share of a pass that
# a row of the head takes.
COSTS = {
    "AVX2, Q4_K_M": ([1.00, 1.12, 1.70, 2.90, 5.65, 11.0], 0.022),
    "AVX-512, Q4_K_M": ([1.00, 1.04, 1.15, 1.47, 2.70, 4.9], 0.022),
    "AMX, Q4_K_M": ([1.00, 1.03, 1.12, 1.35, 2.00, 3.3], 0.022),
    "AMX, BF16": ([1.00, 1.01, 1.03, 1.06, 1.19, 1.7], 0.01),
    "AMX, dear head": ([1.00, 1.03, 1.12, 1.35, 2.00, 3.3], 0.10),
    "CUDA": ([1.00, 1.02, 1.04, 1.07, 1.14, 1.3], 0.06),
}


@dataclass
class Node:
    token: int
    parent: int  # -1: the text
    depth: int  # 1: after the text
    rank: int  # among its siblings
    said: float  # the head's probability of it
    is_line: bool
    is_open: bool = False  # the head has continued it
    is_table: bool = False  # no node of the head: what followed earlier in the text
    p: float = 0.0  # of it, where the node before it is right
    path: float = 0.0  # of it and all before it


@dataclass
class Answer:
    tokens: list[int]
    first: int
    trees: dict[int, list[Node]] = field(default_factory=dict)  # by the tokens before


def load_head(path: str, target: Target) -> Head:
    reader = GGUFReader(path)
    keys = fields(reader)
    of = lambda name: keys["eagle3." + name]  # noqa: E731
    shape = HeadShape(of("embedding_length"), of("attention.head_count"),
                      of("attention.head_count_kv"), of("attention.key_length"),
                      of("feed_forward_length"), list(of("target_layers")),
                      of("attention.layer_norm_rms_epsilon"), of("rope.freq_base"),
                      of("context_length"), of("vocab_size"), keys["riffle.head.target"], "",
                      list(keys["riffle.head.output_rows"]))
    head = Head(shape, target)
    for t in reader.tensors:
        value = torch.from_numpy(dequantize(t.data, t.tensor_type).copy())
        name = t.name.removesuffix(".weight").replace(".", ":")
        head.values[name].data = value.reshape(head.values[name].shape)
    return head


class Drafter:
    """Rows of the head beside the rows of a whole text. A row reads the text's rows before its
    draft, and those of its draft that it follows."""

    def __init__(self, head: Head, target: Target):
        self.head, self.target, self.shape = head, target, head.shape
        self.w = {name.replace(":", "."): v.detach() for name, v in head.values.items()}
        self.names = head.shape.tokens()
        self.rows = target.output[self.names]

    def heads(self, z: Tensor, name: str) -> Tensor:
        return F.linear(z, self.w["blk.0." + name]).unflatten(-1, (-1, self.shape.head_dim))

    def project(self, x: Tensor, tokens: Tensor, places: Tensor) -> tuple[Tensor, ...]:
        norm = lambda v, n: rms(v, self.w["blk.0." + n], self.shape.epsilon)  # noqa: E731
        z = torch.cat([norm(self.target.embedding[tokens], "attn_norm"), norm(x, "attn_norm_2")],
                      -1)
        cos, sin = self.head.rotation.tables(places)
        tables = cos.unsqueeze(1), sin.unsqueeze(1)
        group = self.shape.heads // self.shape.heads_kv
        return (self.head.rotation.turn(self.heads(z, "attn_q"), tables),
                self.head.rotation.turn(self.heads(z, "attn_k"),
                                        tables).repeat_interleave(group, 1),
                self.heads(z, "attn_v").repeat_interleave(group, 1))

    def end(self, x: Tensor, attended: Tensor) -> Tensor:
        w = lambda n: self.w["blk.0." + n]  # noqa: E731
        x = x + F.linear(attended.flatten(1), w("attn_output"))
        n = rms(x, w("ffn_norm"), self.shape.epsilon)
        return x + F.linear(F.silu(F.linear(n, w("ffn_gate"))) * F.linear(n, w("ffn_up")),
                            w("ffn_down"))

    def likely(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = F.linear(rms(x, self.w["output_norm"], self.shape.epsilon), self.rows)
        top = logits.softmax(-1).topk(CHILDREN, -1)
        return top.values, self.names[top.indices]

    @torch.no_grad()
    def draft(self, answer: Answer) -> None:
        tokens = torch.tensor(answer.tokens)
        taps, _ = self.target.read(tokens.unsqueeze(0), self.shape.layers)
        x = F.linear(taps[0, :-1], self.w["fc"])
        places = torch.arange(len(x))
        q, k, v = self.project(x, tokens[1:], places)
        scale = self.shape.head_dim ** -0.5
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        shares = (torch.einsum("thd,jhd->thj", q, k) * scale).masked_fill(
            later.unsqueeze(1), -torch.inf).softmax(-1)
        results = self.end(x, torch.einsum("thj,jhd->thd", shares, v))
        # Rows of drafts: of which text, of which node, result, keys and values of its path.
        starts = list(range(answer.first, len(tokens)))
        open_rows = [(n, -1) for n in starts]
        last = results[[n - 2 for n in starts]]
        path_k = torch.zeros(len(starts), 0, self.shape.heads, self.shape.head_dim)
        path_v = path_k.clone()
        answer.trees = {n: [] for n in starts}
        for depth in range(1, DEPTH + 1):
            values, names = self.likely(last)
            chosen: dict[int, list[tuple[float, int, int]]] = {n: [] for n in starts}
            for row, (n, parent) in enumerate(open_rows):
                tree = answer.trees[n]
                if parent >= 0:
                    tree[parent].is_open = True
                for rank in range(CHILDREN):
                    said = values[row, rank].item()
                    on = rank == 0 and (parent < 0 or tree[parent].is_line)
                    before = tree[parent].path if parent >= 0 else 1.0
                    if before * said < LEAST and not on:
                        continue
                    tree.append(Node(int(names[row, rank]), parent, depth, rank, said, on,
                                     path=before * said))
                    chosen[n].append((before * said, len(tree) - 1, row))
            if depth == DEPTH:
                break
            taken = []
            for n in starts:
                best = sorted(chosen[n], reverse=True)
                taken += [(n, node, row) for i, (_, node, row) in enumerate(best)
                          if i < MOST or answer.trees[n][node].is_line]
            index = torch.tensor([row for _, _, row in taken])
            x = last[index]
            at = torch.tensor([n - 2 + depth for n, _, _ in taken])
            ids = torch.tensor([answer.trees[n][node].token for n, node, _ in taken])
            q, k1, v1 = self.project(x, ids, at)
            path_k = torch.cat([path_k[index], k1.unsqueeze(1)], 1)
            path_v = torch.cat([path_v[index], v1.unsqueeze(1)], 1)
            far = places.unsqueeze(0) > torch.tensor([n - 2 for n, _, _ in taken]).unsqueeze(1)
            text = torch.einsum("thd,jhd->thj", q, k).masked_fill(far.unsqueeze(1), -torch.inf)
            own = torch.einsum("thd,tjhd->thj", q, path_k)
            shares = (torch.cat([text, own], -1) * scale).softmax(-1)
            a = torch.einsum("thj,jhd->thd", shares[..., :len(places)], v)
            a = a + torch.einsum("thj,tjhd->thd", shares[..., len(places):], path_v)
            last = self.end(x, a)
            open_rows = [(n, node) for n, node, _ in taken]


# ---- tables ----

TIPS, LENGTH, REACH = 6, 4, 0.05  # nodes that tables continue, by how much, and their least p


def add_tables(answer: Answer) -> None:
    """Stands in for n-gram tables: behind the text and the likeliest nodes, what followed the
    last two tokens where they stood last, else the last one. It costs nothing but rows."""
    places: dict[tuple[int, ...], int] = {}
    tokens = answer.tokens
    for end in range(1, len(tokens)):
        if end >= answer.first:
            extend(answer.trees[end], tokens, places, end)
        places[(tokens[end - 1],)] = end
        if end > 1:
            places[tuple(tokens[end - 2:end])] = end


def extend(tree: list[Node], tokens: list[int], places: dict[tuple[int, ...], int],
           end: int) -> None:
    by_path = sorted(range(len(tree)), key=lambda i: -tree[i].path)[:TIPS]
    for tip in [-1] + [i for i in by_path if tree[i].path >= REACH]:
        last, at = tokens[max(0, end - 2):end], tip
        if tip >= 0:
            before = tree[tip].parent
            last = [tree[before].token if before >= 0 else tokens[end - 1], tree[tip].token]
        for _ in range(LENGTH):
            two, one = places.get(tuple(last[-2:])), places.get((last[-1],))
            found = two if two is not None else one
            if found is None or found >= end:
                break
            token = tokens[found]
            same = [i for i, node in enumerate(tree) if node.parent == at and node.token == token]
            if same and not tree[same[0]].is_table:
                break
            if not same:
                depth = 1 + (tree[at].depth if at >= 0 else 0)
                said = 0.5 if two is not None else 0.1
                before_p = tree[at].path if at >= 0 else 1.0
                tree.append(Node(token, at, depth, 9, said, False, is_table=True,
                                 path=before_p * said))
            at = same[0] if same else len(tree) - 1
            last = [last[-1], token]


# ---- probabilities ----

EDGES = [0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995]


def bin_of(node: Node) -> tuple[int, int]:
    return 2 if node.is_table else min(node.rank, 1), sum(node.said >= e for e in EDGES)


def walk(answer: Answer, n: int, rows: set[int] | None) -> list[int]:
    """The nodes of the tree that the answer has, among these rows."""
    kept, at = [], -1
    tree = answer.trees[n]
    while n + len(kept) < len(answer.tokens):
        found = [i for i, node in enumerate(tree) if node.parent == at
                 and node.token == answer.tokens[n + len(kept)] and (rows is None or i in rows)]
        if not found:
            break
        at = found[0]
        kept.append(at)
    return kept


def calibrate(answers: list[Answer]) -> float:
    """Gives each node the share of nodes like it that are right where the nodes before are; returns
    the share of a line's. The replay's own answers are those that are counted: a little better than
    any pace could know."""
    counts: dict[tuple[int, int], list[float]] = {}
    line = [0.0, 0.0]
    for answer in answers:
        for n, tree in answer.trees.items():
            kept = walk(answer, n, None)
            true = {-1, *kept}
            for i, node in enumerate(tree):
                if node.parent not in true or n + node.depth > len(answer.tokens):
                    continue
                count = counts.setdefault(bin_of(node), [0.0, 0.0])
                count[0] += i in true
                count[1] += 1
                if node.is_line:
                    line[0] += i in true
                    line[1] += 1
    for answer in answers:
        for tree in answer.trees.values():
            for node in tree:
                right, seen = counts.get(bin_of(node), [0.0, 0.0])
                node.p = (right + node.said) / (seen + 1)
                node.path = node.p * (tree[node.parent].path if node.parent >= 0 else 1.0)
    return line[0] / line[1]


# ---- rounds ----


def cost_of(costs: list[float], rows: int) -> float:
    low = int(math.log2(rows))
    part = rows / 2 ** low - 1
    return costs[low] if part == 0 else costs[low] + part * (costs[low + 1] - costs[low])


class Round:
    """Chooses a draft. `rate`: tokens a pass that are given up for cost; `hope`: what a continued
    node is worth, as a multiple of its first token."""

    def __init__(self, costs: list[float], head: float, usual: float, is_tree: bool):
        self.pass_cost = [0.0] + [cost_of(costs, n) for n in range(1, 33)]
        self.head, self.usual, self.is_tree = head, usual, is_tree

    def head_cost(self, rows: int) -> float:
        return self.head * self.pass_cost[min(rows, 31)]

    def rows_of(self, tree: list[Node], seen: set[int], rate: float) -> list[int]:
        """The nodes that are worth a row, of those whose parents were continued."""
        order = sorted(seen, key=lambda i: (-tree[i].path, i))[:30]
        gain, best, most = 0.0, 0.0, 0
        for k, i in enumerate(order):
            gain += tree[i].path
            now = gain - rate * (self.pass_cost[k + 2] - 1.0)
            if now > best:
                best, most = now, k + 1
        return order[:most]

    def choose(self, tree: list[Node], rate: float, hope: float) -> tuple[list[int], float]:
        """Rows, and what the head's passes cost."""
        open_nodes, seen, spent = {-1}, set(), 0.0
        for depth in range(1, DEPTH + 1):
            have = len(self.rows_of(tree, seen, rate))
            row = self.pass_cost[have + 2] - self.pass_cost[have + 1]
            if depth == 1:
                worth = self.usual * hope - rate * (row + self.head)
                if worth <= 0:
                    break
                spent += self.head
            else:
                able = [i for i in seen if tree[i].depth == depth - 1 and tree[i].is_open
                        and (self.is_tree or tree[i].is_line)]
                able.sort(key=lambda i: -tree[i].path)
                gain, best, most = 0.0, 0.0, 0
                for m, i in enumerate(able):
                    gain += max(0.0, tree[i].path * self.usual * hope - rate * row)
                    now = gain - rate * self.head_cost(m + 1)
                    if now > best:
                        best, most = now, m + 1
                if not most:
                    break
                open_nodes = set(able[:most])
                spent += self.head_cost(most)
            seen |= {i for i, node in enumerate(tree) if not node.is_table
                     and node.depth == depth and node.parent in open_nodes}
            for i, node in enumerate(tree):
                if node.is_table and (node.parent < 0 or node.parent in seen):
                    seen.add(i)
        return self.rows_of(tree, seen, rate), spent


def replay(answers: list[Answer], chooser: Round, rate: float, hope: float) -> dict[str, float]:
    sums = dict.fromkeys(("tokens", "passes", "rows", "head", "cost"), 0.0)
    for answer in answers:
        n = answer.first
        while n < len(answer.tokens):
            rows, spent = chooser.choose(answer.trees[n], rate, hope)
            kept = len(walk(answer, n, set(rows)))
            made = min(kept + 1, len(answer.tokens) - n)
            sums["tokens"] += made
            sums["passes"] += 1
            sums["rows"] += len(rows)
            sums["head"] += spent
            sums["cost"] += chooser.pass_cost[len(rows) + 1] + spent
            n += made
    return sums


def best_replay(answers: list[Answer], chooser: Round) -> dict[str, float]:
    """Replays with the rate that the rounds reach themselves, and the best hope."""
    best: dict[str, float] = {}
    for hope in (1.0, 1.4, 2.0):
        rate = 1.5
        for _ in range(3):
            sums = replay(answers, chooser, rate, hope)
            now = sums["tokens"] / sums["cost"]
            if not best or now > best["tokens"] / best["cost"]:
                best = sums
            rate = now
    return best


def main() -> None:
    p = argparse.ArgumentParser(description="Lines and trees of a head, along recorded answers.")
    p.add_argument("answers", nargs="+")
    p.add_argument("--model", required=True)
    p.add_argument("--head", required=True)
    p.add_argument("--work", help="a file that keeps the drafts")
    p.add_argument("--tables", action="store_true", help="n-grams draft beside the head")
    o = p.parse_args()
    if o.work and os.path.exists(o.work):
        answers = torch.load(o.work, weights_only=False)
    else:
        target = Target(o.model, "cpu")
        drafter = Drafter(load_head(o.head, target), target)
        answers = []
        for path in o.answers:
            for line in open(path, encoding="utf-8"):
                one = json.loads(line)
                answers.append(Answer(one["prompt"] + one["tokens"], len(one["prompt"])))
                drafter.draft(answers[-1])
                print(f"{len(answers)} answers drafted", flush=True)
        if o.work:
            torch.save(answers, o.work)
    for answer in answers if o.tables else []:
        add_tables(answer)
    usual = calibrate(answers)
    print(f"{len(answers)} answers; {usual:.3f} of a line's tokens are right")
    print(f"{'costs':18}{'draft':7}{'gain':>7}{'tokens':>8}{'rows':>7}{'head':>7}  over the line")
    for name, (costs, head) in COSTS.items():
        line = None
        for kind, is_tree in (("line", False), ("tree", True)):
            s = best_replay(answers, Round(costs, head, usual, is_tree))
            gain = s["tokens"] / s["cost"]
            line = line or gain
            print(f"{name:18}{kind:7}{gain:7.3f}{s['tokens'] / s['passes']:8.3f}"
                  f"{s['rows'] / s['passes']:7.2f}{s['head'] / s['passes']:7.3f}"
                  f"{100 * (gain / line - 1):8.1f} %")


if __name__ == "__main__":
    main()
