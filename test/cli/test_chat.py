"""chat over a pipe, and at a terminal."""

import json
import os
import signal

from harness import MODEL, Case, Terminal, main

CHAT = ["chat", MODEL, "--template", "chatml", "--max-tokens", "6"]
# Random tokens on the scalar tier, which are the same on every machine and take a while.
LONG = ["chat", MODEL, "--template", "chatml", "--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0",
        "--seed", "4"]


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
        for command in ["/help", "/stats", "/chain", "/save", "/load", "/reset", "/system", "/exit"]:
            self.assertIn(command, result.err)
        self.assertEqual(result.out.count("\n"), self.ok(*CHAT, stdin="Hi\n").out.count("\n"))

    def test_wrong_commands(self):
        self.fails(1, *CHAT, stdin="/sav x\n", says=["/sav", "did you mean /save?"])
        self.fails(1, *CHAT, stdin="/etc/passwd\n", says="/etc/passwd")
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
        self.assertIn("(choose with --ctx)", result.err)

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


class AtTerminal(Case):
    def saved(self, terminal, name):
        """What the program has as messages, through /save."""
        terminal.send("/save %s\n" % name)
        terminal.wait_for("saved ")
        terminal.wait_for_prompt()
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)["messages"]

    def chat(self, *arguments, env=None):
        terminal = Terminal(self, *arguments, env=env)
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
        terminal.wait_for_match(r"\033\[\?2004l.+\033\[\?2004h")
        self.assertNotRegex(terminal.screen[terminal.mark:], r"\033\[3[26]m")
        terminal.send("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_interrupt_stops_the_answer_only(self):
        terminal = self.chat(*LONG, env={"RIFFLE_CPU": "scalar"})
        terminal.send("Tell me a story\n")
        terminal.wait_for_match(r"\033\[\?2004l.+")
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
        terminal.wait_for_match(r"\033\[\?2004l.+")
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


if __name__ == "__main__":
    main()
