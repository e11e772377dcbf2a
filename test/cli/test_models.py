"""`riffle list` and `riffle rm`, and what MODEL on the command line means."""

import hashlib
import math
import os
import pathlib
import random
import shutil
import struct

from harness import MODEL, Case, Terminal, main
from model_files import N_VOCAB, STRING, U32, Gguf, Tensor

TSV = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "models.tsv"


class Models(Case):
    def listed(self):
        lines = TSV.read_text(encoding="utf-8").splitlines()
        return [line.split("\t") for line in lines if line and not line.startswith("#")]

    def test_table(self):
        """The list itself: a plain file name, a sum, a draft that is in the list, sources that can be understood."""
        listed = self.listed()
        self.assertTrue(listed)
        self.assertGreater(len(listed), 20)
        for name, file, licence, size, draft, sha256, ends, sources, sampling, purpose, read in listed:
            self.assertIn(draft, ["-", *(row[0] for row in listed if row[0] != name)])
            self.assertRegex(name, r"^[a-z0-9.-]+$")
            self.assertTrue(licence and 0 < int(read) <= int(size))
            self.assertRegex(sampling, r"^(-|[a-z-]+=[0-9.]+(,[a-z-]+=[0-9.]+)*)$")
            self.assertIn(purpose, ["chat", "code", "reasoning", "embedding"])
            if file == "-":  # a hub's: nothing is known of its files
                self.assertEqual((sha256, ends), ("-", "-"))
                self.assertRegex(sources, r"^hf\.co/[\w.-]+/[\w.-]+:[A-Z0-9_]+$")
                continue
            self.assertEqual(os.path.basename(file), file)
            self.assertRegex(sha256, r"^[0-9a-f]{64}$")
            self.assertRegex(ends, r"^[0-9a-f]{64}$")
            for source in sources.split(" "):
                self.assertRegex(source, r"^(https://\S+|pypi:[^=!]+==[^=!]+!\S+)$")

    def test_samplings_are_accepted(self):
        """A value that no option takes would be left out in silence."""
        for row in self.listed():
            options = [part for pair in row[8].split(",") if pair != "-" for part in ("--" + pair).split("=")]
            self.ok("run", MODEL, "--raw", "-p", "a", "--max-tokens", "1", *options)

    def test_json_is_the_table(self):
        shown = self.json("list")
        self.assertEqual(shown["folder"], self.folder + "/.local/share/riffle/models")
        self.assertEqual([[m["name"], m["file"] or "-", m["licence"], str(m["bytes"])] for m in shown["models"]],
                         [row[:4] for row in self.listed()])
        self.assertEqual([m["draft"] or "-" for m in shown["models"]], [row[4] for row in self.listed()])
        self.assertEqual({m["path"] for m in shown["models"]}, {None})

    def test_folder(self):
        self.assertEqual(self.json("list", env={"XDG_DATA_HOME": "/x"})["folder"], "/x/riffle/models")
        self.assertEqual(self.json("list", env={"XDG_DATA_HOME": "x"})["folder"],
                         self.folder + "/.local/share/riffle/models")
        env = {"XDG_DATA_HOME": "/x", "RIFFLE_MODELS": "/m"}
        self.assertEqual(self.json("list", env=env)["folder"], "/m")
        self.fails(1, "list", env={"HOME": ""}, says="RIFFLE_MODELS")

    def test_relative_folders_are_ignored(self):
        """Nothing is made in the working directory."""
        self.fails(1, "list", env={"HOME": "x"}, says="absolute")
        self.fails(1, "pull", "file://" + MODEL, "--name", "x", env={"HOME": "x"}, says="absolute")
        self.assertIn("XDG_DATA_HOME is not an absolute path", self.ok("list", env={"XDG_DATA_HOME": "x"}).err)
        self.assertEqual(os.listdir(self.folder), [])

    def test_text(self):
        out = self.ok("list").out
        for row in self.listed():
            self.assertIn(row[0], out)
            self.assertRegex(out, r"%s .* not fetched\n" % row[0])

    def test_models_is_the_old_name(self):
        self.assertEqual(self.ok("models").out, self.ok("list").out)
        self.assertEqual(self.ok("help", "models").out, self.ok("help", "list").out)

    def test_present_and_incomplete(self):
        name, file, _, size = self.listed()[0][:4]
        path = self.path(file)
        with open(path, "wb") as model:
            model.truncate(int(size))
        env = {"RIFFLE_MODELS": self.folder}
        self.assertEqual(self.json("list", env=env)["models"][0]["path"], path)
        self.assertNotIn("incomplete", self.ok("list", env=env).out)
        os.truncate(path, int(size) - 1)
        self.assertIsNone(self.json("list", env=env)["models"][0]["path"])
        self.assertIn("incomplete", self.ok("list", env=env).out)
        self.fails(1, "info", name, env=env, says=[path, "riffle rm " + name, "riffle pull " + name])


