"""chat over a pipe, and at a terminal."""

import json
import os
import re
import signal
import termios
import struct

from harness import MODEL, Case, Screen, Terminal, main, with_template

CHAT = ["chat", MODEL, "--template", "chatml", "--max-tokens", "6", "--temp", "0"]
SAMPLED = ["chat", MODEL, "--template", "chatml", "--max-tokens", "20"]
# Random tokens on the scalar tier, which are the same on every machine and take a while.
LONG = ["chat", MODEL, "--template", "chatml", "--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0",
        "--seed", "4"]

# The message "show" fails with what the template was given: of each message role, content, thoughts and arguments.
SHOWS = ("{% set given = namespace(all=[]) %}{% for m in messages %}"
         "{% set given.all = given.all + [[m.role, m.content, m.reasoning_content or none, m.tool_calls[0].function.arguments if m.tool_calls else none]] %}"
         "{% if m.content == 'show' %}{{ raise_exception('given ' + (given.all | tojson)) }}{% endif %}"
         "{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n"
         "{% endfor %}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}")


def thinker(case, answer=None, template=SHOWS):
    """A chat with a model of that template, which can only give that answer."""
    chat = ["chat", case.path("thinker.gguf", with_template(template)), "--temp", "0"]
    return chat + script(case, answer) if answer else chat


def script(case, answer):
    return ["--grammar", case.path("answer.gbnf", "root ::= " + json.dumps(answer))]


THOUGHTFUL = "<think>\nHm.\n</think>\n\nYes."


