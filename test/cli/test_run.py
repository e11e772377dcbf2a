"""run, tokenize, info and perplexity on a tiny model of stories."""

import ctypes
import errno
import json
import math
import os
import re
import signal
import struct
import subprocess
import time

from harness import BRIEF, MODEL, RIFFLE, TIMEOUT, Case, main, with_template
from model_files import U32, Gguf

DRAFT = MODEL.replace("260K", "260K-q")
ONCE = ["run", MODEL, "--raw", "-p", "Once upon a time"]


class Run(Case):
    def test_streams_text_alone(self):
        result = self.ok(*ONCE, "--max-tokens", "20")
        self.assertTrue(result.out.endswith("\n"))
        self.assertTrue(result.out.strip())
        shown = self.json(*ONCE, "--max-tokens", "20")
        self.assertEqual(result.out, shown["text"] + "\n")

    def test_refused_executable_memory_is_said_once(self):
        def refuse():
            """mprotect(PROT_EXEC) fails from now on with EACCES, by a filter of system calls (seccomp)."""
            load, equal, any_of, give = 0x20, 0x15, 0x45, 0x06
            steps = [(load, 0, 0, 0), (equal, 0, 3, 10), (load, 0, 0, 32), (any_of, 0, 1, 4),
                     (give, 0, 0, 0x50000 | errno.EACCES), (give, 0, 0, 0x7fff0000)]
            code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
            program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
            libc = ctypes.CDLL(None)
            if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
                os._exit(77)
        command = [RIFFLE, *ONCE, "--max-tokens", "3"]
        result = subprocess.run(command, capture_output=True, text=True, env=dict(self.env, RIFFLE_CPU="avx2"),
                                preexec_fn=refuse, timeout=TIMEOUT)
        if result.returncode == 77:
            self.skipTest("no filter of system calls here")
        if "lacks the cpu tier" in result.stderr:
            self.skipTest("no AVX2 here")
        self.assertEqual((result.returncode, result.stderr), (0, "riffle: executable memory is refused here: "
                                                              "Permission denied; compiled kernels serve\n"))
        self.assertEqual(self.ok(*ONCE, "--max-tokens", "3", env={"RIFFLE_CPU": "avx2"}).out, result.stdout)

    def test_json(self):
        shown = self.json(*ONCE, "--max-tokens", "5", "--ids")
        self.assertEqual(list(shown), ["text", "finish", "tokens", "prompt_tokens", "generated_tokens", "load_s",
                                       "first_token_s", "prefill_tps", "decode_tps", "peak_rss_bytes", "model",
                                       "machine", "chain", "levels"])
        self.assertEqual(shown["finish"], "length")
        self.assertEqual(shown["generated_tokens"], 5)
        self.assertEqual(len(shown["tokens"]), 5)
        self.assertEqual(set(shown["model"]), {"name", "arch", "weights", "activation_bits", "weight_bytes"})
        self.assertEqual(set(shown["machine"]), {"cpu", "threads", "read_gbps"})
        self.assertEqual([set(level) for level in shown["levels"]],
                         [{"name", "threads", "passes", "drafted", "accepted", "seconds", "judged_at", "accepted_at"}] *
                         len(shown["levels"]))
        self.assertEqual(" > ".join(level["name"] for level in shown["levels"]), shown["chain"])
        self.assertEqual(shown["levels"][-1]["name"], "target")
        for field in ["prompt_tokens", "load_s", "first_token_s", "prefill_tps", "decode_tps", "peak_rss_bytes"]:
            self.assertGreater(shown[field], 0, field)
        self.assertGreaterEqual(shown["first_token_s"], shown["load_s"])
        self.assertNotIn("tokens", self.json(*ONCE, "--max-tokens", "1"))

    def test_greedy_is_deterministic(self):
        first = self.ok(*ONCE, "--max-tokens", "30").out
        self.assertEqual(first, self.ok(*ONCE, "--max-tokens", "30").out)
        self.assertEqual(first, self.ok(*ONCE, "--max-tokens", "30", "--threads", "1").out)
        self.assertEqual(first, self.ok(*ONCE, "--max-tokens", "30", "--chain", "none").out)

    CHAINS = [["--chain", "ngram"], ["--chain", "mxfp4"], ["--chain", "ngram > mxfp4"], ["--draft", DRAFT],
              ["--chain", "ngram > draft > mxfp4", "--draft", DRAFT], ["--chain", "%s:mxfp4" % DRAFT]]

    def test_every_chain_writes_the_same(self):
        for sampling in [[], ["--temp", "1", "--seed", "11"]][BRIEF:]:
            plain = self.ok(*ONCE, "--max-tokens", "48", "--chain", "none", *sampling).out
            for chain in self.CHAINS:
                for gamma in [[], ["--gamma", "1"], ["--gamma", "7", "--min-confidence", "0.3"]]:
                    shown = self.ok(*ONCE, "--max-tokens", "48", *chain, *gamma, *sampling)
                    self.assertEqual((shown.out, shown.err), (plain, ""), (chain, gamma, sampling))

    def test_casts_to_w4(self):
        """Integer sums draft for floats whose rows are whole groups of 128; other rows are refused by name."""
        model = Gguf()
        for tensor in model.tensors:
            tensor.ne = [{32: 128, 16: 64, 64: 256, 300: 300}[n] for n in tensor.ne]
        for key, value in [("embedding_length", 128), ("feed_forward_length", 256), ("rope.dimension_count", 64)]:
            model.set("llama." + key, U32, value)
        once = ["run", model.write(self.path("")), "-p", "w280 w290", "--max-tokens", "40", "--threads", "2"]
        for sampling in [[], ["--temp", "1", "--seed", "11"]][BRIEF:]:
            plain = self.ok(*once, "--chain", "none", *sampling).out
            for chain in ["w4", "ngram > w4", "w4:window > w4:kv4 > w4"]:
                kv = ["--kv", "q8"] if "kv4" in chain else []
                wanted = self.ok(*once, "--chain", "none", *kv, *sampling).out if kv else plain
                self.assertEqual(self.ok(*once, "--chain", chain, "--gamma", "4", *kv, *sampling).out, wanted, chain)
        shown = self.json(*once, "--chain", "w4", "--gamma", "4")
        self.assertEqual(shown["chain"], "w4 > target")
        self.assertGreater(shown["levels"][0]["accepted"], 0)
        self.fails(1, *ONCE, "--chain", "w4", says=["w4", "multiple of 128", "output.weight have 64"])

    def test_cache_folder(self):
        """Made where something may be kept in it, by the user's own rules; its absence is no error."""
        for env, made in [({}, ".cache/riffle"), ({"XDG_CACHE_HOME": self.path("c")}, "c/riffle")]:
            for quiet in [["info", MODEL], [*ONCE, "--max-tokens", "1", "--chain", "none"]]:
                self.ok(*quiet, env=env)
                self.assertFalse(os.path.exists(self.path(made)))
            self.ok(*ONCE, "--max-tokens", "1", env=env)
            self.assertEqual(os.stat(self.path(made)).st_mode & 0o077, 0)
        self.path("file", "")
        for env in [{"HOME": ""}, {"XDG_CACHE_HOME": self.path("file")}]:
            self.assertEqual(self.ok(*ONCE, "--max-tokens", "1", env=env).err, "")

    def test_casts_are_kept(self):
        """The second run reads what the first has cast; `cache` lists it, and clears nothing else."""
        once = [*ONCE, "--max-tokens", "24", "--chain", "mxfp4"]
        self.assertEqual(self.json("cache"), {"folder": self.path(".cache/riffle"), "files": [], "cleared": False})
        first = self.ok(*once).out
        (cast,) = [file for file in self.json("cache")["files"] if file["kind"] == "cast"]
        path = self.path(".cache/riffle/" + cast["name"])
        self.assertEqual(os.path.getsize(path), cast["bytes"])
        inode = os.stat(path).st_ino
        self.assertEqual(self.ok(*once).out, first)
        self.assertEqual(os.stat(path).st_ino, inode)
        other = self.path(".cache/riffle/other", "mine")
        self.assertRegex(self.ok("cache").out, r"casts of draft models \(1 file\)")
        self.assertTrue(self.json("cache", "--clear")["cleared"])
        self.assertEqual(os.listdir(self.path(".cache/riffle")), ["other"])
        self.assertEqual(self.json("cache")["files"], [])
        self.assertEqual(self.ok(*once).out, first)
        os.remove(other)
        self.fails(1, "cache", env={"HOME": ""}, says="XDG_CACHE_HOME")

    def test_levels_are_counted(self):
        shown = self.json(*ONCE, "--max-tokens", "48", "--chain", "ngram > mxfp4", "--gamma", "4")
        self.assertEqual(shown["chain"], "ngram > mxfp4 > target")
        mxfp4, target = shown["levels"][1:]
        self.assertLess(target["passes"], 48)
        self.assertGreater(mxfp4["accepted"], 0)
        self.assertEqual(sum(mxfp4["accepted_at"]), mxfp4["accepted"])
        self.assertEqual(len(mxfp4["judged_at"]), 15)
        for judged, accepted in zip(mxfp4["judged_at"], mxfp4["accepted_at"]):
            self.assertLessEqual(accepted, judged)
        self.assertEqual(mxfp4["judged_at"][4:], [0] * 11)
        self.assertEqual(sum(target["judged_at"]), 0)

    def test_verbose_tells_the_chain(self):
        shown = self.ok(*ONCE, "--max-tokens", "8", "--verbose").err
        self.assertRegex(shown, r"chain ngram > q4 > target: \S")
        for level in ["ngram", "q4", "target"]:
            self.assertRegex(shown, r"\n%s +[0-9]" % level)
        tree = self.ok(*ONCE, "--max-tokens", "30", "--verbose", "--chain", "ngram > q4", "--gamma", "3").err
        rows = re.findall(r'\n( *)([* ]) ".*" +(ngram|q4) [0-9]+ %', tree.partition("drafts of one round")[2])
        self.assertTrue(rows and rows[0][0] == "" and len(rows) <= 3, tree)
        self.assertNotIn("drafts of", self.ok(*ONCE, "--max-tokens", "8", "--verbose", "--chain", "none").err)
        self.assertIn("chain target", self.ok(*ONCE, "--max-tokens", "8", "--verbose", "--chain", "none").err)

    def test_seed(self):
        hot = [*ONCE, "--max-tokens", "30", "--temp", "1.5"]
        first = self.ok(*hot, "--seed", "7").out
        self.assertEqual(first, self.ok(*hot, "--seed", "7").out)
        self.assertNotEqual(first, self.ok(*hot, "--seed", "8").out)
        self.assertEqual(self.json(*hot, "--seed", "18446744073709551615")["seed"], 2**64 - 1)
        free = self.json(*hot)
        self.assertEqual(free["text"], self.json(*hot, "--seed", str(free["seed"]))["text"])

    def test_prompt_from_anywhere(self):
        expected = self.ok(*ONCE, "--max-tokens", "8").out
        run = ["run", MODEL, "--raw", "--max-tokens", "8"]
        self.assertEqual(expected, self.ok(*run, "-f", self.path("p.txt", "Once upon a time")).out)
        self.assertEqual(expected, self.ok(*run, stdin="Once upon a time").out)

    def test_message_drops_one_newline(self):
        run = ["run", MODEL, "--template", "chatml", "--max-tokens", "8"]
        expected = self.json(*run, "-p", "Tell a story")
        for text in ["Tell a story", "Tell a story\n"]:
            shown = self.json(*run, stdin=text)
            self.assertEqual((shown["text"], shown["prompt_tokens"]), (expected["text"], expected["prompt_tokens"]))
        self.assertGreater(self.json(*run, "--system", "Be brief", "-p", "Tell a story")["prompt_tokens"],
                           expected["prompt_tokens"])

    def test_messages(self):
        """A conversation gives what the text of its last message gives, and more where it has more."""
        run = ["run", MODEL, "--template", "chatml", "--max-tokens", "8", "--messages"]
        one = [{"role": "user", "content": "Hello"}]
        plain = self.ok("run", MODEL, "--template", "chatml", "--max-tokens", "8", "-p", "Hello").out
        self.assertEqual(self.ok(*run, "-p", json.dumps(one)).out, plain)
        self.assertEqual(self.ok(*run, stdin=json.dumps({"messages": one})).out, plain)
        with_system = self.ok("run", MODEL, "--template", "chatml", "--max-tokens", "8", "-p", "Hello",
                              "--system", "Be kind").out
        self.assertEqual(self.ok(*run, "--system", "Be kind", "-p", json.dumps(one)).out, with_system)
        self.fails(1, *run, "-p", "Hello", says=["-p is not JSON", "line 1"])
        self.fails(1, *run, "-p", '[{"role": "user"}]', says="message 1 needs")
        self.fails(2, "run", MODEL, "--messages", "--raw", "-p", "[]", says="--messages")

    def test_calls_of_tools(self):
        template = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}"
                    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}")
        document = {"messages": [{"role": "user", "content": "How old is Ann?"}],
                    "tools": [{"type": "function", "function": {"name": "age_of"}}]}
        answer = 'Look.\n<tool_call>\n{"name": "age_of", "arguments": {"name": "Ann"}}\n</tool_call>'
        run = ["run", self.path("caller.gguf", with_template(template)), "--messages", "--grammar",
               self.path("answer.gbnf", "root ::= " + json.dumps(answer))]
        self.assertEqual(self.ok(*run, "-p", json.dumps(document)).out, answer + "\n")
        shown = self.json(*run, "-p", json.dumps(document))
        self.assertEqual(shown["text"], "Look.")
        self.assertEqual([c["function"]["name"] for c in shown["tool_calls"]], ["age_of"])
        digits = '{"id":1234567890123456789012,"price":1.10,"share":0.1}'
        run[-1] = self.path("numbers.gbnf", "root ::= " + json.dumps(
            '<tool_call>{"name": "age_of", "arguments": %s}</tool_call>' % digits))
        called = self.json(*run, "-p", json.dumps(document))["tool_calls"]
        self.assertEqual([c["function"]["arguments"] for c in called], [digits])
        run[-1] = self.path("answer.gbnf", "root ::= " + json.dumps(answer))
        del document["tools"]
        self.assertEqual(self.json(*run, "-p", json.dumps(document))["text"], answer)

    def test_stop(self):
        text = self.json(*ONCE, "--max-tokens", "40")["text"]
        stop = text[10:14]
        shown = self.json(*ONCE, "--max-tokens", "40", "--stop", "not in there", "--stop", stop)
        self.assertEqual(shown["finish"], "stop")
        self.assertEqual(shown["text"], text[:text.index(stop)])

    def test_quiet_but_for_what_matters(self):
        self.assertEqual(self.ok(*ONCE, "--max-tokens", "2").err, "")
        self.assertIn("context", self.ok(*ONCE, "--ctx", "24").err)
        self.assertIn("tokens/s", self.ok(*ONCE, "--max-tokens", "2", "--verbose").err)

    def test_full_context(self):
        shown = self.json(*ONCE, "--ctx", "24")
        self.assertEqual(shown["finish"], "length")
        self.assertLessEqual(shown["prompt_tokens"] + shown["generated_tokens"], 25)

    def test_prompt_longer_than_context(self):
        n = self.json("tokenize", MODEL, "-p", "word " * 200)["count"]
        self.fails(1, "run", MODEL, "--raw", "--ctx", "64", "-p", "word " * 200, says=[str(n), "64"])
        self.fails(1, "run", MODEL, "--raw", "-p", "word " * 20000, says=["tokens", "context"])

    def test_empty(self):
        self.ok("run", MODEL, "--raw", "-p", "", "--max-tokens", "2")  # BOS alone
        run = ["run", MODEL, "--template", "chatml", "--max-tokens", "2"]
        self.fails(2, *run, "-p", "", says="the text of -p is empty")
        self.fails(1, *run, "-f", self.path("empty", "\n"), says="empty is empty")
        self.fails(1, *run, stdin="", says="the text of standard input is empty")

    def test_whole_characters_only(self):
        """Each write of a stream is UTF-8 by itself, whatever the model says."""
        process = self.start("run", MODEL, "--raw", "-p", "日本é😀", "--temp", "5", "--top-k", "0", "--top-p", "1",
                             "--min-p", "0", "--seed", "3", "--max-tokens", "120")
        process.stdin.close()
        chunks = []
        while chunk := os.read(process.stdout.fileno(), 65536):
            chunks.append(chunk)
        self.assertEqual(process.wait(), 0)
        for chunk in chunks:
            chunk.decode("utf-8")

    def test_reader_that_leaves(self):
        process = self.start(*ONCE, "--ctx", "512")
        process.stdout.read(1)
        process.stdout.close()
        process.stdin.close()
        self.assertIn(process.wait(), [-signal.SIGPIPE, 0, 1])
        self.assertEqual(process.stderr.read(), b"")


