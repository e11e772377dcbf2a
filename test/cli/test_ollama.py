"""serve: ollama's interface, by plain HTTP and as its Python package and others' use it."""

import datetime
import http.client
import json
import os
import signal
import time
import unittest

from harness import MODEL, TIMEOUT, Case, main, with_template
from test_messages import TEMPLATE, THINKS
from test_serve_models import Server as SeveralServer
from test_serve import CHAT, COMPLETE, EMBED, HI, SCHEMA, STORY, TOOLS, OneServer, Server, conforms

try:
    import ollama
except ImportError:
    ollama = None
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list
try:
    import litellm
except ImportError:
    litellm = None

USER = {"messages": HI["messages"]}
ASK = {**USER, "options": {"num_predict": 12, "temperature": 0}}  # what HI asks for
PROMPT = {"prompt": "Hi", "options": ASK["options"]}
# Calls are JSON alone, so that a schema can have the model write one.
CALLS = ("{%- for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
         "{% for c in m.tool_calls or [] %}{\"name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}"
         "{{ '[' ~ c.id ~ ']' if c.id != 'abcdefghi' }}{% endfor %}{{ m.reasoning_content }}{{ m.tool_call_id }}{{ m.name }}\n{% endfor %}")
CALL = {"type": "object", "properties": {"name": {"const": "weather"}, "parameters": {
    "type": "object", "properties": {"now": {"type": "boolean"}}, "required": ["now"], "additionalProperties": False}},
    "required": ["name", "parameters"], "additionalProperties": False}


def lines(server, path, body, is_cut=lambda: None):
    """The objects of a stream."""
    connection, response = server.send("POST", path, body)
    assert response.status == 200 and response.headers["Content-Type"] == "application/x-ndjson", response.headers
    first = response.readline()
    is_cut()
    text = (first + response.read()).decode()
    connection.close()
    assert text.endswith("\n"), text
    found = [json.loads(line) for line in text[:-1].split("\n")]
    for value in found:
        if "error" not in value:
            conforms("OllamaChat" if path == "/api/chat" else "OllamaGenerate", value)
    return found


def joined(path, found):
    """The reply that the objects of a stream make."""
    assert [o["done"] for o in found] == [False] * (len(found) - 1) + [True]
    whole = dict(found[-1])
    probabilities = [p for o in found for p in o.get("logprobs", [])]
    if probabilities:
        whole["logprobs"] = probabilities
    pieces = [o["message"] if path == "/api/chat" else o for o in found]
    said = dict(pieces[-1])
    for name in ("content", "response", "thinking"):
        if any(name in piece for piece in pieces):
            said[name] = "".join(piece.get(name, "") for piece in pieces)
    calls = [call for piece in pieces for call in piece.get("tool_calls", [])]
    if calls:
        said["tool_calls"] = calls
    if path == "/api/chat":
        whole["message"] = said
    else:
        whole.update({k: v for k, v in said.items() if k in ("response", "thinking")})
    return whole


def same(test, whole, streamed):
    """A stream says what the whole reply says, at its own times and with its own ids."""
    def known(reply):
        reply = {k: v for k, v in reply.items() if not k.endswith("_duration") and k != "created_at"}
        if "message" in reply and "tool_calls" in reply["message"]:
            reply["message"] = dict(reply["message"], tool_calls=[c["function"] for c in reply["message"]["tool_calls"]])
        return reply
    test.assertEqual(known(streamed), known(whole))


class Asks(OneServer):
    def post(self, path, body):
        """The reply, which its stream says, too."""
        whole = self.server.post(path, dict(body, stream=False))
        same(self, whole, joined(path, lines(self.server, path, body)))
        return whole

    def refused(self, path, body, *says, status=400):
        code, reply = self.server.ask("POST", path, body)
        self.assertEqual(code, status, (body, reply))
        for part in says:
            self.assertIn(part, reply["error"])