class Pipe(Case):
    def saved(self, name="saved.json"):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)["messages"]

    def test_answers_only(self):
        result = self.ok(*CHAT, stdin="Hello\nAnd then?\n/save saved.json\n")
        messages = self.saved()
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
        self.assertEqual([m["content"] for m in messages[::2]], ["Hello", "And then?"])
        self.assertEqual(result.out, messages[1]["content"] + "\n" + messages[3]["content"] + "\n")
        self.assertNotIn("\033", result.out + result.err)

    def test_last_line_needs_no_newline(self):
        self.ok(*CHAT, stdin="Hello\n\n   \n/save saved.json")
        self.assertEqual(len(self.saved()), 2)

    def test_nothing(self):
        result = self.ok(*CHAT, stdin="")
        self.assertEqual((result.out, result.err), ("", ""))

    def test_long_messages(self):
        self.ok(*CHAT, stdin='one\\\ntwo\n"""\nthree\n\nfour\n"""\n"""five"""\n/save saved.json\n')
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["one\ntwo", "three\n\nfour", "five"])

    def test_system(self):
        self.ok(*CHAT, "--system", "Be brief", stdin="Hi\n/system Be long\nHi\n/save a.json\n/reset\n/save b.json\n")
        self.assertEqual(self.saved("a.json")[0], {"role": "system", "content": "Be long"})
        self.assertEqual(self.saved("b.json"), [{"role": "system", "content": "Be long"}])

    def test_save_and_load(self):
        whole = self.ok(*CHAT, stdin="Hello\n/save saved.json\nAnd then?\n").out
        first = self.ok(*CHAT, stdin="Hello\n").out
        self.assertEqual(self.ok(*CHAT, stdin="/load saved.json\nAnd then?\n").out, whole[len(first):])

    def test_load_bare_array_and_unicode(self):
        content = "日本 \"x\" \\ \t é \u0001"
        self.path("in.json", json.dumps([{"role": "user", "content": content}, {"role": "assistant", "content": ""}]))
        self.ok(*CHAT, stdin="/load in.json\n/save saved.json\n")
        self.assertEqual(self.saved()[0]["content"], content)

    def test_bad_files_to_load(self):
        bad = {"empty": "", "text": "hello", "cut": '{"messages": [', "null": "null", "other": '{"message": []}',
               "number": "[1]", "role": '[{"role": "robot", "content": ""}]', "content": '[{"role": "user"}]',
               "type": '[{"role": "user", "content": 3}]', "zero": '[{"role": "user", "content": "\\u0000"}]',
               "late": '[{"role": "user", "content": ""}, {"role": "system", "content": ""}]',
               "utf8": b'["\xff"]', "deep": "[" * 100000}
        for name, content in bad.items():
            self.path(name, content)
            self.fails(1, *CHAT, stdin="/load %s\n" % name, says=name)
        self.fails(1, *CHAT, stdin="/load absent\n", says="absent")
        self.fails(1, *CHAT, stdin="/save no/such/folder\n", says="no/such/folder")

    def test_commands(self):
        result = self.ok(*CHAT, stdin="Hi\n/stats\n/chain\n/help\n/exit\nnever\n")
        self.assertIn("context", result.err)
        self.assertIn("target", result.err)
        for command in ["/help", "/stats", "/chain", "/save", "/load", "/reset", "/clear", "/system", "/set",
                        "/regen", "/undo", "/exit"]:
            self.assertIn("\n  " + command, result.err)
        self.assertEqual(result.out.count("\n"), self.ok(*CHAT, stdin="Hi\n").out.count("\n"))

    def test_help_and_set_have_the_same_names(self):
        names = re.findall(r"^([a-z-]+) +\S+$", self.ok(*CHAT, stdin="/set\n").err, flags=re.M)
        self.assertLessEqual({"temp", "frequency-penalty", "presence-penalty", "overflow", "repetition"}, set(names))
        shown = " ".join(self.ok(*CHAT, stdin="/help\n").err.split())
        self.assertIn("show or change a setting: %s /regen" % ", ".join(names), shown)
        self.fails(1, *CHAT, stdin="/set nonsense 1\n", says=", ".join(names))

    def test_nothing_has_no_speed(self):
        """What was not read or generated is left out of the figures."""
        result = self.ok(*CHAT, "--verbose", stdin="/stats\nHello\n/regen\n")
        self.assertNotIn(" 0.0 tokens/s", result.err)
        self.assertRegex(result.err, r"\nread +0 tokens\ngenerated +0 tokens\n")
        figures = re.findall(r"\n(\d+ tokens.*)", result.err)
        self.assertRegex(figures[0], r"^\d+ tokens, [\d.]+ tokens/s; \d+ read at [\d.]+ tokens/s$")
        self.assertRegex(figures[1], r"^\d+ tokens, [\d.]+ tokens/s$")

    def test_banner(self):
        first = self.ok(*CHAT, "--verbose", stdin="").err.splitlines()[0]
        self.assertRegex(first, r"^\S.*: 260 thousand parameters in F32\. Room for 2048 tokens \(about 1500 words\), up to "
                                r"[\d.]+ MB of memory\. /help lists commands\.$")

    def test_aliases(self):
        for leave in ["/bye", "/quit"]:
            self.assertEqual(self.ok(*CHAT, stdin=leave + "\nnever\n").out, "")
        self.assertEqual(self.ok(*CHAT, stdin="/?\n").err, self.ok(*CHAT, stdin="/help\n").err)

    def test_acknowledges(self):
        err = self.ok(*CHAT, stdin="/reset\n/system Be brief\n/system Be long\n/reset\n/clear\n").err
        self.assertEqual(err, "the conversation is empty again\nthe system message is set\n"
                              "the system message is replaced\n" +
                              2 * "the conversation is empty again; the system message stays\n")

    def test_home(self):
        self.ok(*CHAT, stdin="/save ~/saved.json\n/load ~/saved.json\n")
        self.assertEqual(self.saved(), [])
        self.fails(1, *CHAT, stdin="/save ~/x\n", env={"HOME": ""}, says="home")
        self.ok(*CHAT, stdin="/save ~x\n")
        self.assertTrue(os.path.exists(self.path("~x")))

    def test_wrong_commands(self):
        self.fails(1, *CHAT, stdin="/sav x\n", says=["/sav", "did you mean /save?"])
        self.fails(1, *CHAT, stdin="/quti\n", says="did you mean /quit?")
        self.fails(1, *CHAT, stdin="/kv\n", says="unknown command /kv; /help lists them")
        self.fails(1, *CHAT, stdin="/clearall\n", says="did you mean /clear?")
        self.assertNotIn("did you", self.fails(1, *CHAT, stdin="/etc/passwd\n", says="/etc/passwd").err)
        self.fails(1, *CHAT, stdin="/save\n", says="/save")
        self.fails(1, *CHAT, stdin="/stats maybe\n", says="maybe")
        self.fails(1, *CHAT, stdin="/exit now\n", says="now")
        self.fails(1, *CHAT, stdin="/chain ngram > > mxfp4\n", says="empty")
        self.fails(1, *CHAT, stdin="/chain mxfp4\n", says=["mxfp4", "ngram > q4 > target", "--chain"])

    def test_chain_changes_and_nothing_else_does(self):
        """The conversation and its answers stay what they are; only who drafts is another."""
        expected = self.ok(*CHAT, stdin="Hello\nAnd then?\nGo on\n").out
        result = self.ok(*CHAT, "--verbose", stdin="Hello\n/chain ngram\nAnd then?\n/chain none\nGo on\n/chain auto\n")
        self.assertEqual(result.out, expected)
        self.assertRegex(result.err, r"(?s)\nngram > target\n.*\ntarget\n.*\nngram > q4 > target: \S")
        read = [int(line.split("; ")[1].split()[0]) for line in result.err.splitlines() if "read at" in line]
        self.assertEqual(len(read), 3)
        self.assertLess(max(read[1:]), 2 * read[0])  # the turns before were not read again with the message

    def test_stats_of_levels(self):
        shown = self.ok(*CHAT, "--chain", "ngram > mxfp4", "--gamma", "3", stdin="Hello\n/stats\n").err
        for level in ["ngram", "mxfp4", "target"]:
            self.assertRegex(shown, r"\n%s +[0-9]" % level)
        self.assertIn("by place in the draft", shown)

    def test_slash_after_a_space(self):
        self.ok(*CHAT, stdin=" /etc/passwd\n/save saved.json\n")
        self.assertEqual(self.saved()[0]["content"], " /etc/passwd")

    def test_zero_byte(self):
        self.fails(1, *CHAT, stdin=b"a\0b\n", says=["line 1", "zero byte"])

    def test_full_context(self):
        result = self.riffle("chat", MODEL, "--template", "chatml", "--ctx", "64", stdin="word " * 100 + "\nmore\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("n_ctx is 64", result.err)
        for command in ["/undo", "/reset", "/set overflow drop"]:
            self.assertIn(command, result.err)
        self.assertNotIn("--ctx", result.err)  # it is too late for that
        self.fails(1, "chat", MODEL, "--template", "chatml", "--ctx", "99999999", says="(choose with --ctx)")

    def test_full_context_is_explained_once(self):
        chat = ["chat", MODEL, "--template", "chatml", "--temp", "0", "--ctx", "128", "--max-tokens", "200"]
        result = self.riffle(*chat, stdin="Hello\nAnd then?\n")
        self.assertEqual(result.err.count("/set overflow drop"), 1, result.err)
        self.assertIn("n_ctx is 128 (/undo or /reset makes room)", result.err)

    def test_overflow_drops_the_oldest_turns(self):
        chat = ["chat", MODEL, "--template", "chatml", "--temp", "0", "--ctx", "192", "--max-tokens", "40",
                "--system", "Be kind"]
        talk = "".join("Tell me number %d\n" % i for i in range(6))
        self.assertEqual(self.riffle(*chat, stdin=talk).returncode, 1)
        for on in [[*chat, "--overflow", "drop"], chat]:
            result = self.ok(*on, stdin=("" if on != chat else "/set overflow drop\n") + talk + "/save saved.json\n")
            self.assertRegex(result.err, r"dropped the oldest turns? \([1-9]\): the context of 192 tokens was full")
            messages = self.saved()
            self.assertEqual(messages[0], {"role": "system", "content": "Be kind"})
            self.assertLess(len(messages), 13)
            self.assertEqual([m["role"] for m in messages[1:]], ["user", "assistant"] * (len(messages) // 2))
            self.assertEqual(messages[-2]["content"], "Tell me number 5")

    def test_an_answer_goes_on_after_dropping(self):
        """It fills the context in the middle: it goes on from the same words, until no turn is left to drop."""
        chat = ["chat", MODEL, "--template", "chatml", "--temp", "1", "--seed", "3", "--ctx", "192"]
        talk = "Tell me one\n/set max-tokens 200\nTell me two\n/save saved.json\n"
        stopped = self.ok(*chat, "--max-tokens", "60", stdin=talk)
        before = self.saved()
        result = self.ok(*chat, "--max-tokens", "60", "--overflow", "drop", stdin=talk)
        after = self.saved()
        self.assertIn("/set overflow drop", stopped.err)
        self.assertIn("dropped the oldest turn (1)", result.err)
        self.assertEqual([m["content"] for m in after[::2]], ["Tell me two"])
        self.assertTrue(after[1]["content"].startswith(before[3]["content"]))
        self.assertGreater(len(after[1]["content"]), len(before[3]["content"]))

    def test_a_message_that_never_fits(self):
        result = self.fails(1, "chat", MODEL, "--template", "chatml", "--ctx", "64", "--overflow", "drop",
                            stdin="word " * 100 + "\n", says=["the message has", "64", "a shorter one"])
        self.assertNotIn("dropped", result.err)

    def test_samples_unless_told_otherwise(self):
        texts = {self.ok(*SAMPLED, "--seed", str(seed), stdin="Hello\n").out for seed in range(4)}
        self.assertGreater(len(texts), 1)
        for options in [["--seed", "3"], ["--temp", "0"]]:
            self.assertEqual(self.ok(*SAMPLED, *options, stdin="Hello\n").out,
                             self.ok(*SAMPLED, *options, stdin="Hello\n").out)

    def test_set(self):
        shown = self.ok(*SAMPLED, "--seed", "5", "--top-k", "7", stdin="/set\n").err
        for line in [r"temp +0\.7", r"top-k +7", r"top-p +0\.95", r"min-p +0\.05", r"repeat-penalty +1", r"seed +5",
                     r"repeat-last-n +64", r"max-tokens +20", r"overflow +stop", r"repetition +on", "general values"]:
            self.assertRegex(shown, line)
        changes = {"temp": "0", "top-k": "3", "top-p": "0.5", "min-p": "0.1", "repeat-penalty": "1.3", "seed": "9",
                   "repeat-last-n": "-1", "max-tokens": "4", "overflow": "drop", "repetition": "off"}
        talk = "".join("/set %s %s\n" % change for change in changes.items())
        shown = self.ok(*SAMPLED, stdin=talk + "/set\n").err
        for name, value in changes.items():
            self.assertEqual(len(re.findall(r"(?m)^%s +(is now )?%s\b" % (name, value), shown)), 2, shown)
        once = self.ok(*SAMPLED, "--temp", "0", stdin="Hello\n").out
        self.assertEqual(self.ok(*SAMPLED, stdin="/set temp 0\nHello\n").out, once)

    def with_values(self, values):
        """A copy of the model with more metadata: floats and integers under their keys."""
        with open(MODEL, "rb") as file:
            data = file.read()

        def text(content):
            return struct.pack("<Q", len(content)) + content.encode()
        added = b"".join(text(key) + (struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<Ii", 5, v))
                         for key, v in values.items())
        added += text("general.padding") + struct.pack("<I", 8)
        added += text("x" * (-(len(added) + 8) % 32))  # the tensors stay aligned
        n_values = struct.unpack_from("<Q", data, 16)[0] + len(values) + 1
        return self.path("values.gguf", data[:16] + struct.pack("<Q", n_values) + added + data[24:])

    def test_the_file_recommends(self):
        good = {"temp": 0.25, "top_k": 11, "top_p": 0.5, "min_p": 0.125, "penalty_repeat": 1.5, "penalty_last_n": 32}
        model = self.with_values({"general.sampling." + key: value for key, value in good.items()})
        chat = ["chat", model, "--template", "chatml", "--top-k", "3"]  # an option comes before the file
        shown = self.ok(*chat, stdin="/set\n").err
        for line in ["temp +0.25", "top-k +3", "top-p +0.5", "min-p +0.125", "repeat-penalty +1.5",
                     "repeat-last-n +32", "general.sampling"]:
            self.assertRegex(shown, line)
        run = ["run", "--raw", "-p", "Once", "--max-tokens", "20"]  # greedy all the same
        self.assertEqual(self.ok(*run, model).out, self.ok(*run, MODEL).out)

        model = self.with_values({"general.sampling.temp": 0.25, "general.sampling.top_p": 7.0,
                                  "general.sampling.top_k": -3})
        shown = self.ok("chat", model, "--template", "chatml", stdin="/set\n").err
        for line in ["temp +0.25", "top-k +40", "top-p +0.95", "ignored: top_k -3", "ignored: top_p 7"]:
            self.assertRegex(shown, line)
        model = self.with_values({"general.sampling.temp": 1})
        self.fails(1, "chat", model, "--template", "chatml", says="key general.sampling.temp is of type INT32")

    def test_wrong_settings(self):
        for change, says in [("temp 200", ["/set temp must be between 0 and 100", "200"]), ("temp hot", "a number"),
                             ("top-p 2", "/set top-p must be between 0 and 1"), ("top-k 1.5", "whole number"), ("seed -1", "/set seed"),
                             ("overflow maybe", ["/set overflow", "stop|drop"]), ("temp", "needs a value"),
                             ("repetition 1", "on|off"), ("tmep 1", ["no 'tmep'", "did you mean temp?"]),
                             ("ctx 64", "no 'ctx'"), ("max-tokens -1", "/set max-tokens must be between")]:
            self.fails(1, *SAMPLED, stdin="/set %s\n" % change, says=says)

    def test_regen(self):
        result = self.ok(*SAMPLED, "--seed", "5", stdin="Hello\n/save a.json\n/regen\n/save b.json\n")
        a, b = self.saved("a.json"), self.saved("b.json")
        self.assertEqual(result.out, a[1]["content"] + "\n" + b[1]["content"] + "\n")
        self.assertIn("answering again with seed 6", result.err)
        self.assertEqual((len(b), b[0]), (2, a[0]))
        self.assertNotEqual(a[1], b[1])
        self.assertEqual(b[1]["content"] + "\n", self.ok(*SAMPLED, "--seed", "6", stdin="Hello\n").out)
        greedy = self.ok(*CHAT, stdin="Hello\n/regen\n")
        self.assertIn("stays the same", greedy.err)
        self.assertEqual(*greedy.out.splitlines())
        self.fails(1, *CHAT, stdin="/regen\n", says="no message")

    def test_undo(self):
        result = self.ok(*CHAT, stdin="Hello\nAnd then?\n/undo\n/save saved.json\nAnd then?\n")
        self.assertIn("forgot the last message and its answer; 2 messages are left", result.err)
        self.assertEqual([m["content"] for m in self.saved()[::2]], ["Hello"])
        self.assertEqual(*result.out.splitlines()[1:])
        self.fails(1, *CHAT, "--system", "s", stdin="/undo\n", says="no message")

    def test_reads_only_what_is_new(self):
        """The second turn's prompt holds the first turn, but is not read again."""
        message = "Once upon a time there was a dog. " * 8
        result = self.ok(*CHAT, "--verbose", stdin=message + "\nGo on\n")
        read = [int(line.split("; ")[1].split()[0]) for line in result.err.splitlines() if "read at" in line]
        self.assertEqual(len(read), 2)
        self.assertLess(read[1], read[0])

    def test_interrupt(self):
        process = self.start(*LONG, env={"RIFFLE_CPU": "scalar"})
        process.stdin.write(b"Tell me a story\n")
        process.stdin.flush()
        self.assertTrue(os.read(process.stdout.fileno(), 1))
        process.send_signal(signal.SIGINT)
        self.assertTrue(process.stdout.read().endswith(b"\n"))
        self.assertEqual(process.wait(), 130)

    def given(self, result):
        """The messages that the template was given last."""
        self.assertEqual(result.returncode, 1)
        return json.loads(re.search(r"given (\[.*\])", result.err).group(1))

    def test_thoughts_are_not_content(self):
        shows = self.riffle(*thinker(self, THOUGHTFUL), stdin="Hello\n/save saved.json\nshow\n")
        self.assertEqual(shows.out, "<think>\nHm.\n</think>\n\nYes.\n")
        self.assertEqual(self.saved(), [{"role": "user", "content": "Hello"},
                                        {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}])
        self.assertEqual(self.given(shows), [["user", "Hello", None, None], ["assistant", "Yes.", "Hm.", None],
                                             ["user", "show", None, None]])
        again = self.riffle(*thinker(self), stdin="/load saved.json\nshow\n")
        self.assertEqual(self.given(again), self.given(shows))

    def test_thoughts_of_qwen3(self):
        """The template leaves out the thoughts before the last question: the answer's text is all that is read."""
        chat = ["chat", MODEL, "--template", "qwen3", "--temp", "0", "--verbose"]
        read = []
        for thought in ["", "hm " * 40]:
            answer = script(self, "<think>\n%s\n</think>\n\nYes." % thought)
            shown = self.ok(*chat, *answer, stdin="Hello there\nAnd then?\n/regen\n/undo\n/save saved.json\n")
            read.append([int(n) for n in re.findall(r"(\d+) read at", shown.err)])
            self.assertEqual([m["content"] for m in self.saved()], ["Hello there", "Yes."])
            self.assertEqual(self.saved()[1].get("reasoning_content", ""), thought.strip())
        self.assertEqual(*read)

    def test_a_thought_that_the_prompt_opens(self):
        template = SHOWS + "{% if add_generation_prompt %}assistant: <think>\n{% endif %}"
        chat = thinker(self, "Hm.\n</think>\nYes.", template)
        shows = self.riffle(*chat, stdin="Hello\n/save saved.json\n/regen\nshow\n")
        self.assertEqual(shows.out, "Hm.\n</think>\nYes.\n" * 2)
        self.assertEqual(self.saved()[1], {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."})
        self.assertEqual(len(self.given(shows)), 3)

    def test_thoughts_have_two_names(self):
        template = "{% for m in messages %}{% if m.thinking %}{{ raise_exception(m.thinking) }}{% endif %}{{ m.content }}{% endfor %}"
        chat = thinker(self, THOUGHTFUL, template)
        self.assertIn(": Hm.", self.riffle(*chat, stdin="Hello\nAnd then?\n").err)

    def test_structured_messages_survive(self):
        call = {"id": "abcdefghi", "type": "function", "function": {
            "name": "age_of", "arguments": '{"name": "Ann", "id": 1234567890123456789012, "share": 0.1}'}}
        messages = [{"role": "developer", "content": "Be kind"}, {"role": "user", "content": "How old is Ann?"},
                    {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "Ask."},
                    {"role": "tool", "tool_call_id": "abcdefghi", "content": "12"},
                    {"role": "assistant", "content": "12", "x": [1, 2.5, None]}]
        tools = [{"type": "function", "function": {"name": "age_of"}}]
        self.path("in.json", json.dumps({"messages": messages, "tools": tools}))
        shows = self.riffle(*thinker(self), stdin="/load in.json\n/save saved.json\nshow\n")
        self.assertEqual(self.saved(), messages)
        given = self.given(shows)
        self.assertEqual([m[0] for m in given], ["system", "user", "assistant", "tool", "assistant", "user"])
        self.assertEqual(given[2:4], [["assistant", "", "Ask.", {
            "name": "Ann", "id": 1234567890123456789012, "share": 0.1}], ["tool", "12", None, None]])
        offers = "{{ tools | tojson }}{% if tools and messages[0].content == 'Be kind' %}{{ raise_exception(tools[0].function.name) }}{% endif %}{{ messages[0].content }}"
        self.assertIn("age_of", self.riffle(*thinker(self, template=offers), stdin="/load in.json\nHi\n").err)

    def test_calls_in_answers(self):
        template = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}"
                    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}")
        self.path("in.json", json.dumps({"messages": [], "tools": [{"type": "function", "function": {"name": "age_of"}}]}))
        chat = thinker(self, 'Look.\n<tool_call>\n{"name": "age_of", "arguments": {"name": "Ann"}}\n</tool_call>', template)
        self.ok(*chat, stdin="/load in.json\nHow old is Ann?\n/save saved.json\nAnd Bob?\n")
        answer = self.saved()[1]
        self.assertEqual(answer["content"], "Look.")
        self.assertEqual([c["function"] for c in answer["tool_calls"]],
                         [{"name": "age_of", "arguments": json.dumps({"name": "Ann"}, separators=(",", ":"))}])
        self.path("bad.json", '{"messages": [], "tools": [{"name": "age_of"}]}')
        self.fails(1, *chat, stdin="/load bad.json\n", says=["bad.json", "tools"])

    def test_numbers_survive(self):
        """The digits of a file are those of the file that is saved, whatever a processor's numbers can hold."""
        numbers = "[0.1, 1.10, 19.99, 1e-7, 12345678901234567890, 1e400, -0.0, 1E5, 9007199254740993]"
        self.path("in.json", '{"messages": [{"role": "user", "content": "q", "x": %s}], "tools": [{"type": "function", '
                  '"function": {"name": "f", "parameters": {"default": %s}}}]}' % (numbers, numbers))
        self.ok(*CHAT, stdin="/load in.json\n/save saved.json\n")
        with open(os.path.join(self.folder, "saved.json")) as file:
            self.assertEqual(file.read().count(numbers), 2)

    def test_zero_bytes(self):
        """Nobody reads "x"; a chat shows "content"."""
        self.path("in.json", r'[{"role": "user", "content": "q", "x\u0000": "\u0000"}]')
        self.ok(*CHAT, stdin="/load in.json\n/save saved.json\n")
        self.assertEqual(self.saved(), [{"role": "user", "content": "q", "x\0": "\0"}])
        self.path("bad.json", r'[{"role": "user", "content": "a\u0000b"}]')
        self.fails(1, *CHAT, stdin="/load bad.json\n", says=["bad.json", "message 1", '"content"', "zero byte"])

    def test_parts_become_texts(self):
        parts = [{"type": "text", "text": "How "}, {"type": "text", "text": "old?"}]
        self.path("in.json", json.dumps([{"role": "user", "content": parts}]))
        self.ok(*thinker(self), stdin="/load in.json\n/save saved.json\n")
        self.assertEqual(self.saved()[0]["content"], "How old?")
        self.path("in.json", json.dumps([{"role": "user", "content": [{"type": "image"}]}]))
        self.fails(1, *thinker(self), stdin="/load in.json\n", says=["in.json", "message 1 needs"])

    def test_bytes_that_are_no_text(self):
        self.ok(*CHAT, stdin=b"a\xffb\n/save saved.json\n")
        self.assertEqual(self.saved()[0]["content"], "a\ufffdb")


class AtTerminal(Case):
    def saved(self, terminal, name):
        """What the program has as messages, through /save."""
        terminal.send("/save %s\n" % name)
        terminal.wait_for("saved ")
        terminal.wait_for_prompt()
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)["messages"]

    def chat(self, *arguments, env=None, columns=80):
        terminal = Terminal(self, *arguments, env=env, columns=columns)
        terminal.wait_for_prompt()
        return terminal

    def ask(self, terminal, keys):
        terminal.send(keys)
        terminal.wait_for("tokens/s")
        terminal.wait_for_prompt()

    def test_talks(self):
        terminal = self.chat(*CHAT)
        self.ask(terminal, "Hello\n")
        self.assertEqual([m["role"] for m in self.saved(terminal, "a.json")], ["user", "assistant"])
        terminal.send("\x04")
        self.assertEqual(terminal.leave(), 0)
        self.assertIn("\033[2m", terminal.screen)

    def test_no_color(self):
        terminal = self.chat(*CHAT, env={"NO_COLOR": "1"})
        self.ask(terminal, "Hello\n")
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)
        self.assertNotRegex(terminal.screen, r"\033\[[0-9;]*m")

    def test_dims_thoughts(self):
        terminal = self.chat(*thinker(self, THOUGHTFUL))
        self.ask(terminal, "Hello\n")
        self.assertRegex(terminal.screen, r"\033\[2mH\S*m\S*\.\033\[0m\r\n\r\nYes\.")
        self.assertNotIn("think>", terminal.screen)
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_plain_thoughts(self):
        terminal = self.chat(*thinker(self, THOUGHTFUL), env={"NO_COLOR": "1"})
        self.ask(terminal, "Hello\n")
        self.assertIn("<think>\r\nHm.\r\n</think>\r\n\r\nYes.", terminal.screen)
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_interrupted_thought(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}"
        terminal = self.chat(*thinker(self, template=template), *LONG[4:], env={"RIFFLE_CPU": "scalar"})
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"story\r\n[^\r\n]*\033\[2m[^\r\n]")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        answer = self.saved(terminal, "a.json")[1]
        self.assertEqual(answer["content"], "")
        self.assertTrue(answer["reasoning_content"])
        terminal.send("\x04")
        self.assertEqual(terminal.leave(), 0)

    def test_paints_levels(self):
        """After /stats on, and only then, a token has the colour of the level that proposed it first."""
        terminal = self.chat(*CHAT, "--chain", "ngram > mxfp4", "--gamma", "4")
        self.ask(terminal, "Hello\n")
        self.assertNotRegex(terminal.screen, r"\033\[3[26]m")
        terminal.send("/stats on\n")
        terminal.wait_for("\033[36mmxfp4\033[0m")
        terminal.wait_for_prompt()
        self.ask(terminal, "Go on\n")
        self.assertRegex(terminal.screen[terminal.mark:], r"\033\[3[26]m[^\033]+\033\[0m")
        terminal.send("/stats off\n")
        terminal.wait_for_prompt()
        terminal.send("Go on\n")
        terminal.wait_for_prompt()
        self.assertNotRegex(terminal.screen[terminal.mark:], r"\033\[3[26]m")
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_interrupt_stops_the_answer_only(self):
        terminal = self.chat(*LONG, env={"RIFFLE_CPU": "scalar"})
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"story\r\n[^\r\n]")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        messages = self.saved(terminal, "a.json")
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertTrue(messages[1]["content"])
        terminal.send("\x03")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        self.assertEqual(terminal.leave(), 130)

    def test_second_interrupt_leaves(self):
        terminal = self.chat(*LONG, env={"RIFFLE_CPU": "scalar"})
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"story\r\n[^\r\n]")
        terminal.send("\x03")
        terminal.wait_for("again leaves")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        self.assertEqual(terminal.leave(), 130)

    def test_interrupt_clears_then_leaves(self):
        terminal = self.chat(*CHAT)
        terminal.send("never sent")
        terminal.wait_for("never sent")
        terminal.send("\x03")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        terminal.wait_for("again leaves")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        self.assertEqual(terminal.leave(), 130)

    def test_paste_and_history(self):
        state = {"XDG_STATE_HOME": self.path("state")}
        terminal = self.chat(*CHAT, env=state)
        terminal.send("\033[200~one é日本\rtwo\033[31m\r\033[201~")
        terminal.wait_for("two")
        self.ask(terminal, " three\n")
        self.assertEqual(self.saved(terminal, "a.json")[0]["content"], "one é日本\ntwo[31m\n three")
        terminal.send("\x04")
        self.assertEqual(terminal.leave(), 0)
        self.assertEqual(os.stat(self.path("state/riffle/history")).st_mode & 0o077, 0)

        again = self.chat(*CHAT, env=state)
        self.ask(again, "\033[A\033[A\n")
        self.assertEqual(self.saved(again, "b.json")[0]["content"], "one é日本\ntwo[31m\n three")
        again.send("\x04")
        self.assertEqual(again.leave(), 0)

    def test_mistakes_do_not_end_it(self):
        terminal = self.chat(*CHAT)
        terminal.send("/nonsense\n")
        terminal.wait_for("unknown command /nonsense")
        terminal.wait_for_prompt()
        terminal.send("/load absent\n")
        terminal.wait_for("cannot open absent")
        terminal.wait_for_prompt()
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_controls_of_a_file_are_shown(self):
        """A terminal never gets control characters from a text that a file brought."""
        self.path("in.json", json.dumps([{"role": "system", "content": "\033]0;title\007\u009b31m"}]))
        terminal = self.chat(*CHAT)
        terminal.send("/load in.json\n")
        terminal.wait_for("loaded 1 ")
        terminal.wait_for_prompt()
        terminal.send("/system\n")
        terminal.wait_for(r"\x1b]0;title\x07\x9b31m")
        terminal.wait_for_prompt()
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)
        self.assertNotIn("\033]0;", terminal.screen)

    def leave(self, terminal):
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def shown(self, terminal, columns):
        return Screen(columns).show(terminal.screen)

    def check_wrapped(self, columns, *arguments, commands=()):
        """The answer's lines at that width are what the words of its text give."""
        terminal = self.chat("chat", MODEL, "--template", "chatml", "--temp", "0", "--max-tokens", "150", *arguments,
                             columns=columns)
        for command in commands:
            terminal.send(command + "\n")
            terminal.wait_for_prompt()
        self.ask(terminal, "Tell me a story\n")
        lines = self.shown(terminal, columns)
        begin, end = (next(i for i, line in enumerate(lines) if text in line)
                      for text in ("Tell me a story", "150 tokens"))
        text = self.saved(terminal, "a.json")[1]["content"]
        expected = []
        for paragraph in text.split("\n"):
            line = None
            for word in paragraph.split(" "):
                if line is None or len(line) + 1 + len(word) <= columns:
                    line = word if line is None else line + " " + word
                else:
                    expected.append(line.rstrip())
                    line = word
            expected.append(line.rstrip())
        self.assertGreater(len(expected), 5)
        self.assertEqual(lines[begin + 1:end], expected)
        self.leave(terminal)
        return terminal

    def test_wraps_words(self):
        for columns in [60, 23]:
            self.check_wrapped(columns)

    def test_wraps_coloured_words(self):
        terminal = self.check_wrapped(60, "--chain", "ngram > mxfp4", "--gamma", "4", commands=["/stats on"])
        self.assertRegex(terminal.screen, r"\033\[3[26]m")

    def test_information_fits(self):
        """Every line of the chat itself, except the messages that were typed."""
        for columns in [60, 80]:
            terminal = self.chat(*CHAT, "--chain", "ngram > mxfp4", "--verbose", columns=columns)
            for command in ["/help", "/stats on", "Hello", "/stats", "/chain", "/chain nonsense", "/system", "/load x"]:
                terminal.send(command + "\n")
                terminal.wait_for_prompt()
            self.leave(terminal)
            for line in re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", terminal.screen).split("\r\n"):
                self.assertLessEqual(len(line.split("\r")[-1]), columns)

    def test_reading_is_announced(self):
        """Before the first part of a long text is read; the line is gone when the answer comes."""
        terminal = self.chat(*CHAT, env={"RIFFLE_CPU": "scalar"})
        self.ask(terminal, "Once upon a time there was a cat. " * 12 + "\n")
        total = re.search(r"reading (\d+) tokens, 0 %", terminal.screen)
        self.assertTrue(total, terminal.screen)
        self.assertGreater(int(total[1]), 64)
        self.assertFalse([line for line in Screen(80).show(terminal.screen) if "reading" in line])
        mark = len(terminal.screen)
        self.ask(terminal, "Hi\n")
        self.assertNotIn(", 0 %", terminal.screen[mark:])  # a short text is not
        self.leave(terminal)

    def test_resize_at_the_prompt(self):
        terminal = self.chat(*CHAT, columns=120)
        text = "a line that is longer than sixty columns after the window has another size"
        terminal.send(text)
        terminal.wait_for("another size")
        terminal.resize(60)
        terminal.wait_for_match("another.*size")
        screen = Screen(60)  # a terminal has broken the line by itself
        screen.show("> " + text)
        self.assertEqual(screen.show(terminal.screen[terminal.mark:]), ["> " + text[:58].rstrip(), text[58:]])
        self.assertEqual(screen.row, 1)
        self.ask(terminal, "!\n")
        self.assertEqual(self.saved(terminal, "a.json")[0]["content"], text + "!")
        self.leave(terminal)

    def test_resize_within_an_answer(self):
        terminal = self.chat(*LONG, env={"RIFFLE_CPU": "scalar"}, columns=120)
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"story\r\n[^\r\n]")
        terminal.resize(40)
        terminal.wait_for_match(3 * r"\r\n[^\r\n]{20,40}(\r\033\[\d+C\033\[K)?" + r"\r\n")
        terminal.send("\x03")
        terminal.wait_for_prompt()
        self.leave(terminal)

    def test_typing_is_not_echoed(self):
        """What is typed during an answer is not shown in it, and the next line begins with it."""
        terminal = self.chat(*LONG, "--max-tokens", "40", env={"RIFFLE_CPU": "scalar"})
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"story\r\n[^\r\n]")
        self.assertEqual(terminal.modes(), termios.ISIG)
        terminal.send("typed ahead")
        terminal.wait_for_match(r"typed ahead\Z")
        self.assertRegex(terminal.screen[terminal.mark:], r"(?s)tokens/s.*>(\033\[0m)? typed ahead\Z")
        self.assertEqual(terminal.screen.count("typed ahead"), 1)
        terminal.send("\x15")
        self.leave(terminal)

    def test_terminal_is_given_back(self):
        """However the chat ends, and wherever it is."""
        ends = {signal.SIGTERM: "", signal.SIGHUP: "", None: "/exit\n"}
        for number, keys in ends.items():
            for message in ["", "Tell me a story\n"]:
                terminal = Terminal(self, *LONG, env={"RIFFLE_CPU": "scalar"})
                before = termios.ECHO | termios.ICANON | termios.ISIG
                terminal.wait_for_prompt()
                self.assertNotEqual(terminal.modes(), before)
                if message and number:
                    terminal.send(message)
                    terminal.wait_for_match(r"story\r\n[^\r\n]")
                terminal.send(keys)
                if number:
                    os.kill(terminal.pid, number)
                self.assertEqual(terminal.leave(), -number if number else 0)
                self.assertEqual(terminal.modes(), before)
                self.assertGreater(terminal.screen.rfind("\033[?2004l"), terminal.screen.rfind("\033[?2004h"))

    def test_tab_completes_commands(self):
        terminal = self.chat(*CHAT)
        for typed, completed in [("/st\tx", "/stats x"), ("/stats of\t", "/stats off"), ("/b\t", "/bye"),
                                 ("/chain a\t", "/chain auto"), ("/l\t\t", "/load"), ("/nothing\t", "/nothing")]:
            terminal.send(typed)
            terminal.wait_for_line(completed)
            terminal.send("\x15")
            terminal.wait_for_line("")
        terminal.send("/set \t")
        terminal.wait_for("repetition")
        for name in re.findall(r"^([a-z-]+) +\S+$", self.ok(*CHAT, stdin="/set\n").err, flags=re.M):
            self.assertRegex(terminal.screen, r"\s%s\s" % name)
        terminal.send("\x15")
        terminal.wait_for_line("")
        terminal.send("/s\t")
        terminal.wait_for_match("/save +/set +/stats +/system")
        terminal.wait_for_line("/s")
        self.leave_cleared(terminal)

    def leave_cleared(self, terminal):
        terminal.send("\x15")
        self.leave(terminal)

    def test_tab_completes_files(self):
        for name in ["one.json", "two of them.json", ".hidden.json", "bad\033[31m.json", "bad\u202e.json", "bad\u009b.json"]:
            self.path(name, "[]")
        os.mkdir(self.path("folder"))
        self.path("folder/inner.json", "[]")
        terminal = self.chat(*CHAT)
        for typed, path in [("/load o\t", "one.json"), ("/load two\t", "two of them.json"),
                            ("/load fol\tin\t", "folder/inner.json"), ("/load ~/on\t", self.path("one.json")),
                            ("/load .h\t", ".hidden.json")]:
            terminal.send(typed + "\n")
            terminal.wait_for("loaded 0 messages from " + path)
            terminal.wait_for_prompt()
        terminal.send("/load \t")
        terminal.wait_for("folder/           one.json          two of them.json")
        self.assertNotIn("bad", terminal.screen)
        self.leave_cleared(terminal)

    def test_tab_in_a_message(self):
        terminal = self.chat(*CHAT)
        self.ask(terminal, "on\te /st\t\n")
        self.assertEqual(self.saved(terminal, "a.json")[0]["content"], "one /st")
        self.leave(terminal)

    def test_stop_and_continue(self):
        """Nobody could continue a stopped session leader, so the system does not stop it."""
        terminal = self.chat(*CHAT)
        terminal.send("typed")
        terminal.wait_for("typed")
        terminal.send("\x1a")
        terminal.wait_for_match(r">(\033\[0m)? typed")
        self.leave_cleared(terminal)

    def test_dumb_terminal(self):
        for term in ["dumb", ""]:
            terminal = self.chat("chat", MODEL, "--template", "chatml", "--temp", "0", "--max-tokens", "60",
                                 env={"TERM": term}, columns=30)
            self.ask(terminal, "Hello\n")
            terminal.send("/clear\n")
            terminal.wait_for_prompt()
            self.leave(terminal)
            self.assertNotIn("\033", terminal.screen)


if __name__ == "__main__":
    main()
