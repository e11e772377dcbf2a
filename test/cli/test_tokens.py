"""serve: the tokens of texts, as vLLM's and llama.cpp's servers tell them, and paths without /v1."""

import json
import subprocess
import sys
import unittest

from harness import MODEL, TIMEOUT, main
from test_serve import CHAT, COMPLETE, EMBED, HI, STORY, TOOLS, OneServer

try:
    import lm_eval
except ImportError:
    lm_eval = None

SOME = ["Once upon a time", "", " a  b\n", "na\u00efve \u65e5\u672c \U0001f600", "</s><s> x", "a" * 3000]


class Tokens(OneServer):
    def tokens(self, **body):
        return self.server.post("/tokenize", body)

    def text(self, tokens):
        reply = self.server.post("/detokenize", {"tokens": tokens})
        self.assertEqual(reply["prompt"], reply["content"])
        return reply["prompt"]

    def test_texts(self):
        """Both names have the tokens that `riffle tokenize` prints; the texts come back."""
        for text in SOME:
            file = self.path("text.txt", text)
            for special in (True, False):
                bare = self.tokens(content=text, parse_special=special)
                run = self.json("tokenize", MODEL, "-f", file, "--no-bos", *(["--special"] if special else [])) \
                    if text else {"tokens": []}
                self.assertEqual(bare["tokens"], run["tokens"], text)
                self.assertEqual((bare["count"], bare["token_strs"]), (len(bare["tokens"]), None))
                if "</s>" not in text or not special:  # SentencePiece puts a space behind special tokens
                    self.assertEqual(self.text(bare["tokens"]), text)
                self.assertEqual(self.tokens(prompt=text, add_special_tokens=False, parse_special=special), bare)
                whole = self.tokens(prompt=text, parse_special=special)
                self.assertEqual(whole["tokens"], [1, *bare["tokens"]])
                self.assertEqual(self.tokens(content=text, add_special=True, parse_special=special), whole)

    def test_same_as_completions(self):
        usage = self.server.post(COMPLETE, STORY)["usage"]
        tokens = self.tokens(prompt=STORY["prompt"])
        self.assertEqual(tokens["count"], usage["prompt_tokens"])
        self.assertEqual(self.server.text(dict(STORY, prompt=tokens["tokens"])), self.server.text(STORY))

    def test_pieces(self):
        text = "Tim \u00e9\U0001f600"
        pieces = self.tokens(content=text, with_pieces=True)["tokens"]
        self.assertEqual([p["id"] for p in pieces], self.tokens(content=text)["tokens"])
        joined = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
        self.assertEqual(joined.decode().lstrip(" "), text)
        self.assertTrue(any(isinstance(p["piece"], list) for p in pieces))
        texts = self.tokens(prompt=text, return_token_strs=True)
        self.assertEqual(len(texts["token_strs"]), texts["count"])
        self.assertEqual([t for t in texts["token_strs"][1:] if t != "\ufffd"], [p["piece"] for p in pieces if isinstance(p["piece"], str)])
        broken = [p["id"] for p in pieces if isinstance(p["piece"], list)]
        self.assertIn("\ufffd", self.text(broken[:1]))

    def test_conversations(self):
        for more in ({}, {"tools": TOOLS}):
            chat = self.server.post(CHAT, dict(HI, **more))
            tokens = self.tokens(messages=HI["messages"], add_generation_prompt=True, **more)
            self.assertEqual(tokens["count"], chat["usage"]["prompt_tokens"])
            bare = self.tokens(messages=HI["messages"], add_generation_prompt=False, chat_template_kwargs={"x": 1}, **more)
            self.assertEqual(tokens["tokens"][:bare["count"]], bare["tokens"])
            self.assertEqual(self.text(tokens["tokens"][bare["count"]:]), "<|im_start|>assistant\n")

    def test_refusals(self):
        for path, body, param in (
                ("/tokenize", {}, None), ("/tokenize", {"prompt": "a", "content": "a"}, None),
                ("/tokenize", {"prompt": 1}, "prompt"), ("/tokenize", {"content": ["a"]}, "content"),
                ("/tokenize", {"prompt": "a", "tools": TOOLS}, "tools"), ("/tokenize", {"prompt": "a", "tokens": [1]}, "tokens"),
                ("/tokenize", {"messages": HI["messages"], "add_special_tokens": True}, "add_special_tokens"),
                ("/tokenize", {"messages": HI["messages"], "add_generation_prompt": 1}, "add_generation_prompt"),
                ("/tokenize", {"messages": HI["messages"], "add_generation_prompt": False, "chat_template_kwargs": 1}, "chat_template_kwargs"),
                ("/tokenize", {"prompt": "a", "add_generation_prompt": True}, "add_generation_prompt"),
                ("/tokenize", {"prompt": "a", "truncate": 5}, "truncate"), ("/tokenize", {"prompt": "a", "add_special": 1}, "add_special"),
                ("/detokenize", {}, None), ("/detokenize", {"tokens": "a"}, None), ("/detokenize", {"tokens": [1], "prompt": "a"}, None),
                ("/detokenize", {"tokens": [1.5]}, "tokens"), ("/detokenize", {"tokens": [-1]}, "tokens"),
                ("/detokenize", {"tokens": [1, 512]}, None), ("/detokenize", {"tokens": [2 ** 40]}, "tokens")):
            status, reply = self.server.ask("POST", path, body)
            self.assertEqual((status, reply["error"]["param"]), (400, param), (path, body))
        for path in ("/tokenize", "/detokenize"):
            self.assertEqual(self.server.ask("POST", path, {"model": "other", "prompt": "a", "tokens": []})[0], 404)

    def test_long_texts(self):
        """A text may be longer than the context; a reply has its limit."""
        text = "Once upon a time, " * 20000
        tokens = self.tokens(content=text)
        self.assertGreater(tokens["count"], 10 * tokens["max_model_len"])
        self.assertEqual(self.text(tokens["tokens"]), text)
        body = {"content": "\u00ff" * 1500000, "with_pieces": True, "return_token_strs": True}
        status, reply = self.server.ask("POST", "/tokenize", json.dumps(body, ensure_ascii=False).encode())
        self.assertEqual((status, reply["error"]["code"]), (400, "reply_too_long"))
        longest = max(range(512), key=lambda token: len(self.text([token])))
        n = (4 << 20) // len(self.text([longest])) + 1
        status, reply = self.server.ask("POST", "/detokenize", '{"tokens":[%s]}' % ",".join([str(longest)] * n))
        self.assertEqual((status, reply["error"]["code"]), (400, "reply_too_long"))

    def test_info(self):
        status, info = self.server.ask("GET", "/tokenizer_info")
        self.assertEqual((status, info["vocab_size"], info["add_bos_token"]), (200, 512, True))
        for name, token in (("bos_token", 1), ("eos_token", 2)):
            self.assertEqual(self.tokens(prompt=info[name], add_special_tokens=False)["tokens"], [token])
        self.assertIn("<|im_start|>", info["chat_template"])

    def test_paths_without_version(self):
        """They are the same."""
        for path, body in ((CHAT, HI), (COMPLETE, STORY), (EMBED, {"input": "a"}), ("/v1/messages", HI),
                           ("/v1/responses", {"input": "Hi", "max_output_tokens": 4, "temperature": 0}),
                           ("/v1/messages/count_tokens", HI)):
            body = {k: v for k, v in body.items() if "count" not in path or k == "messages"}
            def said(reply):
                choices = [{k: v for k, v in c.items()} for c in reply.get("choices", [])]
                return choices, [c.get("text") for c in reply.get("content", [])], reply.get("data"), reply.get("input_tokens"), \
                    [p["text"] for item in reply.get("output", []) for p in item["content"]]
            self.assertEqual(said(self.server.post(path[3:], body)), said(self.server.post(path, body)))
        self.assertEqual(self.server.ask("GET", "/models"), self.server.ask("GET", "/v1/models"))
        self.assertEqual(self.server.ask("GET", "/chat/completions")[0], 405)
        for path in ("/v1/health", "/completion", "/v1/v1/models", "/v2/models", "/chat", "/v1"):
            self.assertEqual(self.server.ask("GET", path)[0], 404)
        self.assertEqual(self.server.ask("POST", "/messages", {})[1]["type"], "error")


TASK = """task: toy
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{ctx}}"
doc_to_target: label
doc_to_choice: "{{choices}}"
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@unittest.skipUnless(lm_eval, "the package lm-eval is not installed")
class Package(OneServer):
    def test_loglikelihood(self):
        data = self.path("data.jsonl", '{"ctx": "Once upon a", "choices": [" time", " xqz"], "label": 0}\n' * 2)
        self.path("toy.yaml", TASK % data)
        result = subprocess.run(
            [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
             "model=%s,base_url=http://127.0.0.1:%d/v1/completions,tokenizer_backend=remote" % (self.server.model, self.server.port),
             "--tasks", "toy", "--include_path", self.folder], capture_output=True, timeout=TIMEOUT, cwd=self.folder,
            env=dict(self.env, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", OPENAI_API_KEY="none"), text=True)
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        self.assertRegex(result.stdout, r"acc *\|[^|]*\| *1(\.0*)?\|")


if __name__ == "__main__":
    main()
