"""Every command that README and the pages for users show, and every link between the documents."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from harness import MODEL, Case, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUANTISED = str(pathlib.Path(MODEL).parent / "stories260K-q.gguf")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TSV = [line.split("\t") for line in (ROOT / "scripts" / "models.tsv").read_text(encoding="utf-8").splitlines()
       if line and not line.startswith("#")]
# Commands that other tests run: the part of scripts/check named here.
ELSEWHERE = {"scripts/start": "a chat needs a terminal: test_chat.py",
             "scripts/check": "this run",
             "cmake": "test/package/test_install.py",
             "cc": "test/package/test_install.py",
             "cp": "test/package/test_install.py",
             "export": "test/package/test_install.py",
             "mkdir": "test/package/test_install.py",
             "echo": "test/package/test_install.py",
             "systemctl": "the unit was checked, not run (docs/next.md)",
             "pip": "the part python",
             "scripts/bundle": "the part package",
             "scripts/windows": "scripts/check --windows",
             "certutil": "on Windows only",
             "apt-get": "the part package",
             "bench/peers": "measures; bench/README.md",
             "scripts/deb": "the part package"}
# What would take minutes.
SHORTER = {"bench": ["--repeats", "1", "--gen", "4"], "chat": []}
KNOWN = "|".join(re.escape(row[0]) for row in TSV)
# The small model takes the place of any other.
A_MODEL = re.compile(r"(MODEL|NAME|OUT|small|your)(\.gguf)?|%s" % KNOWN)


def shown_commands(path):
    """Indented lines without their comments, and `riffle VERB` in the text. Where a line of a block begins with "$ ",
    the others are what was printed."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    for block in re.findall(r"(?:^    .*\n)+", text, flags=re.M):
        lines = [line[4:] for line in block.splitlines()]
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        for line in typed:
            if re.match(r"(build/)?riffle |scripts/|bench/|(%s) " % "|".join(ELSEWHERE), line):
                yield shlex.split(line.split("  #")[0])
    for code in re.findall(r"`([^`]+)`", " ".join(text.split())):
        if code.startswith("riffle ") and not re.search(r"[A-Za-z]\.\.\.|\||\[", code):
            yield shlex.split(code)


class Commands(Case):
    def test_run(self):
        seen, self.verbs = set(), self.ok("help").out
        for page in PAGES:
            if page.name == "cli.md":  # forms of all verbs, not commands; test_usage.py has them
                continue
            for words in shown_commands(page):
                program = words[0].removeprefix("build/")
                if program in ELSEWHERE:
                    continue
                self.assertEqual(program, "riffle", (page, words))
                with self.subTest(page=page.name, words=words):
                    self.run_command(words[1], words[2:])
                seen.add(words[1])
        self.assertLessEqual({"chat", "run", "info", "bench", "list", "pull", "serve", "quantize", "corpus", "perplexity"},
                             seen)

    def run_command(self, verb, arguments):
        if verb in ("help", "version"):
            self.ok(verb, *arguments)
            return
        self.assertIn("\n  %s " % verb, self.verbs)
        options = self.ok("help", verb).out
        for word in arguments:
            if word.startswith("--"):
                self.assertIn(word.partition("=")[0], options)
        self.run_verb(verb, arguments)

    def run_verb(self, verb, arguments):
        """Alone in the text, a verb only has to exist."""
        if not arguments and verb not in ("list", "cores", "devices"):
            return
        named = [a for a in arguments if A_MODEL.fullmatch(a)]
        needs = {"pull": "the network", "rm": "a fetched model", "serve": "test_serve.py"}
        if verb in needs or "--suite" in arguments or "--device" in arguments or "--calibrate" in arguments:
            return
        if not named and verb not in ("list", "cores", "devices"):
            return
        text = self.path("text.txt", "Once upon a time there was a cat. " * 80)
        self.path("person.json", json.dumps({"type": "object", "properties": {"name": {"type": "string"}}}))
        places = {"FILE": text, "FOLDER...": self.folder, "FILE...": text, "TEXT": "text", "N": "2"}
        model = QUANTISED if "--activations" in arguments else MODEL  # float weights take 16 bits alone
        arguments = [model if A_MODEL.fullmatch(a) and not (verb == "quantize" and a.startswith("OUT")) else
                     places.get(a, a) for a in arguments]
        arguments = [a.replace("small.gguf", MODEL) for a in arguments]
        if "notes.corpus" in arguments and verb != "corpus":
            self.ok("corpus", "build", "notes.corpus", "--model", MODEL, "--no-refine", text)
        arguments += SHORTER.get(verb, [])
        if verb in ("run", "chat"):
            arguments += ["--template", "chatml", "--max-tokens", "4"]
        self.ok(verb, *arguments, stdin="" if "-p" in arguments else "Hi\n")


