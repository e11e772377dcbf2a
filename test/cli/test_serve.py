"""serve: OpenAI's interface, as its Python package, curl and plain sockets use it."""

import concurrent.futures
import http.client
import json
import shutil
import signal
import socket
import subprocess
import time
import unittest

from harness import MODEL, RIFFLE, TIMEOUT, Case, main

try:
    import openai
except ImportError:
    openai = None

CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
STORY = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer",
          "minimum": 0, "maximum": 99}}, "required": ["name", "age"], "additionalProperties": False}


class Server:
    def __init__(self, case, *arguments, env=None):
        self.process = case.start("serve", MODEL, "--template", "chatml", "--port", "0", *arguments, env=env)
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
        return response.status, json.loads(text) if "json" in response.headers["Content-Type"] else text

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
        return [json.loads(part[6:]) for part in text.split("\n\n")[:-2]]

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        return sum(float(line.split()[1]) for line in text.splitlines() if line.split()[0] == "riffle_" + name)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


class Answers(Case):
    def setUp(self):
        super().setUp()
        self.server = Server(self)

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
        self.assertEqual(len({e["id"] for e in events}), 1)
        events = self.server.events(CHAT, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5})
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(events[-1]["choices"][0]["delta"], {})

    def test_stop(self):
        text = self.server.text(STORY)
        stop = text.split()[6]
        reply = self.server.post(COMPLETE, dict(STORY, stop=["never in here", stop]))
        self.assertEqual(reply["choices"][0]["text"], text[:text.index(stop)])
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertEqual(self.server.text(dict(STORY, stop=stop)), text[:text.index(stop)])

    def test_schema(self):
        for seed in range(4):
            text = self.server.text(dict(STORY, temperature=1, seed=seed, max_tokens=100, response_format={
                "type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}))
            person = json.loads(text)
            self.assertEqual(set(person), {"name", "age"})
            self.assertTrue(0 <= person["age"] <= 99)

    def test_beginnings_are_kept(self):
        messages = [{"role": "system", "content": "You are a story teller. " * 4}, {"role": "user", "content": "A dog"}]
        first = self.server.post(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0})
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        second = self.server.post(CHAT, {"messages": [messages[0], {"role": "user", "content": "A cat"}],
                                         "max_tokens": 12, "temperature": 0})
        self.assertGreater(second["usage"]["prompt_tokens_details"]["cached_tokens"], 20)
        again = self.server.post(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0})
        self.assertEqual(again["choices"], first["choices"])
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], first["usage"]["prompt_tokens"])

    def test_wrong_requests(self):
        refused = [
            (400, "JSON", COMPLETE, "{"), (400, "JSON", COMPLETE, ""), (400, "object", COMPLETE, "[]"),
            (400, "duplicate", COMPLETE, '{"prompt":"a","prompt":"b"}'), (400, "prompt", COMPLETE, {}),
            (400, "prompt", COMPLETE, {"prompt": ["a", "b"]}), (400, "messages", CHAT, {"messages": []}),
            (400, "messages[0]", CHAT, {"messages": [{"role": "user"}]}),
            (400, "messages[0]", CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            (400, "no body", CHAT, {"messages": [{"role": "no body", "content": "a"}]}),
            (400, "temperature", COMPLETE, dict(STORY, temperature=-1)), (400, "seed", COMPLETE, dict(STORY, seed="x")),
            (400, "max_tokens", COMPLETE, dict(STORY, max_tokens=0)), (400, "stop", COMPLETE, dict(STORY, stop=[1])),
            (400, "stop", COMPLETE, dict(STORY, stop=["x"] * 17)), (400, "stream", COMPLETE, dict(STORY, stream=1)),
            (400, "n is", COMPLETE, dict(STORY, n=2)), (400, "logprobs", COMPLETE, dict(STORY, logprobs=0)),
            (400, "tools", COMPLETE, dict(STORY, tools=[{"type": "function"}])),
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
        self.assertEqual(self.server.ask("GET", "/health"), (200, {"status": "ok"}))

    def test_clients_that_vanish(self):
        body = json.dumps(dict(STORY, max_tokens=400, stream=True)).encode()
        for _ in range(100):  # a small model may be faster than the closing
            with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                                   b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.05)
            if self.server.metric("cancelled_total"):
                break
        self.assertGreater(self.server.metric("cancelled_total"), 0)
        while self.server.metric("generating") + self.server.metric("reading") + self.server.metric("waiting"):
            time.sleep(0.05)
        self.assertEqual(self.server.text(STORY), self.server.text(STORY))

    def test_seen(self):
        self.server.text(STORY)
        self.assertEqual(self.server.metric("prompt_tokens_total"), 5)
        self.assertEqual(self.server.metric("first_token_seconds_count"), 1)
        self.assertEqual(self.server.metric('replies_total{status="200"}'), 3)
        models = self.server.ask("GET", "/v1/models")[1]
        self.assertEqual([m["id"] for m in models["data"]], [self.server.model])
        status, page = self.server.ask("GET", "/")
        self.assertEqual((status, "<script>" in page), (200, True))
        self.assertEqual(self.server.stop(), 0)
        events = [json.loads(line) for line in self.server.process.stdout]
        self.assertEqual([e["event"] for e in events], ["answer", "stopping", "stopped"])
        self.assertEqual(events[0]["generated_tokens"], 40)

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("no curl here")
        result = subprocess.run(["curl", "-sSN", "http://localhost:%d%s" % (self.server.port, COMPLETE), "-H",
                                 "Content-Type: application/json", "-d", json.dumps(dict(STORY, stream=True))],
                                stdout=subprocess.PIPE, timeout=TIMEOUT, check=True)
        self.assertTrue(result.stdout.endswith(b"data: [DONE]\n\n"))


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


@unittest.skipUnless(openai, "the package openai is not installed")
class OpenAI(Case):
    def setUp(self):
        super().setUp()
        self.server = Server(self, "--api-key", "secret")
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
