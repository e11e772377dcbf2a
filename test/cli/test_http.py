"""serve: HTTP as RFC 9110 and 9112 have it, by plain sockets, and the limits of each resource."""

import concurrent.futures
import json
import re
import resource
import socket
import threading
import time
import unittest

from harness import RIFFLE, TIMEOUT, main, with_template
from test_serve import CHAT, COMPLETE, EMBED, HI, SCHEMA, STORY, TOOLS, OneServer, Server

JSON = b"Content-Type: application/json\r\n"
BODY = json.dumps({"prompt": "a", "max_tokens": 2, "temperature": 0}).encode()
CLOSE = b"Connection: close\r\n"
with open(RIFFLE, "rb") as program:
    INSTRUMENTED = b"san_init" in program.read()  # of AddressSanitizer or ThreadSanitizer
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def exchange(port, *parts, half=False):
    """Sends the parts and reads to the connection's end."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        out = b""
        try:
            for part in parts:
                connection.sendall(part)
            if half:
                connection.shutdown(socket.SHUT_WR)
        except OSError:  # refused before the end
            pass
        while True:
            try:
                more = connection.recv(65536)
            except ConnectionError:
                return out
            if not more:
                return out
            out += more


def replies(data):
    """(status, headers, body) of each reply; names of headers in lower case."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        n = int(headers.get("content-length", 0 if lines[0].split()[1] == "100" else len(data)))
        found.append((int(lines[0].split()[1]), headers, data[:n]))
        data = data[n:]
    return found


def post(*lines, body=BODY, length=True):
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"".join(lines) +
            (b"Content-Length: %d\r\n" % len(body) if length else b"") + b"\r\n" + body)