class Answers(Asks):
    def test_same_as_chat(self):
        """The same tokens as a chat's, with counts and times."""
        for options in ({}, {"temperature": 0.9, "seed": 5, "top_p": 0.9, "top_k": 50, "min_p": 0.01},
                        {"temperature": 2, "seed": 2 ** 40, "repeat_penalty": 1.3, "repeat_last_n": 5},
                        {"temperature": 1, "seed": 3, "presence_penalty": 1, "frequency_penalty": -0.5},
                        {"seed": 9, "stop": ["e"]}, {"stop": "a"}):
            chat = self.server.post(CHAT, dict(HI, **options))
            whole = self.post("/api/chat", dict(ASK, options={**ASK["options"], **options}))
            choice = chat["choices"][0]
            self.assertEqual(whole["message"], {"role": "assistant", "content": choice["message"]["content"]})
            self.assertEqual((whole["model"], whole["done"], whole["done_reason"]), (self.server.model, True, choice["finish_reason"]))
            self.assertEqual((whole["prompt_eval_count"], whole["eval_count"]),
                             (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]))
            self.assertRegex(whole["created_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertGreater(whole["prompt_eval_duration"], 0)
            self.assertGreaterEqual(whole["total_duration"], whole["prompt_eval_duration"] + whole["eval_duration"])
            self.assertEqual(whole["load_duration"], 0)

    def test_repeat_last_n(self):
        """It is an option of the other interfaces, too, and changes the answer."""
        long = dict(STORY, max_tokens=200)
        texts = {n: self.server.text(dict(long, repeat_penalty=1.5, repeat_last_n=n)) for n in (0, 8, 64)}
        self.assertEqual(texts[0], self.server.text(long))
        self.assertEqual(texts[64], self.server.text(dict(long, repeat_penalty=1.5)))
        self.assertEqual(len(set(texts.values())), 3)
        self.assertEqual(self.server.ask("POST", COMPLETE, dict(STORY, repeat_last_n=-2))[0], 400)

    def test_generate(self):
        """A prompt is a chat; a raw one is a completion."""
        for system in ({}, {"system": "Tell a story."}):
            messages = [{"role": "system", "content": s} for s in system.values()] + HI["messages"]
            chat = self.server.post(CHAT, dict(HI, messages=messages))
            whole = self.post("/api/generate", dict(PROMPT, **system))
            self.assertEqual(whole["response"], chat["choices"][0]["message"]["content"])
            self.assertEqual(whole["prompt_eval_count"], chat["usage"]["prompt_tokens"])
        raw = {"prompt": STORY["prompt"], "raw": True, "options": {"num_predict": 40, "temperature": 0}}
        for prompt in (STORY["prompt"], "<s>" + STORY["prompt"]):  # BOS comes once
            whole = self.post("/api/generate", dict(raw, prompt=prompt))
            self.assertEqual((whole["response"], whole["eval_count"]), (self.server.text(STORY), 40))
        prompt = "a</s>b"  # special tokens are read
        tokens = self.server.post("/tokenize", {"prompt": prompt})["tokens"]
        self.assertIn(2, tokens)
        whole = self.post("/api/generate", dict(raw, prompt=prompt))
        self.assertEqual((whole["response"], whole["prompt_eval_count"]), (self.server.text(dict(STORY, prompt=tokens)), len(tokens)))

    def test_limits(self):
        """num_predict and num_ctx."""
        for n in (-1, -2, 0, None):
            whole = self.server.post("/api/generate", dict(PROMPT, stream=False, options={"num_predict": n, "temperature": 0}))
            self.assertGreater(whole["eval_count"], 16)
        n = whole["prompt_eval_count"]
        for more in ({}, {"num_predict": 50}):
            whole = self.post("/api/generate", dict(PROMPT, options={"num_ctx": n + 3, "temperature": 0, **more}))
            self.assertEqual((whole["eval_count"], whole["done_reason"]), (3, "length"))
        whole = self.post("/api/generate", dict(PROMPT, options={"num_ctx": n + 3, "num_predict": 2, "temperature": 0}))
        self.assertEqual(whole["eval_count"], 2)
        for path, body in (("/api/generate", PROMPT), ("/api/chat", ASK), ("/api/generate", dict(PROMPT, raw=True, prompt="a b c d e"))):
            self.refused(path, dict(body, options={"num_ctx": 5}), "n_ctx is 5")
            self.refused(path, dict(body, options={"num_ctx": 2 ** 30}), "options.num_ctx", "--ctx")
        self.refused("/api/embed", {"input": "a b c d e f", "options": {"num_ctx": 3}}, "n_ctx is 3")
        self.server.post("/api/embed", {"input": "a b c", "options": {"num_ctx": 400}})

    def test_format(self):
        for path, body in (("/api/chat", USER), ("/api/generate", {"prompt": "Hi"}), ("/api/generate", {"prompt": "Hi", "raw": True})):
            body = dict(body, options={"num_predict": 200, "temperature": 0})
            whole = self.post(path, dict(body, format=SCHEMA))
            text = whole["message"]["content"] if path == "/api/chat" else whole["response"]
            self.assertEqual(list(json.loads(text)), ["name", "age"])
            whole = self.server.post(path, dict(body, format="json", stream=False))
            text = whole["message"]["content"] if path == "/api/chat" else whole["response"]
            self.assertTrue(text.lstrip().startswith("{"))
            self.refused(path, dict(body, format="xml"), "format")
            self.refused(path, dict(body, format=[1]), "format")
            for nothing in ("", None):
                plain = self.server.post(path, dict(body, stream=False))
                self.assertEqual(self.server.post(path, dict(body, stream=False, format=nothing))["eval_count"], plain["eval_count"])

    def test_logprobs(self):
        chat = self.server.post(CHAT, dict(HI, logprobs=True, top_logprobs=2))["choices"][0]["logprobs"]["content"]
        for path, body in (("/api/chat", ASK), ("/api/generate", PROMPT)):
            self.assertEqual(self.post(path, dict(body, logprobs=True, top_logprobs=2))["logprobs"], chat)
        raw = self.post("/api/generate", dict(PROMPT, raw=True, logprobs=True, top_logprobs=1))["logprobs"]
        self.assertEqual([len(p["top_logprobs"]) for p in raw], [1] * 12)
        self.assertEqual(len(self.post("/api/generate", dict(PROMPT, raw=True, logprobs=True))["logprobs"]), 12)
        for body in (dict(PROMPT, top_logprobs=2), dict(PROMPT, top_logprobs=2, raw=True)):
            self.refused("/api/generate", body, "top_logprobs")

    def test_members(self):
        """Options that change no answer are ignored; others are refused by name."""
        plain = self.post("/api/chat", ASK)["message"]
        more = {"keep_alive": "5m", "truncate": True, "shift": False, "think": False, "tools": [], "format": None, "raw": False,
                "images": [], "template": "", "context": [], "model": self.server.model + ":latest"}
        ignored = {"num_batch": 2, "num_gpu": 1, "main_gpu": 1, "low_vram": True, "use_mmap": False, "use_mlock": True,
                   "num_thread": 8, "numa": True, "num_keep": 5, "mirostat": 0, "mirostat_tau": 0.8, "mirostat_eta": 0.6,
                   "penalize_newline": True, "typical_p": 1.0, "tfs_z": 1, "f16_kv": True, "vocab_only": False, "seed": -1,
                   "draft_num_predict": 4, "logits_all": None}
        self.assertEqual(self.post("/api/chat", dict(ASK, options={**ASK["options"], **ignored}, **more))["message"], plain)
        for name, value in (("mirostat", 1), ("typical_p", 0.7), ("tfs_z", 0.5), ("penalize_newline", False), ("other", 1),
                            ("vocab_only", True)):
            for path, body in (("/api/chat", ASK), ("/api/generate", PROMPT), ("/api/embed", {"input": "a"}),
                               ("/api/embeddings", {"prompt": "a"})):
                self.refused(path, dict(body, options={name: value}), "options." + name)
        for name, value in (("temperature", -1), ("top_k", "a"), ("num_predict", -3), ("num_predict", 1.5), ("stop", [1]), ("seed", "x"),
                            ("repeat_penalty", 0), ("num_ctx", -1)):
            self.refused("/api/chat", dict(ASK, options={name: value}), name)
        self.refused("/api/chat", dict(ASK, options=[1]), "options")
        for name, value in (("context", [1, 2]), ("template", "x"), ("images", ["aGk="]), ("shift", True), ("other", 1),
                            ("messages", USER["messages"]), ("tools", TOOLS), ("stream", "no"), ("raw", 1), ("prompt", 5),
                            ("suffix", "x"), ("system", 7)):
            self.refused("/api/generate", dict(PROMPT, **{name: value}), name)
        for name, value in (("prompt", "x"), ("system", "x"), ("suffix", "x"), ("raw", True), ("stream", 1), ("keep", 1),
                            ("messages", 5), ("think", 3)):
            self.refused("/api/chat", dict(ASK, **{name: value}), name)
        for more in ({"system": "x"}, {"suffix": "x"}):
            self.refused("/api/generate", dict(PROMPT, raw=True, **more), "beside")

    def test_messages(self):
        for message, says in (({"role": "user", "content": "a", "images": ["aGk="]}, ".images is not supported"),
                              ({"content": "a"}, ".role"), ({"role": "user", "content": 1}, ".content"), (5, ".role"),
                              ({"role": "user", "content": [{"type": "text", "text": "a"}]}, ".content"),
                              ({"role": "assistant", "content": "", "tool_calls": 5}, ".tool_calls"),
                              ({"role": "assistant", "content": "", "tool_calls": [{"function": {}}]}, ".tool_calls"),
                              ({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
                               ".tool_calls"), ({"role": "assistant", "content": "", "thinking": 1}, ".thinking")):
            self.refused("/api/chat", dict(ASK, messages=[*USER["messages"], message]), "messages[1]" + says)
        roles = [{"role": "User", "content": "Hi"}]
        self.assertEqual(self.post("/api/chat", dict(ASK, messages=roles))["message"], self.post("/api/chat", ASK)["message"])
        self.refused("/api/chat", dict(ASK, messages=[{"role": "user", "content": "a"}] * 3000), "3000 messages")

    def test_thinking(self):
        """The template has no thoughts."""
        for value in (True, "high"):
            self.refused("/api/chat", dict(ASK, think=value), "think")

    def test_loading(self):
        """A request without a question only has the model loaded, which it is."""
        for path, body, text in (("/api/chat", {}, {"message": {"role": "assistant", "content": ""}}),
                                 ("/api/chat", {"messages": [], "keep_alive": 0}, {"message": {"role": "assistant", "content": ""}}),
                                 ("/api/generate", {"keep_alive": -1}, {"response": ""}),
                                 ("/api/generate", {"prompt": "", "stream": False}, {"response": ""})):
            reply = self.server.post(path, body)
            reply.pop("created_at")
            self.assertEqual(reply, {"model": self.server.model, "done": True, "done_reason": "load", **text})
        for path in ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings"):
            for more in ({"other": 1}, {"options": {"other": 1}}, {"options": {"num_ctx": 2 ** 30}}, {"options": 5}):
                self.refused(path, more, list(more)[0])
        self.assertEqual(self.server.post("/api/embed", {}), {"model": self.server.model, "embeddings": []})
        self.assertEqual(self.server.post("/api/embed", {"input": []})["embeddings"], [])
        self.assertEqual(self.server.post("/api/embeddings", {"prompt": ""}), {"embedding": []})

    def test_vectors(self):
        for texts in (["Once upon a time", "A dog"], "A dog"):
            ours = self.server.post("/api/embed", {"input": texts, "truncate": True, "options": {"num_thread": 1, "temperature": 1}})
            theirs = self.server.post(EMBED, {"input": texts})
            self.assertEqual(ours["embeddings"], [entry["embedding"] for entry in theirs["data"]])
            self.assertEqual(ours["prompt_eval_count"], theirs["usage"]["prompt_tokens"])
            self.assertGreater(ours["total_duration"], 0)
        self.assertEqual(self.server.post("/api/embeddings", {"prompt": "A dog"}), {"embedding": ours["embeddings"][0]})
        for path, body, says in (("/api/embed", {"input": "a", "dimensions": 8}, "dimensions"), ("/api/embed", {"input": 5}, "input"),
                                 ("/api/embed", {"input": "a", "prompt": "b"}, "prompt"),
                                 ("/api/embed", {"input": "a", "stream": True}, "stream"),
                                 ("/api/embeddings", {"prompt": ["a"]}, "prompt"),
                                 ("/api/embeddings", {"prompt": "a", "input": "b"}, "input")):
            self.refused(path, body, says)

    def test_models(self):
        status, tags = self.server.ask("GET", "/api/tags")
        model = tags["models"][0]
        self.assertEqual((status, len(tags["models"]), model["name"], model["model"]), (200, 1, self.server.model, self.server.model))
        self.assertEqual((model["details"]["format"], model["details"]["family"]), ("gguf", "llama"))
        self.assertRegex(model["digest"], "^[0-9a-f]{64}$")
        loaded = self.server.ask("GET", "/api/ps")[1]["models"][0]
        self.assertEqual({k: v for k, v in loaded.items() if k in model}, {k: v for k, v in model.items() if k in loaded})
        info = self.json("info", MODEL)
        self.assertEqual(model["size"], info["file_bytes"])
        for name in ("model", "name"):
            shown = self.server.post("/api/show", {name: self.server.model, "verbose": True})
            self.assertEqual(shown["details"], model["details"])
            self.assertEqual(shown["model_info"]["general.architecture"], "llama")
            self.assertEqual(shown["model_info"]["llama.context_length"], loaded["context_length"])
            self.assertEqual(shown["capabilities"], ["completion", "embedding", "tools"])
            self.assertIn("<|im_start|>", shown["template"])
            self.assertEqual(self.server.post("/api/pull", {name: self.server.model + ":latest"}), {"status": "success"})
            for path in ("/api/show", "/api/pull"):
                self.refused(path, {name: "other"}, "other", self.server.model, status=404)
        self.refused("/api/pull", {}, "model")
        self.assertRegex(self.server.ask("GET", "/api/version")[1]["version"], r"^\d+\.\d+\.\d+$")

    def test_errors(self):
        for name in ("other", self.server.model + ":7b", self.server.model + ":latest:latest", "", self.server.model[:-1]):
            for path, body in (("/api/chat", ASK), ("/api/generate", PROMPT), ("/api/embed", {"input": "a"}), ("/api/chat", {})):
                self.refused(path, dict(body, model=name), status=404)
        for method, path, status in (("DELETE", "/api/delete", 403), ("POST", "/api/create", 404), ("POST", "/api/copy", 404),
                                     ("GET", "/api/chat", 405), ("POST", "/api/tags", 405), ("GET", "/api/", 404)):
            code, reply = self.server.ask(method, path, {"model": "a"})
            self.assertEqual((code, list(reply)), (status, ["error"]))
        self.refused("/api/chat", "{", "no JSON")
        self.refused("/api/chat", "[]", "the body")
        self.refused("/api/chat", '{"\\u0000\\ud83d": 1}')

    def test_media(self):
        """A client need not name the media type; a page of another site cannot do that."""
        body = json.dumps(dict(PROMPT, stream=False))
        for headers, status in (({}, 200), ({"Content-Type": "application/x-www-form-urlencoded"}, 200), ({"Origin": "http://a.example"}, 415),
                                ({"Sec-Fetch-Site": "cross-site"}, 415), ({"Referer": "http://a.example/"}, 415),
                                ({"Origin": "null", "Content-Type": "text/plain"}, 415), ({"Host": "a.example"}, 403),
                                ({"Origin": "http://a.example", "Content-Type": "application/json"}, 200)):
            for path in ("/api/generate", COMPLETE):
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
                connection.request("POST", path, body if path != COMPLETE else json.dumps(STORY), headers)
                reply = connection.getresponse()
                reply.read()
                connection.close()
                is_json = headers.get("Content-Type") == "application/json"
                self.assertEqual(reply.status, status if path != COMPLETE or is_json or status == 403 else 415, (path, headers))


class Templates(Case):
    def server_of(self, template):
        return Server(self, model=self.path("model.gguf", with_template(template)), template=None)

    def test_thoughts(self):
        """The prompt opens a thought, which a story of this model never ends."""
        server = self.server_of(THINKS)
        chat = server.post(CHAT, HI)["choices"][0]["message"]
        self.assertIn("thinking", server.post("/api/show", {})["capabilities"])
        for think in ({}, {"think": True}):
            for path, body in (("/api/chat", ASK), ("/api/generate", PROMPT)):
                whole = server.post(path, dict(body, stream=False, **think))
                said = whole["message"] if path == "/api/chat" else whole
                self.assertEqual((said["thinking"], said.get("content", said.get("response"))), (chat["reasoning_content"], ""))
                same(self, whole, joined(path, lines(server, path, dict(body, **think))))
        plain = server.post(CHAT, dict(HI, chat_template_kwargs={"enable_thinking": False}))["choices"][0]["message"]
        whole = server.post("/api/chat", dict(ASK, think=False, stream=False))
        self.assertEqual(whole["message"], {"role": "assistant", "content": plain["content"]})
        self.assertEqual(server.ask("POST", "/api/chat", dict(ASK, think="low"))[0], 400)

    def test_levels(self):
        server = self.server_of(TEMPLATE)
        for think, more in ((True, {"chat_template_kwargs": {"enable_thinking": True}}), ("low", {"reasoning_effort": "low"}),
                            (False, {"chat_template_kwargs": {"enable_thinking": False}})):
            chat = server.post(CHAT, dict(HI, **more))
            whole = server.post("/api/chat", dict(ASK, think=think, stream=False))
            self.assertEqual(whole["message"]["content"], chat["choices"][0]["message"]["content"])
            self.assertEqual(whole["prompt_eval_count"], chat["usage"]["prompt_tokens"])

    def test_always_thinks(self):
        """A template that opens a thought whatever is asked."""
        server = self.server_of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}")
        self.assertTrue(server.post("/api/chat", dict(ASK, think=True, stream=False))["message"]["thinking"])
        status, reply = server.ask("POST", "/api/chat", dict(ASK, think=False))
        self.assertEqual((status, "turn thoughts off" in reply["error"]), (400, True))

    def test_calls(self):
        server = self.server_of(CALLS)
        body = {**USER, "tools": TOOLS, "format": CALL, "options": {"num_predict": 100, "temperature": 0}}
        whole = server.post("/api/chat", dict(body, stream=False))
        call = whole["message"]["tool_calls"][0]["function"]
        self.assertEqual((call["index"], call["name"], list(call["arguments"])), (0, "weather", ["now"]))
        self.assertEqual((whole["message"]["content"], whole["done_reason"]), ("", "stop"))
        same(self, whole, joined("/api/chat", lines(server, "/api/chat", body)))

    def test_conversations(self):
        """Calls without ids get some, and results those of their calls."""
        server = self.server_of(CALLS)

        def call(name, **more):
            return {"function": {"name": name, "arguments": {"now": True}}, **more}

        def theirs(identifier, name):
            return {"id": identifier, "type": "function", "function": {"name": name, "arguments": '{"now": true}'}}
        ours = [*USER["messages"], {"role": "assistant", "content": "So", "thinking": "Hm", "tool_calls": [call("weather"), call("age_of")]},
                {"role": "tool", "content": "12", "tool_name": "age_of"}, {"role": "tool", "content": "13"},
                {"role": "assistant", "tool_calls": [call("weather", id="x"), call("age_of", id="y")]},
                {"role": "tool", "content": "14", "tool_call_id": "y"}, {"role": "tool", "content": "15", "tool_name": "weather"}]
        chat = [*USER["messages"],
                {"role": "assistant", "content": "So", "reasoning_content": "Hm",
                 "tool_calls": [theirs("call00000", "weather"), theirs("call00001", "age_of")]},
                {"role": "tool", "content": "12", "tool_call_id": "call00001", "name": "age_of"},
                {"role": "tool", "content": "13", "tool_call_id": "call00000", "name": "weather"},
                {"role": "assistant", "content": "", "tool_calls": [theirs("x", "weather"), theirs("y", "age_of")]},
                {"role": "tool", "content": "14", "tool_call_id": "y", "name": "age_of"},
                {"role": "tool", "content": "15", "tool_call_id": "x", "name": "weather"}]
        for more in ({}, {"tools": TOOLS}):
            wanted = server.post(CHAT, dict(HI, messages=chat, **more))
            whole = server.post("/api/chat", dict(ASK, messages=ours, stream=False, **more))
            self.assertEqual(whole["prompt_eval_count"], wanted["usage"]["prompt_tokens"])
            self.assertEqual(whole["message"]["content"], wanted["choices"][0]["message"]["content"])


class Several(Case):
    """A server of the models in a folder."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("models"))
        self.env["RIFFLE_MODELS"] = self.path("models")
        for name in ("first", "second"):
            self.path("models/%s.gguf" % name, with_template(TEMPLATE))
        self.server = SeveralServer(self, "--keep-alive", "3600", env={"TZ": "Asia/Tokyo"})

    def names(self, path):
        return sorted(model["name"] for model in self.server.ask("GET", path)[1]["models"])

    def test_names(self):
        closed = self.server.ask("GET", "/api/tags")[1]["models"]
        self.assertEqual((self.names("/api/tags"), self.names("/api/ps")), (["first", "second"], []))
        self.assertEqual(self.server.ask("GET", "/tokenizer_info")[0], 400)
        chat = self.server.post(CHAT, dict(HI, model="second"))["choices"][0]["message"]["content"]
        self.assertEqual(self.names("/api/ps"), ["second"])
        for name in ("second", "second:latest"):
            reply = self.server.post("/api/chat", dict(ASK, model=name, stream=False))
            self.assertEqual((reply["model"], reply["message"]["content"]), ("second", chat))
        tags = {model["name"]: model for model in self.server.ask("GET", "/api/tags")[1]["models"]}
        self.assertEqual(tags["first"]["size"], tags["second"]["size"])
        self.assertEqual([tags[name]["details"]["family"] for name in ("first", "second")], ["", "llama"])
        for name in ("model", "name"):
            self.assertEqual(self.server.post("/api/pull", {name: "first:latest"}), {"status": "success"})
            self.assertIn(TEMPLATE, self.server.post("/api/show", {name: "first"})["template"])
        self.assertEqual(self.names("/api/ps"), ["first", "second"])
        now = self.server.ask("GET", "/api/tags")[1]["models"]
        self.assertEqual([[m[k] for k in ("name", "size", "digest")] for m in closed], [[m[k] for k in ("name", "size", "digest")] for m in now])
        for path, body in (("/api/show", {"name": "third"}), ("/api/show", {"model": "first:1b"}), ("/api/pull", {"name": "third"})):
            status, reply = self.server.ask("POST", path, body)
            self.assertEqual((status, "first, second" in reply["error"]), (404, True))
        self.assertEqual(self.server.ask("POST", "/api/show", {"name": "first", "model": "first"})[0], 400)
        self.assertEqual(self.server.ask("POST", "/api/chat", ASK)[0], 400)

    def test_times(self):
        """The end of a model's time, in UTC in any zone."""
        self.server.post("/api/chat", dict(ASK, model="first", stream=False))
        loaded = self.server.ask("GET", "/api/ps")[1]["models"][0]
        left = datetime.datetime.fromisoformat(loaded["expires_at"].replace("Z", "+00:00")).timestamp() - time.time()
        self.assertTrue(3000 < left < 3610, left)


class Ends(Case):
    def test_times(self):
        """Times are of UTC in any zone."""
        server = Server(self, env={"TZ": "Asia/Tokyo"})
        told = server.ask("GET", "/api/tags")[1]["models"][0]["modified_at"]
        age = time.time() - datetime.datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp()
        self.assertTrue(-5 < age < 600, age)

    def test_key(self):
        server = Server(self, "--api-key", "secret")
        for path in ("/api/tags", "/api/version", "/api/ps", "/tokenizer_info"):
            self.assertEqual(server.ask("GET", path)[0], 401)
            self.assertEqual(server.ask("GET", path, headers={"Authorization": "Bearer secret"})[0], 200)
        self.assertEqual(server.ask("POST", "/api/chat", ASK)[0], 401)

    def test_cut_stream(self):
        """A stream that the end of the server cuts ends with an error."""
        long = {"type": "string", "minLength": 20000}
        for _ in range(20):  # the answer may have ended before the signals come
            server = Server(self)

            def end():
                for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
                    server.process.send_signal(number)
            found = lines(server, "/api/chat", dict(USER, format=long), end)
            server.process.wait(TIMEOUT)
            if "error" in found[-1]:
                break
        self.assertIn("stopped", found[-1]["error"])
        self.assertEqual({o["done"] for o in found[:-1]}, {False})


@unittest.skipUnless(ollama, "the package ollama is not installed")
class Package(OneServer):
    def setUp(self):
        super().setUp()
        self.client = ollama.Client("http://127.0.0.1:%d" % self.server.port)
        self.question = dict(model=self.server.model, messages=HI["messages"], options=ASK["options"])

    def test_answers(self):
        whole = self.client.chat(**self.question)
        pieces = list(self.client.chat(**self.question, stream=True))
        self.assertEqual("".join(p.message.content for p in pieces), whole.message.content)
        self.assertEqual((pieces[-1].eval_count, whole.eval_count, whole.done_reason), (12, 12, "length"))
        whole = self.client.generate(self.server.model, "Hi", options=ASK["options"])
        pieces = list(self.client.generate(self.server.model, "Hi", options=ASK["options"], stream=True))
        self.assertEqual("".join(p.response for p in pieces), whole.response)
        answer = self.client.chat(**{**self.question, "options": {"num_predict": 200}}, format=SCHEMA)
        self.assertEqual(list(json.loads(answer.message.content)), ["name", "age"])

    def test_tools(self):
        def weather(now: bool) -> str:
            """Says what weather it is.

            Args:
                now: today
            """
            return str(now)
        answer = self.client.chat(**self.question, tools=[weather])
        messages = [*self.question["messages"], answer.message, {"role": "assistant", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"now": True}}}]}, {"role": "tool", "content": "rain", "tool_name": "weather"}]
        self.assertTrue(self.client.chat(**{**self.question, "messages": messages}, tools=[weather]).message.content)

    def test_models(self):
        self.assertEqual([m.model for m in self.client.list().models], [self.server.model])
        self.assertEqual([m.name for m in self.client.ps().models], [self.server.model])
        self.assertIn("tools", self.client.show(self.server.model).capabilities)
        self.assertEqual(self.client.pull(self.server.model).status, "success")
        self.assertEqual(len(self.client.embed(self.server.model, ["a", "b"]).embeddings), 2)
        self.assertEqual(len(self.client.embeddings(self.server.model, "a").embedding), 64)
        with self.assertRaises(ollama.ResponseError) as caught:
            self.client.delete(self.server.model)
        self.assertEqual((caught.exception.status_code, "deletes nothing" in caught.exception.error), (403, True))


@unittest.skipUnless(litellm, "the package litellm is not installed")
class Others(OneServer):
    def test_litellm(self):
        url = "http://127.0.0.1:%d" % self.server.port
        wanted = self.server.post(CHAT, HI)["choices"][0]["message"]["content"]
        for provider, base in (("ollama_chat", url), ("openai", url + "/v1"), ("openai", url)):
            asked = dict(model="%s/%s" % (provider, self.server.model), messages=HI["messages"], api_base=base, api_key="none",
                         max_tokens=12, temperature=0)
            self.assertEqual(litellm.completion(**asked).choices[0].message.content, wanted)
            pieces = litellm.completion(**asked, stream=True)
            self.assertEqual("".join(p.choices[0].delta.content or "" for p in pieces), wanted)


if __name__ == "__main__":
    main()
