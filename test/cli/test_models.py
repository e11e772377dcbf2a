"""`riffle models`, and what MODEL on the command line means."""

import os
import pathlib
import shutil
import struct

from harness import MODEL, Case, main

TSV = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "models.tsv"


class Models(Case):
    def listed(self):
        lines = TSV.read_text(encoding="utf-8").splitlines()
        return [line.split("\t") for line in lines if line and not line.startswith("#")]

    def test_table(self):
        """The list itself: a plain file name, a sum, a draft that is in the list, sources that can be understood."""
        listed = self.listed()
        self.assertTrue(listed)
        for name, file, licence, size, draft, sha256, sources in listed:
            self.assertIn(draft, ["-", *(row[0] for row in listed if row[0] != name)])
            self.assertRegex(name, r"^[a-z0-9.-]+$")
            self.assertEqual(os.path.basename(file), file)
            self.assertTrue(licence and int(size) > 0)
            self.assertRegex(sha256, r"^[0-9a-f]{64}$")
            for source in sources.split(" "):
                self.assertRegex(source, r"^(https://\S+|pypi:[^=!]+==[^=!]+!\S+)$")

    def test_json_is_the_table(self):
        shown = self.json("models")
        self.assertEqual(shown["folder"], self.folder + "/.local/share/riffle/models")
        self.assertEqual([[m["name"], m["file"], m["licence"], str(m["bytes"])] for m in shown["models"]],
                         [row[:4] for row in self.listed()])
        self.assertEqual([m["draft"] or "-" for m in shown["models"]], [row[4] for row in self.listed()])
        self.assertEqual({m["path"] for m in shown["models"]}, {None})

    def test_folder(self):
        self.assertEqual(self.json("models", env={"XDG_DATA_HOME": "/x"})["folder"], "/x/riffle/models")
        self.assertEqual(self.json("models", env={"XDG_DATA_HOME": "x"})["folder"],
                         self.folder + "/.local/share/riffle/models")
        env = {"XDG_DATA_HOME": "/x", "RIFFLE_MODELS": "/m"}
        self.assertEqual(self.json("models", env=env)["folder"], "/m")
        self.fails(1, "models", env={"HOME": ""}, says="RIFFLE_MODELS")

    def test_text(self):
        out = self.ok("models").out
        for row in self.listed():
            self.assertIn(row[0], out)
            self.assertIn("not here: scripts/get-model " + row[0], out)

    def test_present_and_incomplete(self):
        name, file, _, size = self.listed()[0][:4]
        path = self.path(file)
        with open(path, "wb") as model:
            model.truncate(int(size))
        env = {"RIFFLE_MODELS": self.folder}
        self.assertEqual(self.json("models", env=env)["models"][0]["path"], path)
        self.assertIn(path, self.ok("models", env=env).out)
        os.truncate(path, int(size) - 1)
        self.assertIsNone(self.json("models", env=env)["models"][0]["path"])
        self.assertIn("incomplete", self.ok("models", env=env).out)
        self.fails(1, "info", name, env=env, says=[path, "scripts/get-model " + name])


class Drafts(Case):
    """The model that the list has to draft for another, by small files of the same names."""

    def setUp(self):
        super().setUp()
        rows = {row[0]: row for row in map(lambda line: line.split("\t"), TSV.read_text(encoding="utf-8").splitlines())
                if len(row) == 7}
        target = next(row for row in rows.values() if row[4] in rows)
        self.draft, self.draft_bytes = target[4], int(rows[target[4]][3])
        self.draft_path = self.path(rows[self.draft][1])
        self.target = shutil.copy(MODEL, self.path(target[1]))
        self.env["RIFFLE_MODELS"] = self.folder

    def fetch(self):
        model = pathlib.Path(MODEL).read_bytes()
        n_values, = struct.unpack_from("<Q", model, 16)
        n = (self.draft_bytes - len(model)) // 32 * 32
        # One more value, an array of n bytes with its own header, so that the file has the listed size.
        with open(self.draft_path, "wb") as file:
            file.write(model[:16] + struct.pack("<QQ4sIIQ", n_values + 1, 4, b"fill", 9, 0, n - 28))
            file.seek(n - 28, os.SEEK_CUR)
            file.write(model[24:])
            file.truncate(self.draft_bytes)

    def test_used_where_it_is(self):
        alone = self.json("info", self.target)
        self.assertNotIn("draft", alone["chain"])
        self.assertIn("scripts/get-model " + self.draft, self.ok("info", self.target).out)
        self.fetch()
        both = self.json("info", self.target)
        self.assertIn("draft", both["chain"])
        self.assertGreater(both["memory"]["draft_bytes"], alone["memory"]["draft_bytes"])
        self.assertNotIn("scripts/get-model", self.ok("info", self.target).out)
        for chain in ["none", "ngram"]:
            self.assertNotIn("draft", self.json("info", self.target, "--chain", chain)["chain"])
        shutil.copy(MODEL, self.path("other.gguf"))
        self.assertEqual(self.json("info", "other.gguf")["chain"], alone["chain"])

    def test_incomplete_is_not_used(self):
        self.fetch()
        os.truncate(self.draft_path, self.draft_bytes - 1)
        self.assertNotIn("draft", self.json("info", self.target)["chain"])
        self.fails(1, "info", self.target, "--draft", self.draft, says="scripts/get-model " + self.draft)

    def test_names(self):
        self.fails(1, "info", MODEL, "--draft", self.draft, says="scripts/get-model " + self.draft)
        self.fails(1, "info", MODEL, "--chain", self.draft, says="scripts/get-model " + self.draft)
        self.fetch()
        for arguments in [["--draft", self.draft], ["--chain", "ngram > draft > mxfp4", "--draft", self.draft_path],
                          ["--chain", "ngram > %s" % self.draft]]:
            self.assertGreater(self.json("info", MODEL, *arguments)["memory"]["draft_bytes"], 0)
        self.assertEqual(self.json("info", MODEL, "--chain", "ngram > %s:mxfp4" % self.draft)["chain"],
                         "ngram > %s:mxfp4 > target" % self.draft)


class Names(Case):
    def test_missing_names_the_remedy(self):
        result = self.fails(1, "run", "smollm2-135m", "-p", "a", says="scripts/get-model smollm2-135m")
        self.assertIn(self.folder + "/.local/share/riffle/models", result.err)

    def test_beginnings(self):
        self.fails(1, "info", "smol", says="scripts/get-model smollm2-135m")
        self.fails(1, "info", "qwen", says=["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])

    def test_unknown(self):
        self.fails(1, "info", "smollm3-135m", says=["smollm3-135m", "did you mean smollm2-135m?"])
        self.fails(1, "info", "nothing-like-it", says=["nothing-like-it", "riffle models"])
        self.fails(1, "info", "no/such/file", says="no/such/file")
        self.fails(1, "info", "model.gguf", says="model.gguf")

    def test_a_path_needs_no_suffix(self):
        shutil.copy(MODEL, self.path("copy"))
        self.assertEqual(self.json("info", "copy")["path"], "copy")
        shutil.copy(MODEL, self.path("déjà vu 日本.gguf"))
        self.ok("info", "déjà vu 日本.gguf")


if __name__ == "__main__":
    main()
