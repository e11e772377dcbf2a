"""riffle corpus: a file of texts for drafts, which changes no answer."""

import os

from harness import MODEL, Case, main

TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. " * 20


class Corpus(Case):
    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def test_build_and_use(self):
        one = self.write("one.txt", TEXT)
        self.write("notes/a.txt", TEXT)
        self.write("notes/deep/b.txt", "One day a cat sat on a mat.")
        self.write("notes/picture", b"\0\1\2")
        self.write("notes/.hidden", TEXT)
        for refine in [["--no-refine"], ["--keep", "0.5"]]:
            said = self.json("corpus", "build", self.path("c"), "--model", MODEL, one, self.path("notes"), *refine)
            self.assertEqual((said["texts"], said["left_out"]), (3, 1))
            self.assertEqual(said["file_bytes"], os.path.getsize(self.path("c")))
            self.assertEqual(said["kept_tokens"] == said["tokens"], refine == ["--no-refine"])
        ask = ["run", MODEL, "--raw", "-p", "Once upon a time", "--max-tokens", "60"]
        plain = self.ok(*ask, "--chain", "none").out
        self.assertEqual(self.ok(*ask, "--corpus", self.path("c")).out, plain)
        shown = self.json(*ask, "--corpus", self.path("c"), "--chain", "corpus")
        self.assertEqual([level["name"] for level in shown["levels"]], ["corpus", "target"])
        self.assertIn("corpus", self.ok("info", MODEL, "--corpus", self.path("c")).out)
        suite = self.json("bench", MODEL, "--raw", "--suite", one, "--max-tokens", "20", "--chain", "ngram > corpus",
                          "--corpus", self.path("c"))
        sources = suite["summary"][0]["sources"]
        self.assertEqual([source["name"] for source in sources], ["ngram", "corpus"])
        for source in sources:
            self.assertLessEqual(source["accepted"], source["drafted"])

    def test_wrong_usage(self):
        out, one = self.path("out"), self.write("one.txt", TEXT)
        self.fails(2, "corpus", says="build")
        self.fails(2, "corpus", "make", out, "--model", MODEL, one, says="build")
        self.fails(2, "corpus", "build", out, one, says="--model")
        self.fails(2, "corpus", "build", "--model", MODEL, says="OUT")
        self.fails(2, "corpus", "build", out, "--model", MODEL, says="FILE")
        self.fails(2, "corpus", "build", out, "--model", MODEL, one, "--keep", "0.5", "--no-refine", says="--keep")
        self.fails(2, "run", MODEL, "-p", "x", "--corpus", out, "--chain", "ngram", says="--corpus")
        self.fails(2, "run", MODEL, "-p", "x", "--corpus", "", says="--corpus")
        self.fails(2, "bench", MODEL, "--corpus", out, says="--suite")

    def test_failures(self):
        out, one = self.path("out"), self.write("one.txt", TEXT)
        self.write("empty/.hidden", TEXT)
        self.fails(1, "corpus", "build", out, "--model", MODEL, "absent.txt", says="absent.txt")
        self.fails(1, "corpus", "build", out, "--model", MODEL, self.path("empty"), says="no texts")
        self.fails(1, "corpus", "build", out, "--model", MODEL, self.write("zeros", b"\0\0"), says="no texts")
        self.fails(1, "corpus", "build", out, "--model", "absent.gguf", one, says="absent.gguf")
        self.fails(1, "corpus", "build", "no/folder/out", "--no-refine", "--model", MODEL, one, says="no/folder/out")
        self.assertFalse(os.path.exists(out))
        self.fails(1, "run", MODEL, "-p", "x", "--corpus", one, says="not a corpus")
        self.fails(1, "run", MODEL, "-p", "x", "--chain", "corpus", says="corpus")


if __name__ == "__main__":
    main()
