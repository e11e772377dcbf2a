"""Writes src/text/unicode_kinds.c: the kind of each character, as the tokenizers of Hugging Face tell characters apart.

    scripts/make_unicode_kinds.py          needs unicodedata2 16.0.0
    scripts/make_unicode_kinds.py --check  compares the classes with the package tokenizers as well
    scripts/make_unicode_kinds.py --forms  prints the ranges of src/text/nfc.c, by both packages

Their patterns run in Oniguruma, whose tables are those of Unicode 16.0.
"""
import os
import sys

import unicodedata2

KINDS = ["OTHER", "SPACE", "PUNCTUATION", "SYMBOL", "NUMBER", "MARK", "LETTER_MODIFIER", "LETTER_OTHER", "LETTER_SMALL",
         "LETTER_LONG_S", "LETTER_CAPITAL", "LETTER_TITLE"]
OF_CATEGORY = {"Lu": "LETTER_CAPITAL", "Ll": "LETTER_SMALL", "Lt": "LETTER_TITLE", "Lm": "LETTER_MODIFIER",
               "Lo": "LETTER_OTHER"}
OF_GROUP = {"M": "MARK", "N": "NUMBER", "P": "PUNCTUATION", "S": "SYMBOL", "Z": "SPACE"}
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "text", "unicode_kinds.c")
HEAD = '''/* The kind of each character in Unicode 16.0, as runs: scripts/make_unicode_kinds.py wrote them from
 * the Unicode Character Database (THIRD-PARTY.md). pretokenize.c calls it. */
#include "text/unicode_kinds.h"

#include <stddef.h>

'''


def kind(c):
    if 9 <= c <= 13 or c == 0x85:
        return "SPACE"
    if c == 0x17f:
        return "LETTER_LONG_S"  # which (?i:s) matches
    category = unicodedata2.category(chr(c))
    return OF_CATEGORY.get(category) or OF_GROUP.get(category[0], "OTHER")


def main():
    assert unicodedata2.unidata_version == "16.0.0"
    kinds = [KINDS.index(kind(c)) for c in range(0x110000)]
    runs = [c << 4 | k for c, k in enumerate(kinds) if c == 0 or k != kinds[c - 1]]
    with open(OUT, "w") as f:
        f.write(HEAD)
        f.write("/* clang-format off */\n/* The first character of each run and its kind, in the low half byte. */\n")
        f.write("static const uint32_t runs[] = {\n")
        for i in range(0, len(runs), 10):
            f.write("    " + " ".join("0x%x," % run for run in runs[i:i + 10]) + "\n")
        f.write("};\n/* clang-format on */\n\n")
        f.write('''enum rf_unicode_kind rf_unicode_kind(uint32_t c)
{
    size_t low = 0, high = sizeof runs / sizeof *runs; /* the run is one of low .. high - 1 */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle] >> 4 <= c)
            low = middle;
        else
            high = middle;
    }
    return (enum rf_unicode_kind)(runs[low] & 15);
}
''')
    if "--check" in sys.argv:
        check(kinds)


def check(kinds):
    from tokenizers import Regex, pre_tokenizers
    chars = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    letters = [k for k in KINDS if k.startswith("LETTER")]
    classes = {r"\p{L}": letters, r"\p{N}": ["NUMBER"], r"\p{M}": ["MARK"], r"\p{P}": ["PUNCTUATION"], r"\p{S}": ["SYMBOL"],
               r"\s": ["SPACE"], r"\p{Lu}": ["LETTER_CAPITAL"], r"\p{Ll}": ["LETTER_SMALL", "LETTER_LONG_S"],
               r"\p{Lt}": ["LETTER_TITLE"], r"\p{Lm}": ["LETTER_MODIFIER"], r"\p{Lo}": ["LETTER_OTHER"]}
    for name, members in classes.items():
        split = pre_tokenizers.Split(Regex(name), behavior="removed")
        rest = {c for i in range(0, len(chars), 4096) for w, _ in split.pre_tokenize_str("".join(chars[i:i + 4096])) for c in w}
        bad = [c for c in chars if (c not in rest) != (KINDS[kinds[ord(c)]] in members)]
        print(name, len(bad), "differ", ["%x" % ord(c) for c in bad[:8]])


def forms():
    """Characters with a form in Unicode that tokenizers does not know."""
    from tokenizers import normalizers
    normal = normalizers.NFC().normalize_str

    def differ(texts):
        return any(normal(t) != unicodedata2.normalize("NFC", t) for t in texts)
    found = set()
    for c in map(chr, range(0x110000)):
        if unicodedata2.combining(c) and differ(["a\u0345" + c, "a" + c + "\u0334", "a\u0315" + c]):
            found.add(ord(c))
        parts = unicodedata2.decomposition(c)
        text = "" if parts.startswith("<") else "".join(chr(int(x, 16)) for x in parts.split())
        if differ([text]):
            found.update(map(ord, text + c))
    found.discard(0x307)  # an old mark of a young composition
    runs = []
    for c in sorted(found):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    print(" ".join("{0x%x, 0x%x}," % (a, b) for a, b in runs))


if __name__ == "__main__":
    forms() if "--forms" in sys.argv else main()
