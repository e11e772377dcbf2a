#!/usr/bin/env python3
"""llama-server's command line and paths in front of `riffle serve`, so that llama.cpp's own server tests ask Riffle.

LLAMA_SERVER_BIN_PATH names this file, RIFFLE the program. Paths that have an equal here are renamed, with their members;
the rest gets 501. Names of models are left out, as llama-server ignores them. test/clients/run_llama_server.py runs the
tests and compares their verdicts with those that are known.
"""

import argparse
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

STORIES = pathlib.Path(__file__).resolve().parents[1] / "data" / "stories260K.gguf"
TRAINED = 2048  # tokens that this model's context may have
# The repositories of the tests' presets; what they are for is tried with the small model of this tree.
REPOSITORIES = {"ggml-org/test-model-stories260K", "ggml-org/test-model-stories260K-infill", "ggml-org/models",
                "ggml-org/stories15M_MOE", "ggml-org/tinygemma3-GGUF:Q8_0"}
# Members that change nothing of an answer here: they choose slots, batches and what is told of the work.
TOLD = {"id_slot", "timings_per_token", "return_progress", "verbose", "return_tokens", "response_fields", "n_keep",
        "n_discard", "t_max_predict_ms", "t_max_prompt_ms", "min_keep", "n_cache_reuse", "reasoning_control"}
OURS = {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
        "/v1/embeddings", "/v1/models", "/tokenize", "/detokenize", "/health", "/metrics", "/"}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, kind in (("port", int), ("host", str), ("temp", float), ("seed", int), ("model", str), ("hf-repo", str), ("ctx-size", int),
                       ("parallel", int), ("api-key", str), ("alias", str), ("n-predict", int), ("pooling", str),
                       ("reasoning", str), ("chat-template", str), ("chat-template-file", str), ("cors-origins", str)):
        parser.add_argument("--" + name, type=kind)
    for name in ("verbose", "metrics", "kv-unified", "no-ui"):
        parser.add_argument("--" + name, action="store_true")
    return parser.parse_known_args(arguments)[0]


def model_of(options):
    """LARGE, another model of this machine, stands for those of several GB."""
    if not options.hf_repo or options.hf_repo in REPOSITORIES:
        return options.model or str(STORIES)
    if not os.environ.get("LARGE"):
        sys.exit("llama_server: no model for %s" % options.hf_repo)
    return os.environ["LARGE"]


def riffle_command(options):
    model = model_of(options)
    command = [os.environ["RIFFLE"], "serve", model, "--port", "0", "--cors", "*"]
    parallel = options.parallel or 4
    if options.ctx_size:
        n_ctx = options.ctx_size if options.kv_unified else options.ctx_size // parallel
        command += ["--ctx", str(n_ctx if model != str(STORIES) else min(n_ctx, TRAINED))]
    template = options.chat_template_file or options.chat_template or ("chatml" if model == str(STORIES) else None)
    if options.chat_template and not re.fullmatch(r"[\w.-]+", template):
        template = tempfile.mkstemp(suffix=".jinja")[1]
        pathlib.Path(template).write_text(options.chat_template)
    command += ["--parallel", str(parallel), *(["--template", template] if template else [])]
    if options.api_key:
        command += ["--api-key", options.api_key]
    if options.alias:
        command += ["--name", options.alias.split(",")[0]]
    return command


def is_object_text(value):
    return isinstance(value, dict) and set(value) == {"prompt_string"}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    address_family = 2  # AF_INET
    request_queue_size = 64

    def __init__(self, options):
        self.options = options
        self.riffle = subprocess.Popen(riffle_command(options), stdout=subprocess.PIPE, text=True)
        line = self.riffle.stdout.readline()
        if not line:
            sys.exit(self.riffle.wait() or 1)
        self.upstream = json.loads(line)["port"]
        threading.Thread(target=self.riffle.stdout.read, daemon=True).start()
        super().__init__((options.host or "127.0.0.1", options.port or 8080), Handler)

    def ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream)
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, dict(headers, **{"Content-Type": "application/json"}) if data else headers)
        return connection.getresponse()

    def tokens(self, body, headers):
        reply = json.loads(self.ask("POST", "/tokenize", body, headers).read())
        return reply["tokens"]


def value_at(value, path):
    for key in path.split("/"):
        value = value[key]
    return value