class Facts(Case):
    """What `info` and `list` say about a file: parameters, and the type."""

    def setUp(self):
        super().setUp()
        self.env["RIFFLE_MODELS"] = self.folder

    def shown(self, model):
        path = model.write(self.folder)
        info, listed = self.json("info", path), {m["name"]: m for m in self.json("list")["models"]}["model"]
        self.assertEqual((info["n_params"], info["file_type"] or None), (listed["n_params"], listed["file_type"]))
        return info

    def test_a_tied_head_counts_once(self):
        """Also where the file has it twice, in two types."""
        random.seed(1)
        table = [random.gauss(0, 1) for _ in range(32 * N_VOCAB)]
        other = [random.gauss(0, 1) for _ in range(32 * N_VOCAB)]
        near = [x + random.gauss(0, 0.1) for x in table]  # as four bits would have it

        def with_head(values, kind):
            model = Gguf().tensor("token_embd", type=0, data=struct.pack("<%df" % len(table), *table))
            if values:
                head = Tensor("output.weight", [32, N_VOCAB])
                head.type, head.data = kind, struct.pack("<%d%s" % (len(values), {0: "f", 1: "e"}[kind]), *values)
                model.tensors.append(head)
            return self.shown(model)["n_params"]

        tied = with_head(None, 0)
        for values, kind in [(table, 0), (table, 1), (near, 0), (near, 1)]:
            self.assertEqual(with_head(values, kind), tied)
        for values in [other, [-x for x in table], [0.0] * len(table), [math.nan] * len(table), table[32:] + table[:32]]:
            self.assertEqual(with_head(values, 0), tied + len(table))

    def test_the_type_is_the_maker_s(self):
        for number, name in [(0, "F32"), (3, "Q4_1"), (15, "Q4_K_M"), (17, "Q5_K_M"), (7, "Q8_0"), (32, "BF16"), (1024 + 15, "Q4_K_M")]:
            info = self.shown(Gguf().set("general.file_type", U32, number))
            self.assertEqual(info["file_type"], name)
            self.assertRegex(self.ok("list").out, r"model +\S+ \S+ +\S+ +%s " % name)
            self.assertIn("stored as     %s: F32" % name, self.ok("info", "model").out)
        for model in [Gguf(), Gguf().set("general.file_type", U32, 999), Gguf().set("general.file_type", U32, 2**32 - 1),
                      Gguf().set("general.file_type", STRING, "Q4_K_M")]:
            self.assertEqual(self.shown(model)["file_type"], "")
            self.assertRegex(self.ok("list").out, r"model +\S+ \S+ +\S+ +F32 ")


