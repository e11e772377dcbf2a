#!/usr/bin/env python3
"""Fits how sure the n-gram drafts are of their tokens: prints the weights in src/speculate/tuning.c.

    scripts/fit_ngram.py TEXTS.jsonl

A line of TEXTS.jsonl is {"kind": "code", "weight": 1, "prompt": [ids], "tokens": [ids], "likely": [[[id, p], ...], ...]}:
likely[i] is what the model found likely where it chose tokens[i], likeliest first. Every candidate for every token of
"tokens", by the rules of ngram.c and successors.c, counts `weight` times in the fit. Needs numpy.
"""

import collections
import json
import math
import sys

import numpy

ORDERS = (8, 4, 2, 1)
LONGEST, PLACES = 32, 16
NAMES = ("1", "log2 length", "log2 count", "share", "share after last token",
         "last token seen", "log2 p after it", "last two seen", "log2 p after them")
NEWER = 0.6


def match_length(text, place, end):
    length = 0
    while length < min(LONGEST, place) and text[place - 1 - length] == text[end - 1 - length]:
        length += 1
    return length


def scaled(p):
    return math.log2(p + 1 / 256) + 8


def candidates(text, end, table, seen):
    """The features of each token that may follow text[:end], and whether it has places."""
    places = []
    for order in ORDERS:
        places = table[order].get(tuple(text[end - order : end]), [])[: -PLACES - 1 : -1] if end >= order else []
        if places:
            break
    lengths = [match_length(text, place, end) for place in places]
    weights, longest, counts = collections.defaultdict(float), {}, collections.Counter(text[p] for p in places)
    for i, (place, length) in enumerate(zip(places, lengths)):
        weights[text[place]] += min(length, 16) ** 2 * 0.8**i
        longest[text[place]] = max(length, longest.get(text[place], 0))
    last = [text[place] for place in table[1].get((text[end - 1],), [])[: -PLACES - 1 : -1]]
    known = [seen.get(tuple(text[end - n : end]), {}) for n in (1, 2)]
    for token in {*counts, *last, *known[0], *known[1]}:
        features = [1, math.log2(longest.get(token, max(lengths, default=1))),
                    math.log2(counts[token]) if counts[token] else 0,
                    weights[token] / sum(weights.values()) if token in weights else 0,
                    last.count(token) / len(last) if last else 0]
        for likely in known:
            features += [1, scaled(likely.get(token, 0))] if likely else [0, 0]
        yield token, features, counts[token] > 0


def observe(seen, text, end, likely):
    for n in (1, 2):
        before = seen.get(tuple(text[end - n : end]), {})
        newer = NEWER if before else 1
        merged = collections.Counter({token: (1 - newer) * p for token, p in before.items()})
        for token, p in likely:
            merged[token] += newer * p
        seen[tuple(text[end - n : end])] = dict(merged.most_common(8))


def replay(path):
    """Features, whether there are places, hit, kind and weight of every candidate."""
    for line in open(path, encoding="utf-8"):
        text_of = json.loads(line)
        text, seen, n_prompt = text_of["prompt"] + text_of["tokens"], {}, len(text_of["prompt"])
        table = {order: collections.defaultdict(list) for order in ORDERS}
        for end in range(1, len(text)):
            if end >= n_prompt:
                for token, features, has_places in candidates(text, end, table, seen):
                    yield features, has_places, token == text[end], text_of["kind"], text_of.get("weight", 1)
                observe(seen, text, end, text_of["likely"][end - n_prompt])
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
    for has_places in (False, True):
        these = [row for row in rows if row[1] == has_places]
        x = numpy.array([row[0] for row in these], float)
        y = numpy.array([row[2] for row in these], float)
        kinds = numpy.array([row[3] for row in these])
        b = fit(x, y, numpy.array([row[4] for row in these], float))
        print("with places" if has_places else "without places")
        for name, value in zip(NAMES, b):
            print(f"{value:8.3f}  {name}")
        p = 1 / (1 + numpy.exp(-x @ b))
        for kind in sorted(set(kinds)):
            for low in numpy.arange(10) / 10:
                bucket = (kinds == kind) & (p >= low) & (p < low + 0.1)
                if bucket.any():
                    print(f"  {kind}, confidence {low:.1f} to {low + 0.1:.1f}: {bucket.sum():6}, right {y[bucket].mean():.2f}")


if __name__ == "__main__":
    main()
