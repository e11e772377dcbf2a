#!/usr/bin/env python3
"""Runs llama.cpp's server tests against Riffle: run_llama_server.py RIFFLE FOLDER [TEST...], where FOLDER is its
tools/server/tests. Needs pytest and what the tests import. Each test passes, is not ours, or deviates for a reason:
llama_server.tsv has the patterns of the last two. A failure without a reason, and a reason whose test passes, make the
exit status 1. Tests marked slow want models of several GB: another stands for them, which the variable LARGE names; without
it they are left out.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NOT_OURS, DEVIATES = "not ours", "deviates"


def read_table():
    rows = [line.split("\t") for line in (HERE / "llama_server.tsv").read_text().splitlines()[1:]]
    for row in rows:
        if len(row) != 3 or row[1] not in (NOT_OURS, DEVIATES):
            sys.exit("llama_server.tsv: %r is not a pattern, a verdict and a reason" % row)
    return [(re.compile(re.escape(pattern).replace(r"\*", ".*"), re.S), verdict, reason) for pattern, verdict, reason in rows]


def known(table, name):
    for pattern, verdict, reason in table:
        if pattern.fullmatch(name):
            return verdict, reason
    return None, ""


# ---- as a plugin of pytest: tests that are not ours are not run; results are lines ----

def pytest_collection_modifyitems(config, items):
    table, kept = read_table(), []
    for item in items:
        name = item.nodeid.removeprefix("unit/")
        if item.get_closest_marker("slow") and not os.environ.get("LARGE"):
            note(NOT_OURS, name, "a model of several GB")
        elif known(table, name)[0] == NOT_OURS:
            note(NOT_OURS, name, known(table, name)[1])
        else:
            kept.append(item)
    items[:] = kept


def pytest_runtest_logreport(report):
    if report.when == "call" or report.failed or report.skipped and report.when == "setup":
        note(report.outcome, report.nodeid.removeprefix("unit/"), "")


def note(outcome, name, reason):
    with open(os.environ["VERDICTS"], "a") as file:
        file.write("%s\t%s\t%s\n" % (outcome, name, reason))


# ---- the program ----

def main():
    riffle, folder, *tests = sys.argv[1:]
    verdicts = pathlib.Path(os.environ.get("VERDICTS", "/tmp/llama_server_verdicts.tsv"))
    verdicts.write_text("")
    environment = dict(os.environ, RIFFLE=str(pathlib.Path(riffle).resolve()), VERDICTS=str(verdicts.resolve()),
                       LLAMA_SERVER_BIN_PATH=str(HERE / "llama_server.py"), PYTHONPATH=str(HERE))
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "run_llama_server", "-p", "no:cacheprovider", "--tb=line", *(tests or ["unit"])],
                   cwd=folder, env=environment)
    table, counts, reasons, wrong = read_table(), collections.Counter(), collections.Counter(), []
    for line in verdicts.read_text().splitlines():
        outcome, name, reason = line.split("\t")
        verdict, why = (outcome, reason) if outcome == NOT_OURS else known(table, name)
        if outcome == "failed" and verdict == DEVIATES or outcome == NOT_OURS:
            counts[verdict] += 1
            reasons[verdict, why] += 1
        else:
            counts[outcome] += 1
            if outcome == "failed" or outcome == "passed" and verdict == DEVIATES:
                wrong.append("%s: %s, %s" % (name, outcome, verdict or "no reason is known"))
    for (verdict, why), n in sorted(reasons.items()):
        print("%4d %s: %s" % (n, verdict, why))
    print("\n".join(wrong))
    print(", ".join("%d %s" % (n, verdict) for verdict, n in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
