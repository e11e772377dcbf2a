"""What the end-to-end tests share. Each test file is called with the path of the program: test_run.py build/riffle"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

MODEL = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "stories260K.gguf")
RIFFLE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
# RIFFLE_EMULATOR: a program that runs it, such as wine
COMMAND = [*os.environ.get("RIFFLE_EMULATOR", "").split(), RIFFLE]
BRIEF = os.environ.get("RIFFLE_TEST_BRIEF") == "1"  # an instrumented program: what repeats is left out
TIMEOUT = 300  # seconds; only so that a hang becomes a failure


def with_template(template):
    """The test model with a chat template in its file. The tensors' data stays aligned to 32 bytes."""
    data = pathlib.Path(MODEL).read_bytes()
    magic, version, n_tensors, n_values = struct.unpack_from("<IIQQ", data)
    key = b"tokenizer.chat_template"
    template = template.encode()
    template += b" " * (-(8 + len(key) + 4 + 8 + len(template)) % 32)
    value = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(template)) + template
    return struct.pack("<IIQQ", magic, version, n_tensors, n_values + 1) + value + data[24:]


class Case(unittest.TestCase):
    """A test with an empty folder of its own as the working directory and as the user's home."""

    may_precede = ""  # on standard error, before the sentence of a failure: a regular expression

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="riffle-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(
            ("RIFFLE_", "XDG_", "NO_COLOR", "LC_", "HWLOC_", "HF_", "HUGGINGFACE_", "OLLAMA_", "LLAMA_CACHE", "MODELSCOPE_"))}
        # A service of ollama's on this machine is none of the tests' business.
        self.env = dict(kept, HOME=self.folder, LANG="C", OLLAMA_MODELS=os.path.join(self.folder, ".ollama/models"))

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def riffle(self, *arguments, stdin=b"", env=None):
        """Runs the program to its end; .out and .err are text, which must be UTF-8."""
        stdin = stdin if isinstance(stdin, bytes) else stdin.encode()
        result = subprocess.run([*COMMAND, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=dict(self.env, **(env or {})), cwd=self.folder, timeout=TIMEOUT)
        result.out = result.stdout.decode("utf-8")
        result.err = result.stderr.decode("utf-8")
        return result

    def start(self, *arguments, env=None, stdout=subprocess.PIPE):
        process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=stdout,
                                   stderr=subprocess.PIPE, env=dict(self.env, **(env or {})), cwd=self.folder)
        self.addCleanup(close, process)
        return process

    def ok(self, *arguments, **options):
        result = self.riffle(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.err)
        return result

    def json(self, *arguments, **options):
        """Runs with --json: one object and a newline are all there is on standard output."""
        result = self.ok(*arguments, "--json", **options)
        self.assertTrue(result.out.startswith("{") and result.out.endswith("}\n"), result.out)
        return json.loads(result.out)

    def fails(self, status, *arguments, says=(), **options):
        """Fails with the status, prints nothing on standard output, and a sentence with each of `says`."""
        result = self.riffle(*arguments, **options)
        self.assertEqual(result.returncode, status, (arguments, result.out, result.err))
        self.assertEqual(result.out, "")
        self.assertRegex(result.err, r"\A%sriffle: " % self.may_precede)
        for part in (says,) if isinstance(says, str) else says:
            self.assertIn(part, result.err)
        return result


