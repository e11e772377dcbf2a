"""Files that are not what they should be: exit status 1, nothing on standard output, a sentence that names the file."""

import os
import subprocess
import unittest

from harness import MODEL, RIFFLE, Case, main

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
        self.fails(1, "run", MODEL, "-p", "a", says="(choose with --template or --raw)")
        self.fails(1, "chat", MODEL, says="--template")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = self.start("list", stdout=full)
        self.assertEqual(process.wait(), 1)
        self.assertIn(b"standard output", process.stderr.read())


if __name__ == "__main__":
    main()
