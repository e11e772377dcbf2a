"""Known models, by a program whose list has the small models of test/data (test/data/models.tsv). What counts is the
bytes of a file, never its name."""

import os
import pathlib
import re
import shutil

from harness import MODEL, Case, Terminal, main
from hub import Hub
from web import Server

DATA = pathlib.Path(MODEL).parent
DRAFT = str(DATA / "stories260K-q.gguf")
LISTED = "from: the list of known models"


class Known(Case):
    def setUp(self):
        super().setUp()
        self.env["RIFFLE_MODELS"] = self.folder

    def settings(self, path):
        """What /set shows: values, and where they are from."""
        err = self.ok("chat", path, "--template", "chatml", stdin="/set\n").err
        return {name: value for name, value in re.findall(r"^([a-z-]+) +(\S+)$", err, flags=re.M) if name != "seed"}, err

    def check_known(self, path):
        values, err = self.settings(path)
        self.assertIn(LISTED, " ".join(err.split()), path)
        self.assertEqual((values["temp"], values["top-k"], values["repeat-penalty"]), ("0.25", "7", "1.25"), path)
        self.assertIn("riffle pull tiny-draft", self.ok("info", path).out)

    def check_unknown(self, path):
        values, err = self.settings(path)
        self.assertNotIn(LISTED, " ".join(err.split()), path)
        self.assertEqual(values["temp"], "0.7")
        self.assertNotIn("riffle pull", self.ok("info", path).out)


class Recognised(Known):
    def test_under_any_name(self):
        self.check_known(MODEL)
        os.mkdir(self.path("elsewhere"))
        for name in ["stories260K.gguf", "other.gguf", "no-suffix", "elsewhere/qwen2.5-coder-0.5b.gguf", "a b\u202e.gguf"]:
            self.check_known(shutil.copy(MODEL, self.path(name)))
        os.link(self.path("other.gguf"), self.path("hard.gguf"))
        os.symlink(self.path("other.gguf"), self.path("soft.gguf"))
        os.rename(self.path("no-suffix"), self.path("renamed.gguf"))
        for name in ["hard.gguf", "soft.gguf", "renamed.gguf"]:
            self.check_known(self.path(name))

    def test_by_its_short_name(self):
        shutil.copy(MODEL, self.path("stories260K.gguf"))
        self.check_known("tiny-target")

    def test_the_name_alone_is_nothing(self):
        """A file of a known name with other bytes: another size, another end, another beginning."""
        data = pathlib.Path(MODEL).read_bytes()
        path = self.path("stories260K.gguf")
        for other in [pathlib.Path(DRAFT).read_bytes(), data[:-4] + b"\0\0\0\1"]:
            pathlib.Path(path).write_bytes(other)
            self.check_unknown(path)
        at = data.index(b"tokenizer.ggml.scores") + len("tokenizer.ggml.scores") + 4 + 4 + 8  # a value of the first MiB
        pathlib.Path(path).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        self.check_unknown(path)

    def test_list(self):
        shutil.copy(MODEL, self.path("other.gguf"))
        shown = {model["name"]: model for model in self.json("list")["models"]}["other"]
        self.assertEqual((shown["licence"], shown["draft"], shown["state"]), ("MIT", "tiny-draft", "not verified"))
        self.ok("list", "--verify")
        self.assertRegex(self.ok("list").out, r"other .* MIT +verified")


class Drafts(Known):
    """The model that the list has to draft for another."""

    def fetch(self):
        return shutil.copy(DRAFT, self.path("stories260K-q.gguf"))

    def test_used_where_it_is(self):
        target = shutil.copy(MODEL, self.path("target.gguf"))
        alone = self.json("info", target)
        self.assertNotIn("draft", alone["chain"])
        self.assertIn("riffle pull tiny-draft", self.ok("info", target).out)
        self.fetch()
        both = self.json("info", target)
        self.assertIn("draft", both["chain"])
        self.assertGreater(both["memory"]["draft_bytes"], alone["memory"]["draft_bytes"])
        self.assertNotIn("riffle pull", self.ok("info", target).out)
        for chain in ["none", "ngram"]:
            self.assertNotIn("draft", self.json("info", target, "--chain", chain)["chain"])
        self.assertNotIn("draft", self.json("info", DRAFT)["chain"])

    def test_incomplete_is_not_used(self):
        path = self.fetch()
        os.truncate(path, os.path.getsize(path) - 1)
        self.assertNotIn("draft", self.json("info", MODEL)["chain"])
        self.fails(1, "info", MODEL, "--draft", "tiny-draft", says="riffle pull tiny-draft")

    def test_names(self):
        self.fails(1, "info", MODEL, "--draft", "tiny-draft", says="riffle pull tiny-draft")
        self.fails(1, "info", MODEL, "--chain", "tiny-draft", says="riffle pull tiny-draft")
        path = self.fetch()
        for arguments in [["--draft", "tiny-draft"], ["--chain", "ngram > draft > mxfp4", "--draft", path],
                          ["--chain", "ngram > tiny-draft"]]:
            self.assertGreater(self.json("info", MODEL, *arguments)["memory"]["draft_bytes"], 0)
        self.assertEqual(self.json("info", MODEL, "--chain", "ngram > tiny-draft:mxfp4")["chain"],
                         "ngram > tiny-draft:mxfp4 > target")


