"""Wrong usage: exit status 2, nothing on standard output, a sentence that names what is wrong."""

from harness import MODEL, Case, main

OPENS = ["chat", "run", "bench", "perplexity", "tokenize", "info"]
VERBS = [*OPENS, "serve", "quantize", "corpus", "cores", "roofline", "list", "pull", "rm", "cache"]


class Help(Case):
    def test_lists_what_exists(self):
        out = self.ok("--help").out
        self.assertEqual(out, self.ok("help").out)
        self.assertEqual(out, self.ok("-h").out)
        for verb in VERBS:
            self.assertIn("\n  %s " % verb, out)
            text = self.ok("help", verb).out
            self.assertIn("Usage: riffle %s" % verb, text)
            self.assertEqual(text, self.ok(verb, "--help").out)

    def test_lines_fit(self):
        for verb in VERBS:
            for line in self.ok("help", verb).out.splitlines():
                self.assertLessEqual(len(line), 120)

    def test_version(self):
        self.assertRegex(self.ok("--version").out, r"^riffle \d+\.\d+\.\d+\n$")
        self.assertEqual(self.ok("version").out, self.ok("--version").out)

    def test_nothing(self):
        result = self.riffle()
        self.assertEqual((result.returncode, result.out), (2, ""))
        self.assertIn("Usage", result.err)


class Verbs(Case):
    def test_unknown(self):
        self.fails(2, "rnu", MODEL, says=["'rnu'", "did you mean run?"])
        self.fails(2, "distil", says="'distil'")
        self.fails(2, "--jsno", says="'--jsno'")
        self.fails(2, "", says="''")
        self.fails(2, "help", "nonsense", says="'nonsense'")
        self.fails(2, "help", "run", "chat", says="'chat'")

    def test_control_bytes_are_not_echoed(self):
        result = self.fails(2, "\033[2Jboom")
        self.assertNotIn("\033", result.err)