class Texts(Case):
    """Where the text and the template of an answer may come from."""

    RUN = ["run", MODEL, "--template", "chatml", "--max-tokens", "8"]

    def shown(self, *arguments, **options):
        shown = self.json(*arguments, **options)
        return shown["text"], shown["prompt_tokens"]

    def test_without_an_option(self):
        wanted = self.shown(*self.RUN, "-p", "Tell a story")
        self.assertEqual(self.shown(*self.RUN, "Tell a story"), wanted)
        self.assertEqual(self.shown("run", "--template", "chatml", MODEL, "Tell a story", "--max-tokens", "8"), wanted)
        self.fails(2, *self.RUN, "", says="the text of -p is empty")
        self.fails(2, *self.RUN, "a", "b", says="one argument too many: 'b'")
        self.fails(2, *self.RUN, "a", "-f", "x", says="-f")

    def test_what_is_piped_in_comes_first(self):
        for piped in ["int main;", "int main;\n"]:
            for prompt in [["-p", "Find the bug"], ["Find the bug"]]:
                self.assertEqual(self.shown(*self.RUN, *prompt, stdin=piped),
                                 self.shown(*self.RUN, stdin="int main;\n\nFind the bug"))
        self.assertEqual(self.shown(*self.RUN, "-p", "Hi", stdin="\n"), self.shown(*self.RUN, stdin="Hi"))
        self.fails(1, *self.RUN, "-p", "Hi", stdin=b"a\0b", says="zero byte at offset 1")
        self.assertEqual(self.ok(*ONCE, "--max-tokens", "8", stdin="more").out, self.ok(*ONCE, "--max-tokens", "8").out)

    def test_dash_is_standard_input(self):
        self.assertEqual(self.shown(*self.RUN, "-f", "-", stdin="Hi\n"), self.shown(*self.RUN, "-p", "Hi"))
        self.assertEqual(self.ok("tokenize", MODEL, "-f", "-", stdin="Hi").out, self.ok("tokenize", MODEL, "-p", "Hi").out)
        self.assertRegex(self.fails(1, *self.RUN, "-f", "-", stdin="").err, "standard input is empty")
        self.ok(*self.RUN, "-f", self.path("-", "a file of this name has a path"))

    def test_schema_in_the_command(self):
        schema = '{"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"], "additionalProperties": false}'
        run = [*self.RUN[:-1], "60", "-p", "Hi", "--json-schema"]
        wanted = self.ok(*run, self.path("schema", schema)).out
        for text in [schema, " \n" + schema]:
            self.assertEqual(self.ok(*run, text).out, wanted)
        self.assertRegex(wanted, r'^\s*\{\s*"a"\s*:\s*"x"')
        self.fails(1, *self.RUN, "-p", "Hi", "--json-schema", "{", says="--json-schema")
        self.fails(1, *self.RUN, "-p", "Hi", "--json-schema", '{"type": 5}', says="--json-schema")

    def test_template_of_a_file(self):
        chatml = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
        wanted = self.shown(*self.RUN, "-p", "Hi")
        os.mkdir(self.path("folder"))
        run = ["run", MODEL, "--max-tokens", "8", "-p", "Hi", "--template"]
        for name in ["my.jinja", "folder/any", "./chatml"]:
            self.path(name, chatml)
            self.assertEqual(self.shown(*run, name), wanted, name)
        self.path("chatml", "{{ nonsense")
        self.assertEqual(self.shown(*run, "chatml"), wanted)  # a name of the program's comes first
        self.fails(1, *run, "absent.jinja", says="absent.jinja")
        self.fails(1, *run, self.path("plain.jinja", "text alone"), says=["plain.jinja", "Jinja"])
        self.fails(1, *run, self.path("zero.jinja", b"{{ a }}\0"), says="zero.jinja")
        self.fails(1, *run, self.path("broken.jinja", "{{ a "), says="line 1")

    def test_base_model(self):
        """A text is continued, and that is said; a template that is not understood is an error."""
        run = ["run", MODEL, "--max-tokens", "8"]
        result = self.ok(*run, "-p", "Once upon a time")
        self.assertEqual(result.out, self.ok(*ONCE, "--max-tokens", "8").out)
        self.assertIn("has no chat template, so it continues the text", result.err)
        self.assertEqual(self.ok(*ONCE, "--max-tokens", "8").err, "")
        self.fails(1, *run, "-p", "a", "--system", "b", says="no chat template")
        broken = self.path("broken.gguf", with_template("{{ a "))
        self.fails(1, "run", broken, "-p", "a", says="line 1")
        self.fails(1, "chat", MODEL, stdin="a\n", says="no chat template")


