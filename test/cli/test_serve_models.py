"""serve with several models: names, opening on demand, bounds of memory and age, and files that do not open."""

import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import threading
import time

import hub
import web
from harness import MODEL, TIMEOUT, Case, main, with_template
from model_files import Gguf
from test_serve import CHAT, COMPLETE, EMBED, HI, STORY
from test_serve import Server as OneModel

LONG = dict(STORY, max_tokens=400, ignore_eos=True)
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


class Server(OneModel):
    """A server of the models in the case's folder, or of those that are given."""

    def __init__(self, case, *arguments, env=None):
        self.process = case.start("serve", *arguments, "--port", "0", env=env)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read().decode())
        event = json.loads(line)
        case.assertEqual(event["event"], "listening")
        self.case, self.port, self.model = case, event["port"], event["model"]

    def states(self):
        return {model["id"]: model["state"] for model in self.ask("GET", "/v1/models")[1]["data"]}

    def wait_for(self, event, **members):
        """The next such event."""
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event and members.items() <= found.items():
                return found
        self.case.fail("the server ended without " + event)

    def stream(self, body):
        """An answer that goes on until its connection is closed, or it is read."""
        connection, response = self.send("POST", COMPLETE, dict(body, stream=True))
        self.case.assertEqual(response.status, 200)
        self.case.assertTrue(response.readline())
        return connection, response


