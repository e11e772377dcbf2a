"""serve: OpenAI's interface, as its Python package, curl and plain sockets use it."""

import base64
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from harness import MODEL, RIFFLE, TIMEOUT, Case, main, with_template
from model_files import U32, Folder, Gguf, spm_vocabulary

try:
    import openai
except ImportError:
    openai = None
try:
    import jsonschema
except ImportError:
    jsonschema = None

CHAT, COMPLETE, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
STORY = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0}
HI = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "temperature": 0}
TOOLS = [{"type": "function", "function": {"name": "age_of", "description": "Says how old somebody is.", "parameters": {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"$ref": "#/$defs/years"}},
    "required": ["name", "age"], "additionalProperties": False,
    "$defs": {"years": {"type": "integer", "minimum": 0, "maximum": 9}}}}},
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
        "now": {"type": "boolean"}}, "required": ["now"], "additionalProperties": False}}}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer",
          "minimum": 0, "maximum": 99}}, "required": ["name", "age"], "additionalProperties": False}


OPENAPI = json.loads((pathlib.Path(__file__).resolve().parents[2] / "src/program/serve/openapi.json").read_text())


def conforms(name, value):
    """The value is what the server's own document calls `name`."""
    if jsonschema:
        schema = {"$ref": "#/components/schemas/" + name, "components": OPENAPI["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)


def resolved(value):
    """The part of the document that a reference names."""
    while "$ref" in value:
        keys = value["$ref"].removeprefix("#/").split("/")
        value = OPENAPI
        for key in keys:
            value = value[key.replace("~1", "/")]
    return value


def check_reply(method, path, status, value):
    """The document has such a reply."""
    path = re.sub("^((?:/v1)?)/models/.+", r"\1/models/{model}", path.split("?")[0])
    if status >= 400 and path != "/health":
        conforms("MessagesError" if path.startswith(("/v1/messages", "/messages")) else
                 "OllamaError" if path.startswith("/api/") else "Error", value)
    methods = resolved(OPENAPI["paths"].get(path, {}))
    if method.lower() not in methods:
        assert status in (404, 405), (path, status)
        return
    reply = resolved(methods[method.lower()]["responses"][str(status)])
    schema = reply["content"].get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        conforms(schema["$ref"].rsplit("/", 1)[1], value)


class Server:
    def __init__(self, case, *arguments, env=None, model=MODEL, template="chatml"):
        self.process = case.start("serve", model, *(["--template", template] if template else []), "--port", "0",
                                  *arguments, env=env)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read().decode())
        event = json.loads(line)
        case.assertEqual(event["event"], "listening")
        self.port, self.model = event["port"], event["model"]

    def send(self, method, path, body=None, headers=()):
        """The open connection and the response, whose body is not read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, {"Content-Type": "application/json", **dict(headers)})
        return connection, connection.getresponse()

    def ask(self, method, path, body=None, headers=()):
        connection, response = self.send(method, path, body, headers)
        text = response.read().decode()
        connection.close()
        value = json.loads(text) if "json" in response.headers["Content-Type"] else text
        check_reply(method, path, response.status, value)
        return response.status, value

    def post(self, path, body):
        status, reply = self.ask("POST", path, body)
        if status != 200:
            raise AssertionError("%d: %s" % (status, reply))
        return reply

    def text(self, body):
        choice = self.post(COMPLETE, body)["choices"][0]
        return choice["text"]

    def events(self, path, body):
        connection, response = self.send("POST", path, dict(body, stream=True))
        assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream")
        text = response.read().decode()
        connection.close()
        assert text.endswith("data: [DONE]\n\n"), text
        chunks = [json.loads(part[6:]) for part in text.split("\n\n")[:-2]]
        for chunk in chunks:
            conforms("ChatChunk" if path == CHAT else "CompletionChunk", chunk)
        return chunks

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if re.match(re.escape("riffle_" + name) + r'(\{model="[^"]*"\})? ', line))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


class OneServer(Case):
    """Tests that share a server, as starting one takes longer than most of them."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.host = Case()
        cls.host.setUp()
        cls.addClassCleanup(cls.host.doCleanups)
        cls.server = Server(cls.host, *cls.arguments)


class Answers(OneServer):
    def test_same_as_run(self):
        run = self.json("run", MODEL, "--raw", "-p", STORY["prompt"], "--max-tokens", "40")
        reply = self.server.post(COMPLETE, STORY)
        self.assertEqual(reply["choices"][0]["text"], run["text"])
        self.assertEqual(reply["object"], "text_completion")
        self.assertEqual(reply["usage"]["completion_tokens"], run["generated_tokens"])
        self.assertEqual(reply["usage"]["prompt_tokens"], run["prompt_tokens"])
        run = self.json("run", MODEL, "--template", "chatml", "-p", "A dog", "--system", "Tell a story.", "--temp", "0.8",
                        "--seed", "7", "--max-tokens", "40")
        reply = self.server.post(CHAT, {"messages": [{"role": "system", "content": "Tell a story."},
                                                     {"role": "user", "content": [{"type": "text", "text": "A "},
                                                                                  {"type": "text", "text": "dog"}]}],
                                        "temperature": 0.8, "seed": 7, "max_completion_tokens": 40})
        self.assertEqual(reply["choices"][0]["message"], {"role": "assistant", "content": run["text"]})
        self.assertEqual(reply["object"], "chat.completion")

    def test_together_as_alone(self):
        bodies = [{"prompt": "Once upon a time, %s" % name, "max_tokens": 20 + 3 * i, "seed": i,
                   "temperature": i % 3 / 2, "stream": False} for i, name in enumerate(
                       ["Tom", "Lily", "a dog", "a cat", "the sun", "Tom and Lily", "mom", "a big red ball"] * 3)]
        alone = [self.server.text(body) for body in bodies]
        self.assertGreater(len(set(alone)), 12)
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as threads:
            self.assertEqual(list(threads.map(self.server.text, bodies)), alone)

    def test_streams(self):
        whole = self.server.post(COMPLETE, STORY)["choices"][0]
        events = self.server.events(COMPLETE, dict(STORY, stream_options={"include_usage": True}))
        self.assertEqual("".join(e["choices"][0]["text"] for e in events[:-1]), whole["text"])
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], whole["finish_reason"])
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["total_tokens"],
                         events[-1]["usage"]["prompt_tokens"] + events[-1]["usage"]["completion_tokens"])
        self.assertGreater(len(events), 10)
        self.assertEqual({e["usage"] for e in events[:-1]}, {None})
        self.assertEqual(len({e["id"] for e in events}), 1)
        events = self.server.events(CHAT, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5})
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(events[-1]["choices"][0]["delta"], {})

    def test_stop(self):
        text = self.server.text(STORY)
        stop = text.split()[6]
        reply = self.server.post(COMPLETE, dict(STORY, stop=["never in here", stop]))
        self.assertEqual(reply["choices"][0]["text"], text[:text.index(stop)])
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertEqual(self.server.text(dict(STORY, stop=stop)), text[:text.index(stop)])

    def test_harmless_members(self):
        """What changes no answer is taken and ignored."""
        more = {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto", "safety_identifier": "s",
                "prompt_cache_key": "k", "prediction": {"type": "content", "content": "x"}, "modalities": ["text"],
                "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "functions": [], "audio": None,
                "frequency_penalty": 0, "presence_penalty": None, "echo": False, "suffix": "", "logit_bias": None,
                "stream_options": None, "top_p": 1, "n": 1, "response_format": {"type": "text"}}
        self.assertEqual(self.server.post(CHAT, dict(HI, **more))["choices"], self.server.post(CHAT, HI)["choices"])
        self.assertEqual(self.server.text(dict(STORY, **more)), self.server.text(STORY))

    def test_valid_json(self):
        """What nobody reads may be any JSON; of members with one name the last counts; null is absent."""
        more = '"metadata":{"a":1e999,"x":[1e400,-1E-400,18446744073709551616,"\\u0000",{"\\u0000":1.10}]}'
        body = '{%s,"prompt":"a","prompt":"Once upon a time","max_tokens":4e1,"temperature":0.0}' % more
        self.assertEqual(self.server.text(body), self.server.text(STORY))
        absent = [name for name in OPENAPI["components"]["schemas"]["CompletionRequest"]["properties"]
                  if name not in {"prompt", "max_tokens", "temperature"}]
        self.assertGreater(len(absent), 15)
        self.assertEqual(self.server.text(dict(STORY, **{name: None for name in absent})), self.server.text(STORY))

    def test_top_p_0(self):
        """The likeliest token, as at temperature 0."""
        wild = dict(STORY, temperature=2, top_p=0, seed=7)
        self.assertEqual(self.server.text(wild), self.server.text(STORY))
        self.assertEqual(self.json("run", MODEL, "--raw", "-p", STORY["prompt"], "--max-tokens", "40", "--temp", "2",
                                   "--top-p", "0")["text"], self.server.text(STORY))

    def test_schema_true(self):
        for schema in (True, {}):
            text = self.server.text(dict(STORY, temperature=1, seed=3, max_tokens=200, response_format={
                "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
            self.assertTrue(text and text[0] in '{["-0123456789tfn', text)
        status, reply = self.server.ask("POST", COMPLETE, dict(STORY, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": False}}))
        self.assertEqual(status, 400)
        self.assertIn("no JSON meets the schema", reply["error"]["message"])

    def test_logprobs_are_short(self):
        """The fewest digits that read back as the 32 bits of a float."""
        reply = self.server.post(CHAT, dict(HI, logprobs=True))
        for entry in reply["choices"][0]["logprobs"]["content"]:
            value = entry["logprob"]
            wide = struct.unpack("f", struct.pack("f", value))[0]
            self.assertTrue(all(struct.unpack("f", struct.pack("f", float("%.*g" % (n, value))))[0] != wide
                                for n in range(1, len(repr(abs(value)).replace(".", "").lstrip("0").split("e")[0].rstrip("0")))))

    def test_penalties(self):
        for options in ({"frequency_penalty": 1.5}, {"presence_penalty": -2}, {"frequency_penalty": 0.5, "presence_penalty": 1.25}):
            given = [v for name, value in options.items() for v in ("--" + name.replace("_", "-"), str(value))]
            run = self.json("run", MODEL, "--raw", "-p", STORY["prompt"], "--max-tokens", "40", *given)
            text = self.server.text(dict(STORY, **options))
            self.assertEqual(text, run["text"])
            self.assertNotEqual(text, self.server.text(STORY))

    def test_echo(self):
        text = self.server.text(STORY)
        self.assertEqual(self.server.text(dict(STORY, echo=True)), STORY["prompt"] + text)
        events = self.server.events(COMPLETE, dict(STORY, echo=True, n=2))
        for i in range(2):
            self.assertEqual("".join(c["text"] for e in events for c in e["choices"] if c["index"] == i), STORY["prompt"] + text)

    def test_echo_with_logprobs(self):
        """A text's log-probabilities are those that were told while it was written."""
        first = self.server.post(COMPLETE, dict(STORY, logprobs=2))["choices"][0]
        both = STORY["prompt"] + first["text"]
        body = dict(STORY, prompt=both, echo=True, logprobs=2, max_tokens=0)
        for one in (self.server.post(COMPLETE, body)["choices"][0], self.server.post(COMPLETE, body)["choices"][0]):
            found = one["logprobs"]
            self.assertEqual((one["text"], one["finish_reason"]), (both, "length"))
            self.assertEqual((found["token_logprobs"][0], found["top_logprobs"][0]), (None, None))
            for key in ("tokens", "token_logprobs", "top_logprobs"):
                self.assertEqual(found[key][-40:], first["logprobs"][key])
            offsets = found["text_offset"] + [len(both)]
            shown = [both[a:b] for a, b in zip(offsets, offsets[1:])]
            self.assertEqual(shown[0], "")  # of <s>
            self.assertEqual(" " + "".join(shown), "".join(found["tokens"][1:]))
        self.assertEqual(self.server.post(COMPLETE, body)["usage"]["completion_tokens"], 0)
        events = self.server.events(COMPLETE, dict(body, max_tokens=3, n=2))
        for i in range(2):
            streamed = [p for e in events for c in e["choices"] if c["index"] == i for p in c["logprobs"]["token_logprobs"]]
            self.assertEqual(streamed[:-3], found["token_logprobs"])

    def test_slow_schemas(self):
        """A schema that takes too long is refused, and holds others only until then."""
        slow = {"oneOf": [{"const": i} for i in range(60000)]}
        def ask(schema):
            return self.server.ask("POST", COMPLETE, dict(STORY, max_tokens=80, response_format={
                "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            first = threads.submit(ask, slow)
            status, reply = ask(SCHEMA)
            self.assertEqual(status, 200)
            self.assertEqual(set(json.loads(reply["choices"][0]["text"])), {"name", "age"})
            status, reply = first.result()
            self.assertEqual(status, 400)
            self.assertIn("takes too long to compile", reply["error"]["message"])

    def test_schema(self):
        for seed in range(2):
            text = self.server.text(dict(STORY, temperature=1, seed=seed, max_tokens=100, response_format={
                "type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}))
            person = json.loads(text)
            self.assertEqual(set(person), {"name", "age"})
            self.assertTrue(0 <= person["age"] <= 99)

    def test_beginnings_are_kept(self):
        messages = [{"role": "system", "content": "You are a story teller. " * 4}, {"role": "user", "content": "A dog"}]
        first = self.server.post(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0})
        self.assertLess(first["usage"]["prompt_tokens_details"]["cached_tokens"], 20)
        second = self.server.post(CHAT, {"messages": [messages[0], {"role": "user", "content": "A cat"}],
                                         "max_tokens": 12, "temperature": 0})
        self.assertGreater(second["usage"]["prompt_tokens_details"]["cached_tokens"], 20)
        again = self.server.post(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0})
        self.assertEqual(again["choices"], first["choices"])
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], first["usage"]["prompt_tokens"])

    def test_wrong_requests(self):
        refused = [
            (400, "JSON", COMPLETE, "{"), (400, "JSON", COMPLETE, ""), (400, "object", COMPLETE, "[]"),
            (400, "prompt", COMPLETE, {}), (400, "stop", COMPLETE, dict(STORY, stop="a\0")),
            (400, "model", COMPLETE, dict(STORY, model="a\0")), (400, "seed", COMPLETE, dict(STORY, seed=2 ** 63)),
            (400, "temperature", COMPLETE, '{"prompt":"a","temperature":1e400}'),
            (400, "max_tokens", COMPLETE, dict(STORY, max_tokens=2 ** 70)),
            (400, "top_p", COMPLETE, dict(STORY, top_p=-0.01)), (400, "prompt", COMPLETE, '{"prompt":1.10}'),
            (400, "messages", CHAT, '{"messages":1.10}'), (400, "messages[0]", CHAT, '{"messages":[1.10]}'),
            (400, "chat_template_kwargs", CHAT, dict(HI, chat_template_kwargs=1e22)),
            (400, "tools", CHAT, dict(HI, tools=[{"type": "function", "function": {"name": "f", "parameters": 1e22}}])),
            (400, "prompt", COMPLETE, {"prompt": [["a"], "b"]}), (400, "prompt", COMPLETE, {"prompt": []}),
            (400, "vocabulary", COMPLETE, {"prompt": [1, 99999]}), (400, "input", EMBED, {"input": 7}),
            (400, "encoding_format", EMBED, {"input": "a", "encoding_format": "hex"}),
            (400, "pooling", EMBED, {"input": "a", "pooling": "max"}), (400, "dimensions", EMBED, {"input": "a", "dimensions": 3}),
            (400, "n_ctx", EMBED, {"input": ["a", "a dog " * 2000]}), (400, "messages", CHAT, {"messages": []}),
            (400, "messages[0]", CHAT, {"messages": [{"role": "user"}]}),
            (400, "messages[0]", CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            (400, "no body", CHAT, {"messages": [{"role": "no body", "content": "a"}]}),
            (400, "temperature", COMPLETE, dict(STORY, temperature=-1)), (400, "seed", COMPLETE, dict(STORY, seed="x")),
            (400, "max_tokens", CHAT, dict(HI, max_tokens=0)), (400, "stop", COMPLETE, dict(STORY, stop=[1])),
            (400, "stop", COMPLETE, dict(STORY, stop=["x"] * 17)), (400, "stream", COMPLETE, dict(STORY, stream=1)),
            (400, "n is", COMPLETE, dict(STORY, n=17)), (400, "logprobs", COMPLETE, dict(STORY, logprobs=21)),
            (400, "frequency_penalty", COMPLETE, dict(STORY, frequency_penalty=2.1)),
            (400, "presence_penalty", CHAT, dict(HI, presence_penalty="much")),
            (400, "without echo", COMPLETE, dict(STORY, max_tokens=0)), (400, "echo", COMPLETE, dict(STORY, echo=1)),
            (400, "filling a gap", COMPLETE, dict(STORY, suffix="the end")),
            (400, "text", COMPLETE, dict(STORY, prompt=["a", "b"], suffix="the end")),
            (400, "tools does", CHAT, dict(HI, functions=[{"name": "f"}])), (400, "audio", CHAT, dict(HI, audio={"voice": "x"})),
            (400, "modalities", CHAT, dict(HI, modalities=["text", "audio"])),
            (400, "web_search_options", CHAT, dict(HI, web_search_options={"a": 1})),
            (400, "reasoning_effort", CHAT, dict(HI, reasoning_effort=3)),
            (400, "chat_template_kwargs", CHAT, dict(HI, chat_template_kwargs=[1])),
            (400, "allows no tools", CHAT, dict(HI, tools=TOOLS, tool_choice={"type": "allowed_tools", "allowed_tools": {
                "mode": "auto", "tools": [{"type": "function", "function": {"name": "x"}}]}})),
            (400, "best_of", COMPLETE, dict(STORY, best_of=2)), (400, "logit_bias", COMPLETE, dict(STORY, logit_bias={"a": 1})),
            (400, "logit_bias", COMPLETE, dict(STORY, logit_bias={"5": 101})),
            (400, "vocabulary", COMPLETE, dict(STORY, logit_bias={"512": 1})),
            (400, "twice", COMPLETE, dict(STORY, logit_bias={"5": 1, "05": 1})),
            (400, "top_logprobs", CHAT, dict(HI, top_logprobs=3)), (400, "tools", CHAT, dict(HI, tools=[{"type": "function"}])),
            (400, "tool_choice", CHAT, dict(HI, tool_choice="maybe")),
            (400, "there is no tool", CHAT, dict(HI, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "x"}})),
            (400, "response_format", COMPLETE, dict(STORY, response_format={"type": "xml"})),
            (400, "/type", COMPLETE, dict(STORY, response_format={"type": "json_schema", "json_schema": {
                "schema": {"type": "nonsense"}}})),
            (400, "n_ctx", COMPLETE, dict(STORY, prompt="a dog " * 2000)),
            (404, "gpt-4", COMPLETE, dict(STORY, model="gpt-4")), (413, "bytes", COMPLETE, " " * 5000000)]
        for status, says, path, body in refused:
            got, reply = self.server.ask("POST", path, body)
            self.assertEqual(got, status, (says, reply))
            self.assertEqual(set(reply["error"]), {"message", "type", "param", "code"})
            self.assertIn(says, reply["error"]["message"])
        for status, method, path in ((404, "GET", "/v1/nothing"), (405, "GET", CHAT), (405, "POST", "/health")):
            self.assertEqual(self.server.ask(method, path)[0], status)
        self.assertEqual(self.server.ask("POST", COMPLETE, "{}", {"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.server.ask("GET", "/health", headers={"Host": "evil.example"})[0], 403)
        self.assertEqual(len(self.server.text(STORY)) > 0, True)

    def test_hostile_bytes(self):
        for data in (b"\0" * 100, b"GET / HTTP/1.1\r\nX: " + b"y" * 100000 + b"\r\n\r\n", b"POST " + COMPLETE.encode(),
                     b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nhalf"):
            with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except OSError:  # the server was faster
                    pass
        self.assertEqual(self.server.ask("GET", "/health"), (200, {"status": "ok", "models": [self.server.model]}))

    def test_n(self):
        body = dict(STORY, temperature=0.9, seed=5, max_tokens=12)
        alone = [self.server.text(dict(body, seed=5 + i)) for i in range(3)]
        whole = self.server.post(COMPLETE, dict(body, n=3))
        self.assertEqual([c["text"] for c in whole["choices"]], alone)
        self.assertEqual([c["index"] for c in whole["choices"]], [0, 1, 2])
        self.assertEqual(whole["usage"]["completion_tokens"], 36)
        self.assertEqual(whole["usage"]["prompt_tokens"], 5)
        texts = ["", "", ""]
        for event in self.server.events(COMPLETE, dict(body, n=3)):
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
        self.assertEqual(texts, alone)
        several = self.server.post(COMPLETE, dict(body, prompt=[body["prompt"], "A dog"], n=2))
        self.assertEqual([c["text"] for c in several["choices"]][:2], alone[:2])
        self.assertEqual(several["choices"][2]["text"], self.server.text(dict(body, prompt="A dog")))

    def test_logprobs(self):
        plain = self.server.post(CHAT, HI)["choices"][0]
        whole = self.server.post(CHAT, dict(HI, logprobs=True, top_logprobs=3))["choices"][0]
        self.assertEqual(whole["message"], plain["message"])
        entries = whole["logprobs"]["content"]
        self.assertEqual(len(entries), HI["max_tokens"])
        self.assertEqual(b"".join(bytes(e["bytes"]) for e in entries).decode(), plain["message"]["content"])
        for entry in entries:
            self.assertEqual(entry["top_logprobs"][0]["logprob"], entry["logprob"])  # greedy
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertLessEqual(sum(math.exp(e["logprob"]) for e in entry["top_logprobs"]), 1.0001)
        streamed = [e for event in self.server.events(CHAT, dict(HI, logprobs=True, top_logprobs=3))
                    for c in event["choices"] for e in (c["logprobs"] or {"content": []})["content"]]
        self.assertEqual(streamed, entries)
        lists = self.server.post(COMPLETE, dict(STORY, logprobs=2))["choices"][0]
        self.assertEqual("".join(lists["logprobs"]["tokens"]), lists["text"])
        self.assertEqual([len(t) for t in lists["logprobs"]["top_logprobs"]], [2] * 40)
        self.assertEqual([lists["text"][o:o + len(t)] for o, t in zip(lists["logprobs"]["text_offset"],
                                                                   lists["logprobs"]["tokens"])], lists["logprobs"]["tokens"])
        self.assertIsNone(plain["logprobs"])

    def test_logit_bias(self):
        def text(**bias):
            return self.server.text(dict(STORY, max_tokens=1, logit_bias={k[1:]: v for k, v in bias.items()}))
        first, second = text(t300=100), text(t301=100)
        self.assertNotEqual(first, second)
        self.assertEqual((text(t300=100, t301=-100), text(t300=-100, t301=100)), (first, second))
        self.assertIn(text(t300=100, t301=100), (first, second))
        self.assertEqual(self.server.text(dict(STORY, logit_bias={})), self.server.text(STORY))

    def test_embeddings(self):
        texts = ["Once upon a time", "a dog", "Tom and Lily went to the park " * 30]
        whole = self.server.post(EMBED, {"input": texts})
        self.assertEqual([e["index"] for e in whole["data"]], [0, 1, 2])
        for text, entry in zip(texts, whole["data"]):
            self.assertEqual(len(entry["embedding"]), 64)
            self.assertAlmostEqual(sum(x * x for x in entry["embedding"]), 1, places=4)
            self.assertEqual(self.server.post(EMBED, {"input": text})["data"][0]["embedding"], entry["embedding"])
        coded = self.server.post(EMBED, {"input": texts, "encoding_format": "base64"})
        for entry, code in zip(whole["data"], coded["data"]):
            values = struct.unpack("<64f", base64.b64decode(code["embedding"]))
            self.assertEqual([struct.unpack("f", struct.pack("f", v))[0] for v in entry["embedding"]], list(values))
            self.assertLess(len(json.dumps(entry["embedding"])), 14 * len(values))
        last = self.server.post(EMBED, {"input": texts[0], "pooling": "last"})
        self.assertNotEqual(last["data"][0]["embedding"], whole["data"][0]["embedding"])

    def test_document(self):
        self.assertEqual(self.server.ask("GET", "/openapi.json"), (200, OPENAPI))
        folder = pathlib.Path(__file__).resolve().parents[2] / "src/program/serve/endpoints"
        known = set()
        for file in folder.rglob("*.c"):
            method, path = re.search(r'const struct endpoint endpoint_\w+ = {\s*"([A-Z]+)",\s*"([^"]+)"', file.read_text(),
                                     flags=re.S).groups()
            known |= {(method, path), (method, path.removeprefix("/v1"))}
        self.assertEqual({(method.upper(), re.sub(r"{\w+}$", "", path)) for path, methods in OPENAPI["paths"].items() for method in resolved(methods)},
                         known)
        for name in OPENAPI["components"]["schemas"] if jsonschema else ():
            jsonschema.Draft202012Validator.check_schema(OPENAPI["components"]["schemas"][name])
        for schema, bodies in (("ChatRequest", (HI, dict(HI, tools=TOOLS, tool_choice="auto", logprobs=True, top_logprobs=2))),
                               ("CompletionRequest", (STORY, dict(STORY, n=2, logit_bias={"7": -5}, stop=["a"], stream=True))),
                               ("EmbeddingRequest", ({"input": ["a", [1, 2]]},))):
            for body in bodies:
                conforms(schema, body)

    def test_clients_that_vanish(self):
        before = self.server.metric("cancelled_total")
        body = json.dumps(dict(STORY, max_tokens=400, stream=True)).encode()
        for _ in range(100):  # a small model may be faster than the closing
            with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                                   b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.05)
            if self.server.metric("cancelled_total") > before:
                break
        self.assertGreater(self.server.metric("cancelled_total"), before)
        while self.server.metric("generating") + self.server.metric("reading") + self.server.metric("waiting"):
            time.sleep(0.05)
        self.assertEqual(self.server.text(STORY), self.server.text(STORY))

    def test_seen(self):
        server = Server(self)
        server.text(STORY)
        self.assertEqual(server.metric("prompt_tokens_total"), 5)
        self.assertEqual(server.metric("first_token_seconds_count"), 1)
        self.assertEqual(server.metric('replies_total{status="200"}'), 3)
        models = server.ask("GET", "/v1/models")[1]
        self.assertEqual([m["id"] for m in models["data"]], [server.model])
        status, page = server.ask("GET", "/")
        self.assertEqual((status, "<title>Riffle</title>" in page), (200, True))
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.process.stdout]
        self.assertEqual([e["event"] for e in events], ["answer", "stopping", "stopped"])
        self.assertEqual(events[0]["generated_tokens"], 40)

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("no curl here")
        result = subprocess.run(["curl", "-sSN", "http://localhost:%d%s" % (self.server.port, COMPLETE), "-H",
                                 "Content-Type: application/json", "-d", json.dumps(dict(STORY, stream=True))],
                                stdout=subprocess.PIPE, timeout=TIMEOUT, check=True)
        self.assertTrue(result.stdout.endswith(b"data: [DONE]\n\n"))


class Tools(Case):
    FORMS = {
        "hermes": "<tool_call>{{ c.function | tojson }}</tool_call>",
        "llama": '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}',
        "mistral": "[TOOL_CALLS][{{ c.function | tojson }}]",
        "named": "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}",
        "block": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments | tojson }}"
                 "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "fenced": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.function.name }}\n```json\n"
                  "{{ c.function.arguments | tojson }}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "qwen3-coder": "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n"
                       "{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>",
        "glm": "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>"
               "{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>",
        "minimax": "<minimax:tool_call>\n<invoke name=\"{{ c.function.name }}\">\n{% for k, v in c.function.arguments.items() %}<parameter name=\""
                   "{{ k }}\">{{ v if v is string else v | tojson }}</parameter>\n{% endfor %}</invoke>\n</minimax:tool_call>",
        "harmony": "to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments | tojson }}<|call|>",
        "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
                "{{ c.function.arguments | tojson }}<|tool_call_end|><|tool_calls_section_end|>",
        "lfm2": "<|tool_call_start|>[{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}"
                "{{ ', ' if not loop.last }}{% endfor %})]<|tool_call_end|>",
        "gemma": "<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments.items() %}{{ k }}:{{ '<|\"|>' ~ v ~ '<|\"|>'"
                 " if v is string else v | tojson }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}<tool_call|>",
        "granite": "<|tool_call|>[{{ c.function | tojson }}]",
        "cohere": "<|START_ACTION|>[{\"tool_name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}]<|END_ACTION|>",
        "texts": "<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ '' + c.function.arguments }}}</tool_call>"}
    SHOWN = "{%- for t in tools or [] %}{{ t | tojson }}{% endfor %}"

    def check_form(self, call, shown=SHOWN):
        template = (shown + "{% for m in messages %}{{ m.role }}: "
                    "{{ m.content }}{% for c in m.tool_calls or [] %}" + call + "{% endfor %}\n{% endfor %}")
        server = Server(self, model=self.path("tools.gguf", with_template(template)), template=None)
        self.assertTrue(server.post(CHAT, dict(HI, tools=TOOLS))["choices"][0]["message"]["content"])
        one = {"type": "function", "function": {"name": "age_of"}}
        choices = ["required", one, {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [one]}}]
        for choice in choices:
            body = dict(HI, tools=TOOLS, tool_choice=choice, max_tokens=200)
            whole = server.post(CHAT, body)["choices"][0]
            self.assertEqual((whole["finish_reason"], whole["message"]["content"]), ("tool_calls", None))
            call = whole["message"]["tool_calls"][0]
            self.assertIn(call["function"]["name"], ("age_of", "weather") if choice == "required" else ("age_of",))
            arguments = json.loads(call["function"]["arguments"])
            self.assertEqual(list(arguments), ["name", "age"] if call["function"]["name"] == "age_of" else ["now"])
            events = server.events(CHAT, body)
            streamed = [c for e in events for c in e["choices"][0]["delta"].get("tool_calls", [])]
            self.assertEqual([(c["index"], c["function"]) for c in streamed], [(0, call["function"])])
            self.assertEqual(events[-1]["choices"][0]["finish_reason"], "tool_calls")
            self.assertEqual("".join(e["choices"][0]["delta"].get("content") or "" for e in events), "")
        messages = [*HI["messages"], {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": call["id"], "content": "12"}]
        reply = server.post(CHAT, dict(HI, messages=messages, tools=TOOLS))
        plain = server.post(CHAT, dict(HI, tools=TOOLS, tool_choice="none"))
        self.assertGreater(reply["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"] + 60)
        self.assertEqual(plain["choices"], server.post(CHAT, HI)["choices"])

    def test_hermes(self):
        self.check_form(self.FORMS["hermes"])

    def test_llama(self):
        self.check_form(self.FORMS["llama"])

    def test_mistral(self):
        self.check_form(self.FORMS["mistral"])

    def test_mistral_named(self):
        self.check_form(self.FORMS["named"])

    def test_deepseek(self):
        self.check_form(self.FORMS["block"])

    def test_deepseek_fenced(self):
        self.check_form(self.FORMS["fenced"])


    def test_qwen3_coder(self):
        self.check_form(self.FORMS["qwen3-coder"])

    def test_glm(self):
        self.check_form(self.FORMS["glm"])

    def test_minimax(self):
        self.check_form(self.FORMS["minimax"])

    def test_harmony(self):
        self.check_form(self.FORMS["harmony"])

    def test_kimi(self):
        self.check_form(self.FORMS["kimi"])

    def test_lfm2(self):
        self.check_form(self.FORMS["lfm2"])

    def test_gemma(self):
        self.check_form(self.FORMS["gemma"])

    def test_granite(self):
        self.check_form(self.FORMS["granite"])

    def test_cohere(self):
        self.check_form(self.FORMS["cohere"])

    def test_arguments_as_text(self):
        self.check_form(self.FORMS["texts"])

    def test_calls_without_tools(self):
        """The template has calls, and no place for tools: they are told in the system's message."""
        self.check_form(self.FORMS["fenced"], "")

    def test_neither(self):
        """The template knows nothing of tools: all is text."""
        self.check_form("", "")

    def test_tools_without_calls(self):
        self.check_form("", "List of tools: " + self.SHOWN)

    def test_unknown_form(self):
        """A form that no row has is refused, not taken for another one."""
        template = (self.SHOWN + "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call><{{ c.function.name }}>"
                    "{{ c.function.arguments | tojson }}</tool_call>{% endfor %}{% endfor %}")
        server = Server(self, model=self.path("tools.gguf", with_template(template)), template=None)
        status, reply = server.ask("POST", CHAT, dict(HI, tools=TOOLS))
        self.assertEqual((status, "no form of calls" in reply["error"]["message"]), (400, True))
        self.assertEqual(server.ask("POST", CHAT, HI)[0], 200)


class Templates(Case):
    def test_thoughts(self):
        """The prompt opens a thought, which a story of this model never ends."""
        template = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% if m.reasoning_content %}<think>"
                    "{{ m.reasoning_content }}</think>{% endif %}{% endfor %}{% if effort %}{{ effort }}{% endif %}"
                    "{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}{% if add_generation_prompt %}<think>\n{% endif %}")
        server = Server(self, model=self.path("thinks.gguf", with_template(template)), template=None)
        message = server.post(CHAT, HI)["choices"][0]["message"]
        self.assertEqual(message["content"], "")
        self.assertGreater(len(message["reasoning_content"]), 5)
        deltas = [e["choices"][0]["delta"] for e in server.events(CHAT, HI)]
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), message["reasoning_content"])
        self.assertEqual("".join(d.get("content", "") for d in deltas), "")
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        answer = server.post(CHAT, dict(HI, max_tokens=100, response_format=schema))["choices"][0]["message"]
        self.assertEqual(set(json.loads(answer["content"])), {"name", "age"})
        # A limit ends the thought: the prompt is longer than one that opens a thought.
        def prompt(**more):
            return server.post(CHAT, dict(HI, max_tokens=100, **more))["usage"]["prompt_tokens"]
        self.assertGreater(prompt(response_format=schema), prompt())
        for more in ({"reasoning_effort": "high"}, {"chat_template_kwargs": {"effort": "high"}}):
            self.assertGreater(server.post(CHAT, dict(HI, **more))["usage"]["prompt_tokens"],
                               server.post(CHAT, HI)["usage"]["prompt_tokens"])

    def test_suffix(self):
        """The tokens of a gap stand around the texts."""
        pieces, types = spm_vocabulary()
        gap = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
        model = Gguf().vocabulary(pieces + gap, types + [3] * 3).write(self.folder)
        server = Server(self, model=model)
        reply = server.post(COMPLETE, {"prompt": "ab", "suffix": "xyz", "max_tokens": 1, "temperature": 0})
        plain = sum(server.post(COMPLETE, {"prompt": text, "max_tokens": 1})["usage"]["prompt_tokens"] - 1
                    for text in ("ab", "xyz"))
        self.assertEqual(reply["usage"]["prompt_tokens"], 1 + 3 + plain)
        status, reply = server.ask("POST", COMPLETE, {"prompt": "ab", "suffix": "xyz", "echo": True})
        self.assertEqual((status, "echo" in reply["error"]["message"]), (400, True))


class Reload(Case):
    def test_pooling_of_the_file(self):
        def vector(server, **given):
            return server.post(EMBED, {"input": "w270 w271 w272", **given})["data"][0]["embedding"]
        pooled = {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}
        for model, usual in ((Gguf(), "mean"), (Gguf().set("llama.pooling_type", U32, 1), "mean"),
                             (Gguf().set("llama.pooling_type", U32, 3), "last"),
                             (Folder().file("1_Pooling/config.json", pooled), "last")):
            server = Server(self, model=model.write(self.folder), template=None)
            self.assertNotEqual(vector(server, pooling="mean"), vector(server, pooling="last"))
            self.assertEqual(vector(server), vector(server, pooling=usual))
            self.assertEqual(server.stop(), 0)

    def test_reload(self):
        """Answers that are under way end with the model that they began with."""
        path = self.path("model.gguf", pathlib.Path(MODEL).read_bytes())
        server = Server(self, model=path)
        wanted = server.text(dict(STORY, max_tokens=900))
        connection, response = server.send("POST", COMPLETE, dict(STORY, max_tokens=900, stream=True))
        first = response.readline()
        self.path("new.gguf", with_template("{{ messages[0].content }}"))
        os.rename(self.path("new.gguf"), path)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for(server, "reloaded")
        text = (first + response.read()).decode()
        connection.close()
        self.assertEqual("".join(json.loads(part[6:])["choices"][0]["text"] for part in text.split("\n\n")[:-2]), wanted)
        self.wait_for(server, "closed")
        self.assertEqual(server.text(dict(STORY, max_tokens=900)), wanted)
        os.rename(self.path("none.gguf", "no model"), path)
        server.process.send_signal(signal.SIGHUP)
        self.wait_for(server, "not_reloaded")
        self.assertEqual(server.text(dict(STORY, max_tokens=900)), wanted)
        self.assertEqual(server.stop(), 0)

    def wait_for(self, server, event):
        for line in server.process.stdout:
            if json.loads(line)["event"] == event:
                return
        self.fail("the server ended without " + event)


class Limits(Case):
    def test_full_queue(self):
        server = Server(self, "--parallel", "1", "--queue", "1", "--chain", "none")
        wanted = server.text(STORY)
        with concurrent.futures.ThreadPoolExecutor(30) as threads:
            replies = list(threads.map(lambda _: server.ask("POST", COMPLETE, STORY), range(60)))
        self.assertEqual({status for status, _ in replies}, {200, 429})
        for status, reply in replies:
            if status == 200:
                self.assertEqual(reply["choices"][0]["text"], wanted)
            else:
                self.assertEqual(reply["error"]["code"], "queue_full")

    def test_key(self):
        server = Server(self, "--api-key", "secret")
        for key in (None, "Bearer", "Bearer secre", "Bearer secrets", "Bearer Secret", "secret"):
            status, reply = server.ask("GET", "/v1/models", headers={"Authorization": key} if key else {})
            self.assertEqual((status, reply["error"]["code"]), (401, "invalid_api_key"))
        self.assertEqual(server.ask("POST", COMPLETE, STORY)[0], 401)
        self.assertEqual(server.ask("GET", "/metrics")[0], 401)
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.assertEqual(server.ask("POST", COMPLETE, STORY, {"Authorization": "Bearer secret"})[0], 200)
        server = Server(self, "--host", "0.0.0.0", env={"RIFFLE_API_KEY": "other"})
        self.assertEqual(server.ask("GET", "/v1/models", headers={"Authorization": "Bearer other"})[0], 200)

    def test_addresses(self):
        self.fails(2, "serve", MODEL, "--host", "0.0.0.0", says=["API key", "--api-key"])
        self.fails(2, "serve", MODEL, "--host", "example.org", says="example.org")
        server = Server(self)
        self.fails(1, "serve", MODEL, "--port", str(server.port), says=str(server.port))

    def test_ends_after_answers(self):
        server = Server(self)
        connection, response = server.send("POST", COMPLETE, dict(STORY, max_tokens=300, stream=True))
        first = response.readline()
        self.assertEqual(server.stop(), 0)
        text = (first + response.read()).decode()
        self.assertTrue(text.endswith("data: [DONE]\n\n"), text[-300:])
        connection.close()
        with self.assertRaises(ConnectionError):
            server.ask("GET", "/health")


# What the document's program needs of the package openai, where that is not installed.
PACKAGE = '''
import json, types, urllib.request

class OpenAI:
    def __init__(self, base_url, api_key):
        self.chat = types.SimpleNamespace(completions=types.SimpleNamespace(create=self.create))
        self.base_url, self.api_key = base_url, api_key

    def create(self, **body):
        request = urllib.request.Request(self.base_url + "/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": "Bearer " + self.api_key})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply, object_hook=lambda members: types.SimpleNamespace(**members))
'''


class Document(Case):
    def test_its_program(self):
        """The first program of docs/serving.md, as it is there but for the port."""
        text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
        name = re.search(r"^    riffle serve (\S+)", text, flags=re.M)[1]
        program = re.search(r"```python\n(.*?)```", text, flags=re.S)[1]
        self.assertIn('model="%s"' % name, program)
        shutil.copy(MODEL, self.path(name + ".gguf"))
        server = Server(self, model=self.path(name + ".gguf"))
        self.path("program.py", program.replace("localhost:8080", "127.0.0.1:%d" % server.port))
        if openai is None:
            self.path("openai.py", PACKAGE)
        result = subprocess.run([sys.executable, self.path("program.py")], env=self.env, cwd=self.folder, timeout=TIMEOUT,
                                capture_output=True)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertTrue(result.stdout.strip())
        self.assertEqual(server.stop(), 0)


@unittest.skipUnless(openai, "the package openai is not installed")
class OpenAI(OneServer):
    arguments = ("--api-key", "secret")

    def setUp(self):
        super().setUp()
        self.client = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % self.server.port, api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)
        self.question = {"model": self.server.model, "messages": [{"role": "user", "content": "A dog"}],
                         "temperature": 0, "max_tokens": 30}

    def test_chat(self):
        whole = self.client.chat.completions.create(**self.question)
        text = whole.choices[0].message.content
        self.assertTrue(text)
        self.assertEqual(whole.usage.completion_tokens, 30)
        self.assertEqual(whole.usage.completion_tokens_details.accepted_prediction_tokens >= 0, True)
        chunks = list(self.client.chat.completions.create(**self.question, stream=True))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), text)
        self.assertEqual(self.client.models.list().data[0].id, self.server.model)
        story = self.client.completions.create(model=self.server.model, prompt="Once", max_tokens=4, temperature=0)
        self.assertEqual(story.choices[0].finish_reason, "length")

    def test_schema(self):
        whole = self.client.chat.completions.create(**dict(self.question, max_tokens=100), response_format={
            "type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}})
        self.assertEqual(set(json.loads(whole.choices[0].message.content)), {"name", "age"})

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(**dict(self.question, model="gpt-4"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(**dict(self.question, temperature=-3))
        self.assertEqual(caught.exception.code, "invalid_value")
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()


if __name__ == "__main__":
    main()
