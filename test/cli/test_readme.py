"""Every command that README shows, and every link between the documents."""

import pathlib
import re
import shlex

from harness import MODEL, Case, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Commands that other tests run: the part of scripts/check named here.
ELSEWHERE = {"scripts/start": "a chat needs a terminal: test_chat.py",
             "scripts/check": "this run",
             "cmake": "test/package/test_install.py",
             "cc": "test/package/test_install.py",
             "pip": "the part python",
             "scripts/bundle": "the part package",
             "scripts/deb": "the part package"}
# What would take minutes, or needs the network.
SHORTER = {"bench": ["--repeats", "1", "--gen", "4"], "chat": []}


def shown_commands():
    """Indented lines without their comments, and `riffle VERB` in the text."""
    text = re.sub(r"```.*?```", "", README, flags=re.S)
    for line in text.splitlines():
        if line.startswith("    ") and not re.match(r"    [>(A-Z0-9]|    (ngram|stored|target|level) ", line):
            yield shlex.split(line.strip().removeprefix("$ ").split("  #")[0])
    for code in re.findall(r"`([^`]+)`", " ".join(text.split())):
        if code.startswith("riffle "):
            yield shlex.split(code)


class Commands(Case):
    def test_run(self):
        verbs = self.ok("help").out
        seen = set()
        for words in shown_commands():
            program = words[0].removeprefix("build/")
            if program in ELSEWHERE or "=" in program:
                continue
            self.assertEqual(program, "riffle", words)
            verb = words[1]
            if verb in ("help", "version"):
                self.ok(*words[1:])
                continue
            self.assertIn("\n  %s " % verb, verbs, words)
            self.run_verb(verb, words[2:])
            seen.add(verb)
        self.assertLessEqual({"chat", "run", "info", "bench", "list", "pull"}, seen)

    def run_verb(self, verb, arguments):
        """With the small model in the place of any other; alone in the text, a verb only has to exist."""
        if not arguments and verb not in ("list", "cores"):
            return
        named = [a for a in arguments if re.fullmatch(r"MODEL|NAME|smollm2.*|qwen.*", a)]
        if verb in ("pull", "serve") or "--suite" in arguments or not named and verb not in ("list", "cores"):
            options = self.ok(verb, "--help").out
            for word in arguments:
                if word.startswith("--"):
                    self.assertIn(word, options)
            return
        arguments = [MODEL if re.fullmatch(r"MODEL|smollm2.*|qwen.*", a) else a for a in arguments]
        arguments += SHORTER.get(verb, [])
        if verb in ("run", "chat"):
            arguments += ["--template", "chatml", "--max-tokens", "4"]
        self.ok(verb, *arguments, stdin="" if "-p" in arguments else "Hi\n")


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
