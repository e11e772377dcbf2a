"""bench on a tiny model of stories: plain, and with suites of prompts."""

import csv
import io
import json
import os
import signal
import time
import unittest

from harness import BRIEF, MODEL, Case, main

LEVEL = {"name", "threads", "passes", "drafted", "accepted", "seconds", "judged_at", "accepted_at"}
LONG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/prompts/long.jsonl")
TALES = ["Once upon a time, there was a little girl named Lily.", "Tom and Sam went to the park.", "The cat"]


MACHINE = {"cpu", "model", "threads", "read_gbps", "read_pattern"}
ORIGIN = {"date", "version", "commit", "model", "machine", "notes"}
QUICK = ["bench", MODEL, "--repeats", "1", "--threads", "1", "--gen", "2"]


class Plain(Case):
    def check_origin(self, shown):
        self.assertRegex(shown["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(shown["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(shown["commit"], r"^[A-Za-z0-9._/+-]+$")

    def test_json(self):
        shown = self.json("bench", MODEL, "--repeats", "1")
        self.assertEqual(set(shown), ORIGIN | {"plain", "repeats", "figures", "rows", "summary"})
        self.check_origin(shown)
        self.assertEqual(set(shown["machine"]), MACHINE)
        self.assertIn("a thread", shown["machine"]["read_pattern"])
        self.assertEqual(set(shown["plain"]), {"decode_tps", "prefill_tps", "percent_of_read", "pass_seconds"})
        self.assertEqual(list(shown["plain"]["pass_seconds"]), ["1", "2", "4", "8", "16"])
        self.assertEqual((shown["rows"], shown["summary"]), ([], []))
        for value in [shown["machine"]["read_gbps"], shown["plain"]["decode_tps"], shown["plain"]["prefill_tps"],
                      shown["plain"]["percent_of_read"], *shown["plain"]["pass_seconds"].values()]:
            self.assertGreater(value, 0)

    def test_figures(self):
        shown = self.json(*QUICK, "-p", "16,8,16", "--depth", "64,0", "--repeats", "2")
        figures = shown["figures"]
        wanted = [("prompt", 8), ("prompt", 16), ("decode", 2)] + [("pass", rows) for rows in (1, 2, 4, 8, 16)]
        self.assertEqual([(each["depth"], each["figure"], each["tokens"]) for each in figures],
                         [(depth, *each) for depth in (0, 64) for each in wanted])
        for each in figures:
            self.assertEqual(list(each), ["depth", "figure", "tokens", "unit", "median", "q1", "q3"] +
                             (["percent_of_read"] if each["figure"] == "decode" else []))
            self.assertEqual(each["unit"], "seconds" if each["figure"] == "pass" else "tokens_per_second")
            self.assertLessEqual(0, each["q1"])
            self.assertLessEqual(each["q1"], each["median"])
            self.assertLessEqual(each["median"], each["q3"])
            self.assertGreater(each["median"], 0)
        # "plain" has the shortest prompt at the smallest depth.
        self.assertEqual(shown["plain"]["prefill_tps"], figures[0]["median"])
        self.assertEqual(shown["plain"]["decode_tps"], figures[2]["median"])
        self.assertEqual(shown["plain"]["pass_seconds"]["8"], figures[6]["median"])
        self.assertEqual(shown["repeats"], 2)

    LLAMA_BENCH = ("build_commit build_number cpu_info gpu_info backends model_filename model_type model_size model_n_params "
                   "n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe split_mode "
                   "main_gpu no_kv_offload flash_attn devices tensor_split tensor_buft_overrides load_mode lazy_mode "
                   "embeddings no_op_offload no_host repack fit_target fit_min_ctx n_prompt n_gen n_depth test_time avg_ns "
                   "stddev_ns avg_ts stddev_ts").split()

    def test_llama_bench_jsonl(self):
        out = self.ok(*QUICK, "-d", "0,32", "-p", "8,16", "-r", "2", "--format", "llama-bench-jsonl").out
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([(row["n_depth"], row["n_prompt"], row["n_gen"]) for row in rows],
                         [(depth, *each) for depth in (0, 32) for each in [(8, 0), (16, 0), (0, 2)]])
        for row in rows:
            self.assertEqual(list(row), [*self.LLAMA_BENCH, "samples_ns", "samples_ts"])
            self.assertEqual((row["n_threads"], row["backends"], row["type_k"]), (1, "CPU", "f16"))
            self.assertIs(row["embeddings"], False)
            self.assertEqual((len(row["samples_ns"]), len(row["samples_ts"])), (2, 2))
            tokens = row["n_prompt"] + row["n_gen"]
            for ns, speed in zip(row["samples_ns"], row["samples_ts"]):
                self.assertAlmostEqual(speed * ns / 1e9 / tokens, 1, delta=1e-3)
            self.assertAlmostEqual(row["avg_ts"] * 2 / sum(row["samples_ts"]), 1, delta=1e-4)
            apart = abs(row["samples_ns"][0] - row["samples_ns"][1]) / 2 ** 0.5
            self.assertAlmostEqual(row["stddev_ns"], apart, delta=3)

    def test_llama_bench_csv(self):
        out = self.ok(*QUICK, "-p", "8", "--format", "llama-bench-csv").out
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        self.assertEqual(list(rows[0]), self.LLAMA_BENCH)
        self.assertEqual([(row["n_prompt"], row["n_gen"], row["embeddings"], row["repack"]) for row in rows],
                         [("8", "0", "0", "1"), ("0", "2", "0", "1")])
        self.assertTrue(all(float(row["avg_ts"]) > 0 for row in rows))

    def test_llama_bench_table(self):
        out = self.ok(*QUICK, "-p", "8", "-d", "4", "--format", "llama-bench").out
        lines = out.splitlines()
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[:4]]
        self.assertEqual(cells[0], ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertEqual({len(line) for line in lines[:4]}, {len(lines[0])})
        self.assertEqual([row[5] for row in cells[2:]], ["pp8 @ d4", "tg2 @ d4"])
        for row in cells[2:]:
            self.assertRegex(row[6], r"^\d+\.\d\d ± 0\.00$")
        self.assertRegex(lines[-1], r"^build: \S+ \(0\)$")

    def test_other_benchmarks_exclude(self):
        self.fails(2, *QUICK, "--format", "llama-bench", "--json", says="--format")
        self.fails(2, "bench", MODEL, "--preset", "mlperf-client", "-n", "4", says="--preset")
        self.fails(2, "bench", MODEL, "--preset", "x", says=["--preset", "mlperf-client"])
        self.fails(1, "bench", MODEL, "--preset", "mlperf-client", says="trained on")

    def test_csv(self):
        result = self.ok(*QUICK, "-d", "0,32", "-p", "8,16", "--csv")
        self.assertNotIn("\r", result.out)
        rows = list(csv.DictReader(io.StringIO(result.out, newline="")))
        self.assertEqual(list(rows[0]), ["date", "version", "commit", "cpu", "tier", "model", "weights", "activations",
                                         "weight_bytes", "threads", "read_gbps", "repeats", "depth", "figure", "tokens", "unit",
                                         "median", "q1", "q3", "percent_of_read"])
        self.assertEqual([(row["depth"], row["figure"], row["tokens"]) for row in rows],
                         [(depth, *each) for depth in ("0", "32") for each in
                          [("prompt", "8"), ("prompt", "16"), ("decode", "2"), ("pass", "1"), ("pass", "2"),
                           ("pass", "4"), ("pass", "8"), ("pass", "16")]])
        for row in rows:
            self.assertNotIn(None, row)
            self.check_origin(row)
            self.assertEqual((row["threads"], row["repeats"]), ("1", "1"))
            self.assertEqual(row["percent_of_read"] != "", row["figure"] == "decode")
            for field in ["weight_bytes", "read_gbps", "median", "q1", "q3"]:
                self.assertGreater(float(row[field]), 0)

    def test_text(self):
        out = self.ok(*QUICK).out
        for part in ["% of read bandwidth", "1 thread\n", "riffle 0.", "16 rows", "quartiles"]:
            self.assertIn(part, out)
        self.assertNotIn("depth", out)
        self.assertRegex(out, r"\nmemory +read at \d+\.\d GB/s\n +\d+ streams? a thread")
        self.assertRegex(out, r"measured +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, riffle")

    def test_depths_in_columns(self):
        out = self.ok(*QUICK, "--depth", "0,32,64").out
        lines = out[out.index("medians, and the ratio"):].splitlines()
        self.assertEqual([line.split()[0] for line in lines[3:]], ["0", "32", "64"])
        self.assertEqual(lines[3].split()[2::2], ["1.00x"] * 3)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 80)

    def test_refused_figures(self):
        for option in ["--depth", "--prompt-tokens"]:
            for text in ["-1", "1,", "1,,2", "x", "1.5", "99999999999", " 1"]:
                self.fails(2, "bench", MODEL, option + "=" + text, says=[option, "'%s'" % text])
        self.fails(2, "bench", MODEL, "-p", "0", says="--prompt-tokens")
        self.fails(2, "bench", MODEL, "--gen", "0", says="--gen must be between")
        self.fails(2, "bench", MODEL, "--depth", "2147483647", says="tokens")
        self.fails(2, "bench", MODEL, "--ctx", "100", says=["--ctx 100", "185 tokens"])
        self.fails(1, "bench", MODEL, "--depth", "4096", says=["--depth", "trained on"])
        self.fails(1, "bench", MODEL, "--ctx", "100000", says=["trained on", "--ctx"])
        self.fails(2, "bench", MODEL, "--csv", "--json", says=["--csv", "--json"])
        for option in ["--csv", "--depth=0", "--prompt-tokens=8", "--gen=4", "--ctx=512"]:
            self.fails(2, "bench", MODEL, "--suite", "code", option, says=[option.split("=")[0], "--suite"])

    def test_interrupt_while_a_depth_is_read(self):
        process = self.start("bench", MODEL, "--depth", "300", "--repeats", "1000", env={"RIFFLE_CPU": "scalar"})
        process.stdin.close()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.stdout.read(), process.wait(), process.stderr.read()), (b"", 130, b""))

    def test_options_of_a_suite(self):
        self.ok("bench", MODEL, "--repeats", "1", "--chain", "none")
        self.fails(2, "bench", MODEL, "--chain", "ngram", says=["--chain", "--suite"])
        for option in ["--prompts=2", "--max-tokens=2", "--raw", "--template=chatml"]:
            self.fails(2, "bench", MODEL, option, says=[option.split("=")[0], "--suite"])


