"""README's own questions, with the real model (RIFFLE_TEST_MODEL, SmolLM2), on every tier of this machine."""

import os
import sys

from harness import Case, main

MODEL = os.environ.get("RIFFLE_TEST_MODEL")
TIERS = ["scalar", "avx2", "avxvnni", "avxvnniint8", "avx512", "amx"]
FRANCE, SKY = "What is the capital of France?", "Why is the sky blue?"


class Answers(Case):
    def tiers(self):
        """The tiers that this machine has."""
        return [tier for tier in TIERS
                if "lacks the cpu tier" not in self.riffle("info", MODEL, env={"RIFFLE_CPU": tier}).err]

    def check_sky(self, text):
        self.assertRegex(text.lower(), "light|scatter")

    def test_chat(self):
        """With the defaults of a chat: whatever suits the model."""
        for tier in self.tiers()[1:]:  # a long answer of the scalar tier takes minutes
            env = {"RIFFLE_CPU": tier}
            result = self.ok("chat", MODEL, "--seed", "1", stdin="%s\n%s\n" % (FRANCE, SKY), env=env)
            self.assertEqual(result.err, "")  # nothing ended early
            france, sky = result.out.split("\n", 1)
            self.assertIn("Paris", france)
            self.check_sky(sky)

    def test_run(self):
        """What is multiplied has the same bits on every tier, so all say nearly the same."""
        for tier in self.tiers():
            france = self.json("run", MODEL, "-p", FRANCE, env={"RIFFLE_CPU": tier})
            self.assertIn("Paris", france["text"], tier)
            self.assertEqual(france["model"]["activation_bits"], 16)
            if tier == "scalar":
                continue
            sky = self.json("run", MODEL, "-p", SKY, env={"RIFFLE_CPU": tier})
            self.assertEqual(sky["finish"], "stop", tier)
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
