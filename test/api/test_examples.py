"""The programs of docs/embedding.md, as they are there: compiled, and used as people use them. Called
with the paths of libriffle.so and of a C compiler."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = str(ROOT / "test" / "data" / "stories260K.gguf")
LIBRARY, COMPILER = sys.argv[1:3]
TIMEOUT = 100  # seconds; only so that a hang becomes a failure


class Examples(unittest.TestCase):
    def test_the_document_has_the_files(self):
        text = (ROOT / "docs" / "embedding.md").read_text()
        blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S))
        self.assertEqual(blocks["c"], (ROOT / "examples" / "chat.c").read_text())
        self.assertEqual(blocks["python"], (ROOT / "examples" / "chat.py").read_text())


class Chat:
    """Tests of each program; `command` is set by the classes below."""

    def start(self, *arguments):
        env = dict(os.environ, RIFFLE_LIBRARY=LIBRARY, PYTHONPATH=str(ROOT / "bindings" / "python"))
        process = subprocess.Popen([*self.command, *arguments], stdin=subprocess.PIPE, bufsize=0,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def chat(self, *arguments, lines=""):
        process = self.start(*arguments)
        out, err = process.communicate(lines.encode(), timeout=TIMEOUT)
        return process.returncode, out.decode(), err.decode()

    def until(self, process, end):
        """What the process prints up to and with `end`."""
        found = b""
        while not found.endswith(end):
            byte = process.stdout.read(1)
            self.assertTrue(byte, (found, "ended without", end))
            found += byte
        return found.decode()

    def interrupt_at_the_prompt(self, process):
        """The prompt is printed a moment before the program waits for input: more than once."""
        for _ in range(TIMEOUT // 2):
            process.send_signal(signal.SIGINT)
            try:
                return process.wait(2)
            except subprocess.TimeoutExpired:
                pass
        self.fail("Ctrl-C at the prompt does not end the program")

    def real_model(self):
        if not os.environ.get("RIFFLE_TEST_MODEL"):
            self.skipTest("RIFFLE_TEST_MODEL is not set")
        return os.environ["RIFFLE_TEST_MODEL"]

    def test_errors(self):
        status, out, err = self.chat()
        self.assertEqual((status, out), (1, ""))
        self.assertIn("usage: chat", err)
        status, out, err = self.chat("no/such.gguf")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("no/such.gguf", err)

    def test_a_failing_turn_is_forgotten(self):
        status, out, _ = self.chat(TINY, lines="Hello\nHello\n")
        self.assertEqual(status, 0)
        self.assertEqual(out.count("no chat template"), 2)

    def test_a_conversation_with_ctrl_c(self):
        process = self.start(self.real_model())
        self.until(process, b"> ")
        for question in (b"Tell me a very long story about the sea.\n", b"Go on for ever.\n"):
            process.stdin.write(question)
            self.assertGreater(len(self.until(process, b" ")), 1)
            process.send_signal(signal.SIGINT)  # the model would go on for long
            self.until(process, b"\n> ")
        self.interrupt_at_the_prompt(process)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(process.stderr.read(), b"")


class InC(Chat, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.command = [cls.folder.name + "/chat"]
        subprocess.run([COMPILER, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        f"-I{ROOT / 'include'}", str(ROOT / "examples" / "chat.c"), LIBRARY,
                        f"-Wl,-rpath,{os.path.dirname(LIBRARY)}", "-o", *cls.command], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class InPython(Chat, unittest.TestCase):
    command = [sys.executable, "-B", str(ROOT / "examples" / "chat.py")]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
