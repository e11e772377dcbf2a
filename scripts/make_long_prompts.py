#!/usr/bin/env python3
"""Writes bench/prompts/long.jsonl: nine excerpts, each a little under 4,096 tokens, and prompts that put 1, 2, 4 or 9
of them before a question.

The texts are in the public domain: the Jargon File 4.4.7, the Constitution of the United States and their Declaration of
Independence, as the Debian packages jargon-text 4.4.7 and miscfiles 1.5 have them.

    apt-get download jargon-text miscfiles; dpkg-deb -x each of them to FOLDER; scripts/make_long_prompts.py FOLDER
"""
import gzip
import json
import pathlib
import re
import sys

EXCERPTS, BYTES = 9, 15500
PARTS = [  # of the Jargon File: how a part begins, and how what follows it begins
    ("Appendix A. Hacker Folklore", "Appendix B."),
    ("Chapter 4. Jargon Construction", "Chapter 6."),
    ("Chapter 1. Hacker Slang", "Chapter 3."),
    ("Chapter 7. Hacker Speech Style", "Chapter 10."),
    ("Appendix C. Helping Hacker Culture Grow", "Bibliography"),
]
SIZES = {"4k": 1, "8k": 2, "16k": 4, "32k": 9}
ASKED = {
    "summarise": "Summarise the text above in about 150 words.",
    "find": "Which sports event did students from Caltech hack in 1961, and which word did the changed picture show? Answer "
            "first, then quote the sentences of the text above that say so.",
    "continue": "Continue the text above in the same style, with three more paragraphs.",
}


def read(folder, name):
    return gzip.decompress(next(pathlib.Path(folder).glob(f"**/{name}.gz")).read_bytes()).decode().replace("\xa0", " ")


def paragraphs(folder):
    """Each as one line."""
    jargon = read(folder, "jargon.txt")
    parts = []
    for first, after in PARTS:
        start = jargon.index(f"\n{first}") + 1
        parts.append(jargon[start:jargon.index(f"\n{after}", start)])
    parts.insert(1, read(folder, "us-constitution"))
    parts.append(read(folder, "us-declaration"))
    for part in parts:
        for paragraph in re.split(r"\n\s*\n", part):
            if paragraph.strip():
                yield " ".join(paragraph.split())


def excerpts(folder):
    found, text = [], ""
    for paragraph in paragraphs(folder):
        text += paragraph + "\n\n"
        if len(text.encode()) >= BYTES:
            found.append(text)
            text = ""
        if len(found) == EXCERPTS:
            return found
    sys.exit(f"The texts give {len(found)} excerpts, not {EXCERPTS}: {len(text)} characters are left")


def main():
    lines = [{"excerpt": str(i + 1), "text": text} for i, text in enumerate(excerpts(sys.argv[1]))]
    for size, n in SIZES.items():
        for name, question in ASKED.items():
            lines.append({"name": f"{name} {size}", "excerpts": [str(i + 1) for i in range(n)], "prompt": question})
    path = pathlib.Path(__file__).resolve().parent.parent / "bench" / "prompts" / "long.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


main()
