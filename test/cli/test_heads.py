"""Draft heads: where the program finds them, what it says of them, and that they change no answer."""

import os
import pathlib
import shutil

from harness import BRIEF, MODEL, Case, main

HEADS = pathlib.Path(MODEL).parent / "heads"
HEAD = str(HEADS / "chosen.gguf")
FINGERPRINT = "riffle.head.target"
ASK = ["run", MODEL, "--raw", "-p", "Once upon a time", "--max-tokens", "60"]


def fingerprint(path):
    """The text behind the key: its type, its length, 16 digits."""
    data = pathlib.Path(path).read_bytes()
    at = data.index(FINGERPRINT.encode()) + len(FINGERPRINT) + 12
    return data[at:at + 16].decode()


class Heads(Case):
    def folder_of_heads(self, data=None):
        os.makedirs(self.path("heads"), exist_ok=True)
        shutil.copy(HEAD, self.path("heads/%s.gguf" % fingerprint(HEAD)))
        if data is not None:
            self.path("heads/%s.gguf" % fingerprint(HEAD), data)
        return {"RIFFLE_HEADS": self.path("heads")}

    def test_answers_stay(self):
        plain = self.ok(*ASK, "--chain", "none").out
        for name in ("chosen.gguf", "plain.gguf", "normed.gguf", "q8_0.gguf", "q4_k.gguf", "plain-eagle", "normed-speculators"):
            for chain in ("head", "ngram > head", "head > mxfp4", "auto"):
                for more in ([],) if BRIEF else ([], ["--gamma", "5"], ["--kv", "q8"]):
                    said = self.ok(*ASK, "--chain", chain, "--head", str(HEADS / name), *more)
                    self.assertEqual(said.out, plain, (name, chain, more))

    def test_figures(self):
        said = self.json(*ASK, "--chain", "head", "--gamma", "4", "--head", HEAD)
        head, = [level for level in said["levels"] if level["name"] == "head"]
        self.assertGreater(head["passes"], 0)
        self.assertGreater(head["drafted"], 0)

    def test_auto(self):
        env = self.folder_of_heads()
        self.assertEqual(self.json("info", MODEL)["head"], None)
        said = self.json("info", MODEL, env=env)
        self.assertIn("head", said["chain"].split(" > "))
        self.assertEqual(said["head"], self.path("heads/%s.gguf" % fingerprint(HEAD)))
        self.assertGreater(said["head_bytes"], 0)
        self.assertIn("draft head", self.ok("info", MODEL, env=env).out)
        self.assertEqual(self.json("info", MODEL, "--head", "none", env=env)["head"], None)
        self.assertEqual(self.json("info", MODEL, "--chain", "ngram", env=env)["head"], None)

    def test_damaged(self):
        """One that was found is left out, with the reason; one that was asked for is an error."""
        data = pathlib.Path(HEAD).read_bytes()
        env = self.folder_of_heads(data[:2000])
        said = self.json("info", MODEL, env=env)
        self.assertEqual(said["head"], None)
        self.assertIn("the draft head was not taken", said["chain_note"])
        self.fails(1, *ASK, "--head", self.path("cut.gguf", data[:2000]), says="cut.gguf")

    def test_refusals(self):
        self.fails(1, *ASK, "--head", self.path("absent.gguf"), says="absent.gguf")
        self.fails(1, *ASK, "--head", MODEL, says="is not a draft head")
        self.fails(1, *ASK, "--chain", "head", says=["head", "none"])
        self.fails(2, *ASK, "--chain", "ngram", "--head", HEAD, says="--head has no place in that chain")
        self.fails(1, *ASK, "--chain", "mxfp4 > head", "--head", HEAD, says="the cheaper level comes first")
        self.fails(1, "run", HEAD, "--raw", "-p", "x", says="is a draft head, which cannot run alone")
        other = self.path("other.gguf", pathlib.Path(HEAD).read_bytes().replace(
            fingerprint(HEAD).encode(), b"0123456789abcdef"))
        self.fails(1, *ASK, "--head", other, says=["another target", "0123456789abcdef"])


class OwnHeads(Case):
    """A draft that was trained with the model, in the model's file."""
    MODEL = str(HEADS.parent / "stories260K-delta.gguf")
    ASK = ["run", MODEL, "--raw", "-p", "Once upon a time", "--max-tokens", "60"]

    def test_answers_stay(self):
        for model in (self.MODEL, *(str(HEADS.parent / "mtp" / name) for name in ("qwen35", "qwen35moe.gguf", "qwen3next"))):
            ask = ["run", model, *self.ASK[2:]]
            plain = self.ok(*ask, "--chain", "none").out
            for chain in ("head", "ngram > head", "head > mxfp4", "auto"):
                for more in ([],) if BRIEF else ([], ["--gamma", "5"], ["--kv", "q8"]):
                    wanted = plain if more[:1] != ["--kv"] else self.ok(*ask, "--chain", "none", *more).out
                    self.assertEqual(self.ok(*ask, "--chain", chain, *more).out, wanted, (model, chain, more))

    def test_figures(self):
        said = self.json(*self.ASK, "--chain", "head", "--gamma", "4")
        head, = [level for level in said["levels"] if level["name"] == "head"]
        self.assertGreater(head["drafted"], 0)

    def test_info(self):
        said = self.json("info", self.MODEL)
        self.assertIn("head", said["chain"].split(" > "))
        self.assertEqual((said["head"], said["head_recipe"]), (self.MODEL, "trained with the model (mtp)"))
        self.assertGreater(said["head_bytes"], 0)
        self.assertEqual(self.json("info", self.MODEL, "--head", "none")["head"], None)
        # A file of the draft alone, and another model's.
        target, alone = (str(HEADS.parent / "mtp" / name) for name in ("qwen35.gguf", "qwen35-chosen-alone.gguf"))
        self.assertEqual(self.json("info", target, "--head", alone)["head"], alone)
        self.fails(1, *self.ASK, "--head", alone, says=["another target", "follows 2 layers"])

    def test_damaged(self):
        """One that cannot serve is left out, with the reason; one that was asked for is an error."""
        data = pathlib.Path(self.MODEL).read_bytes()
        model = self.path("damaged.gguf", data.replace(b"nextn.hnorm", b"nextn.hnurm"))
        said = self.json("info", model)
        self.assertEqual(said["head"], None)
        self.assertIn("the draft in the file was not taken", said["chain_note"])
        self.assertIn("blk.5.nextn.hnorm.weight is missing", said["chain_note"])
        self.assertEqual(self.ok("run", model, *self.ASK[2:]).out, self.ok(*self.ASK).out)
        self.fails(1, "run", model, *self.ASK[2:], "--chain", "head", says="blk.5.nextn.hnorm.weight is missing")


if __name__ == "__main__":
    main()