class Messages(OneServer):
    def one(self, *parts, half=False):
        found = replies(exchange(self.server.port, *parts, half=half))
        self.assertEqual(len(found), 1, found)
        status, headers, body = found[0]
        if status >= 400:
            self.assertEqual(set(json.loads(body)["error"]), {"message", "type", "param", "code"})
        return found[0]

    def test_head(self):
        for path in (b"/health", b"/v1/models", b"/", b"/openapi.json"):
            got = self.one(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n")
            data = exchange(self.server.port, b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n")
            self.assertTrue(data.endswith(b"\r\n\r\n"))
            head = data[:-4].decode().split("\r\n")
            self.assertEqual(head[0], "HTTP/1.1 200 OK")
            self.assertIn("Content-Length: %d" % len(got[2]), head)

    def test_methods(self):
        for method, path, allowed in ((b"DELETE", b"/health", "GET, HEAD"), (b"GET", CHAT.encode(), "POST"),
                                      (b"HEAD", EMBED.encode(), "POST"), (b"get", b"/health", "GET, HEAD"),
                                      (b"OPTIONS", b"/v1/models", "GET, HEAD")):
            data = exchange(self.server.port, method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n")
            self.assertIn(b" 405 ", data.split(b"\r\n")[0])
            self.assertIn(b"\r\nAllow: " + allowed.encode() + b"\r\n", data)

    def test_targets(self):
        for target in (b"http://localhost:1/health", b"HTTP://LOCALHOST/health?a=b", b"/health?x", b"/he%61lth"):
            self.assertEqual(self.one(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n")[0], 200)
        # The target's host counts, not the header's.
        self.assertEqual(self.one(b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n")[0], 403)

    def test_hosts(self):
        for lines, status in ((b"", 400), (b"Host: localhost\r\nHost: localhost\r\n", 400), (b"Host: LocalHost:80\r\n", 200),
                              (b"hOsT: 127.0.0.1\r\n", 200), (b"Host: [::1]:8080\r\n", 200), (b"Host: a b\r\n", 400),
                              (b"Host: localhost.evil.example\r\n", 403)):
            self.assertEqual(self.one(b"GET /v1/models HTTP/1.1\r\n" + lines + CLOSE + b"\r\n")[0], status, lines)
        self.assertEqual(self.one(b"GET /v1/models HTTP/1.0\r\n\r\n")[0], 200)

    def test_cases(self):
        plain = json.loads(self.one(post(CLOSE))[2])["choices"]
        for media in (b"Application/JSON", b"application/json; charset=utf-8", b"application/json;charset=UTF-8"):
            data = post(b"CONNECTION: Close\r\n").replace(b"Content-Type: application/json", b"CONTENT-TYPE: " + media)
            self.assertEqual(json.loads(self.one(data)[2])["choices"], plain)
        for media in (b"application/jsonx", b"text/json", b""):
            self.assertEqual(self.one(post(CLOSE).replace(b"application/json", media))[0], 415)
        self.assertEqual(self.one(post(CLOSE, b"Content-Encoding: gzip\r\n"))[0], 415)

    def test_framing(self):
        wrong = ((400, (b"Content-Length: 5\r\n",)), (400, (b"Transfer-Encoding: chunked\r\n",)))
        for status, lines in wrong:
            self.assertEqual(self.one(post(*lines))[0], status)
        for status, coding in ((501, b"gzip"), (501, b"gzip, chunked"), (501, b"identity")):
            self.assertEqual(self.one(post(b"Transfer-Encoding: " + coding + b"\r\n", length=False, body=b""))[0], status)
        for body in (b"zz\r\n", b"5\r\nabcdefgh", b"-1\r\n"):
            self.assertEqual(self.one(post(b"Transfer-Encoding: chunked\r\n", length=False, body=body))[0], 400)
        chunked = b"4;a=b\r\n" + BODY[:4] + b"\r\n%X\r\n" % len(BODY[4:]) + BODY[4:] + b"\r\n0\r\nT: v\r\n\r\n"
        whole = self.one(post(CLOSE, b"Transfer-Encoding: Chunked\r\n", length=False, body=chunked))
        self.assertEqual(json.loads(whole[2])["choices"], json.loads(self.one(post(CLOSE))[2])["choices"])
        for lines in (b"X: a\r\n b\r\n", b"X : a\r\n", b"no colon\r\n", b"X: a\x01\r\n"):
            self.assertEqual(self.one(post(lines))[0], 400)
        self.assertEqual(self.one(b"GET /health HTTP/3.0\r\n\r\n")[0], 505)
        self.assertEqual(self.one(b"nonsense\r\n\r\n")[0], 400)
        self.assertEqual(self.one(b"GET /" + b"a" * 40000)[0], 414)
        self.assertEqual(self.one(post(b"X: " + b"a" * 40000 + b"\r\n"))[0], 431)

    def test_expectations(self):
        self.assertEqual(self.one(post(b"Expect: x\r\n"))[0], 417)
        head, body = post(CLOSE, b"Expect: 100-Continue\r\n")[:-len(BODY)], BODY
        with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
            connection.sendall(head)
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n"))
        big = post(b"Expect: 100-continue\r\nContent-Length: 5000000\r\n", length=False, body=b"")
        self.assertEqual(self.one(big)[0], 413)

    def test_half_closed(self):
        whole = json.loads(self.one(post(), half=True)[2])["choices"]
        self.assertEqual(whole, json.loads(self.one(post(CLOSE))[2])["choices"])
        long = json.dumps(dict(STORY, max_tokens=200)).encode()
        self.assertEqual(self.one(post(body=long), half=True)[0], 200)
        stream = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
        self.assertTrue(exchange(self.server.port, post(body=stream), half=True).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"))
        self.assertEqual(self.one(post()[:-3], half=True)[0], 400)

    def test_vanished_without_stream(self):
        """A client that has closed both halves is noticed before its answer is there."""
        before = self.server.metric("cancelled_total")
        body = json.dumps(dict(STORY, prompt=[STORY["prompt"]] * 40, max_tokens=900)).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
            connection.sendall(post(body=body))
            while not self.server.metric("generating"):
                time.sleep(0.02)
        while self.server.metric("generating") + self.server.metric("reading") + self.server.metric("waiting"):
            time.sleep(0.02)
        self.assertGreater(self.server.metric("cancelled_total"), before)

    def test_pipeline(self):
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        found = replies(exchange(self.server.port, get + b"\r\n" + post() + get + CLOSE + b"\r\n"))
        self.assertEqual([status for status, _, _ in found], [200, 200, 200])
        self.assertEqual(json.loads(found[1][2])["object"], "text_completion")
        stream = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
        data = exchange(self.server.port, b"POST /v1/completions HTTP/1.0\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(stream) + stream)
        self.assertTrue(data.endswith(b"data: [DONE]\n\n"))
        self.assertNotIn(b"chunked", data)


class Members(OneServer):
    def test_refused(self):
        for path, body, members in (
                (CHAT, HI, {"store": True, "service_tier": "flex", "verbosity": "low", "reasoning_effort": "high", "suffix": "x",
                            "echo": True, "continue_final_message": True, "dimensions": 3, "audio": {"voice": "x"}, "prompt": "x",
                            "min_tokens": 3, "stop_token_ids": [2], "guided_whitespace_pattern": " ", "structured_outputs": {
                                "structural_tag": "x"}, "grammar": 3, "guided_json": [1], "guided_choice": [1], "ignore_eos": 1,
                            "guided_regex": {"a": 1}, "json_schema": 5, "add_generation_prompt": 3, "best_of": 2}),
                (COMPLETE, STORY, {"messages": HI["messages"], "modalities": ["audio"], "top_logprobs": 2, "reasoning_effort": "low",
                                   "chat_template_kwargs": {"a": 1}, "mirostat": 2, "parallel_tool_calls": 3}),
                (EMBED, {"input": "a"}, {"temperature": 1, "n": 2, "stream": True, "max_tokens": 4, "tools": TOOLS,
                                         "response_format": {"type": "json_object"}, "dimensions": 64})):
            for name, value in members.items():
                status, reply = self.server.ask("POST", path, dict(body, **{name: value}))
                self.assertEqual((status, re.split("[ :.]", reply["error"]["message"])[0]), (400, name))
                self.assertEqual(reply["error"]["param"], name)
                self.assertEqual(self.server.ask("POST", path, dict(body, **{name: None}))[0], 200, name)

    def test_stream_options(self):
        for options, says in (({"include_usage": True}, "without stream"), ([1], "an object"), ({"x": 1}, "stream_options.x")):
            body = dict(STORY, stream_options=options, stream=says != "without stream")
            status, reply = self.server.ask("POST", COMPLETE, body)
            self.assertEqual((status, says in reply["error"]["message"]), (400, True), reply)
        for path, body in ((COMPLETE, STORY), (CHAT, HI)):
            events = self.server.events(path, dict(body, stream_options={"include_usage": True}))
            self.assertEqual([e["usage"] for e in events[:-1]], [None] * (len(events) - 1))
            self.assertGreater(events[-1]["usage"]["completion_tokens"], 0)
            for event in self.server.events(path, dict(body, stream_options={"include_usage": None})):
                self.assertNotIn("usage", event)
            told = self.server.events(path, dict(body, stream_options={"include_levels": True}))
            levels = [choice.get("level") for event in told for choice in event["choices"]]
            self.assertTrue(any(level is not None and level >= 0 for level in levels), levels)
            self.assertNotIn("level", str(self.server.events(path, body)))

    def test_values(self):
        for path, body in ((COMPLETE, STORY), (CHAT, HI)):
            for name, value in (("temperature", 101), ("n", 17), ("stop", [1]), ("stream", 3), ("seed", "x"), ("top_p", 2)):
                status, reply = self.server.ask("POST", path, dict(body, **{name: value}))
                self.assertEqual((status, reply["error"]["param"]), (400, name))
        self.assertEqual(self.server.text(dict(STORY, top_p=0, temperature=1)), self.server.text(STORY))
        for schema, status in (({"const": "42"}, 200), ({"type": "hiccup"}, 400), ([1], 400)):
            got, reply = self.server.ask("POST", COMPLETE, dict(STORY, response_format={"type": "json_object", "schema": schema}))
            self.assertEqual(got, status)
            if status == 200:
                self.assertEqual(reply["choices"][0]["text"], '"42"')

    def limited(self, path, body, **limit):
        choice = self.server.post(path, dict(body, max_tokens=60, temperature=1, seed=5, **limit))["choices"][0]
        return choice["text"] if path == COMPLETE else choice["message"]["content"]

    def test_limits(self):
        """Each name that servers have for a limit limits the answer."""
        digits, age = 'root ::= [0-9]{3}', json.dumps(SCHEMA)
        for path, body in ((COMPLETE, STORY), (CHAT, HI)):
            for limit in ({"grammar": digits}, {"guided_grammar": digits}, {"guided_regex": "[0-9]{3}"},
                          {"structured_outputs": {"regex": "^\\d{3}$", "choice": None}}, {"structured_outputs": {"grammar": digits}}):
                self.assertRegex(self.limited(path, body, **limit), "^[0-9]{3}$", limit)
            for limit in ({"guided_choice": ["yes", "[n]o"]}, {"structured_outputs": {"choice": ["yes", "[n]o"]}},
                          {"guided_regex": "yes|\\[n\\]o"}):
                self.assertIn(self.limited(path, body, **limit), ("yes", "[n]o"), limit)
            for limit in ({"json_schema": SCHEMA}, {"guided_json": SCHEMA}, {"guided_json": age}, {"structured_outputs": {"json": SCHEMA}},
                          {"response_format": {"type": "json_schema", "schema": SCHEMA}}):
                self.assertEqual(list(json.loads(self.limited(path, body, **limit))), ["name", "age"], limit)
            for limit in ({"guided_json_object": True}, {"structured_outputs": {"json_object": True}}):
                self.assertEqual(self.limited(path, body, **limit)[0], "{", limit)

    def test_one_limit(self):
        for more, says in (({"grammar": "root ::= [a"}, "column"), ({"guided_regex": "(a"}, "')'"),
                           ({"guided_json": "{"}, "line 1"), ({"grammar": "root ::= [a]", "guided_regex": "a"}, "guided_regex is beside grammar"),
                           ({"guided_json": SCHEMA, "response_format": {"type": "json_object"}}, "guided_json is beside response_format"),
                           ({"grammar": "root ::= [a]", "ignore_eos": True}, "grammar is beside ignore_eos"),
                           ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs is beside"),
                           ({"response_format": {"type": "text", "schema": SCHEMA}}, "response_format.schema"),
                           ({"response_format": {"type": "json_object", "json_schema": {}}}, "response_format.json_schema")):
            status, reply = self.server.ask("POST", COMPLETE, dict(STORY, **more))
            self.assertEqual((status, says in reply["error"]["message"]), (400, True), reply)

    def test_names_of_other_servers(self):
        self.assertEqual(self.server.text(dict(STORY, repetition_penalty=1.3)), self.server.text(dict(STORY, repeat_penalty=1.3)))
        self.assertNotEqual(self.server.text(dict(STORY, repetition_penalty=1.3)), self.server.text(STORY))
        both = dict(STORY, repetition_penalty=1.3, repeat_penalty=1.2)
        self.assertEqual(self.server.ask("POST", COMPLETE, both)[1]["error"]["param"], "repetition_penalty")
        wild = dict(STORY, temperature=1, seed=4)
        self.assertEqual(self.server.text(dict(wild, top_k=-1)), self.server.text(dict(wild, top_k=0)))
        self.assertEqual(self.server.ask("POST", COMPLETE, dict(STORY, top_k=-2))[0], 400)
        self.assertEqual(self.server.ask("POST", COMPLETE, dict(STORY, max_tokens=-2))[0], 400)
        for name in ("max_tokens", "max_completion_tokens"):
            reply = self.server.post(COMPLETE, {"prompt": STORY["prompt"], "temperature": 0, name: -1})
            self.assertGreater(reply["usage"]["completion_tokens"], 300)
        ends = dict(STORY, logit_bias={"2": 100})
        self.assertEqual(self.server.post(COMPLETE, ends)["choices"][0]["finish_reason"], "stop")
        on = self.server.post(COMPLETE, dict(ends, ignore_eos=True))
        self.assertEqual((on["choices"][0]["finish_reason"], on["usage"]["completion_tokens"]), ("length", 40))

    def test_openings(self):
        """The first piece of each answer has the role and nothing else."""
        events = self.server.events(CHAT, dict(HI, n=2, temperature=1, logprobs=True))
        for i in range(2):
            own = [c for e in events for c in e["choices"] if c["index"] == i]
            self.assertEqual(own[0], {"index": i, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None})
            self.assertEqual([c for c in own[1:] if "role" in c["delta"]], [])
            self.assertIsNone(own[1]["finish_reason"])

    def test_messages(self):
        for message, says in (({"role": "usr", "content": "a"}, 'message 2 has the role "usr"'),
                              ({"role": "User", "content": "a"}, 'message 2 has the role "User"'),
                              ({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}, "messages[1].function_call"),
                              ({"role": "assistant", "content": "a", "audio": {"id": "x"}}, "messages[1].audio"),
                              ({"role": "assistant", "content": "a", "refusal": "no"}, "messages[1].refusal")):
            status, reply = self.server.ask("POST", CHAT, dict(HI, messages=HI["messages"] + [message]))
            self.assertEqual((status, says in reply["error"]["message"]), (400, True), reply)
        def tokens(role):
            messages = [{"role": role, "content": "Answer with one word."}] + HI["messages"]
            return self.server.post(CHAT, dict(HI, messages=messages))["usage"]["prompt_tokens"]
        self.assertEqual(tokens("developer"), tokens("system"))
        self.assertEqual(tokens("function"), tokens("tool"))

    def test_effort(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ reasoning_effort }}"
        server = Server(self, model=self.path("effort.gguf", with_template(template)), template=None)
        self.assertEqual(server.ask("POST", CHAT, dict(HI, reasoning_effort="high"))[0], 200)


class Budgets(OneServer):
    def memory(self):
        with open("/proc/%d/status" % self.server.process.pid) as file:
            return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10

    def test_bodies(self):
        """A body beyond the limit is refused by its header, or as soon as it is too long."""
        self.assertEqual(replies(exchange(self.server.port, post(b"Content-Length: 4194305\r\n", length=False, body=b"")))[0][0], 413)
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        endless = [post(b"Transfer-Encoding: chunked\r\n", length=False, body=b"")] + [chunk] * 100
        data = exchange(self.server.port, *endless)
        self.assertTrue(not data or replies(data)[0][0] == 413)

    def test_memory(self):
        text = "Once upon a time there was a little girl. " * 20
        wants = ((200, {"prompt": [text] * 32, "max_tokens": 0, "echo": True, "logprobs": 20}),
                 (400, {"prompt": "a" * 4000000}), (400, {"prompt": "once upon " * 400000}),
                 (400, '{"prompt":[' + ",".join("1" * 2000000) + "]}"), (400, '{"x":[' + ",".join(["{}"] * 1300000) + "]}"),
                 (400, dict(STORY, logit_bias={str(i): 1 for i in range(300000)})))
        before = self.memory()
        for status, body in wants:
            self.assertEqual(self.server.ask("POST", COMPLETE, body)[0], status)
        messages = [{"role": "user", "content": "a"}] * 120000
        self.assertEqual(self.server.ask("POST", CHAT, {"messages": messages})[0], 400)
        if not INSTRUMENTED:
            self.assertLess(self.memory() - before, (3 * 4 + 256) << 20)

    def test_reply(self):
        """The log-probabilities of one reply are limited."""
        body = {"prompt": ["Once upon a time there was a little girl. " * 130] * 200, "max_tokens": 0, "echo": True, "logprobs": 20}
        status, reply = self.server.ask("POST", COMPLETE, body)
        self.assertEqual((status, reply["error"]["code"]), (400, "reply_too_long"))

    def test_others_go_on(self):
        """While questions are prepared that take long, the network and other questions go on."""
        slow = dict(STORY, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {
            "oneOf": [{"const": i} for i in range(60000)]}}})
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            held = [threads.submit(self.server.ask, "POST", COMPLETE, slow) for _ in range(3)]
            self.assertEqual(self.server.ask("GET", "/health")[0], 200)
            text = self.server.text(dict(STORY, max_tokens=90, response_format={
                "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}))
            self.assertEqual(set(json.loads(text)), {"name", "age"})
            self.assertFalse(any(one.done() for one in held))
            self.assertEqual({one.result()[0] for one in held}, {400})

    @unittest.skipIf(DESCRIPTORS < 1500, "too few descriptors for a test of many connections")
    def test_idle_connections(self):
        """New clients are served however many connections idle; the oldest of these are closed."""
        idle = [socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) for _ in range(1300)]
        try:
            self.assertEqual(self.server.ask("GET", "/health")[0], 200)
            self.assertTrue(self.server.text(STORY))
            self.assertEqual(idle[0].recv(1), b"")
            idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(idle[-1].recv(100).startswith(b"HTTP/1.1 200"))
        finally:
            for one in idle:
                one.close()

    def test_few_descriptors(self):
        server = Server(self)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        idle = [socket.create_connection(("127.0.0.1", server.port), TIMEOUT) for _ in range(100)]
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        for one in idle:
            one.close()

    def test_threads_of_clients(self):
        """Many connections at once, each with several requests, get each their own answers."""
        wanted = {n: self.server.text(dict(STORY, max_tokens=n)) for n in range(1, 9)}
        faults = []
        def ask(n):
            for _ in range(5):
                if self.server.text(dict(STORY, max_tokens=n)) != wanted[n]:
                    faults.append(n)
        threads = [threading.Thread(target=ask, args=(n,)) for n in wanted]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(faults, [])


if __name__ == "__main__":
    main()
