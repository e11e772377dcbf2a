"""The draft in a model's file with fewer output rows: they are those of a text's tokens, it drafts
none but these, and the answer stays. Skipped where the Python (RIFFLE_TEST_PYTHON, else this one)
lacks a package."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "cli"))
from harness import MODEL, RIFFLE, Case, main  # noqa: E402

PYTHON = os.environ.get("RIFFLE_TEST_PYTHON", sys.executable)
CHOOSE = ROOT / "training" / "choose_rows.py"
TARGET = str(ROOT / "test" / "data" / "stories260K-delta.gguf")
ASK = ["run", TARGET, "--raw", "-p", "Once upon a time", "--max-tokens", "40"]
READ = """
import sys
from gguf import GGUFReader
print(*GGUFReader(sys.argv[1]).fields["riffle.head.output_rows"].contents())
"""


class Rows(Case):
    def python(self, *arguments):
        return subprocess.run([PYTHON, "-B", *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def choose(self, model, out, *more):
        return self.python(CHOOSE, "--model", model, "--riffle", RIFFLE, "--out", out,
                           *more)

    def test_rows(self):
        text = self.path("text.txt", b"One day a dog and a cat and a dog")
        out = self.path("head.gguf")
        done = self.choose(TARGET, out, "--rows", "60", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("60 rows, of 100.0 %", done.stdout)
        rows = [int(row) for row in self.python("-c", READ, out).stdout.split()]
        self.assertEqual((len(rows), rows), (60, sorted(set(rows))))
        tokens = self.json("tokenize", TARGET, "--no-bos", "-f", text)["tokens"]
        self.assertLessEqual({1, 2, *tokens}, set(rows))  # begin and end of a text
        info = self.json("info", TARGET, "--head", out)
        self.assertEqual(info["head_recipe"], "trained with the model (mtp), 60 output rows")
        self.assertLess(info["head_bytes"], self.json("info", TARGET)["head_bytes"])
        plain = self.ok(*ASK, "--chain", "none").out
        for chain in ("head", "auto"):
            self.assertEqual(self.ok(*ASK, "--chain", chain, "--head", out).out, plain)
        said = self.json(*ASK, "--chain", "head", "--gamma", "3", "--head", out)
        self.assertGreater(said["levels"][0]["drafted"], 0)

    def test_refusals(self):
        text, out = self.path("text.txt", b"a dog"), self.path("head.gguf")
        for model, more, says in ((MODEL, [text], "has no draft of its own"),
                                  (TARGET, [self.path("none.txt")], "none.txt"),
                                  (self.path("none.gguf"), [text], "cannot be read")):
            done = self.choose(model, out, *more)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse(os.path.exists(out))


def lacks_packages():
    found = subprocess.run([PYTHON, "-c", "import gguf"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    return found.returncode != 0


if __name__ == "__main__":
    if lacks_packages():
        print("skipped: %s has not gguf" % PYTHON)
        sys.exit(77)
    main()