class Models(Case):
    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        os.mkdir(self.models)
        self.env["RIFFLE_MODELS"] = self.models

    def add(self, name, content=None):
        path = os.path.join(self.models, name)
        pathlib.Path(path).write_bytes(pathlib.Path(MODEL).read_bytes() if content is None else content)
        return path

    def model_mb(self, path):
        """The memory of an open model, in whole MB."""
        memory = self.json("info", path)["memory"]
        return -(-memory["total_bytes"] // 1000000)


class Names(Models):
    def test_by_the_requests_model(self):
        self.add("plain.gguf")
        self.add("chat.gguf", with_template(TEMPLATE))
        server = Server(self)
        self.assertIsNone(server.model)
        self.assertEqual(server.states(), {"plain": "closed", "chat": "closed"})
        self.assertEqual(server.ask("GET", "/health")[1]["models"], [])
        one = OneModel(self, template=None)
        for name in ("plain", "plain.gguf"):
            reply = server.post(COMPLETE, dict(STORY, model=name))
            self.assertEqual((reply["model"], reply["choices"][0]["text"]), ("plain", one.text(STORY)))
        self.assertEqual(server.states(), {"plain": "ready", "chat": "closed"})
        # Without a template there is no chat; the other model has one.
        self.assertEqual(server.ask("POST", CHAT, dict(HI, model="plain"))[0], 400)
        self.assertEqual(server.post(CHAT, dict(HI, model="chat"))["model"], "chat")
        self.assertEqual(server.ask("GET", "/health")[1]["models"], ["plain", "chat"])
        self.assertEqual(server.ask("GET", "/v1/models/chat")[1]["state"], "ready")
        self.assertEqual(server.ask("GET", "/v1/models/chat.gguf")[1]["id"], "chat")

    def test_all_endpoints(self):
        self.add("chat.gguf", with_template(TEMPLATE))
        server = Server(self)
        message = {"model": "chat", "max_tokens": 3, "messages": HI["messages"]}
        for path, body in ((CHAT, dict(HI, model="chat")), (COMPLETE, dict(STORY, model="chat")), ("/v1/messages", message),
                           (EMBED, {"input": "a", "model": "chat"}), ("/v1/responses", {"input": "a", "model": "chat"}),
                           ("/v1/messages/count_tokens", {k: message[k] for k in ("model", "messages")})):
            self.assertEqual(server.ask("POST", path, body)[0], 200, path)
            status, reply = server.ask("POST", path, dict(body, model="gpt-4"))
            self.assertEqual(status, 404, path)
            self.assertIn("the model gpt-4 is not here; this server has chat", reply["error"]["message"])

    def test_unknown(self):
        for i in range(40):
            self.add("model-with-a-long-name-%d.gguf" % i, b"no model")
        server = Server(self)
        for name in ("gpt-4", "model-with", self.models + "/model-with-a-long-name-1.gguf", "../models", "", MODEL,
                     "owner/repo", "hf.co/owner/repo:Q8_0", "file:" + MODEL, "smollm2-135m-instruct"):
            status, reply = server.ask("POST", COMPLETE, dict(STORY, model=name))
            error = reply["error"]
            self.assertEqual((status, error["code"], error["param"]), (404, "model_not_found", None), name)
            self.assertRegex(error["message"], r"this server has model-with-a-long-name-\d+, .* and \d+ more$")
        for name in ("gpt-4", "a%2Fb", "a/b", "..", "%2e%2e/x"):
            self.assertEqual(server.ask("GET", "/v1/models/" + name)[0], 404)
        status, reply = server.ask("POST", COMPLETE, STORY)
        self.assertEqual((status, reply["error"]["param"]), (400, "model"))
        self.assertIn("model is missing; this server has model-", reply["error"]["message"])
        for name in (7, ["a"], {"a": 1}, "a\0b"):
            self.assertEqual(server.ask("POST", COMPLETE, dict(STORY, model=name))[0], 400)
        self.assertEqual(len(server.states()), 40)

    def test_no_models(self):
        server = Server(self)
        self.assertEqual(server.states(), {})
        self.assertIn("this server has none", server.ask("POST", COMPLETE, dict(STORY, model="a"))[1]["error"]["message"])
        self.add("late.gguf")  # what comes later is found
        self.assertEqual(server.states(), {"late": "closed"})
        self.assertEqual(server.post(COMPLETE, dict(STORY, model="late"))["model"], "late")
        self.add("later.gguf")
        self.assertEqual(server.post(COMPLETE, dict(STORY, model="later"))["model"], "later")

    def test_given(self):
        one, two = self.add("one.gguf"), self.path("two.gguf", with_template(TEMPLATE))
        self.add("other.gguf")
        server = Server(self, "one", two)
        self.assertEqual(server.model, "one")
        self.assertEqual(server.states(), {"one": "ready", "two": "ready"})
        for name, answers in ((None, "one"), ("one", "one"), ("one.gguf", "one"), ("two", "two"), (two, "two")):
            body = dict(STORY, model=name) if name else STORY
            self.assertEqual(server.post(COMPLETE, body)["model"], answers)
        for name in ("other", one):
            status, reply = server.ask("POST", COMPLETE, dict(STORY, model=name))
            self.assertEqual((status, reply["error"]["message"]),
                             (404, "the model %s is not here; this server has one, two" % name))
        self.assertEqual(server.ask("GET", "/v1/models/other")[0], 404)
        text = server.ask("GET", "/metrics")[1]
        self.assertIn('\nriffle_prompt_tokens_total{model="one"} 15\n', text)
        self.assertIn('\nriffle_prompt_tokens_total{model="two"} 10\n', text)
        self.assertIn('\nriffle_model_open{model="two"} 1\n', text)
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.process.stdout]
        self.assertEqual([e["model"] for e in events if e["event"] == "answer"], ["one"] * 3 + ["two"] * 2)

    def test_usage(self):
        one = self.add("one.gguf")
        for option in (("--name", "a"), ("--draft", one), ("--head", "none"), ("--corpus", one)):
            self.fails(2, "serve", *option, says=option[0])
            self.fails(2, "serve", one, one, *option, says=option[0])
        self.fails(2, "serve", one, "--pull", says="--pull")
        self.fails(2, "serve", "", says="empty")
        self.fails(1, "serve", one, self.path("one.gguf", b""), says="two models have the name one")
        self.fails(1, "serve", one, self.path("bad.gguf", b"no model"), says="bad.gguf")
        self.fails(1, "serve", one, "nothing", says="nothing")

    def test_pull(self):
        served = web.Server()
        self.addCleanup(served.close)
        self.env["HF_ENDPOINT"] = served.url
        data = pathlib.Path(MODEL).read_bytes()
        hub.Hub(served).huggingface("owner/tiny-GGUF", {"tiny-Q8_0.gguf": data})
        name = "hf.co/owner/tiny-GGUF:Q8_0"
        server = Server(self)
        self.assertEqual(server.ask("POST", COMPLETE, dict(STORY, model=name))[0], 404)
        self.assertEqual(served.requests, [])
        self.assertEqual(server.stop(), 0)
        server = Server(self, "--pull")
        one = OneModel(self, template=None)
        self.assertEqual(server.post(COMPLETE, dict(STORY, model=name))["choices"][0]["text"], one.text(STORY))
        self.assertEqual(list(server.states().values()), ["ready"])
        server.process.send_signal(signal.SIGHUP)  # means reloading, also after a fetch
        server.wait_for("reloaded")
        n = len(served.requests)
        self.assertEqual(server.post(COMPLETE, dict(STORY, model=name))["choices"][0]["text"], one.text(STORY))
        self.assertEqual(len(served.requests), n)
        status, reply = server.ask("POST", COMPLETE, dict(STORY, model="hf.co/owner/none"))
        self.assertEqual((status, reply["error"]["code"]), (500, "model_not_loaded"))
        self.assertIn("owner/none", reply["error"]["message"])
        for name in ("gpt-4", "file:" + MODEL, MODEL, "http://localhost/x.gguf"):
            self.assertEqual(server.ask("POST", COMPLETE, dict(STORY, model=name))[0], 404, name)


    def test_stop_while_fetching(self):
        """A model that is being fetched holds neither others up nor the end of the server."""
        served = web.Server()
        self.addCleanup(served.close)
        self.env["HF_ENDPOINT"] = served.url
        made = hub.Hub(served)
        made.huggingface("owner/slow-GGUF", {"slow-Q8_0.gguf": pathlib.Path(MODEL).read_bytes()})
        path = made.file("owner/slow-GGUF", "slow-Q8_0.gguf")
        served.answers[path] = lambda request: request.block()
        self.add("here.gguf")
        server = Server(self, "--pull")
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            waits = threads.submit(server.ask, "POST", COMPLETE, dict(STORY, model="owner/slow-GGUF"))
            self.assertTrue(served.blocked.wait(TIMEOUT))
            self.assertTrue(server.text(dict(STORY, model="here")))
            self.assertEqual(server.ask("GET", "/v1/models/owner/slow-GGUF")[1]["state"], "fetching")
            self.assertEqual(server.stop(), 0)
            self.assertEqual(waits.result()[0], 503)
        self.assertFalse(served.release.is_set())


