"""Files that are not what they should be: exit status 1, nothing on standard output, a sentence that names the file."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import unittest

from harness import BRIEF, MODEL, RIFFLE, Case, Terminal, main
from model_files import split_gguf

OPENING = [["info"], ["run", "-p", "a"], ["chat"], ["bench"], ["tokenize", "-p", "a"]]


class ModelFiles(Case):
    def refused(self, path, verbs=OPENING):
        for verb, *rest in verbs:
            result = self.fails(1, verb, path, *rest, says=os.path.basename(path))
            self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_missing(self):
        self.refused(self.path("absent.gguf"))

    def test_folder(self):
        os.mkdir(self.path("folder"))
        self.refused(self.path("folder"))
        os.mkdir(self.path("folder.gguf"))
        self.refused(self.path("folder.gguf"))

    def test_empty(self):
        self.refused(self.path("empty.gguf", b""))

    def test_devices(self):
        self.refused("/dev/null", OPENING[:2])

    def test_text(self):
        self.refused(self.path("text.gguf", "This is not a model.\n" * 100))

    def test_garbage(self):
        noise = bytes((i * 2654435761 >> 13) & 255 for i in range(100000))
        self.refused(self.path("noise.gguf", noise))
        self.refused(self.path("magic.gguf", b"GGUF" + noise))

    def test_truncated(self):
        with open(MODEL, "rb") as file:
            whole = file.read()
        for n in [1, 4, 8, 24, 1000, len(whole) // 2, len(whole) - 1]:
            self.refused(self.path("short-%d.gguf" % n, whole[:n]), [["run", "--raw", "-p", "a"]])

    @unittest.skipIf(os.geteuid() == 0, "root reads every file")
    def test_unreadable(self):
        os.chmod(self.path("secret.gguf", b"GGUF"), 0)
        self.refused(self.path("secret.gguf"))


class Split(Case):
    """Models in several files, as llama.cpp's gguf-split writes them."""

    def setUp(self):
        super().setUp()
        self.data = pathlib.Path(MODEL).read_bytes()
        self.n_tensors = struct.unpack_from("<Q", self.data, 8)[0]

    def write(self, counts, name="tiny", **options):
        """The parts; the path of the first."""
        counts = [*counts, self.n_tensors - sum(counts)]
        paths = ["%s-%05d-of-%05d.gguf" % (name, i + 1, len(counts)) for i in range(len(counts))]
        for path, data in zip(paths, split_gguf(self.data, counts, **options)):
            self.path(path, data)
        return paths[0]

    def test_same_answer(self):
        """Also where the first part has metadata alone, and where a part is empty."""
        run = ["run", "--raw", "-p", "Once upon a time", "--max-tokens", "20"]
        wanted = self.ok(*run[:1], MODEL, *run[1:]).out
        for i, counts in enumerate([[20], [0], [0, 1, 30], [1] * 10, [5, 0, 5]]):
            path = self.write(counts, "m%d" % i)
            self.assertEqual(self.ok(*run[:1], path, *run[1:]).out, wanted, counts)
            self.assertEqual(self.json("info", path)["n_params"], self.json("info", MODEL)["n_params"])

    def test_quantised_into_one_file(self):
        path = self.write([0, 20])
        for model, out in [(path, "a.gguf"), (MODEL, "b.gguf")]:
            self.ok("quantize", model, out, "--type", "q8_0")
        run = ["--raw", "-p", "Once upon a time", "--max-tokens", "20"]
        self.assertEqual(self.ok("run", "a.gguf", *run).out, self.ok("run", "b.gguf", *run).out)
        self.assertNotIn(b"split.", pathlib.Path(self.path("a.gguf")).read_bytes())

    def test_refused(self):
        first = self.write([10, 20])
        second, third = (first.replace("-00001-", "-0000%d-" % i) for i in (2, 3))
        self.fails(1, "info", second, says=["part 2 of the 3", "first"])
        shutil.copy(self.path(first), self.path("other.gguf"))
        self.fails(1, "info", "other.gguf", says=["-00001-of-00003.gguf", "split.count"])
        os.rename(self.path(third), self.path("away"))
        self.fails(1, "info", first, says=third)
        shutil.copy(self.path(second), self.path(third))
        self.fails(1, "info", first, says=[third, "part 2 of 3"])
        whole = pathlib.Path(self.path("away")).read_bytes()
        self.path(third, whole[:-1])
        self.fails(1, "info", first, says=third)
        self.path(third, b"")
        self.fails(1, "info", first, says=third)

    def test_lying_parts(self):
        for name, options in [("a", {"changes": {1: {"split.count": (4, 7)}}}), ("b", {"n_tensors": 3}),
                              ("c", {"changes": {1: {"split.no": (4, 0)}}}),
                              ("d", {"changes": {0: {"split.count": (4, 65535)}}})]:
            self.fails(1, "info", self.write([10], name, **options), says="split.")