class NotOurs(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    # ---- the request ----

    def kept_headers(self):
        return {k: v for k, v in self.headers.items() if k.lower() in (
            "authorization", "x-api-key", "origin", "access-control-request-method", "access-control-request-headers")}

    def prompt(self, value):
        """A text, tokens, or both in one list, as llama-server takes them; its texts begin with BOS."""
        if is_object_text(value):
            return value["prompt_string"]
        if isinstance(value, dict) and isinstance(value.get("content"), list):
            if not all(isinstance(p, dict) and p.get("type") == "text" for p in value["content"]):
                raise NotOurs("prompts are texts")
            return "".join(p["text"] for p in value["content"])
        if isinstance(value, dict):
            raise NotOurs("prompts are texts")
        if isinstance(value, list) and any(isinstance(v, int) for v in value) and any(isinstance(v, str) for v in value):
            tokens = []
            for part in value:
                tokens += [part] if isinstance(part, int) else self.server.tokens(
                    {"content": part, "add_special": not tokens}, self.kept_headers())
            return tokens
        return value

    def prompts(self, value):
        is_list = isinstance(value, list) and not any(isinstance(v, int) for v in value)
        return [self.prompt(v) for v in value] if is_list else self.prompt(value)

    def defaults(self, body):
        """The command line's values, where a request says nothing."""
        options = self.server.options
        body = {k: v for k, v in body.items() if k not in TOLD and k != "model"}
        body.setdefault("temperature", options.temp if options.temp is not None else 0.8)
        body.setdefault("seed", options.seed)
        if body["seed"] in (None, -1):
            del body["seed"]
        if body.get("logit_bias"):
            bias = body["logit_bias"]
            body["logit_bias"] = self.bias(bias.items() if isinstance(bias, dict) else bias)
        return body

    def bias(self, pairs):
        """[[token or text, bias or false], ...]; false: never."""
        found = {}
        for what, value in pairs:
            is_token = isinstance(what, int) or what.isdigit()
            tokens = [what] if is_token else self.server.tokens({"content": what}, self.kept_headers())
            found.update({str(token): -100 if value is False else value for token in tokens})
        return found

    def conversation(self, body):
        """The members that make the prompt of a chat. llama-server has templates think, unless --reasoning is off."""
        found = {k: body[k] for k in ("messages", "tools", "chat_template_kwargs") if k in body}
        found["chat_template_kwargs"] = {"enable_thinking": self.server.options.reasoning != "off",
                                         **body.get("chat_template_kwargs", {})}
        return found

    def limit(self, body, name):
        if body.get(name) is None:
            body[name] = self.server.options.n_predict or -1

    def completion(self, body):
        body = self.defaults(body)
        for theirs, ours in (("n_predict", "max_tokens"),):
            if theirs in body:
                body[ours] = body.pop(theirs)
        if body.get("n_probs"):
            raise NotOurs("n_probs")
        body["prompt"] = self.prompts(body.get("prompt"))
        self.limit(body, "max_tokens")
        return body

    # ---- the reply ----

    def begin(self, status, headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def reply(self, status, value, headers=()):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.begin(status, headers or [("Content-Type", "application/json")], len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, sentence):
        self.reply(501, {"error": {"code": 501, "message": "not ours: " + sentence, "type": "not_supported_error"}})

    def forward(self, method, path, body, change=None):
        """Passes the reply on; `change` takes each object of it."""
        response = self.server.ask(method, path, body, self.kept_headers())
        is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if not is_stream:
            data = response.read()
            if change and response.status == 200:
                data = json.dumps(change(json.loads(data))).encode()
            self.reply(response.status, data, response.getheaders())
            return
        self.begin(200, response.getheaders())
        for line in response:
            if change and line.startswith(b"data: {"):
                line = b"data: " + json.dumps(change(json.loads(line[6:]))).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def chat_reply(self, body):
        """llama-server's first piece has null, OpenAI's and ours an empty text; its fingerprints begin with b."""
        prompt = None
        if self.server.options.verbose or self.verbose:
            ids = self.server.tokens(self.conversation(body), self.kept_headers())
            prompt = json.loads(self.server.ask("POST", "/detokenize", {"tokens": ids}, self.kept_headers()).read())["content"]

        def change(reply):
            reply["system_fingerprint"] = "b" + reply["system_fingerprint"]
            for choice in reply["choices"]:
                if choice.get("delta", {}).get("role") and choice["delta"].get("content") == "":
                    choice["delta"]["content"] = None
            if prompt is not None:
                reply["__verbose"] = {"prompt": prompt}
            return reply
        return change

    def completion_reply(self, body):
        """One of llama-server's objects for each prompt; `tokens` are those of the text."""
        began = time.monotonic()
        many = isinstance(body["prompt"], list) and not isinstance(body["prompt"][0], int)
        wishes, text = self.wishes, [""]

        def piece(choice, usage):
            is_end = choice["finish_reason"] is not None
            content = choice["text"]
            text[0] += content
            tokens = self.server.tokens({"content": content}, self.kept_headers()) if content and (
                body.get("stream") or wishes.get("return_tokens")) else []
            reply = {"index": choice["index"], "content": content, "tokens": tokens, "stop": is_end}
            if not is_end:
                return reply
            seconds = max(time.monotonic() - began, 1e-6)
            n = usage.get("completion_tokens", 0)
            n_prompt = usage.get("prompt_tokens", 0)
            cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
            settings = dict(body, n_predict=body["max_tokens"], seed=body.get("seed", -1))
            if n:
                reply["timings"] = {"prompt_n": n_prompt - cached, "cache_n": cached, "predicted_n": n,
                                    "predicted_per_second": n / seconds}
            reply.update(stop_type="limit" if choice["finish_reason"] == "length" else "word" if body.get("stop") else "eos",
                         truncated=False, has_new_line="\n" in text[0], tokens_predicted=n, tokens_evaluated=n_prompt,
                         tokens_cached=cached, generation_settings=settings, prompt=body["prompt"])
            return reply

        def change(reply):
            if not reply["choices"]:
                return {"content": "", "stop": True, "tokens": []}
            usage = reply.get("usage") or {}
            found = [piece(choice, usage) for choice in reply["choices"]]
            fields = wishes.get("response_fields")
            if fields:
                found = [{f: value_at(one, f) for f in fields} for one in found]
            return found if many and not body.get("stream") else found[0]
        return change

    # ---- routes ----

    def do_GET(self):
        path = self.path.split("?")[0]
        path = {"/v1/health": "/health", "/models": "/v1/models"}.get(path, path)
        if path == "/metrics" and not self.server.options.metrics or path not in OURS or self.server.options.no_ui and path == "/":
            return self.refuse(path)
        self.forward("GET", path, None)

    do_HEAD = do_GET

    def do_DELETE(self):
        self.refuse(self.path)

    def do_OPTIONS(self):
        path = {"/completion": "/v1/completions"}.get(self.path, self.path)
        self.forward("OPTIONS", path, None)

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            body = None
        try:
            self.post(self.path.split("?")[0], data, body)
        except NotOurs as reason:
            self.refuse(str(reason))

    def post(self, path, data, body):
        if not path.startswith("/v1/") and "/v1" + path in OURS and path not in ("/completions", "/embeddings"):
            path = "/v1" + path
        if not isinstance(body, dict):
            return self.forward("POST", path, data)
        self.wishes = body
        self.verbose = body.get("verbose")
        if path in ("/completion", "/completions"):
            body = self.completion(body)
            if body.get("stream"):
                return self.forward_completion_stream(body)
            return self.forward("POST", "/v1/completions", body, self.completion_reply(body))
        if path in ("/embedding", "/embeddings"):
            body = {"input": self.prompts(body.get("content", body.get("input"))), **self.pooling()}
            return self.forward("POST", "/v1/embeddings", body, lambda reply: [
                {"index": one["index"], "embedding": [one["embedding"]]} for one in reply["data"]])
        if path in ("/apply-template", "/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"):
            wish = self.conversation(body)
            if "add_generation_prompt" in body:
                wish["add_generation_prompt"] = body["add_generation_prompt"]
            if path != "/apply-template":
                return self.forward("POST", "/tokenize", wish, lambda reply: {"input_tokens": reply["count"]})
            ids = self.server.tokens(wish, self.kept_headers())
            return self.forward("POST", "/detokenize", {"tokens": ids}, lambda reply: {
                "prompt": re.sub("^<s> ?", "", reply["content"])})
        if path not in OURS:
            return self.refuse(path)
        self.post_same(path, body)

    def forward_completion_stream(self, body):
        body = dict(body, stream_options={"include_usage": True})
        held, change = [], self.completion_reply(body)

        response = self.server.ask("POST", "/v1/completions", body, self.kept_headers())
        if response.status != 200:
            return self.reply(response.status, response.read(), response.getheaders())
        self.begin(200, response.getheaders())
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"] and event["choices"][0]["finish_reason"]:
                held.append(event)  # the usage comes behind it
                continue
            if "error" not in event and not event["choices"]:
                event = dict(held.pop(), usage=event["usage"])
            line = b"data: " + json.dumps(event if "error" in event else change(event)).encode() + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def pooling(self):
        pooling = self.server.options.pooling
        if pooling in (None, "mean", "last"):
            return {"pooling": pooling} if pooling else {}
        raise NotOurs("pooling " + pooling)

    def post_same(self, path, body):
        change = None
        if path == "/v1/completions":
            body = self.completion(body)
            change = self.fingerprint
        elif path == "/v1/chat/completions":
            body = {**self.defaults(body), **self.conversation(body)}
            self.limit(body, "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens")
            if isinstance(body.get("messages"), list):
                change = self.chat_reply(body) if not self.wants_error(body) else None
        elif path == "/v1/embeddings":
            body = {**self.pooling(), **{k: v for k, v in body.items() if k not in ("model", "embd_normalize")}}
            body["input"] = self.prompts(body.get("input"))
        elif path == "/v1/messages":
            body = self.defaults(body)
            self.limit(body, "max_tokens")
        else:
            body = {k: v for k, v in body.items() if k not in TOLD and k != "model"}
        self.forward("POST", path, body, change)

    def wants_error(self, body):
        """Whether the conversation has no prompt: then nothing is told of it."""
        response = self.server.ask("POST", "/tokenize", self.conversation(body), self.kept_headers())
        response.read()
        return response.status != 200

    @staticmethod
    def fingerprint(reply):
        reply["system_fingerprint"] = "b" + reply["system_fingerprint"]
        return reply


def main():
    server = Server(parse_arguments(sys.argv[1:]))

    def stop(*_):
        server.riffle.terminate()
        try:
            server.riffle.wait(3)
        except subprocess.TimeoutExpired:
            server.riffle.kill()
        os._exit(0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.serve_forever()


if __name__ == "__main__":
    main()