class Life(Models):
    def test_bad_files(self):
        """The sentence goes to those who asked, and the server lives on."""
        self.add("bad.gguf", b"no model")
        self.add("cut.gguf", pathlib.Path(MODEL).read_bytes()[:9999])
        self.add("good.gguf")
        server = Server(self)
        for name in ("bad", "cut"):
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                replies = list(threads.map(lambda _: server.ask("POST", COMPLETE, dict(STORY, model=name)), range(4)))
            for status, reply in replies:
                self.assertEqual((status, reply["error"]["code"]), (500, "model_not_loaded"))
                self.assertIn(name + ".gguf", reply["error"]["message"])
                self.assertNotIn("\n", reply["error"]["message"])
        self.assertEqual(server.states(), {"bad": "failed", "cut": "failed", "good": "closed"})
        wanted = server.text(dict(STORY, model="good"))
        self.add("bad.gguf")  # is tried again
        self.assertEqual(server.text(dict(STORY, model="bad")), wanted)
        self.assertEqual(server.stop(), 0)
        self.assertEqual([json.loads(line)["model"] for line in server.process.stdout if '"not_loaded"' in line.decode()
                          ].count("good"), 0)

    def test_memory(self):
        """The least recently used one is closed; none that answers."""
        for name in "abc":
            self.add(name + ".gguf")
        mb = self.model_mb(os.path.join(self.models, "a.gguf"))
        server = Server(self, "--models-memory", str(2 * mb + 1), "--kept-size", "1")
        wanted = server.text(dict(STORY, model="a"))
        self.assertEqual(server.text(dict(STORY, model="b")), wanted)
        self.assertEqual(server.text(dict(STORY, model="a")), wanted)
        self.assertEqual(server.text(dict(STORY, model="c")), wanted)
        self.assertEqual(server.states(), {"a": "ready", "b": "closed", "c": "ready"})
        connection, response = server.stream(dict(LONG, model="a"))
        self.assertEqual(server.text(dict(STORY, model="c")), wanted)
        self.assertEqual(server.text(dict(STORY, model="b")), wanted)
        self.assertNotEqual(server.states()["b"], "closed")
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        text = server.ask("GET", "/metrics")[1]
        self.assertLessEqual(sum(float(line.split()[1]) for line in text.splitlines()
                                 if line.startswith("riffle_model_bytes")), (2 * mb + 1) * 1e6)
        self.assertEqual(server.metric("prompt_tokens_total"), 35)

    def test_too_large(self):
        self.add("a.gguf")
        server = Server(self, "--models-memory", "1")
        status, reply = server.ask("POST", COMPLETE, dict(STORY, model="a"))
        self.assertEqual((status, reply["error"]["code"]), (500, "model_not_loaded"))
        self.assertRegex(reply["error"]["message"], r"a takes about \d+ MB, and models may take 1 MB \(--models-memory\)")

    def test_age(self):
        self.add("a.gguf")
        server = Server(self, "--keep-alive", "0")
        wanted = server.text(dict(STORY, model="a"))
        self.assertEqual(server.wait_for("unloaded")["reason"], "age")
        self.assertEqual(server.states(), {"a": "closed"})
        connection, response = server.stream(dict(LONG, model="a", max_tokens=450))
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(server.text(dict(STORY, model="a")), wanted)
        given = Server(self, "a", "--keep-alive", "0")
        given.wait_for("unloaded", model="a")
        self.assertEqual(given.text(STORY), wanted)

    def test_waits_for_room(self):
        """A model without room waits no longer than it is told; one whose answer is still being taken stays."""
        for name in "ab":
            self.add(name + ".gguf")
        mb = self.model_mb(os.path.join(self.models, "a.gguf"))
        server = Server(self, "--models-memory", str(mb + 1), "--kept-size", "1", "--model-wait", "1")
        body = json.dumps(dict(LONG, model="a", n=16, logprobs=20, stream=True)).encode()
        with socket.socket() as taking:  # an answer larger than what lies on the way
            taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            taking.settimeout(TIMEOUT)
            taking.connect(("127.0.0.1", server.port))
            taking.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                           b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            self.assertIn(b"200 OK", taking.recv(64))
            connection, response = server.send("POST", COMPLETE, dict(STORY, model="b"))
            reply = json.loads(response.read())
            connection.close()
            self.assertEqual((response.status, reply["error"]["code"]), (503, "model_loading"))
            self.assertEqual(response.headers["Retry-After"], "1")
            self.assertEqual(server.states()["a"], "ready")
            whole = b"".join(iter(lambda: taking.recv(1 << 16), b""))
        self.assertIn(b"data: [DONE]", whole)
        self.assertTrue(server.text(dict(STORY, model="b")))
        self.assertEqual(server.states(), {"a": "closed", "b": "ready"})

    def test_is_not_kept_out(self):
        """Answers of one model follow each other without a gap; the other one still gets its turn."""
        for name in "ab":
            self.add(name + ".gguf")
        mb = self.model_mb(os.path.join(self.models, "a.gguf"))
        server = Server(self, "--models-memory", str(mb + 1), "--kept-size", "1")
        wanted = server.text(dict(STORY, model="a"))
        # Somebody takes the events: a full pipe would hold the server up.
        threading.Thread(target=server.process.stdout.read, daemon=True).start()
        is_over = threading.Event()

        def ask_always():
            texts = set()
            while not is_over.is_set():
                texts.add(server.text(dict(STORY, model="a", max_tokens=300)))
            return texts
        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            others = [threads.submit(ask_always) for _ in range(6)]
            try:
                self.assertEqual(server.text(dict(STORY, model="b")), wanted)
            finally:
                is_over.set()
            self.assertEqual(len({text for other in others for text in other.result()}), 1)

    def test_turns(self):
        """Two models of which one fits, both always wanted: everybody gets an answer."""
        for name in "ab":
            self.add(name + ".gguf")
        mb = self.model_mb(os.path.join(self.models, "a.gguf"))
        server = Server(self, "--models-memory", str(mb + 1), "--kept-size", "1")
        wanted = server.text(dict(STORY, model="a"))
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            texts = list(threads.map(lambda i: server.text(dict(STORY, model="ab"[i % 2])), range(40)))
        self.assertEqual(set(texts), {wanted})

    def test_together(self):
        """Two models answer at the same time what each answers alone."""
        self.add("a.gguf")
        self.add("b.gguf", b"".join(Gguf().parts()))
        server = Server(self)
        bodies = [dict(STORY, model="a", max_tokens=200, ignore_eos=True),
                  dict(prompt="w270 w271", model="b", max_tokens=20, temperature=1, seed=3, ignore_eos=True)]
        alone = [server.text(body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            texts = list(threads.map(lambda i: server.text(bodies[i % 2]), range(16)))
        self.assertEqual(texts, alone * 8)

    def test_gone_while_loading(self):
        """Clients that leave while their model is opened leave nothing behind."""
        for name in "abcd":
            self.add(name + ".gguf")
        mb = self.model_mb(os.path.join(self.models, "a.gguf"))
        server = Server(self, "--models-memory", str(mb + 1), "--kept-size", "1")
        for i in range(40):
            body = json.dumps(dict(STORY, model="abcd"[i % 4])).encode()
            with socket.create_connection(("127.0.0.1", server.port), TIMEOUT) as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                                   b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        texts = {server.text(dict(STORY, model=name)) for name in "abcd"}
        self.assertEqual(len(texts), 1)
        end = time.monotonic() + TIMEOUT
        while server.metric("generating") + server.metric("reading") + server.metric("waiting") + server.metric("preparing"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_stop_while_waiting(self):
        self.add("a.gguf")
        server = Server(self)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            replies = threads.map(lambda _: server.ask("POST", COMPLETE, dict(STORY, model="a")), range(8))
            self.assertEqual({status for status, _ in replies}, {200})
        self.assertEqual(server.stop(), 0)

    def test_reload(self):
        a = self.add("a.gguf")
        self.add("b.gguf")
        server = Server(self)
        wanted = server.text(dict(STORY, model="a"))
        self.assertEqual(server.text(dict(STORY, model="b")), wanted)
        self.assertEqual(server.ask("POST", CHAT, dict(HI, model="a"))[0], 400)
        self.path("new.gguf", with_template(TEMPLATE))
        os.rename(self.path("new.gguf"), a)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reloaded", model="a")
        server.wait_for("reloaded", model="b")
        self.assertEqual(server.post(CHAT, dict(HI, model="a"))["model"], "a")
        self.assertEqual(server.ask("POST", CHAT, dict(HI, model="b"))[0], 400)


if __name__ == "__main__":
    main()