class Sizes(Case):
    """The sizes and names of models in the pages, and in scripts/start, are those of the list."""

    def test_known_models(self):
        sizes = {row[0]: int(row[3]) for row in TSV}
        n = 0
        for page in PAGES:
            for name, shown, unit in re.findall(r"riffle pull (%s)\b[^\n]*?([0-9.]+) (MB|GB)" % KNOWN,
                                                page.read_text(encoding="utf-8")):
                size = sizes[name] / {"MB": 1e6, "GB": 1e9}[unit]
                self.assertEqual("%.*f" % (len(shown.partition(".")[2]), size), shown, (page, name))
                n += 1
        self.assertGreater(n, 1)

    def test_start(self):
        script = (ROOT / "scripts" / "start").read_text(encoding="utf-8")
        model, small = re.search(r"^model=(\S+) small=(\S+)$", script, flags=re.M).groups()
        sizes = {row[0]: int(row[3]) for row in TSV}
        self.assertEqual(small, min(sizes, key=sizes.get))
        self.assertIn("fetches a model (%.0f MB)" % (sizes[model] / 1e6), README)
        self.assertRegex(" ".join(README.split()), r"`--small` fetches \S+ \(%.0f MB\)" % (sizes[small] / 1e6))
        self.assertIn("$ build/riffle chat %s\n    %s: " % (model, model), README)


class Start(Case):
    """scripts/start in a checkout where all is installed and built; the program only says what it is called with."""

    def setUp(self):
        super().setUp()
        for folder in ("scripts", "build", "bin"):
            os.mkdir(self.path(folder))
        for name in ("start", "common.sh", "models.tsv"):
            shutil.copy(ROOT / "scripts" / name, self.path("scripts"))
        self.path("build/build.ninja", "")
        for name, script in [("scripts/setup", ""), ("bin/ninja", ""), ("build/riffle", 'echo "riffle $*" >>calls')]:
            os.chmod(self.path(name, "#!/bin/sh\n" + script + "\n"), 0o755)

    def start(self, *arguments):
        """What was called, and what was said."""
        result = subprocess.run([self.path("scripts/start"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                                cwd=self.folder, env=dict(self.env, PATH=self.path("bin") + ":" + os.environ["PATH"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("calls"), encoding="utf-8") as file:
            calls = file.read().splitlines()
        os.unlink(self.path("calls"))
        return calls, result.stderr.decode()

    def test_models(self):
        rows = sorted((row for row in TSV if row[5] != "-"), key=lambda row: int(row[3]))
        shown = ["%s, %.0f MB" % (row[0], int(row[3]) / 1e6) for row in rows]
        for arguments, at in [([], 1), (["--small"], 0)]:
            calls, said = self.start(*arguments, "--verbose")
            self.assertEqual(calls[0], "riffle pull " + rows[at][0])
            self.assertRegex(calls[1], r"^riffle run %s -p .* --verbose$" % re.escape(rows[at][0]))
            self.assertIn("The model is %s." % shown[at], said)
            larger, size = shown[at + 1].split(", ")
            self.assertIn("build/riffle pull %s (%s)" % (larger, size), said)


class Links(Case):
    def anchors(self, path):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
        titles = re.findall(r"^#+ (.*)$", text, flags=re.M)
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    def test_targets_exist(self):
        documents = [ROOT / name for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
                                              "THIRD-PARTY.md", "bench/README.md", "bindings/python/README.md"]]
        documents += sorted((ROOT / "docs").rglob("*.md"))
        n = 0
        for document in documents:
            text = re.sub(r"```.*?```|`[^`]*`", "", document.read_text(encoding="utf-8"), flags=re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (document.parent / name).resolve() if name else document
                self.assertTrue(path.exists(), "%s names %s" % (document.name, target))
                if anchor:
                    self.assertIn(anchor, self.anchors(path), "%s names %s" % (document.name, target))
                n += 1
        self.assertGreater(n, 50)


class Parts(Case):
    """Pages for users are short; what one run gave is in docs/lab; every page is in an index."""

    def words(self, *paths):
        return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)

    def test_length(self):
        self.assertLessEqual(self.words(ROOT / "README.md"), 900)
        self.assertLessEqual(self.words(ROOT / "docs" / "next.md"), 800)
        self.assertLessEqual(self.words(*(ROOT / "docs").glob("*.md")), 15000)

    def test_indexes(self):
        docs = ROOT / "docs"
        index = (docs / "README.md").read_text(encoding="utf-8")
        for page in [*docs.glob("*.md"), *docs.glob("design/*.md")]:
            if page.name != "README.md":
                self.assertIn("(%s)" % page.relative_to(docs), index)
        index = (docs / "lab" / "README.md").read_text(encoding="utf-8")
        for record in docs.glob("lab/2*.md"):
            self.assertIn("(%s)" % record.name, index)


if __name__ == "__main__":
    main()
