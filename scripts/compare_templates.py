"""Renders many conversations with every *.jinja of a folder, by jinja2 as transformers calls it and by Riffle.

    scripts/compare_templates.py FOLDER [--program build/render_templates] [--show TEXT]

needs the package jinja2 and the program, which the build makes. Prints each rendering that differs, and each that one of
both refuses alone. Riffle may refuse what jinja2 renders in one case: the template drops a part of the conversation without a word.
Where Python alone fails, as it cannot write a generator as JSON, Riffle may render. Exits with 1 if something differs, or if
Riffle refuses alone.
"""
import argparse
import glob
import itertools
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import text_templates
from text_templates import CONVERSATIONS, TIME, WEATHER, calls

BOS, EOS = "<s>", "</s>"


def tool_call(name, arguments, wrapped=True, **more):
    function = {"name": name, "arguments": arguments}
    return dict({"type": "function", "function": function} if wrapped else function, **more)


def talks():
    """Conversations beside those of text_templates.py: what servers and agents send."""
    user = {"role": "user", "content": "What is the weather in Łódź?"}
    after = {"role": "user", "content": "Thanks 😀"}
    result = {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "{\"t\": 3}"}
    system = {"role": "system", "content": "Be brief."}
    arguments = [{"place": "Łódź", "days": [1, 2], "o": {"a": None, "b": True}}, "{\"place\": \"Łódź\"}", {}, "", None]
    for a, wrapped in itertools.product(arguments, (True, False)):
        call = tool_call("get_weather", a, wrapped, id="abcdefghi")
        for content in ("", None, "Let me see."):
            yield [user, {"role": "assistant", "content": content, "tool_calls": [call]}, result]
        yield [system, user, {"role": "assistant", "content": "", "tool_calls": [call, dict(call, id="123456789")]},
               result, dict(result, tool_call_id="123456789"), {"role": "assistant", "content": "3 °C"}, after]
        yield [user, {"role": "assistant", "tool_calls": [call]}, result, after]
        yield [user, {"role": "assistant", "content": "x", "reasoning_content": "why", "tool_calls": [call]}, result]
    yield [user, {"role": "assistant", "content": "x", "tool_calls": []}, after]
    yield [user, {"role": "assistant", "content": "x", "tool_calls": None}, after]
    yield [user, {"role": "assistant", "content": "x", "reasoning_content": None}, after]
    yield [user, {"role": "assistant", "content": None}, after]
    yield [user, {"role": "assistant", "content": "", "reasoning_content": "r\n\nr"}, after]
    yield [user, {"role": "assistant", "content": "<think>a</think>b", "reasoning_content": ""}, after]
    yield [system, {"role": "system", "content": "two"}, user]
    yield [{"role": "system", "content": [{"type": "text", "text": "parts"}]}, user]
    yield [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}]
    yield [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "text", "text": "b"}]}]
    yield [{"role": "user", "content": []}]
    yield [{"role": "user", "content": None}]
    yield [{"role": "user", "content": {"a": 1}}]
    yield [{"role": "user", "content": 12}]
    yield [user, {"role": "assistant", "content": [{"type": "text", "text": "parts"}]}, after]
    yield [user, {"role": "assistant", "content": "c", "tool_calls": [tool_call("f", {"x": 1.0, "y": 1e22, "z": -0.0})]},
           {"role": "tool", "content": [{"type": "text", "text": "r"}]}]
    yield [user, {"role": "assistant", "content": "c", "tool_calls": [tool_call("f", {"n": 12345678901234567})]},
           {"role": "tool", "content": {"r": 1}}]
    yield [user, {"role": "tool", "content": "no call before"}]
    yield [{"role": "developer", "content": "D"}, user]
    yield [{"role": "user", "content": "a"}, {"role": "user", "content": "b", "name": "Ann"}]
    yield [{"role": "user", "content": "É<b>'\"&\\\t\r\n\x7f\u200b\u2028"}, {"role": "assistant", "content": " x "}, user]
    yield [user, {"role": "assistant", "content": "x", "thinking": "t"}, after]
    yield [user, {"role": "assistant", "content": "x", "prefix": True}]
    yield [{"role": "user"}]


