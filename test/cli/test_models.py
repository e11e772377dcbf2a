"""`riffle models`, and what MODEL on the command line means."""

import os
import pathlib
import shutil

from harness import MODEL, Case, main

TSV = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "models.tsv"


class Models(Case):
    def listed(self):
        lines = TSV.read_text(encoding="utf-8").splitlines()
        return [line.split("\t") for line in lines if line and not line.startswith("#")]

    def test_table(self):
        """The list itself: six fields, a plain file name, a sum, sources that can be understood."""
        listed = self.listed()
        self.assertTrue(listed)
        for name, file, licence, size, sha256, sources in listed:
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
