"""README's own questions, with the real model (RIFFLE_TEST_MODEL, SmolLM2), on every tier of this machine."""

import os
import sys

from harness import Case, main

MODEL = os.environ.get("RIFFLE_TEST_MODEL")
TIERS = ["scalar", "avx2", "avxvnni", "avxvnniint8", "avx512", "amx"]
FRANCE, SKY = "What is the capital of France?", "Why is the sky blue?"


class Answers(Case):
    def each_tier(self):
        """The environment of each tier that this machine has."""
        n = 0
        for tier in TIERS:
            env = {"RIFFLE_CPU": tier}
            if "lacks the cpu tier" in self.riffle("info", MODEL, env=env).err:
                continue
            n += 1
            with self.subTest(tier=tier):
                yield env
        self.assertGreater(n, 0)

    def check_sky(self, text):
        self.assertRegex(text.lower(), "light|scatter")

    def test_chat(self):
        """With the defaults of a chat: whatever suits the model."""
        for env in self.each_tier():
            result = self.ok("chat", MODEL, "--seed", "1", stdin="%s\n%s\n" % (FRANCE, SKY), env=env)
            self.assertEqual(result.err, "")  # nothing ended early
            france, sky = result.out.split("\n", 1)
            self.assertIn("Paris", france)
            self.check_sky(sky)

    def test_run(self):
        for env in self.each_tier():
            self.assertIn("Paris", self.json("run", MODEL, "-p", FRANCE, env=env)["text"])
            sky = self.json("run", MODEL, "-p", SKY, env=env)
            self.assertEqual((sky["finish"], sky["model"]["weights"]), ("stop", "bf16"))
            self.check_sky(sky["text"])

    def test_babble_is_stopped(self):
        """This question makes the model write empty blocks of code for ever, in its own bits or in BF16."""
        for chain in ["none", "ngram"]:
            run = ["run", MODEL, "-p", "Draw a cat in ASCII art.", "--chain", chain, "--max-tokens", "900"]
            shown = self.json(*run)
            self.assertEqual(shown["finish"], "repetition")
            self.assertIn("--ignore-repetition", self.ok(*run).err)
            self.assertEqual(self.json(*run, "--ignore-repetition")["finish"], "length")


if __name__ == "__main__":
    if not MODEL:
        print("skipped: RIFFLE_TEST_MODEL is not set")
        sys.exit(77)
    main()
