"""The manual page and the completions: test_manual.py PROGRAM FOLDER-OF-THE-FILES"""

import os
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM, FOLDER = (os.path.abspath(path) for path in (sys.argv[1:3] + ["", ""])[:2])
ENV = dict(os.environ, PATH=os.path.dirname(PROGRAM) + ":" + os.environ["PATH"], LANG="C.UTF-8")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def output(*command):
    return subprocess.run(command, env=ENV, cwd=DATA, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def verbs():
    """The verbs and the options of each, from the program's own help."""
    names = re.findall(r"^  (\w+) ", output(PROGRAM, "help").split("\n\n")[2], re.MULTILINE)
    names = [name for name in names if name not in ("help", "version")]
    return {name: set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", output(PROGRAM, "help", name), re.MULTILINE)) for name in names}


class Page(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(FOLDER, "riffle.1")) as file:
            self.text = file.read()

    def test_has_all_verbs_and_options(self):
        found = verbs()
        self.assertGreater(len(found), 5)
        plain = self.text.replace("\\-", "-")
        for verb, options in found.items():
            self.assertRegex(plain, r"\.TP\n\\fB%s\\fR" % verb)
            for option in options:
                self.assertRegex(plain, r"\\fB([^\n]*, )?%s\\fR" % option)

    def test_sections(self):
        for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "VERBS", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT STATUS"]:
            self.assertIn("\n.SH %s\n" % title, self.text)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc(self):
        result = subprocess.run(["mandoc", "-Tlint", os.path.join(FOLDER, "riffle.1")], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff(self):
        result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", os.path.join(FOLDER, "riffle.1")],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Completions:
    """What every shell must offer; a shell says how to ask it for the completions of a line."""

    def offers(self, line, *expected):
        self.assertEqual(set(self.complete(line)), set(expected), line)

    def test_verbs(self):
        self.offers("riffle quan", "quantize")
        self.offers("riffle help roof", "roofline")

    def test_options(self):
        self.offers("riffle run --te", "--temp", "--template")
        self.offers("riffle info --te")
        for verb, options in verbs().items():
            self.assertLessEqual(options, set(self.complete("riffle %s --" % verb)), verb)

    def test_choices(self):
        self.offers("riffle run MODEL --weights ", "auto", "stored", "bf16")
        self.offers("riffle quantize MODEL OUT --type q", "q4", "q4_0", "q6", "q8_0")

    def test_models(self):
        self.offers("riffle run smollm2-135", "smollm2-135m")
        self.offers("riffle run --draft smollm2-135", "smollm2-135m")

    def test_files(self):
        self.offers("riffle run stories260K.", "stories260K.gguf")
        self.offers("riffle perplexity MODEL --file stories260K.", "stories260K.gguf")


class Bash(Completions, unittest.TestCase):
    def complete(self, line):
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _riffle; printf "%s\\n" "${COMPREPLY[@]}"'
        words = line.split(" ")
        return output("bash", "-c", script, "bash", os.path.join(FOLDER, "riffle.bash"), *words).split()

    def test_equals_sign(self):
        # bash gives --weights=b as three words.
        self.assertEqual(self.complete("riffle run --weights = b"), ["bf16"])
        self.assertEqual(set(self.complete("riffle run --weights =")), {"auto", "stored", "bf16"})


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(Completions, unittest.TestCase):
    def complete(self, line):
        script = "source %s; complete -C '%s'" % (os.path.join(FOLDER, "riffle.fish"), line)
        return [offer.split("\t")[0] for offer in output("fish", "--no-config", "-c", script).splitlines()]


class Zsh(unittest.TestCase):
    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_syntax(self):
        output("zsh", "-n", os.path.join(FOLDER, "_riffle"))

    def test_has_all_options(self):
        with open(os.path.join(FOLDER, "_riffle")) as file:
            text = file.read()
        for verb, options in verbs().items():
            part = re.search(r"\n        %s\)\n(.*?)\n            ;;" % verb, text, re.DOTALL).group(1)
            for option in options:
                self.assertRegex(part, r"%s[=\[}]" % option, verb)


if __name__ == "__main__":
    if not FOLDER or len(sys.argv) < 3:
        sys.exit("usage: %s PROGRAM FOLDER [unittest options]" % sys.argv[0])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