class Options(Case):
    def test_unknown(self):
        self.fails(2, "run", MODEL, "--thread", "2", says=["--thread;", "did you mean --threads?"])
        self.fails(2, "run", MODEL, "--cpu", "4", says="unknown option --cpu")
        self.fails(2, "run", MODEL, "--temperature", "1", says="did you mean --temp?")
        self.fails(2, "run", MODEL, "--max-token=3", says=["--max-token;", "--max-tokens"])
        self.fails(2, "run", MODEL, "-x", says="-x")
        self.fails(2, "run", MODEL, "-pfoo", says="-pfoo")

    def test_names_of_other_programs(self):
        for other, ours in {"-c": "--ctx", "--ctx-size": "--ctx", "--num-ctx": "--ctx", "-n": "--max-tokens",
                            "--n-predict": "--max-tokens", "-t": "--threads", "-s": "--seed", "-md": "--draft"}.items():
            self.fails(2, "run", MODEL, other, "4", says=["unknown option %s; did you mean %s?" % (other, ours)])
        self.fails(2, "run", "-m", MODEL, says="MODEL is given without an option")
        self.assertNotIn("did you", self.fails(2, "models", "-c", "4").err)

    def test_of_another_verb(self):
        self.fails(2, "info", MODEL, "--temp", "1", says=["--temp", "info", "run"])
        self.fails(2, "chat", MODEL, "--json", says="--json")
        self.fails(2, "list", "--ctx", "9", says="--ctx")

    def test_missing_value(self):
        self.fails(2, "run", MODEL, "-p", says=["-p", "TEXT"])
        self.fails(2, "run", MODEL, "--threads", says=["--threads", "N"])

    def test_flag_with_value(self):
        self.fails(2, "run", MODEL, "-p", "a", "--json=yes", says="--json takes no value")

    def test_integers(self):
        for text in ["", " 3", "3 ", "3x", "0x10", "3.0", "1e2", "--json", "three", "+", "-", "٣"]:
            self.fails(2, "run", MODEL, "-p", "a", "--max-tokens=" + text, says="--max-tokens needs a whole number")
        for text in ["-1", "2147483648", "99999999999999999999"]:
            self.fails(2, "run", MODEL, "-p", "a", "--max-tokens", text, says=["--max-tokens must be between", text])
        self.fails(2, "run", MODEL, "-p", "a", "--threads", "0", says=["--threads must be between 1 and", "0"])
        self.fails(2, "run", MODEL, "-p", "a", "--ctx", "0", says="--ctx")
        self.fails(2, "run", MODEL, "-p", "a", "--repeat-last-n", "-2", says="--repeat-last-n")

    def test_reals(self):
        for text in ["", "hot", "nan", "inf", "0x1p3", "0,5", "1.5.2", " 1", "1 "]:
            self.fails(2, "run", MODEL, "-p", "a", "--temp=" + text, says="--temp needs a number")
        for option, text in [("--temp", "-0.1"), ("--temp", "1e9"), ("--min-p", "-1"), ("--top-p", "-1"),
                             ("--top-p", "1.01"), ("--repeat-penalty", "0")]:
            self.fails(2, "run", MODEL, "-p", "a", option, text, says=[option + " must be between", text])
        self.fails(2, "run", "absent.gguf", "-p", "a", "--top-p", "2", says="--top-p must")  # before the model

    def test_seed(self):
        for text in ["-1", "18446744073709551616", "", "x", "1.0"]:
            self.fails(2, "run", MODEL, "-p", "a", "--seed=" + text, says="--seed")

    def test_choices(self):
        for text in ["fp8", "", "stored|bf16", "bf"]:
            self.fails(2, "run", MODEL, "-p", "a", "--weights=" + text, says=["--weights", "stored", "bf16"])
            self.fails(2, "run", MODEL, "-p", "a", "--activations=" + text, says=["--activations", "8", "16"])

    def test_chains(self):
        run = ["run", MODEL, "--raw", "-p", "a"]
        for gamma in ["0", "16"]:
            self.fails(2, *run, "--gamma", gamma, says=["--gamma must be between 1 and 15", gamma])
        self.fails(2, *run, "--min-confidence", "1.1", says="--min-confidence must be between")
        self.fails(2, *run, "--min-confidence", "0.5", says=["--min-confidence", "--gamma"])
        self.fails(2, *run, "--draft", "", says="--draft")
        for chain in ["none", "ngram", "ngram > drafty", "a-draft"]:
            self.fails(2, *run, "--chain", chain, "--draft", MODEL, says=["--draft", "no place"])
        self.fails(2, "info", MODEL, "--gamma", "2", says=["--gamma", "run"])
        self.fails(2, "bench", MODEL, "--gamma", "2", says=["--gamma", "--suite"])
        self.fails(2, *run, "--chain", "", says="--chain needs a CHAIN that is not empty")
        self.fails(1, *run, "--chain", "mxfp4 > ngram", says=["ngram", "first"])
        self.fails(1, *run, "--chain", "draft", says="draft")
        self.fails(1, *run, "--chain", "ngrm > mxfp4", says=["ngrm", "did you mean ngram?"])
        self.fails(1, *run, "--chain", "foo", says=["--chain", "'foo'", "no level", "ngram, corpus, head, draft, mxfp4, q4, w4, stored"])
        self.fails(1, *run, "--chain", "foo.gguf", says="no file or folder foo.gguf")
        self.assertNotIn("choose with", self.fails(1, "run", "chain.gguf", "-p", "a").err)

    def test_together(self):
        self.fails(2, "run", MODEL, "-p", "a", "-f", "b", says=["-p", "-f"])
        self.fails(2, "run", MODEL, "-p", "a", "--ids", says=["--ids", "--json"])
        self.fails(2, "run", MODEL, "-p", "a", "--raw", "--system", "s", says=["--system", "--raw"])
        self.fails(2, "run", MODEL, "-p", "a", "--raw", "--template", "chatml", says=["--template", "--raw"])
        self.fails(2, "run", MODEL, "-p", "a", "--special", says=["--special", "--raw"])
        self.fails(2, "run", MODEL, "-p", "a", "--stop", "", says="--stop")


class Arguments(Case):
    def test_model(self):
        for verb in OPENS:
            self.fails(2, verb, says="MODEL is missing")
            self.fails(2, verb, "", says="MODEL is an empty text")
            prompt = ["a"] if verb == "run" else []  # its text may be given without -p
            self.fails(2, verb, MODEL, *prompt, "second", says="'second'")
        self.fails(2, "list", MODEL, says="one argument too many")
        self.fails(2, "roofline", MODEL, says="one argument too many")
        self.fails(2, "cores", MODEL, says="one argument too many")

    def test_end_of_options(self):
        self.fails(1, "info", "--", "--json", says="--json")
        self.fails(2, "info", "--", MODEL, "--json", says="'--json'")

    def test_order_does_not_matter(self):
        first = self.ok("tokenize", MODEL, "-p", "a", "--json").out
        self.assertEqual(first, self.ok("tokenize", "--json", "--prompt=a", MODEL).out)


if __name__ == "__main__":
    main()
