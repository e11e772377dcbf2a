"""`riffle doctor`, and `riffle` without a verb."""

import os
import shutil

from harness import MODEL, Case, Terminal, main, with_template


class Folder(Case):
    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        os.mkdir(self.models)
        self.env["RIFFLE_MODELS"] = self.models

    def add(self, name):
        shutil.copy(MODEL, os.path.join(self.models, name))


class Doctor(Folder):
    def test_page(self):
        self.add("tiny.gguf")
        out = self.ok("doctor").out
        for label in ["riffle", "processor", "cores", "memory", "devices", "models"]:
            self.assertRegex(out, r"(?m)^%s +\S" % label)
        self.assertIn("1 on this disk, the largest tiny with", out)
        self.assertNotIn(self.folder, out)

    def test_json(self):
        self.add("tiny.gguf")
        shown = self.json("doctor")
        self.assertEqual((shown["models"], shown["largest"]), (1, "tiny"))
        self.assertEqual(shown["largest_bytes"], os.path.getsize(MODEL))
        self.assertGreater(shown["read_gbps"], 0)
        self.assertGreaterEqual(shown["memory_bytes"], 1 << 28)
        self.assertIsInstance(shown["advice"], list)

    def test_tier_and_no_model(self):
        advice = self.json("doctor", env={"RIFFLE_CPU": "scalar"})["advice"]
        self.assertTrue(any("unset RIFFLE_CPU" in line for line in advice), advice)
        self.assertTrue(any("`riffle pull`" in line for line in advice), advice)

    def test_usage(self):
        self.fails(2, "doctor", "now", says="one argument too many")


class NoVerb(Folder):
    def test_pipe(self):
        self.fails(2, says="Usage: riffle")

    def test_chat(self):
        shutil.copy(self.path("made.gguf", with_template("{{ messages[0].content }}")), self.models + "/tiny.gguf")
        terminal = Terminal(self)
        terminal.wait_for("Chat with tiny? [Y/n]")
        terminal.send("\n")
        terminal.wait_for_prompt()
        terminal.send("/bye\n")
        self.assertEqual(terminal.leave(), 0)

    def test_no(self):
        self.add("tiny.gguf")
        terminal = Terminal(self)
        terminal.wait_for("Chat with tiny? [Y/n]")
        terminal.send("n\n")
        self.assertEqual(terminal.leave(), 0)
        self.assertNotIn("loading", terminal.screen)

    def test_nothing_here(self):
        terminal = Terminal(self, env={"HF_ENDPOINT": "http://127.0.0.1:9"})
        terminal.wait_for("No model is here. For ")
        self.assertNotEqual(terminal.leave(), 0)


if __name__ == "__main__":
    main()