class Interrupt(Case):
    """Random tokens on the scalar tier, which are the same on every machine and take a while."""

    LONG = ["run", MODEL, "--raw", "-p", "Once upon a time", "--temp", "100", "--top-k", "0", "--top-p", "1",
            "--min-p", "0", "--seed", "5", "--verbose"]

    def begin(self, *arguments):
        process = self.start(*self.LONG, *arguments, env={"RIFFLE_CPU": "scalar"})
        process.stderr.readline()  # printed when all is loaded
        return process

    def test_text(self):
        process = self.begin()
        process.send_signal(signal.SIGINT)
        self.assertTrue(process.stdout.read().endswith(b"\n"))
        self.assertEqual(process.wait(), 130)

    def test_json(self):
        process = self.begin("--json", "--ids")
        process.send_signal(signal.SIGINT)
        shown = json.loads(process.stdout.read())
        self.assertEqual(process.wait(), 130)
        self.assertEqual(shown["finish"], "cancelled")
        self.assertEqual(len(shown["tokens"]), shown["generated_tokens"])

    def test_waiting_for_input(self):
        process = self.start("run", MODEL, "--raw")
        self.wait_until_caught(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertEqual(process.stdout.read(), b"")

    def wait_until_caught(self, process):
        """Until the program handles interrupts itself: /proc shows a mask of the signals that it does."""
        while process.poll() is None:
            with open("/proc/%d/status" % process.pid) as file:
                caught = [line for line in file if line.startswith("SigCgt")][0]
            if int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1:
                return
            time.sleep(0.01)


class Tokenize(Case):
    def test_json(self):
        shown = self.json("tokenize", MODEL, "-p", "Once upon a time")
        self.assertEqual(list(shown), ["count", "tokens", "pieces"])
        self.assertEqual(shown["count"], len(shown["tokens"]))
        self.assertEqual(len(shown["tokens"]), len(shown["pieces"]))
        self.assertEqual(shown["tokens"][0], 1)
        self.assertEqual("".join(shown["pieces"][1:]).strip(), "Once upon a time")
        self.assertEqual(self.json("tokenize", MODEL, "-p", "Once upon a time", "--no-bos")["tokens"],
                         shown["tokens"][1:])

    def test_special(self):
        plain = self.json("tokenize", MODEL, "-p", "a</s>b", "--no-bos")
        special = self.json("tokenize", MODEL, "-p", "a</s>b", "--no-bos", "--special")
        self.assertNotIn(2, plain["tokens"])
        self.assertIn(2, special["tokens"])

    def test_text(self):
        out = self.ok("tokenize", MODEL, "-p", "Once upon").out
        shown = self.json("tokenize", MODEL, "-p", "Once upon")
        self.assertEqual([int(line.split()[0]) for line in out.splitlines()], shown["tokens"])

    def test_stdin_is_taken_as_it_is(self):
        text = "two\nlines\n"
        self.assertEqual(self.json("tokenize", MODEL, stdin=text), self.json("tokenize", MODEL, "-p", text))

    def test_empty(self):
        self.assertEqual(self.json("tokenize", MODEL, "-p", "", "--no-bos"), {"count": 0, "tokens": [], "pieces": []})
        self.assertEqual(self.ok("tokenize", MODEL, "-p", "", "--no-bos").out, "")


class Info(Case):
    def test_context_is_what_run_accepts(self):
        for n in ["2049", "2147483647"]:
            refused = self.fails(1, "run", MODEL, "--raw", "-p", "a", "--ctx", n, says=["n_ctx " + n, "--ctx"])
            self.assertEqual(self.fails(1, "info", MODEL, "--ctx", n).err, refused.err)
        self.assertEqual(self.json("info", MODEL, "--ctx", "2048")["memory"]["context"], 2048)

    def test_context_leaves_half_of_the_memory(self):
        """A model whose keys and values take all memory beside the weights at 65,536 of 100,000 tokens."""
        machine = self.json("info", MODEL)["memory"]["machine_bytes"]
        if machine > 64e9:
            self.skipTest("the model would be too large a file")
        heads = machine // (65536 * 4 * 512)
        model = Gguf().set("llama.context_length", U32, 100000).set("llama.attention.key_length", U32, 512)
        for key in ["llama.attention.head_count", "llama.attention.head_count_kv", "llama.rope.dimension_count"]:
            model.set(key, U32, 512 if "rope" in key else heads)
        for name in ["q", "k", "v", "output"]:
            ne = [32, 512 * heads][::-1 if name == "output" else 1]
            model.tensor("blk.0.attn_" + name, ne=ne, data=bytes(4 * 32 * 512 * heads))
        model.set("llama.attention.value_length", U32, 512)
        memory = self.json("info", model.write(self.folder))["memory"]
        room = (machine - memory["mapped_bytes"] - memory["resident_bytes"]) / 2
        self.assertLess(20000, memory["context"])
        self.assertLess(memory["context"], 40000)
        self.assertEqual(memory["context"] % 1024, 0)
        self.assertLessEqual(memory["kv_bytes"], room)
        self.assertGreater(memory["kv_bytes"] + 1024 * memory["kv_bytes_per_token"], room)

    def test_weights(self):
        for weights in ["auto", "stored", "bf16"]:
            shown = self.json("info", DRAFT, "--weights", weights)
            self.assertEqual(shown["weights"], "bf16" if weights == "bf16" else "stored")

    def test_activations(self):
        for bits in [8, 16]:
            shown = self.json("info", DRAFT, "--activations", str(bits))
            self.assertEqual((shown["weights"], shown["activation_bits"]), ("stored", bits))
            self.assertEqual((shown["weights_reason"], shown["activations_reason"]), ("", ""))
            self.assertIn("activations in %d bits" % bits, self.ok("info", DRAFT, "--activations", str(bits)).out)
        shown = self.json("info", DRAFT, "--weights", "stored")
        self.assertEqual(shown["activation_bits"], 16)
        self.assertIn("300 million", shown["activations_reason"])
        self.assertIn(shown["activations_reason"], self.ok("info", DRAFT, "--weights", "stored").out)
        said = self.ok("run", DRAFT, "--raw", "-p", "Once", "--max-tokens", "1", "--weights", "stored", "--verbose").err
        self.assertIn("activations in %d bits: %s" % (shown["activation_bits"], shown["activations_reason"]), said)
        self.fails(1, "run", DRAFT, "--raw", "-p", "a", "--weights", "bf16", "--activations", "8", says="activations")
        self.fails(1, "run", DRAFT, "--raw", "-p", "a", "--activations", "8", "--chain", "a8", says=["a8", "--chain"])

    def test_a8_does_not_change_the_text(self):
        run = ["run", DRAFT, "--raw", "-p", "Once upon a time", "--max-tokens", "40", "--activations", "16", "--chain"]
        self.assertEqual(self.ok(*run, "ngram > a8").out, self.ok(*run, "none").out)

    def test_json(self):
        shown = self.json("info", MODEL, "--ctx", "100")
        self.assertEqual((shown["arch"], shown["n_layer"], shown["n_embd"], shown["n_vocab"]), ("llama", 5, 64, 512))
        self.assertEqual((shown["n_head"], shown["n_head_kv"], shown["head_dim"]), (8, 4, 8))
        self.assertEqual(shown["file_bytes"], os.path.getsize(MODEL))
        self.assertIsNone(shown["chat_template"])
        memory = shown["memory"]
        self.assertEqual(memory["context"], 100)
        self.assertEqual(memory["kv_bytes"], 100 * memory["kv_bytes_per_token"])
        self.assertEqual(memory["kv_bytes_of"]["f16"], memory["kv_bytes"])
        # K and V, 16 bits, layers, heads, width; rows may be padded
        self.assertGreaterEqual(memory["kv_bytes_per_token"], 2 * 2 * 5 * 4 * 8)
        self.assertEqual(memory["total_bytes"], memory["mapped_bytes"] + memory["resident_bytes"] + memory["kv_bytes"] +
                         memory["draft_bytes"])
        self.assertEqual(shown["chain"], "ngram > q4 > target")
        self.assertTrue(shown["chain_note"])
        self.assertGreater(memory["draft_bytes"], 0)
        self.assertEqual(self.json("info", MODEL, "--chain", "none")["memory"]["draft_bytes"], 0)
        self.assertGreater(memory["resident_bytes"] + memory["mapped_bytes"], 0)
        self.assertGreater(memory["machine_bytes"], 0)

    def test_text(self):
        out = self.ok("info", MODEL).out
        for part in ["llama", "GGUF", "5 layers", "--template"]:
            self.assertIn(part, out)


class Perplexity(Case):
    TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. " * 12

    def test_json(self):
        shown = self.json("perplexity", MODEL, "--ctx", "64", stdin=self.TEXT)
        n = self.json("tokenize", MODEL, "-p", self.TEXT)["count"]
        self.assertEqual(list(shown), ["perplexity", "standard_error", "tokens", "context", "chunks"])
        self.assertEqual((shown["context"], shown["chunks"]), (64, n // 64))
        self.assertEqual(shown["tokens"], shown["chunks"] * 31)  # 33 .. 63 of each window
        self.assertTrue(1 < shown["perplexity"] < 50, shown)
        self.assertTrue(0 < shown["standard_error"] < shown["perplexity"], shown)

    def test_chunks_and_text(self):
        file = self.path("t.txt", self.TEXT)
        shown = self.json("perplexity", MODEL, "--ctx", "64", "--chunks", "2", "-f", file)
        self.assertEqual(shown["chunks"], 2)
        out = self.ok("perplexity", MODEL, "--ctx", "64", "--chunks", "2", "-f", file).out
        self.assertIn("%.4f" % shown["perplexity"], out)

    def test_surprise_costs(self):
        text = self.json("perplexity", MODEL, "--ctx", "32", stdin=self.TEXT)["perplexity"]
        noise = self.json("perplexity", MODEL, "--ctx", "32", stdin="xq zv jk wq " * 60)["perplexity"]
        self.assertGreater(math.log(noise), math.log(text))

    def test_too_short(self):
        self.fails(1, "perplexity", MODEL, stdin="short", says=["standard input", "512"])
        self.fails(2, "perplexity", MODEL, "-p", "text", says="-p")

    # ---- a reference ----

    QUANTISED = MODEL.replace("260K", "260K-q")

    def against(self, reference, *more, model=QUANTISED):
        return self.json("perplexity", model, "--ctx", "64", "--reference", reference, *more, stdin=self.TEXT)

    def saved(self, model=MODEL, name="saved.logits", ctx="64"):
        """The file, its tokens, and the log-probabilities of its rows, read by the format's definition."""
        path = self.path(name)
        self.ok("perplexity", model, "--ctx", ctx, "--save-reference", path, stdin=self.TEXT)
        with open(path, "rb") as file:
            data = file.read()
        self.assertEqual(data[:8], b"_logits_")
        n_ctx, n_vocab, n = struct.unpack_from("<3i", data, 8)
        tokens = struct.unpack_from("<%di" % (n_ctx * n), data, 20)
        words, rows, at = n_vocab + n_vocab % 2, [], 20 + 4 * n_ctx * n
        while at < len(data):
            step, least = struct.unpack_from("<2f", data, at)
            codes = struct.unpack_from("<%dH" % n_vocab, data, at + 8)
            rows.append([least + step * code for code in codes])
            at += 8 + 2 * words
        self.assertEqual((n_ctx, len(rows)), (int(ctx), n * (n_ctx - n_ctx // 2 - 1)))
        return path, tokens, rows

    def test_divergence_by_definition(self):
        path, tokens, wanted = self.saved()
        _, _, rows = self.saved(self.QUANTISED, "other.logits")
        scored = [token for i, token in enumerate(tokens) if i % 64 > 32]
        values, n = [], len(scored)
        for p, q in zip(wanted, rows):
            self.assertAlmostEqual(sum(map(math.exp, p)), 1, delta=1e-3)
            values.append(sum(math.exp(a) * (a - b) for a, b in zip(p, q) if a > -16))
        mean = sum(values) / n
        shown = self.against(path)
        self.assertEqual(shown["tokens"], n)
        found = shown["divergence"]
        self.assertAlmostEqual(found["mean"], mean, delta=0.02 * mean)
        error = math.sqrt((sum(v * v for v in values) / n - mean * mean) / (n - 1))
        self.assertAlmostEqual(found["mean_error"], error, delta=0.05 * error)
        values.sort()
        self.assertAlmostEqual(found["maximum"], values[-1], delta=0.02 * values[-1])
        for key, share in ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999):
            place = share * (n - 1)
            low, high = values[int(place)], values[min(int(place) + 1, n - 1)]
            self.assertAlmostEqual(found[key], low + (high - low) * (place % 1), delta=0.03 * values[-1])
            self.assertGreater(found[key + "_error"], 0)
        logs = [[row[token] for row, token in zip(side, scored)] for side in (rows, wanted)]
        own, other = (math.exp(-sum(side) / n) for side in logs)
        self.assertAlmostEqual(shown["perplexity"], own, delta=0.002 * own)
        self.assertAlmostEqual(shown["reference"]["perplexity"], other, delta=0.002 * other)
        self.assertAlmostEqual(shown["ratio"], own / other, delta=0.002)
        gains = [b - a for a, b in zip(*logs)]
        error = math.sqrt(sum((g - sum(gains) / n) ** 2 for g in gains) / n / (n - 1)) * own / other
        self.assertAlmostEqual(shown["ratio_error"], error, delta=0.05 * error)
        same = sum(p.index(max(p)) == q.index(max(q)) for p, q in zip(wanted, rows)) / n
        self.assertAlmostEqual(shown["same_choice"], same, delta=0.02)

    def test_file_and_model_agree(self):
        path, _, _ = self.saved()
        by_file, by_model = self.against(path), self.against(MODEL)
        for key, delta in ("mean", 1e-4), ("p99", 1e-3), ("maximum", 1e-2):
            self.assertAlmostEqual(by_file["divergence"][key], by_model["divergence"][key], delta=delta)
        plain = self.json("perplexity", self.QUANTISED, "--ctx", "64", stdin=self.TEXT)
        self.assertAlmostEqual(by_model["perplexity"], plain["perplexity"], delta=1e-4)
        self.assertGreater(by_model["divergence"]["mean"], 1e-4)

    def test_a_model_does_not_diverge_from_itself(self):
        shown = self.against(MODEL, model=MODEL)
        self.assertEqual((shown["ratio"], shown["same_choice"]), (1, 1))
        self.assertLess(shown["divergence"]["maximum"], 1e-5)  # log-probabilities are F32
        # Saved, it is rounded: to 16 bits of its range.
        self.assertLess(self.against(self.saved()[0], model=MODEL)["divergence"]["maximum"], 1e-4)

    def test_shown_lines(self):
        out = self.ok("perplexity", self.QUANTISED, "--ctx", "64", "--reference", MODEL, stdin=self.TEXT).out
        found = self.against(MODEL)
        for text in ("mean  ", "median  ", "90 %", "99 %", "99.9 %", "maximum", "same first choice"):
            self.assertIn(text, out)
        self.assertIn("%.6f +/- %.6f" % (found["divergence"]["p90"], found["divergence"]["p90_error"]), out)

    def test_windows_of_a_file(self):
        path, _, _ = self.saved()
        two = self.against(path, "--chunks", "2")
        self.assertEqual((two["chunks"], two["tokens"]), (2, 62))
        # The file says how long its windows are.
        shown = self.json("perplexity", MODEL, "--reference", path, stdin=self.TEXT)
        self.assertEqual(shown["context"], 64)
        self.fails(1, "perplexity", MODEL, "--reference", path, "--ctx", "32", stdin=self.TEXT, says=["64", "32"])

    def test_bad_references(self):
        path, _, _ = self.saved()
        with open(path, "rb") as file:
            data = file.read()
        other = "A dog ran home. " + self.TEXT
        self.fails(1, "perplexity", MODEL, "--reference", path, stdin=other, says=[path, "another text"])
        cut = self.path("cut", data[:-1])
        self.fails(1, "perplexity", MODEL, "--reference", cut, stdin=self.TEXT, says=[cut, "is cut"])
        header = self.path("header", data[:15])
        self.fails(1, "perplexity", MODEL, "--reference", header, stdin=self.TEXT, says=[header, "is cut"])
        for numbers in (64, 511, 8), (2**31 - 1, 2**31 - 1, 2**31 - 1), (1, 512, 8), (64, -1, 8), (64, 512, 0):
            bad = self.path("bad", data[:8] + struct.pack("<3i", *numbers) + data[20:])
            self.fails(1, "perplexity", MODEL, "--reference", bad, stdin=self.TEXT, says=bad)
        nothing = self.path("nan", data[:20 + 4 * 64 * struct.unpack_from("<i", data, 16)[0]])
        with open(nothing, "ab") as file:
            file.write(b"\xff" * (len(data) - file.tell()))
        self.fails(1, "perplexity", MODEL, "--reference", nothing, stdin=self.TEXT, says=[nothing, "no number"])
        self.fails(1, "perplexity", MODEL, "--reference", self.path("none"), stdin=self.TEXT, says="none")
        self.fails(2, "perplexity", MODEL, "--reference", path, "--save-reference", path, stdin=self.TEXT)
        self.fails(1, "perplexity", MODEL, "--ctx", "64", "--save-reference", self.path("no/where"), stdin=self.TEXT,
                   says="where")


if __name__ == "__main__":
    main()