def close(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


class Screen:
    """What a terminal of some columns shows for the escape sequences that the program uses."""

    SEQUENCE = re.compile(r"\033\[(\??[0-9;]*)([A-Za-z@])")

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [[]], 0, 0

    def _put(self, c):
        if self.column == self.columns:
            self.row, self.column = self.row + 1, 0
        while len(self.rows) <= self.row:
            self.rows.append([])
        line = self.rows[self.row]
        line.extend(" " * (self.column + 1 - len(line)))
        line[self.column] = c
        self.column += 1

    def _escape(self, argument, letter):
        n = int(argument) if argument.isdigit() else 1
        while len(self.rows) <= self.row:
            self.rows.append([])
        line = self.rows[self.row]
        if letter == "A":
            self.row -= n
        elif letter == "C":
            self.column = min(self.column + n, self.columns - 1)
        elif letter == "D":
            self.column -= n
        elif letter == "G":
            self.column = n - 1
        elif letter in "KJ":
            del line[self.column:]
            if letter == "J":
                del self.rows[self.row + 1:]
        elif letter == "P":
            del line[self.column:self.column + n]
        elif letter == "@":
            line[self.column:self.column] = " " * n
        else:
            assert letter in "mhl", (argument, letter)
        assert self.row >= 0 and self.column >= 0

    def show(self, text):
        """Returns the lines, without spaces at their ends."""
        while text:
            sequence = self.SEQUENCE.match(text)
            if sequence:
                self._escape(*sequence.groups())
            elif text[0] == "\n":
                self.row += 1
            elif text[0] == "\r":
                self.column = 0
            elif text[0] == "\b":
                self.column -= 1
            elif text[0] != "\a":
                self._put(text[0])
            text = text[sequence.end() if sequence else 1:]
        return ["".join(line).rstrip() for line in self.rows]


class Terminal:
    """The program on a pseudo-terminal; .screen is all that it has printed."""

    def __init__(self, case, *arguments, env=None, columns=80):
        self.case, self.screen, self.status = case, "", None
        self.mark = 0
        self.bytes = b""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
                os.chdir(case.folder)
                os.execve(RIFFLE, [RIFFLE, *arguments], {**case.env, "TERM": "xterm", **(env or {})})
            finally:
                os._exit(127)
        case.addCleanup(self.kill)

    def send(self, text):
        self.mark = len(self.screen)
        os.write(self.file, text.encode())

    def resize(self, columns):
        self.mark = len(self.screen)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))

    def modes(self):
        """The flags of the terminal that a shell finds, also after the end of the program."""
        return termios.tcgetattr(self.file)[3] & (termios.ECHO | termios.ICANON | termios.ISIG)

    def _read(self, seconds):
        if not select.select([self.file], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.file, 65536)
        except OSError:  # Linux: the other side is closed
            got = b""
        self.bytes += got
        self.screen = self.bytes.decode("utf-8", "replace")
        return bool(got)

    def wait_for_match(self, pattern):
        """Until the regular expression is found in what was shown since the last send."""
        end = time.monotonic() + TIMEOUT
        alive = True
        while not re.search(pattern, self.screen[self.mark:], re.DOTALL):
            if not alive or time.monotonic() > end:
                self.case.fail("no %r at the end of %r" % (pattern, self.screen))
            alive = self._read(0.1)

    def wait_for_line(self, line, columns=80):
        """Until the line that the cursor is on is this one, but for the prompt."""
        end = time.monotonic() + TIMEOUT
        while Screen(columns).show(self.screen)[-1][2:] != line:
            if time.monotonic() > end:
                self.case.fail("%r is not the last line of %r" % (line, self.screen))
            self._read(0.1)

    def wait_for(self, text):
        self.wait_for_match(re.escape(text))

    def wait_for_prompt(self):
        """Until the prompt is the last thing shown: then the editor has the terminal, and every key is its own."""
        self.wait_for_match(r">(\033\[0m)? \Z")

    def leave(self):
        """Reads to the end; the exit status, negative for a signal."""
        end = time.monotonic() + TIMEOUT
        while self.status is None:
            alive = self._read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG if alive else 0)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                self.case.fail("still running: %r" % self.screen)
        while select.select([self.file], [], [], 0)[0] and self._read(0):
            pass
        return self.status

    def kill(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -signal.SIGKILL
        os.close(self.file)


def main():
    if RIFFLE is None:
        sys.exit("usage: %s PROGRAM [unittest options]" % sys.argv[0])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