class Streams(Case):
    """Standard streams that the parent closed: no hang, and output that is lost is a failure."""

    def closed(self, redirections, *arguments):
        command = ["sh", "-c", '"$@" ' + redirections, "sh", RIFFLE, *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, env=self.env)

    def test_closed(self):
        run = ["run", MODEL, "--raw", "-p", "Once", "--max-tokens", "4"]
        self.assertEqual(self.closed("<&-", *run).returncode, 0)
        self.assertEqual(self.closed("<&- 2>&-", *run).returncode, 0)
        self.assertEqual(self.closed(">&-", *run).returncode, 1)
        self.assertIn(b"standard output", self.closed(">&-", *run).stderr)
        self.assertEqual(self.closed("<&- >&- 2>&-", *run).returncode, 1)
        self.assertEqual(self.closed("<&-", "run", MODEL, "--raw").returncode, 1)
        self.assertEqual(self.closed("<&-", "chat", MODEL).returncode, 1)


class TextFiles(Case):
    def test_missing(self):
        for verb in ["run", "tokenize", "perplexity"]:
            self.fails(1, verb, MODEL, "-f", "absent.txt", says="absent.txt")

    def test_folder(self):
        self.fails(1, "tokenize", MODEL, "-f", self.folder, says=self.folder)

    def test_zero_byte_in_a_message(self):
        self.path("zero.txt", b"one\0two")
        self.fails(1, "run", MODEL, "--template", "chatml", "-f", "zero.txt", says=["zero.txt", "offset 3"])

    def test_nothing_to_go_on_from(self):
        self.fails(1, "perplexity", MODEL, "-f", "/dev/null", says=["/dev/null", "tokens"])

    def test_any_bytes_have_tokens(self):
        every = self.path("bytes.bin", bytes(range(256)) * 4)
        self.assertGreater(self.json("tokenize", MODEL, "-f", every)["count"], 0)


class Empty(Case):
    """A file, a model or a name that is an empty text: one sentence, and nothing is read or written."""

    def test_options(self):
        """Every option of every verb whose value is no free text."""
        n = 0
        for verb in re.findall(r"^  ([a-z]+) ", self.ok("help").out, flags=re.M):
            if verb in ("help", "version"):
                continue
            for name, value in re.findall(r"^  (--[a-z0-9-]+)(?:, -[a-z])? ([A-Z][A-Za-z0-9]*)", self.ok("help", verb).out,
                                          flags=re.M):
                if value == "TEXT" and name != "--stop":
                    continue
                result = self.fails(2, verb, name, "", says=name)
                self.assertEqual(result.err.count("\n"), 2, result.err)  # the sentence, and where the help is
                n += 1
        self.assertGreater(n, 50)

    def test_arguments(self):
        for verb in ["info", "run", "chat", "bench", "tokenize", "serve", "perplexity", "pull", "rm"]:
            self.fails(2, verb, "", says="MODEL is an empty text")
        self.fails(2, "quantize", MODEL, "", "--type", "q4", says="OUT is missing")
        self.fails(2, "corpus", "build", "out", "--model", MODEL, "", says="an argument is an empty text")
        self.assertEqual(os.listdir(self.folder), [])


# What a terminal acts on: an escape sequence, C1's CSI, marks that turn text, a line's end, a byte that is no UTF-8.
HOSTILE = [b"a\x1b[31mb", "a\u009b31mb".encode(), "a\u202etxt".encode(), "a\u200f\u2066b".encode(), b"a\nb", b"a\x7fb",
           b"a\xff\xfeb", "a\u2028b".encode()]
HOSTILE = HOSTILE[::3] if BRIEF else HOSTILE  # one that a terminal acts on, one that reorders, one that is no UTF-8


