"""The page of `riffle serve` by what a user of Chromium sees. Skipped (77) where there is none. Most answers are scripted
(chromium.py), since no small model writes what they need."""

import json
import os
import sys
import threading
import time

from chromium import BROWSER, SECONDS, Browser, Scripted, delta, end
from harness import Case, main
from test_serve import Server

MARKDOWN = """# Title

Some *slanted*, **strong** and ~~gone~~ text with `a < b && c`, 1 < 2 &amp; [a link](https://example.org/?a=1&b=2).

| name | n |
|:-----|--:|
| one  | 1 |

1. first
   - inner
2. second

> quoted

```python
def f(x):
    return "<b>" + x  # why
```
"""
HOSTILE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2">

<b>bold?</b> [evil](javascript:window.ran=3) [odd](data:text/html,x) ![picture](https://example.org/a.png)

```html
<img src=x onerror="window.ran = 4">
```

```constructor
nothing
```
"""


class Page(Case):
    @classmethod
    def setUpClass(cls):
        cls.host = Case()
        cls.host.setUp()
        cls.addClassCleanup(cls.host.doCleanups)
        cls.server = Server(cls.host)
        cls.browser = Browser(cls.host.env)
        cls.addClassCleanup(cls.browser.close)

    def open(self, **options):
        """A tab on a server of its own, whose port is another origin: nothing is kept there yet."""
        self.script = Scripted(self.server.port, **options)
        self.addCleanup(self.script.close)
        return self.tab_at(self.script.url)

    def tab_at(self, url):
        tab = self.browser.open(url)
        self.addCleanup(tab.close)
        self.addCleanup(lambda: self.assertEqual(tab.faults(), []))
        tab.wait("document.querySelector('#log')?.childNodes.length")
        return tab

    def say(self, tab, text, *events):
        if events:
            self.script.answers.put(events)
        tab.enter("Message", text)
        tab.key("Enter")

    def talk(self, tab, text, answer):
        """A question and its whole answer."""
        self.say(tab, text, delta(role="assistant", content=""), delta(content=answer), *end(5))
        self.ended(tab)

    def ended(self, tab):
        tab.wait("named('Send').length && document.querySelector('#status').innerText.startsWith('Answered')")

    def test_real_answers(self):
        server = Server(self)
        tab = self.tab_at("http://127.0.0.1:%d/" % server.port)
        self.say(tab, "Tell <b>me</b>")
        self.ended(tab)
        self.assertEqual(tab.texts(".user .text"), ["Tell <b>me</b>"])
        self.assertTrue(tab.texts(".assistant .text")[0])
        self.assertRegex(tab.texts(".assistant small")[0], r"^%s · \d+ tokens" % server.model)
        tab.press("Regenerate")
        tab.see("2/2")
        self.ended(tab)
        self.assertEqual(len(tab.texts(".assistant")), 1)
        server.stop()
        self.say(tab, "And now?")
        tab.wait("document.querySelector('.error[role=alert]')?.innerText")

    def test_stream_and_stop(self):
        tab, hold = self.open(), threading.Event()
        self.say(tab, "Count", delta(content="one two"), hold, delta(content=" three"), *end())
        tab.see("one two", ".assistant")
        tab.see("Answering")
        self.assertEqual(tab.value("named('Send').length"), 0)
        tab.key("Escape")
        tab.see("Stopped")
        self.assertTrue(self.script.gone.wait(SECONDS))
        self.assertEqual(tab.texts(".assistant .text"), ["one two"])
        self.script.gone.clear()
        self.say(tab, "Again", delta(content="four"), hold, *end())
        tab.see("four", "#log")
        tab.press("Stop")
        tab.see("Stopped")
        self.assertTrue(self.script.gone.wait(SECONDS))
        self.assertEqual([m["content"] for m in self.script.requests[1]["messages"]], ["Count", "one two", "Again"])
        self.assertEqual(tab.texts(".error"), [])

    def test_keys(self):
        tab = self.open()
        tab.enter("Message", "a")
        tab.key("Enter", shift=True)
        tab.call("Input.insertText", text="b")
        self.assertEqual(tab.value("named('Message')[0].value"), "a\nb")
        self.assertEqual(tab.texts(".user"), [])
        self.script.answers.put([delta(content="yes"), *end(1)])
        tab.key("Enter")
        self.ended(tab)
        self.assertEqual(self.script.requests[0]["messages"], [{"role": "user", "content": "a\nb"}])
        self.assertEqual(tab.value("nameOf(document.activeElement)"), "Message")

    def test_markdown(self):
        tab = self.open()
        tab.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.talk(tab, "Show", MARKDOWN)
        text = tab.texts(".assistant .text")[0]
        self.assertIn("text with a < b && c, 1 < 2 & a link.", text)
        for selector, shown in (("h3", "Title"), ("em", "slanted"), ("strong", "strong"), ("del", "gone"), ("th", "name"),
                                ("ol > li > ul > li", "inner"), ("blockquote", "quoted"), (".token.keyword", "def"),
                                (".token.string", '"<b>"'), (".token.comment", "# why")):
            self.assertEqual(tab.texts(".assistant .text " + selector)[0], shown)
        self.assertEqual(tab.value("document.querySelector('.text a').href"), "https://example.org/?a=1&b=2")
        self.assertNotEqual(*(tab.value("getComputedStyle(document.querySelector('.token.%s')).color" % kind)
                              for kind in ("keyword", "string")))
        tab.press("Copy code")
        tab.see("Copied", ".code")
        self.assertEqual(tab.value("navigator.clipboard.readText()"), 'def f(x):\n    return "<b>" + x  # why')
        tab.press("Copy message")
        tab.see("Copied", ".assistant footer")
        self.assertEqual(tab.value("navigator.clipboard.readText()").replace("\r", ""), MARKDOWN)

    def test_hostile_answers(self):
        tab = self.open()
        self.say(tab, HOSTILE, delta(reasoning_content=HOSTILE), *[delta(content=HOSTILE[i:i + 7])
                                                                  for i in range(0, len(HOSTILE), 7)], *end(9))
        self.ended(tab)
        text = tab.texts(".assistant .text")[0]
        for shown in ("<script>window.ran = 1</script>", "<b>bold?</b>", "evil", "odd", "nothing"):
            self.assertIn(shown, text)
        self.assertEqual(tab.value("document.querySelectorAll('#log :is(script, img, b, iframe, style)').length"), 0)
        self.assertEqual(tab.value("[...document.querySelectorAll('#log a')].map(a => a.href)"), ["https://example.org/a.png"])
        self.assertIsNone(tab.value("window.ran"))
        refused = tab.call("Runtime.evaluate", expression="document.body.innerHTML = '<b>'")
        self.assertIn("exceptionDetails", refused)
        tab.events.clear()

    def test_thoughts(self):
        tab, hold = self.open(), threading.Event()
        self.say(tab, "Think", delta(reasoning_content="Let me see. "), hold, delta(reasoning_content="Yes."),
                 delta(content="Done."), *end(4))
        tab.see("Thinking", ".assistant")
        self.assertFalse(any("Let me see" in text for text in tab.texts(".assistant")))
        hold.set()
        self.ended(tab)
        tab.press("Thoughts")
        tab.see("Let me see. Yes.", ".thoughts")
        self.talk(tab, "More", "More.")
        self.assertEqual(self.script.requests[1]["messages"][1],
                         {"role": "assistant", "content": "Done.", "reasoning_content": "Let me see. Yes."})

    def test_tools(self):
        tab = self.open()
        tools = [{"type": "function", "function": {"name": "age_of", "parameters": {"type": "object"}}}]
        tab.press("More")
        tab.press("Settings")
        tab.wait("document.querySelector('#settings').open")
        tab.value("document.querySelector('#settings [name=tools]').focus()")
        tab.call("Input.insertText", text="{")
        tab.press("Save")
        tab.see("Tools are not JSON")
        tab.value("document.querySelector('#settings [name=tools]').select()")
        tab.call("Input.insertText", text=json.dumps(tools))
        tab.press("Save")
        tab.see("Settings saved", "#status")
        call = {"id": "c1", "type": "function", "function": {"name": "age_of", "arguments": '{"name":"Tom"}'}}
        self.say(tab, "How old?", delta(tool_calls=[dict(call, index=0)]), *end(7, reason="tool_calls"))
        self.ended(tab)
        self.assertEqual(self.script.requests[0]["tools"], tools)
        tab.press("Call of age_of")
        tab.see('"name": "Tom"', ".call")
        tab.value("document.querySelector('.results textarea').focus()")
        tab.call("Input.insertText", text="7 years")
        self.script.answers.put([delta(content="Tom is seven."), *end(3)])
        tab.press("Send results")
        tab.see("Tom is seven.", "#log")
        self.ended(tab)
        self.assertEqual(self.script.requests[1]["messages"][1:], [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "7 years", "tool_call_id": "c1"}])
        self.assertEqual(tab.texts(".results"), [])

    def test_branches(self):
        tab = self.open()
        self.talk(tab, "First", "Answer A")
        self.script.answers.put([delta(content="Answer B"), *end(1)])
        tab.press("Regenerate")
        tab.see("Answer B", "#log")
        self.ended(tab)
        self.talk(tab, "Then", "Answer C")
        tab.press("Edit message", 0)
        self.script.answers.put([delta(content="Answer D"), *end(1)])
        tab.enter("Edited message", "Other")
        tab.key("Enter")
        tab.see("Answer D", "#log")
        self.ended(tab)
        self.assertEqual(tab.texts(".text"), ["Other", "Answer D"])
        self.assertEqual(self.script.requests[-1]["messages"], [{"role": "user", "content": "Other"}])
        tab.press("Earlier version", 0)
        tab.see("Answer C", "#log")
        self.assertEqual(tab.texts(".text"), ["First", "Answer B", "Then", "Answer C"])
        tab.press("Earlier version")
        tab.see("Answer A", "#log")
        self.assertEqual(tab.texts(".text"), ["First", "Answer A"])
        tab.press("Later version")
        tab.see("Answer C", "#log")
        tab.press("Edit message")
        tab.wait("named('Edited message').length")
        tab.key("Escape")
        tab.wait("!named('Edited message').length")
        self.assertEqual(len(self.script.requests), 4)

    def test_conversations(self):
        tab = self.open()
        self.talk(tab, "Of apples", "They are red.")
        tab.press("New conversation")
        tab.see("Ask something")
        self.talk(tab, "Of pears", "They are green.")
        self.assertEqual(tab.texts("#list button"), ["Of pears", "Of apples"])
        tab.go(self.script.url)
        tab.wait("document.querySelectorAll('#list button').length == 2")
        tab.enter("Search conversations", "ARE RED")
        tab.wait("document.querySelectorAll('#list button').length == 1")
        tab.press("Of apples")
        tab.see("They are red.", "#log")
        self.assertEqual(tab.value("document.title"), "Of apples – Riffle")
        tab.call("Page.reload")
        tab.wait("document.title == 'Of apples – Riffle' && document.querySelectorAll('#list button').length == 2")
        tab.see("They are red.", "#log")
        tab.press("More")
        tab.press("Delete conversation")
        tab.see("Conversation deleted.")
        self.assertEqual(tab.texts("#list button"), ["Of pears"])
        tab.press("Undo")
        tab.see("They are red.", "#log")
        hold = threading.Event()
        self.say(tab, "And?", delta(content="Well"), hold, *end())
        tab.see("Well", "#log")
        tab.press("Of pears")
        tab.see("They are green.", "#log")
        self.say(tab, "Me too")
        tab.see("An answer is under way")
        hold.set()
        self.ended(tab)
        self.assertEqual(tab.texts(".text"), ["Of pears", "They are green."])
        tab.press("Of apples")
        tab.see("Well", "#log")
        self.say(tab, "More", delta(content="So"), threading.Event(), *end())
        tab.see("So", "#log")
        tab.press("More")
        tab.press("Delete conversation")
        tab.see("Ask something")
        tab.go(self.script.url)
        tab.wait("document.querySelectorAll('#list button').length == 1")
        tab.press("Of pears")
        tab.see("They are green.", "#log")

    def saved_file(self, name):
        path, limit = self.path(name), time.monotonic() + SECONDS
        while not (os.path.exists(path) and os.path.getsize(path)):
            self.assertLess(time.monotonic(), limit, os.listdir(self.folder))
            time.sleep(0.02)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_export(self):
        tab = self.open()
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.folder)
        self.talk(tab, "Of apples & pears", "They are **fruit**.")
        tab.press("More")
        tab.press("Export as Markdown")
        self.assertEqual(self.saved_file("Of-apples-pears.md"), "# Of apples & pears\n\n## User\n\nOf apples & pears\n\n"
                                                                "## Assistant\n\nThey are **fruit**.\n")
        tab.press("More")
        tab.press("Export as JSON")
        whole = json.loads(self.saved_file("Of-apples-pears.json"))
        question = whole["root"]["children"][0]
        self.assertEqual((question["content"], question["children"][0]["content"]), ("Of apples & pears", "They are **fruit**."))

    def choose_file(self, tab, selector, *paths):
        root = tab.call("DOM.getDocument")["root"]["nodeId"]
        field = tab.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        tab.call("DOM.setFileInputFiles", nodeId=field, files=paths)

    def test_import(self):
        tab = self.open()
        message = {"role": "assistant", "content": "They are <b>**fruit**</b>.", "chosen": 0, "children": []}
        whole = {"title": "Of apples", "settings": {"system": "Be brief."}, "root": {"chosen": 0, "children": [
            {"role": "user", "content": "What are apples?", "chosen": 1, "children": [dict(message, content="No."), message]}]}}
        self.choose_file(tab, "#exported", self.path("apples.json", json.dumps(whole)))
        tab.see("Imported", "#status")
        self.assertEqual((tab.texts("#title"), tab.texts(".user .text")), (["Of apples"], ["What are apples?"]))
        tab.see("2/2", ".assistant")
        self.assertEqual(tab.texts(".assistant strong"), ["fruit"])
        self.talk(tab, "And pears?", "Too.")
        self.assertEqual([m["content"] for m in self.script.requests[0]["messages"]],
                         ["Be brief.", "What are apples?", "They are <b>**fruit**</b>.", "And pears?"])
        for text, says in (("{", "bad.json could not be imported: it is not JSON"), ("{}", "it has no messages"),
                           ('{"root": {"children": [{}]}}', "a message has no role"), ('{"root": {"children": 1}}', "no list"),
                           ('{"root": {"children": [{"role": "user", "content": 1, "children": []}]}}', "content of a message")):
            self.choose_file(tab, "#exported", self.path("bad.json", text))
            tab.see(says, "#status")
        self.assertEqual(len(tab.texts("#list button")), 1)

    def test_levels(self):
        tab = self.open()
        pieces = [delta(content=text) for text in ("An **ap", "ple", " is**", " round.")]
        for piece, level in zip(pieces, (0, 1, 1, 2)):
            piece["choices"][0]["level"] = level
        self.say(tab, "What is it?", delta(role="assistant", content=""), *pieces, *end(4, 3))
        self.ended(tab)
        self.assertIs(self.script.requests[0]["stream_options"]["include_levels"], True)
        self.assertEqual(tab.texts(".assistant strong"), ["apple is"])
        tab.press("More")
        tab.press("Show drafted tokens")
        self.assertEqual(tab.texts(".levels span"), ["An **ap", "ple is**", "round."])
        self.assertEqual(tab.texts(".levels .level1"), ["ple is**"])
        self.assertEqual(tab.texts(".legend span"), ["the model's own", "drafted by level 1", "drafted by level 2"])
        tab.press("More")
        tab.press("Show drafted tokens")
        self.assertEqual(tab.texts(".assistant strong"), ["apple is"])

    def test_settings_and_models(self):
        tab = self.open(models=("one", "two"))
        tab.press("More")
        tab.press("Settings")
        for name, text in (("system", "Be brief."), ("temperature", "0.5"), ("top_k", "40"), ("seed", "7"), ("max_tokens", "9")):
            tab.value("document.querySelector('#settings [name=%s]').focus()" % name)
            tab.call("Input.insertText", text=text)
        tab.value("document.querySelector('#settings [name=thoughts]').value = 'off'")
        tab.press("Save")
        tab.see("Settings saved", "#status")
        tab.wait("named('Model').length")
        tab.value("named('Model')[0].value = 'two'")
        self.say(tab, "Hi", delta(content="Hello"), *end(40, drafted=30, reason="length"))
        self.ended(tab)
        request = self.script.requests[0]
        self.assertEqual({k: request[k] for k in request if not k.startswith("stream")}, {
            "model": "two", "temperature": 0.5, "top_k": 40, "seed": 7, "max_tokens": 9,
            "chat_template_kwargs": {"enable_thinking": False},
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})
        self.assertRegex(tab.texts(".assistant small")[0],
                         r"^two · 40 tokens( · [0-9.]+ tokens/s)? · 75 % drafted · cut by the limit$")

    def test_files(self):
        tab = self.open()
        text, other = self.path("notes.txt", "first\n```\nlast\n"), self.path("picture.bin", b"\x89PNG\0")
        self.choose_file(tab, "#file", text, other)
        tab.see("notes.txt", "#files")
        tab.see("picture.bin is not a text in UTF-8.")
        self.talk(tab, "Read it", "I did.")
        self.assertEqual(self.script.requests[0]["messages"][0]["content"],
                         "Read it\n\nnotes.txt:\n````\nfirst\n```\nlast\n````")
        self.assertEqual(tab.texts("#files li"), [])
        self.assertEqual(tab.texts(".user .text"), ["Read it"])
        tab.press("notes.txt")
        tab.see("last", ".file")

    def test_key(self):
        tab = self.open(key="secret")
        tab.see("This server needs an API key")
        tab.press("Cancel")
        tab.see("the API key is missing or wrong", "#status")
        tab.call("Page.reload")
        tab.see("This server needs an API key")
        for key, then in (("wrong", "That key is wrong."), ("secret", "Ask something")):
            tab.wait("document.querySelector('#key').open")
            tab.value("document.querySelector('#key input').focus()")
            tab.value("document.querySelector('#key input').value = '%s'" % key)
            if key == "wrong":
                tab.press("Use key")
            else:
                tab.key("Enter")
            tab.see(then)
        tab.wait("sessionStorage.getItem('key') === 'secret'")
        tab.wait("!document.querySelector('#key').open")
        self.talk(tab, "Hi", "Hello")
        tab.see("Hello", "#log")

    def test_no_key(self):
        tab = self.open()
        self.talk(tab, "Hi", "Hello")
        self.assertFalse(tab.value("document.querySelector('#key').open"))

    def test_failures(self):
        tab = self.open()
        self.script.answers.put((400, "the conversation is too long"))
        self.say(tab, "Hi")
        tab.see("the conversation is too long", ".assistant [role=alert]")
        self.say(tab, "Hi", delta(content="Hal"))
        tab.see("the connection broke off", "#log")
        self.say(tab, "Hi", {"error": {"message": "out of memory"}})
        tab.see("out of memory", "#log")
        self.script.answers.put([delta(content="Whole."), *end(2)])
        tab.press("Regenerate")
        tab.see("Whole.", "#log")
        self.ended(tab)

    def test_screen_reader(self):
        tab = self.open(models=("one", "two"))
        self.talk(tab, "Hi", "Hello\n\n```c\nint x;\n```")
        tab.wait("named('Model').length")
        nodes = [n for n in tab.call("Accessibility.getFullAXTree")["nodes"] if not n["ignored"]]
        all_named = {(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes}
        for wanted in (("navigation", "Conversations"), ("log", "Messages"), ("textbox", "Message"), ("button", "Send"),
                       ("searchbox", "Search conversations"), ("combobox", "Model"), ("article", "You"),
                       ("article", "Answer"), ("button", "Copy code"), ("button", "Regenerate"), ("button", "Edit message")):
            self.assertIn(wanted, all_named)
        self.assertEqual([role for role, name in all_named if not name
                          and role in ("button", "textbox", "searchbox", "combobox", "link", "dialog")], [])
        self.assertIn("status", {role for role, _ in all_named})

    def test_narrow_and_dark(self):
        tab = self.open(models=("one", "a-model-with-a-long-name-Q4_K_M"))
        light = tab.value("getComputedStyle(document.body).backgroundColor")
        tab.call("Emulation.setDeviceMetricsOverride", width=390, height=700, deviceScaleFactor=1, mobile=True)
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        tab.wait("getComputedStyle(document.body).backgroundColor != %s" % json.dumps(light))
        self.talk(tab, "x" * 100, "y" * 100 + MARKDOWN + "| a |\n|---|\n| %s |\n" % ("z" * 100))
        tab.wait("innerWidth == 390")
        self.assertLessEqual(tab.value("document.documentElement.scrollWidth"), 390)
        self.assertEqual(tab.value("[...document.querySelectorAll('header *, #composer *, article > *')].filter(seen)"
                                   ".filter(node => node.getBoundingClientRect().right > 390).map(node => node.outerHTML)"), [])
        tab.wait("!named('New conversation').length")
        tab.press("Conversations")
        tab.wait("named('New conversation').length")
        tab.press("New conversation")
        tab.see("Ask something")
        tab.wait("!named('New conversation').length")


if __name__ == "__main__":
    if not BROWSER:
        sys.exit(77)
    main()
