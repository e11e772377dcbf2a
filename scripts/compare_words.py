"""Cuts every character of Unicode, alone and between others, into words, by Hugging Face's tokenizers and by Riffle.

    scripts/compare_words.py [--program build/cut_words] [--all] [NAME...]
    scripts/compare_words.py --write    writes test/data/text/words.txt

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
        text = "\ue000" + "".join(around.replace("%s", c) + "\ue000" for c in chars)
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


def write_fixture():
    """A line for each text: pre-tokenizer or "NFC", the text, and its words or its form, all escaped."""
    from text_cases import escape_text, write
    from tokenizers import normalizers
    # Letters, numbers, marks, punctuation and symbols of Unicode 15 and 16, and what is assigned since, or nowhere.
    young = "\u0c5d \U00010d4a \U00010d70 \U00010d40 \U0001e4f0 \U00010efd \u1b4e \U0001fadc \ua7cb \U0001e5d0 \u31d4 \u2ffc"
    late = "\u0558 \U0003fffd \ua7cf \U0001f8d0 \u20c1 \u0378 \U00011de0"
    old = "\u017f \u212a \u00bd \u2167 \u3007 \u0345 \u180e \u200b \u0085 \u2028 \u01c5 \u02b0 \u00aa \u2018 \uff01 \u0800 \ud7fb \u9fa6 \u30ff"
    lines = []
    for name in SPECIAL:
        made = pre_tokenizer(name)
        alphabet = {v: k for k, v in zip(range(256), byte_alphabet())}
        for around in ("%s", "a%sA", "1%s1", " %s ", "'%s!", "中%s%s\n"):
            text = "".join(around.replace("%s", c) for c in (young + " " + late + " " + old).split(" "))
            words = [bytes(alphabet[x] for x in w) for w, _ in made.pre_tokenize_str(text)]
            lines.append("%s %s %s" % (name, escape_text(text), " ".join(str(len(w)) for w in words)))
    for text in ("a\U00011935\U00011930b", "e\u0301\u0323", "a\u0345\u1df6", "a\u0315\U0001e4ec\u0334\u0323", "\U0001611e\U0001611e",
                 "\u1100\u1161\u11a8", "\u212b\u0301\u1abf\u0301", "\U000105d2\u0307", "\u0307\u0323" * 3):
        lines.append("NFC %s %s" % (escape_text(text), escape_text(normalizers.NFC().normalize_str(text))))
    write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "data", "text"), "words.txt", lines)


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(other)) for b in range(256)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--program", default="build/cut_words")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        return write_fixture()
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