class Names(Case):
    """Names of files that a terminal would act on: escaped wherever they are printed."""

    def setUp(self):
        super().setUp()
        self.env["RIFFLE_MODELS"] = self.folder

    def check(self, *arguments, status=1, stdin=b""):
        result = self.riffle(*arguments, stdin=stdin)  # decodes both outputs as UTF-8
        self.assertEqual(result.returncode, status, (arguments, result.err))
        for text in [result.err, result.out]:
            self.assertNotRegex(text, "[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", arguments)
        for line in result.err.splitlines():
            self.assertNotRegex(line, r"\Ab", arguments)  # the rest of a name that was broken
        return result

    def test_missing(self):
        for name in HOSTILE:
            for path in [name + b".gguf", b"none/" + name, name]:
                for verb in [["info"], ["run", "-p", "a"], ["chat"], ["rm", "--yes"], ["pull"], ["quantize", "out", "--type", "q4"]]:
                    self.check(verb[0], path, *verb[1:])
            for options in [["-f", name], ["-p", "a", "--draft", name], ["-p", "a", "--corpus", name],
                            ["-p", "a", "--grammar", name], ["-p", "a", "--template", name], ["-p", "a", "--chain", name]]:
                self.check("run", MODEL, *options)
            self.check("run", MODEL, "-p", "a", "--" + name.decode("utf-8", "surrogateescape"), status=2)
            self.check(name, status=2)
            self.check("pull", b"https://127.0.0.1:1/" + name, status=2)
            self.check("chat", MODEL, "--template", "chatml", stdin=b"/load " + name.replace(b"\n", b"") + b"\n")

    def test_present(self):
        for name in HOSTILE:
            path = os.path.join(self.folder.encode(), name + b".gguf")
            shutil.copy(MODEL.encode(), path)
            self.check("list", status=0)
            self.check("info", path, status=0)
            for verb in [["list"], ["info", path]]:
                self.check(*verb, "--json", status=0)
            names = [model["name"] for model in self.json("list")["models"]]
            self.assertIn(name.decode("utf-8", "replace"), names)
            self.check("info", MODEL, "--draft", path, status=0)
            self.check("run", MODEL, "--raw", "-p", "a", "--max-tokens", "4", "--chain", b"ngram > " + name, "--verbose", status=0)
            self.check("rm", name, status=2)  # there is nobody to ask
            self.check("rm", name, "--yes", status=0)
            self.assertFalse(os.path.exists(path))
            if b"\n" not in name:
                self.check("chat", MODEL, "--template", "chatml", status=0, stdin=b"/save %s\n/load %s\n" % (name, name))
                os.unlink(os.path.join(self.folder.encode(), name))

    def test_the_log_of_a_server(self):
        for name in HOSTILE:
            path = os.path.join(self.folder.encode(), name + b".gguf")
            shutil.copy(MODEL.encode(), path)
            server = self.start("serve", path, "--template", "chatml", "--port", "0")
            line = server.stdout.readline()
            server.terminate()
            self.assertNotRegex((line + server.stderr.read()).decode(), "[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
            if b"\xff" not in name:  # the server wants another name for that
                self.assertIn(name.decode(), json.loads(line)["model"])

    def test_escapes_tell_what_is_there(self):
        self.path("a\x1bb\u009bc\u202ed.gguf", b"")
        self.assertIn("a\\x1bb\\x9bc\\u202ed", self.ok("list").out)
        self.assertIn("a\\x1bb\\x9bc\\u202ed.gguf", self.fails(1, "info", "a\x1bb\u009bc\u202ed.gguf").err)


class Links(Case):
    """Links that somebody put where a file is going to be written: replaced, and what they lead to stays."""

    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        self.env["RIFFLE_MODELS"] = self.models
        os.mkdir(self.models)
        self.victim = self.path("victim", "precious")

    def plant(self, name, target="victim"):
        path = self.path(name)
        if os.path.lexists(path):
            os.unlink(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(self.path(target), path)
        return path

    def stays(self):
        with open(self.victim, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")
        self.assertFalse(os.path.lexists(self.path("absent")))

    def test_pull(self):
        sha256 = hashlib.sha256(pathlib.Path(MODEL).read_bytes()).hexdigest()
        for target in ["victim", "absent"]:
            for name in [".tiny.gguf.part.state", ".tiny.gguf.verified"]:
                self.plant("models/" + name, target)
            self.ok("pull", "file://" + MODEL, "--name", "tiny", "--sha256", sha256)
            self.stays()
            self.assertFalse(os.path.lexists(self.models + "/.tiny.gguf.part.state"))
            self.assertFalse(os.path.islink(self.models + "/.tiny.gguf.verified"))
            self.assertIn("tiny is there, verified", self.ok("pull", "tiny").err)
            self.ok("rm", "tiny", "--yes")
            self.stays()

    def test_helpers_that_are_pipes(self):
        """Nobody waits for whoever writes to them."""
        shutil.copy(MODEL, self.models + "/tiny.gguf")
        os.mkfifo(self.models + "/.tiny.gguf.verified")
        os.mkfifo(self.models + "/.tiny.gguf.part.state")
        self.ok("list")
        self.ok("rm", "tiny", "--yes")
        self.ok("pull", "file://" + MODEL, "--name", "tiny")
        os.makedirs(self.path(".local/state/riffle"))
        os.mkfifo(self.path(".local/state/riffle/history"))
        terminal = Terminal(self, "chat", MODEL, "--template", "chatml")
        terminal.wait_for_prompt()
        terminal.send("/exit\r")
        self.assertEqual(terminal.leave(), 0)

    def test_remove(self):
        """A link beside a model goes with it, not what it leads to."""
        shutil.copy(MODEL, self.models + "/tiny.gguf")
        for name in [".tiny.gguf.verified", ".tiny.gguf.part.state", ".tiny.gguf.wheel.part.state"]:
            self.plant("models/" + name)
        self.ok("rm", "tiny", "--yes")
        self.stays()
        self.assertEqual(os.listdir(self.models), [])

    def test_pace(self):
        run = ["run", MODEL, "--raw", "-p", "Once upon a time", "--chain", "ngram", "--max-tokens", "40"]
        self.ok(*run)
        folder = self.path(".cache/riffle")
        names = os.listdir(folder)
        self.assertTrue(names)
        for target in ["victim", "absent"]:
            for name in names:
                self.plant(".cache/riffle/" + name, target)
            self.ok(*run)
            self.stays()
            self.assertFalse(any(os.path.islink(os.path.join(folder, name)) for name in names))

    def test_outputs(self):
        self.path("text.txt", "Once upon a time there was a cat. " * 50)
        for target in ["victim", "absent"]:
            for write in [["quantize", MODEL, "out", "--type", "q8_0"],
                          ["corpus", "build", "out", "--model", MODEL, "--no-refine", "text.txt"]]:
                self.plant("out", target)
                self.ok(*write)
                self.stays()
                self.assertFalse(os.path.islink(self.path("out")))
            self.plant("talk.json", target)
            self.ok("chat", MODEL, "--template", "chatml", stdin="/save talk.json\n")
            self.stays()
            self.assertEqual(os.lstat(self.path("talk.json")).st_mode & 0o170777, 0o100600)

    def test_history(self):
        for target in ["victim", "absent"]:
            self.plant(".local/state/riffle/history", target)
            terminal = Terminal(self, "chat", MODEL, "--template", "chatml", "--max-tokens", "2")
            terminal.wait_for_prompt()
            terminal.send("Hi\r")
            terminal.wait_for_prompt()
            terminal.send("/exit\r")
            self.assertEqual(terminal.leave(), 0)
            self.stays()


class Machine(Case):
    def test_unknown_tier(self):
        nonsense = {"RIFFLE_CPU": "nonsense"}
        self.fails(1, "run", MODEL, "--raw", "-p", "a", env=nonsense, says="nonsense")
        self.fails(1, "chat", MODEL, "--template", "chatml", env=nonsense, says="nonsense")
        self.fails(1, "bench", MODEL, env=nonsense, says="nonsense")

    def test_unknown_template(self):
        self.fails(1, "run", MODEL, "-p", "a", "--template", "nonsense", says=["nonsense", "chatml", "--template"])
        self.fails(1, "chat", MODEL, "--template", "nonsense", says=["nonsense", "chatml"])

    def test_no_template(self):
        """stories260K has none: nothing is guessed, and the sentence says how to choose."""
        self.fails(1, "run", MODEL, "-p", "a", "--system", "b", says="(choose with --template or --raw)")
        self.fails(1, "chat", MODEL, says="--template")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = self.start("list", stdout=full)
        self.assertEqual(process.wait(), 1)
        self.assertIn(b"standard output", process.stderr.read())


if __name__ == "__main__":
    main()
