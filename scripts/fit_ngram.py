#!/usr/bin/env python3
"""Fits how sure the n-gram drafts are of their tokens: prints the coefficients of `confidence` in src/speculate/ngram.c.

    scripts/fit_ngram.py TEXTS.jsonl

A line of TEXTS.jsonl is {"kind": "code", "weight": 1, "prompt": [ids], "tokens": [ids]}: every token of "tokens" is
drafted from all before it, by the rules of ngram.c, and counts `weight` times in the fit. Answers that a model
generated are what matters; `riffle run --json --ids` prints their ids. Needs numpy.
"""

import collections
import json
import math
import sys

import numpy

ORDERS = (8, 4, 2, 1)
LONGEST, PLACES = 32, 16
NAMES = ("1", "log2 length", "log2 count", "share", "share after last token")


def match_length(text, place, end):
    length = 0
    while length < min(LONGEST, place) and text[place - 1 - length] == text[end - 1 - length]:
        length += 1
    return length


def evidence(text, end, table):
    """The token drafted after text[:end] and what it rests on, or None."""
    for order in ORDERS:
        places = table[order].get(tuple(text[end - order : end]), [])[: -PLACES - 1 : -1] if end >= order else []
        if places:
            break
    else:
        return None
    lengths = [match_length(text, place, end) for place in places]
    weights = collections.defaultdict(float)
    for i, (place, length) in enumerate(zip(places, lengths)):
        weights[text[place]] += min(length, 16) ** 2 * 0.8**i
    token = max(weights, key=weights.get)
    mine = [length for place, length in zip(places, lengths) if text[place] == token]
    last = table[1][text[end - 1],][: -PLACES - 1 : -1]
    last_share = sum(text[place] == token for place in last) / len(last)
    share = weights[token] / sum(weights.values())
    return token, (1, math.log2(max(mine)), math.log2(len(mine)), share, last_share)


def replay(path):
    """Features, hit, kind and weight of every token of the answers; features are None where nothing is drafted."""
    for line in open(path, encoding="utf-8"):
        text_of = json.loads(line)
        text = text_of["prompt"] + text_of["tokens"]
        table = {order: collections.defaultdict(list) for order in ORDERS}
        for end in range(1, len(text)):
            if end >= len(text_of["prompt"]):
                found = evidence(text, end, table)
                features, hit = (found[1], found[0] == text[end]) if found else (None, False)
                yield features, hit, text_of["kind"], text_of.get("weight", 1)
            for order in ORDERS:
                if end >= order:
                    table[order][tuple(text[end - order : end])].append(end)


def fit(x, y, weight):
    """Logistic regression by Newton's method."""
    b = numpy.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + numpy.exp(-x @ b))
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + 1e-3 * numpy.eye(len(b))
        b += numpy.linalg.solve(hessian, x.T @ (weight * (y - p)))
    return b


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = list(replay(sys.argv[1]))
    drafted = [row for row in rows if row[0]]
    x = numpy.array([row[0] for row in drafted], float)
    y = numpy.array([row[1] for row in drafted], float)
    kinds = numpy.array([row[2] for row in drafted])
    b = fit(x, y, numpy.array([row[3] for row in drafted], float))
    for name, value in zip(NAMES, b):
        print(f"{value:8.3f}  {name}")
    p = 1 / (1 + numpy.exp(-x @ b))
    for kind in sorted(set(kinds)):
        total = sum(row[2] == kind for row in rows)
        share = (kinds == kind).sum() / total
        print(f"{kind}: {total} tokens, {share:.2f} of them drafted, share right {y[kinds == kind].mean():.3f}")
        for low in numpy.arange(10) / 10:
            these = (kinds == kind) & (p >= low) & (p < low + 0.1)
            if these.any():
                print(f"  confidence {low:.1f} to {low + 0.1:.1f}: {these.sum():6} tokens, right {y[these].mean():.2f}")


if __name__ == "__main__":
    main()