class OfHubs(Known):
    """Known models of which the list has a repository alone: name, size and hash are the hub's."""

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.close)
        self.hub = Hub(self.server)
        self.hub.huggingface("Maker/Tiny-GGUF", {"tiny-Q4_0.gguf": pathlib.Path(MODEL).read_bytes(),
                                                 "tiny-Q8_0.gguf": pathlib.Path(DRAFT).read_bytes()})
        self.env["HF_ENDPOINT"] = self.server.url
        self.own = self.path("hf.co/Maker/Tiny-GGUF/tiny-Q4_0.gguf")

    def listed(self):
        return {model["name"]: model for model in self.json("list")["models"]}

    def test_pulled(self):
        self.assertEqual((self.listed()["tiny-hub"]["bytes"], self.listed()["tiny-hub"]["state"]), (1200000, "not fetched"))
        self.fails(1, "info", "tiny-hub", says=["riffle pull tiny-hub", "about 1.20 MB"])
        self.fails(1, "rm", "tiny-hub", "--yes", says="not on this disk")
        for name in ["tiny-hub", "tiny-h", "Maker/Tiny-GGUF", "tiny-hub"]:
            self.assertEqual(self.ok("pull", name).out, self.own + "\n")
        shown = self.listed()
        self.assertNotIn("Maker/Tiny-GGUF:Q4_0", shown)
        shown = shown["tiny-hub"]
        self.assertEqual((shown["path"], shown["bytes"], shown["state"], shown["licence"]),
                         (self.own, os.path.getsize(MODEL), "verified", "MIT"))
        for name in ["tiny-hub", "maker/tiny-gguf:q4_0", "tiny-Q4_0.gguf"]:
            self.assertEqual(self.json("info", name)["path"], self.own)
        self.ok("rm", "tiny-hub", "--yes")
        self.assertFalse(os.path.exists(self.path("hf.co")))

    def test_another_type_is_another_model(self):
        self.ok("pull", "Maker/Tiny-GGUF:Q8_0")
        self.assertEqual(self.listed()["tiny-hub"]["state"], "not fetched")
        self.assertEqual(self.listed()["Maker/Tiny-GGUF:Q8_0"]["state"], "verified")

    def check_settings(self, path):
        values, err = self.settings(path)
        self.assertIn(LISTED, " ".join(err.split()))
        self.assertEqual((values["temp"], values["top-k"]), ("0.375", "9"))
        self.assertIn("riffle pull tiny-draft", self.ok("info", path).out)

    def test_sampling_and_draft(self):
        data = pathlib.Path(DRAFT).read_bytes()  # other bytes than those of a known file
        self.hub.huggingface("Maker/Tiny-GGUF", {"tiny-Q4_0.gguf": data[:-1] + bytes([data[-1] ^ 1])})
        self.check_settings(self.ok("pull", "tiny-hub").out.strip())
        for place in [".lmstudio/models/Maker/Tiny-GGUF", ".cache/huggingface/hub/models--Maker--Tiny-GGUF/snapshots/x"]:
            os.makedirs(self.path(place))
            self.check_settings(shutil.copy(self.own, self.path(place + "/tiny-Q8_0.gguf")))

    def test_of_another_program(self):
        os.makedirs(self.path(".lmstudio/models/Maker/Tiny-GGUF"))
        path = shutil.copy(MODEL, self.path(".lmstudio/models/Maker/Tiny-GGUF/tiny-Q4_0.gguf"))
        shown = self.listed()["tiny-hub"]
        self.assertEqual((shown["path"], shown["place"]), (path, "LM Studio"))
        self.assertEqual(self.ok("pull", "tiny-hub").out, path + "\n")
        self.fails(1, "rm", "tiny-hub", "--yes", says="LM Studio")

    def test_offer(self):
        terminal = Terminal(self, "chat", "tiny-hub", "--template", "chatml")
        terminal.wait_for("Maker/Tiny-GGUF:Q4_0 (1.19 MB) is not on this disk. Fetch it now? [Y/n] ")
        terminal.send("\n")
        terminal.wait_for_prompt()
        self.assertTrue(os.path.exists(self.own))

    def test_proposal(self):
        """The largest model for chats that this machine holds."""
        self.fails(2, "pull", says=["NAME is missing", "riffle pull tiny-hub", "MIT"])
        terminal = Terminal(self, "pull")
        terminal.wait_for("tiny-hub")
        terminal.wait_for("Fetch it now? [Y/n] ")
        terminal.send("\n")
        self.assertEqual(terminal.leave(), 0)
        self.assertTrue(os.path.exists(self.own))


if __name__ == "__main__":
    main()