class Names(Case):
    def test_missing_names_the_remedy(self):
        result = self.fails(1, "run", "smollm2-135m", "-p", "a", says="riffle pull smollm2-135m")
        self.assertIn(self.folder + "/.local/share/riffle/models", result.err)

    def test_beginnings(self):
        self.fails(1, "info", "smollm2-13", says="riffle pull smollm2-135m")
        self.fails(1, "info", "qwen2.5", says=["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])

    def test_unknown(self):
        self.fails(1, "info", "smallm2-135m", says=["smallm2-135m", "did you mean smollm2-135m?"])
        self.fails(1, "info", "nothing-like-it", says=["nothing-like-it", "riffle list"])
        self.fails(1, "info", "no/such/file", says="no/such/file")
        self.fails(1, "info", "model.gguf", says="model.gguf")

    def test_files_in_the_folder(self):
        folder = os.path.join(self.folder, ".local/share/riffle/models")
        os.makedirs(folder)
        for name in ["alpha-1.gguf", "alpha-2.gguf", "beta.gguf"]:
            shutil.copy(MODEL, os.path.join(folder, name))
        for name, file in [("beta", "beta.gguf"), ("b", "beta.gguf"), ("beta.gguf", "beta.gguf"),
                           ("alpha-2", "alpha-2.gguf")]:
            self.assertEqual(self.json("info", name)["path"], os.path.join(folder, file))
        self.fails(1, "info", "alpha", says="'alpha' could be any of: alpha-1, alpha-2")
        self.fails(1, "info", "betta", says="did you mean beta?")
        self.ok("run", "beta", "--raw", "-p", "a", "--max-tokens", "1")
        self.assertGreater(self.json("info", MODEL, "--draft", "beta")["memory"]["draft_bytes"], 0)

    def test_a_path_needs_no_suffix(self):
        shutil.copy(MODEL, self.path("copy"))
        self.assertEqual(self.json("info", "copy")["path"], "copy")
        shutil.copy(MODEL, self.path("déjà vu 日本.gguf"))
        self.ok("info", "déjà vu 日本.gguf")


class Folder(Case):
    """A models' folder with things of all kinds."""

    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        self.env["RIFFLE_MODELS"] = self.models
        os.mkdir(self.models)

    def inside(self, name, content=None):
        return self.path("models/" + name, content)

    def add_folder(self, name="hf"):
        os.mkdir(self.inside(name))
        self.inside(name + "/config.json", "{}")
        self.inside(name + "/model.safetensors", b"x" * 1000)

    def shown(self):
        return {m["name"]: m for m in self.json("list")["models"] if m["state"] != "not fetched"}


class List(Folder):
    def test_what_is_there(self):
        shutil.copy(MODEL, self.inside("tiny.gguf"))
        self.add_folder()
        self.inside("notes.txt", "no model")
        self.inside("broken.gguf", "no model either")
        os.mkdir(self.inside("empty"))
        shown = self.shown()
        self.assertEqual(list(shown), ["broken", "hf", "tiny"])
        tiny = shown["tiny"]
        self.assertEqual((tiny["path"], tiny["bytes"], tiny["arch"], tiny["error"], tiny["verified"], tiny["licence"]),
                         (self.inside("tiny.gguf"), os.path.getsize(MODEL), "llama", None, False, None))
        self.assertEqual(tiny["n_params"], self.json("info", MODEL)["n_params"])
        self.assertEqual((shown["hf"]["bytes"], shown["hf"]["arch"]), (1002, None))
        self.assertIn("broken.gguf", shown["broken"]["error"])
        out = self.ok("list").out
        self.assertRegex(out, r"tiny +1.19 MB +260K +F32 .*not verified\n")
        self.assertRegex(out, r"broken .*cannot be read\n")

    def test_unknown_licence(self):
        shutil.copy(MODEL, self.inside("tiny.gguf"))
        self.assertIsNone(self.shown()["tiny"]["licence"])

    def test_control_bytes_are_not_echoed(self):
        shutil.copy(MODEL, self.inside("a\033[2Jb.gguf"))
        self.assertNotIn("\033", self.ok("list").out)

    def test_folder_is_a_file(self):
        env = {"RIFFLE_MODELS": self.path("file", "")}
        self.assertEqual({m["state"] for m in self.json("list", env=env)["models"]}, {"not fetched"})

    def test_verified(self):
        """A stamp holds for one state of one file; neither its size nor its time can be faked."""
        sha256 = hashlib.sha256(pathlib.Path(MODEL).read_bytes()).hexdigest()
        self.ok("pull", "file://" + MODEL, "--name", "tiny", "--sha256", sha256)
        path = self.inside("tiny.gguf")
        self.assertTrue(self.shown()["tiny"]["verified"])
        self.assertEqual(self.shown()["tiny"]["sha256"], sha256)
        self.ok("list", "--verify")
        times = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertFalse(self.shown()["tiny"]["verified"])
        result = self.riffle("list", "--verify")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not " + sha256, result.err)
        shutil.copy(MODEL, self.inside("other"))
        os.replace(self.inside("other"), path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertFalse(self.shown()["tiny"]["verified"])
        self.ok("list", "--verify")
        self.assertTrue(self.shown()["tiny"]["verified"])

    def test_verify_finds_damage(self):
        name, file, _, size = next(line.split("\t")[:4] for line in TSV.read_text(encoding="utf-8").splitlines()
                                   if line.startswith("smollm2"))
        with open(self.inside(file), "wb") as model:
            model.truncate(int(size))
        result = self.riffle("list", "--verify")
        self.assertEqual(result.returncode, 1)
        self.assertIn(file + ": its SHA-256 is", result.err)
        self.fails(1, "pull", name, says=["SHA-256", "riffle rm " + name])


class Remove(Folder):
    def test_all_of_it(self):
        sha256 = hashlib.sha256(pathlib.Path(MODEL).read_bytes()).hexdigest()
        self.ok("pull", "file://" + MODEL, "--name", "tiny", "--sha256", sha256)
        for rest in [".tiny.gguf.part", ".tiny.gguf.part.state", ".tiny.gguf.wheel.part",
                     ".tiny.gguf.wheel.part.state"]:
            self.inside(rest, "x" * 1000)
        self.inside("tiny.gguf.txt", "of somebody else")
        result = self.ok("rm", "tiny", "--yes")
        self.assertIn("Removed tiny, 1.19 MB", result.err)
        self.assertEqual(os.listdir(self.models), ["tiny.gguf.txt"])

    def test_interrupted(self):
        self.inside(".tiny.gguf.part", "x" * 1000)
        self.assertIn("1.00 kB", self.ok("rm", "tiny", "--yes").err)
        self.assertEqual(os.listdir(self.models), [])

    def test_folder(self):
        self.add_folder()
        self.ok("rm", "hf", "--yes")
        self.assertEqual(os.listdir(self.models), [])
        self.add_folder()
        os.mkdir(self.inside("hf/more"))
        self.fails(1, "rm", "hf", "--yes", says=["hf", "more"])
        self.assertEqual(sorted(os.listdir(self.inside("hf"))), ["config.json", "model.safetensors", "more"])

    def test_links_stay(self):
        target = shutil.copy(MODEL, self.path("target.gguf"))
        os.symlink(target, self.inside("link.gguf"))
        self.add_folder()
        os.rename(self.inside("hf"), self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), self.inside("hf"))
        self.fails(1, "rm", "link", "--yes", says="symbolic link")
        self.fails(1, "rm", "hf", "--yes", says="symbolic link")
        self.assertTrue(os.path.exists(target) and os.path.exists(self.path("elsewhere/config.json")))

    def test_refusals(self):
        shutil.copy(MODEL, self.inside("tiny.gguf"))
        shutil.copy(MODEL, self.path("outside.gguf"))
        os.mkdir(self.inside("folder"))
        self.inside("notes.txt", "")
        for name in ["outside.gguf", "../outside.gguf", "../outside", self.path("outside.gguf"), ".", "..", "folder",
                     "notes.txt", "tin", "smollm2-135m", "smollm"]:
            self.fails(1, "rm", name, "--yes")
        self.fails(2, "rm", "", "--yes", says="empty")
        self.fails(2, "rm", says="NAME is missing")
        self.fails(2, "rm", "tiny", says="--yes")
        self.assertEqual(sorted(os.listdir(self.models)), ["folder", "notes.txt", "tiny.gguf"])

    def test_asks(self):
        shutil.copy(MODEL, self.inside("tiny.gguf"))
        for answer, status in [("\n", 1), ("n\n", 1), ("\x03", 130), ("\x04", 1), ("y\n", 0)]:
            terminal = Terminal(self, "rm", "tiny")
            terminal.wait_for("Remove tiny (1.19 MB)? [y/N] ")
            terminal.send(answer)
            self.assertEqual(terminal.leave(), status)
            self.assertEqual(os.path.exists(self.inside("tiny.gguf")), status != 0)


if __name__ == "__main__":
    main()