class Suite(Case):
    def jsonl(self, *objects, name="p.jsonl"):
        return self.path(name, "".join(json.dumps(each) + "\n" for each in objects))

    def bench(self, *arguments):
        return self.json("bench", MODEL, "--raw", "--max-tokens", "24", *arguments)

    def rows(self, file, *arguments):
        return self.bench("--suite", file, *arguments)["rows"]

    def test_json(self):
        file = self.jsonl(*({"name": tale[:3], "prompt": tale} for tale in TALES))
        shown = self.bench("--suite", file, "--chain", "ngram", "--chain", "none", "--repeats", "3")
        self.assertEqual(set(shown), ORIGIN | {"plain", "suite", "prompts", "rows", "summary"})
        self.assertEqual(set(shown["machine"]), MACHINE)
        self.assertEqual(shown["prompts"], [{"name": tale[:3], "text": tale} for tale in TALES])
        self.assertEqual(set(shown["plain"]),
                         {"decode_tps", "prefill_tps", "percent_of_read", "first_token_s", "pass_seconds"})
        self.assertEqual([(row["prompt"], row["chain"]) for row in shown["rows"]],
                         [(tale[:3], chain) for tale in TALES for chain in ("ngram > target", "target")])
        for row in shown["rows"]:
            self.assertEqual(set(row), {"prompt", "chain", "prompt_tokens", "tokens", "tps", "plain_tps", "speedup",
                                        "identical", "first_token_s", "plain_first_token_s", "read_gbps",
                                        "percent_of_read", "levels"})
            self.assertEqual((row["tokens"], row["identical"]), (24, True))
            self.assertAlmostEqual(row["speedup"], row["tps"] / row["plain_tps"], delta=1e-5 * row["speedup"])
            for field in ["prompt_tokens", "tps", "plain_tps", "first_token_s", "percent_of_read"]:
                self.assertGreater(row[field], 0)
            self.assertEqual([level["name"] for level in row["levels"]], row["chain"].split(" > "))
            for level in row["levels"]:
                self.assertEqual(set(level), LEVEL)
                self.assertLessEqual(level["accepted"], level["drafted"])
        self.assertEqual([each["chain"] for each in shown["summary"]], ["ngram > target", "target"])
        for each in shown["summary"]:
            speedups = [row["speedup"] for row in shown["rows"] if row["chain"] == each["chain"]]
            product = speedups[0] * speedups[1] * speedups[2]
            self.assertAlmostEqual(each["mean_speedup"] ** 3, product, delta=1e-4 * product)
            self.assertEqual(each["min_speedup"], min(speedups))
            self.assertTrue(each["identical"])

    def test_chains_of_different_levels(self):
        chains = ["ngram > q4", "mxfp4", "ngram"]
        rows = self.rows(self.jsonl({"prompt": TALES[0]}), *(each for chain in chains for each in ("--chain", chain)))
        self.assertEqual([row["chain"] for row in rows], [chain + " > target" for chain in chains])

    def test_text(self):
        file = self.jsonl({"prompt": TALES[0]}, {"prompt": TALES[1]})
        out = self.ok("bench", MODEL, "--raw", "--max-tokens", "12", "--suite", file).out
        for part in ["line 1", "line 2", "geometric mean", "tokens identical", "of the read bandwidth"]:
            self.assertIn(part, out)

    def test_answers_go_past_their_end(self):
        row = self.json("bench", MODEL, "--raw", "--suite", self.path("p.txt", TALES[2]), "--chain", "none")["rows"][0]
        self.assertEqual(row["tokens"], 160)

    @unittest.skipIf(BRIEF, "the suites are data; reading one is in other tests")
    def test_suites_are_in_the_program(self):
        counts = {"code": 20, "qa": 20}
        for suite, count in counts.items():
            rows = self.bench("--suite", suite, "--max-tokens", "2", "--chain", "none")["rows"]
            self.assertEqual(len({row["prompt"] for row in rows}), count)
        rows = self.bench("--suite", "hard", "--prompts", "2", "--max-tokens", "2", "--chain", "none")["rows"]
        self.assertEqual([row["prompt"] for row in rows], ["random words", "made-up words"])

    def test_keys_of_known_sets(self):
        code = "def f(x):\n"
        file = self.jsonl({"task_id": "HumanEval/0", "prompt": code, "entry_point": "f"},
                          {"question_id": 81, "category": "writing", "turns": [TALES[0], "Again"]},
                          {"question": TALES[0], "answer": "42"}, {"task_id": 11, "text": TALES[0], "code": "pass"})
        rows = self.rows(file, "--chain", "none")
        self.assertEqual([row["prompt"] for row in rows], ["HumanEval/0", "writing/81", "line 3", "11"])
        n = self.json("tokenize", MODEL, "-p", TALES[0])["count"]
        self.assertEqual([row["prompt_tokens"] for row in rows],
                         [self.json("tokenize", MODEL, "-p", code)["count"], n, n, n])

    def test_code_is_asked_for_in_a_message(self):
        chat = ["--template", "chatml", "--max-tokens", "2", "--chain", "none", "--json"]
        code = json.loads(self.ok("bench", MODEL, *chat, "--suite", self.jsonl(
            {"prompt": "def f(x):\n", "entry_point": "f"})).out)
        plain = json.loads(self.ok("bench", MODEL, *chat, "--suite", self.jsonl(
            {"prompt": "Complete this Python function:\n\n```python\ndef f(x):\n```"})).out)
        self.assertEqual(code["prompts"][0]["text"], plain["prompts"][0]["text"])
        self.assertIn("```python\ndef f(x):\n```", code["prompts"][0]["text"])
        self.assertEqual(code["rows"][0]["prompt_tokens"], plain["rows"][0]["prompt_tokens"])

    def test_excerpts_come_before_a_prompt(self):
        chat = ["--template", "chatml", "--max-tokens", "2", "--chain", "none", "--json"]
        excerpts = [{"excerpt": "a", "text": "First. "}, {"excerpt": "b", "text": "Second. "}]
        shown = json.loads(self.ok("bench", MODEL, *chat, "--suite", self.jsonl(
            *excerpts, {"name": "both", "excerpts": ["b", "a"], "prompt": "Which?"}, {"prompt": "None"})).out)
        self.assertEqual([row["prompt"] for row in shown["rows"]], ["both", "line 4"])
        self.assertIn("Second. First. Which?", shown["prompts"][0]["text"])
        self.assertNotIn("First", shown["prompts"][1]["text"])
        bench = ["bench", MODEL, "--raw", "--suite"]
        self.fails(1, *bench, self.jsonl(*excerpts), says="no prompt")
        self.fails(1, *bench, self.jsonl({"excerpts": ["c"], "prompt": "x"}), says=["line 1", "'c'"])

    def test_long_suite(self):
        with open(LONG, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        texts = {line["excerpt"]: line["text"] for line in lines if "excerpt" in line}
        sizes = [sum(len(texts[name]) for name in line["excerpts"]) for line in lines if "excerpts" in line]
        self.assertEqual(len(sizes), 12)
        self.assertTrue(sizes == sorted(sizes) and 15000 < sizes[0] and 130000 < sizes[-1] < 150000)
        self.fails(1, "bench", MODEL, "--template", "chatml", "--suite", "long", says=["summarise 4k", "context"])

    def test_text_file_is_one_prompt(self):
        for name, text in [("a.txt", TALES[0] + "\nAnd so on.\n"), ("b", "{ not JSON\n")]:
            rows = self.rows(self.path(name, text), "--chain", "none")
            self.assertEqual([row["prompt"] for row in rows], [name])
        rows = self.rows(self.jsonl({"prompt": "a"}, {"prompt": "b"}, name="no-extension"), "--chain", "none")
        self.assertEqual(len(rows), 2)

    def test_bad_files(self):
        bench = ["bench", MODEL, "--raw", "--suite"]
        self.fails(1, *bench, "cod", says=["'cod'", "code, qa, hard, long"])
        self.fails(2, *bench, "", says="--suite needs a SUITE that is not empty")
        self.fails(1, *bench, self.folder, says=self.folder)
        self.fails(1, *bench, self.path("empty", ""), says=["empty", "no prompt"])
        self.fails(1, *bench, self.path("blank.jsonl", "\n \n"), says=["blank.jsonl", "no prompt"])
        self.fails(1, *bench, self.path("bad.jsonl", '{"prompt": "a"}\n{"prompt": \n'), says=["bad.jsonl", "line 2"])
        self.fails(1, *bench, self.path("list.jsonl", '["a"]\n'), says=["list.jsonl", "line 1"])
        zero = self.path("zero.jsonl", '{"prompt": "a\\u0000b", "x": 1e400}\n')
        self.fails(1, "bench", MODEL, "--template", "chatml", "--suite", zero, says=["zero.jsonl", "line 1", "zero byte"])
        for odd in [{"prompt": 5}, {"turns": []}, {"turns": [7]}, {"other": "x"}, {}]:
            self.fails(1, *bench, self.jsonl(odd), says=["line 1", "prompt"])
        self.fails(1, *bench, self.jsonl({"name": "big", "prompt": "word " * 3000}), says=["big", "context"])
        self.fails(1, "bench", MODEL, "--suite", self.path("p.txt", TALES[0]), says="template")
        self.fails(1, "bench", MODEL, "--template", "chatml", "--suite", self.path("zero", b"a\0b"), says="zero byte")

    def test_bad_numbers(self):
        bench = ["bench", MODEL, "--suite", "code"]
        for option in ["--prompts=0", "--max-tokens=0", "--repeats=0", "--chain="]:
            self.fails(2, *bench, option, says=option.split("=")[0])

    def test_interrupt(self):
        process = self.start("bench", MODEL, "--raw", "--suite", "code", "--chain", "none", env={"RIFFLE_CPU": "scalar"})
        process.stdin.close()
        process.stdout.readline()  # all is loaded
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual((process.wait(), process.stderr.read()), (130, b""))

    def test_names_are_shown_without_control_characters(self):
        file = self.jsonl({"name": "a\x1b[31mb", "prompt": TALES[0]})
        out = self.ok("bench", MODEL, "--raw", "--max-tokens", "2", "--suite", file, "--chain", "none").out
        self.assertNotIn("\x1b", out)
        self.assertIn("a\\x1b[31mb", out)


if __name__ == "__main__":
    main()