def conversations():
    bare = {"type": "function", "function": {"name": "f"}}
    odd = {"type": "function", "function": {"name": "odd", "description": "d", "parameters": {
        "type": "object", "properties": {
            "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "t": {"type": ["string", "null"]},
            "o": {"type": "object", "properties": {"k": {"type": "integer", "description": "K"}}},
            "e": {"enum": [1, "a", None]}, "d": {"type": "number", "default": 1.5, "nullable": True},
            "a": {"type": "array", "items": {"type": "object", "properties": {}}}}, "required": []}}}
    yield from CONVERSATIONS
    tool_sets = [None, [], [WEATHER], [WEATHER, TIME], [bare], [odd], [WEATHER["function"]]]
    for messages in talks():
        for tools in (None, [WEATHER, TIME]):
            yield {"messages": messages, "tools": tools}
    plain = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    for tools in tool_sets:
        yield {"messages": plain, "tools": tools}
        yield {"messages": plain[1:], "tools": tools}
    yield {"messages": plain}
    for more in ({"enable_thinking": True}, {"enable_thinking": False}, {"enable_thinking": None}, {"documents": []},
                 {"documents": [{"title": "T", "text": "é"}, {"title": "U", "text": ""}]}, {"thinking": True},
                 {"reasoning_effort": "low"}, {"reasoning_effort": None}, {"builtin_tools": ["browser", "python"]},
                 {"tools_in_user_message": False, "tools": [WEATHER]}, {"xml_tools": [WEATHER]}, {"tool_choice": "auto"},
                 {"date_string": "1 Jan 2025"}, {"model_identity": "I am."}, {"citation_mode": "fast", "tools": [TIME]},
                 {"continue_final_message": True}, {"add_vision_id": True}, {"custom_tools": [TIME]},
                 {"documents": [{"doc_id": 1, "title": "T", "text": "x"}], "tools": [WEATHER], "controls": {"length": "short"}},
                 {"preserve_thinking": True}, {"clear_thinking": False}, {"keep_cot": True}, {"json_schema": {"type": "object"}}):
        yield dict({"messages": plain}, **more)
        yield dict({"messages": plain[1:] + [{"role": "assistant", "content": "<think>\na\n</think>\n\nb",
                                              "reasoning_content": "r"}, plain[1]]}, **more)


class Riffle:
    def __init__(self, program):
        self.child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, conversation, generation):
        texts = [t.encode("utf-8", "surrogatepass") for t in (source, json.dumps(conversation, ensure_ascii=False), BOS, EOS)]
        self.child.stdin.write(b"%d %d %d %d %d\n" % (*map(len, texts), generation) + b"".join(texts))
        self.child.stdin.flush()
        code, n = self.child.stdout.readline().split()
        text = self.child.stdout.read(int(n)).decode("utf-8", "surrogateescape")
        return int(code), text


def compare(env, riffle, name, source, all_talks, show):
    counts = dict.fromkeys(("same", "both refuse", "drops a part", "ONLY JINJA2 RENDERS", "ONLY RIFFLE RENDERS",
                            "DIFFERENT"), 0)
    try:
        compiled = env.from_string(source)
    except Exception as e:
        compiled = e
    for talk in all_talks:
        for generation in (False, True):
            wanted = compiled
            if not isinstance(compiled, Exception):
                wanted = text_templates.render(env, compiled, text_templates.known_roles(source, talk), generation, BOS, EOS)
            code, text = riffle.render(source, talk, generation)
            if isinstance(wanted, Exception):
                kind = "both refuse" if code else "ONLY RIFFLE RENDERS"
            elif code and ("leaves out" in text or "does not know" in text):
                kind = "drops a part"
            else:
                kind = "ONLY JINJA2 RENDERS" if code else "same" if text == wanted else "DIFFERENT"
            counts[kind] += 1
            if kind.isupper() and show in name:
                print("%s: %s\n  %s\n  jinja2: %r\n  Riffle: %r" % (name, kind, json.dumps(talk, ensure_ascii=False)[:600],
                                                                   wanted, text))
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--program", default="build/render_templates")
    parser.add_argument("--show", default="", help="print the differences of templates whose name has this text")
    options = parser.parse_args()
    env, riffle = text_templates.environment(), Riffle(options.program)
    total = {}
    all_talks = list(conversations())
    for path in sorted(glob.glob(os.path.join(options.folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as f:
            counts = compare(env, riffle, os.path.basename(path), f.read(), all_talks, options.show)
        for kind, n in counts.items():
            total[kind] = total.get(kind, 0) + n
        if any(n for kind, n in counts.items() if kind.isupper()):
            print(os.path.basename(path), {k: n for k, n in counts.items() if n})
    print(total)
    return bool(total["DIFFERENT"] or total["ONLY JINJA2 RENDERS"])


if __name__ == "__main__":
    sys.exit(main())
