"""Cuts every character of Unicode, alone and between others, into words, by Hugging Face's tokenizers and by Riffle.

    scripts/compare_words.py [--program build/cut_words] [--all] [NAME...]

needs the packages tokenizers and unicodedata2 and the program, which the build makes. Without --all, characters that have
both neighbours of their category are compared alone, and only the others between others. Exits with 1 if a word differs.
"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_text_fixtures import SPECIAL, pre_tokenizer

AROUND = ["%s", "a%s", "A%s", "%sa", "1%s", "%s1", " %s", "%s ", ".%s", "%s.", "'%s", "%s%s", "\n%s", "%s\n", "中%s", "é%s",
          "%s\u0301", "x %s y", "  %s", "''%sA", "%s!a", "+%s", "a'%s", "Aa%sAa"]


LISTED = [0x7ff, 0x800, 0x9fa5, 0x9fa6, 0x2017, 0x2018, 0x201f, 0x2020, 0x3002, 0x3003, 0x303f, 0x3040, 0x30ff, 0x3100]


def characters(everything):
    from unicodedata2 import category
    for c in range(0x110000):
        edge = c in LISTED or c == 0 or c == 0x10ffff or len({category(chr(c + d)) for d in (-1, 0, 1)}) > 1
        if not 0xd800 <= c < 0xe000 and (everything or edge):
            yield chr(c)


def riffle(child, pre, text):
    data = text.encode("utf-8")
    child.stdin.write(b"%s %d\n" % (pre.encode(), len(data)) + data)
    child.stdin.flush()
    at, words = 0, []
    for n in map(int, child.stdout.readline().split()):
        words.append(data[at:at + n].decode("utf-8", "replace"))
        at += n
    return words


def compare(child, name, around, chars):
    from tokenizers import pre_tokenizers
    made = pre_tokenizer(name)
    alphabet = {v: k for k, v in zip(range(256), byte_alphabet())}
    bad = set()

    def wanted(text):
        return [bytes(alphabet[x] for x in w).decode("utf-8", "replace") for w, _ in made.pre_tokenize_str(text)]

    def search(chars):
        """Characters whose words differ, by halves. U+E000, which no pattern names, keeps them apart."""
        text = "\ue000".join(around.replace("%s", c) for c in chars)
        if wanted(text) == riffle(child, name, text):
            return
        if len(chars) == 1:
            bad.add(chars[0])
            return
        search(chars[:len(chars) // 2])
        search(chars[len(chars) // 2:])

    for i in range(0, len(chars), 2048):
        search(chars[i:i + 2048])
    return bad


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(other)) for b in range(256)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--program", default="build/cut_words")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    failed, whole, edges = False, list(characters(True)), list(characters(False))
    for name in options.names or SPECIAL:
        child = subprocess.Popen([options.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for around in AROUND:
            bad = compare(child, name, around, whole if options.all or around == "%s" else edges)
            failed |= bool(bad)
            if bad:
                print(name, repr(around), len(bad), "characters:", " ".join("%x" % ord(c) for c in sorted(bad)[:12]), flush=True)
        print(name, "done", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
