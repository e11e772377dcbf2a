"""Models and text, the machine, errors."""

import json
import os
import re
import shutil
import unittest
from pathlib import Path

from cases import PROMPT, ROOT, TINY, Case, real_model, riffle, with_template
from riffle import _folder, _places


class Vectors(Case):
    """Vectors of an encoder, and of a model that also answers."""

    def test_vectors(self):
        folder = ROOT / "test" / "data" / "encoders" / "bert"
        cases = json.loads((folder / "expected.json").read_text())
        with riffle.Model(folder / "model.gguf") as model:
            vectors = model.embed([case["text"] for case in cases])
            self.assertEqual(model.embed([]), [])
            with self.assertRaisesRegex(riffle.RiffleError, "text 1: .*288"):
                model.embed(["a", "the " * 300])
            with self.assertRaisesRegex(riffle.RiffleError, "no answers"):
                riffle.Session(model)
        for vector, case in zip(vectors, cases):
            product = sum(a * b for a, b in zip(vector, case["vector"]))
            self.assertGreater(product, 0.9999)
        self.assertAlmostEqual(sum(x * x for x in self.model.embed(["Once"])[0]), 1, places=5)

    def test_rerankers_have_none(self):
        with riffle.Model(ROOT / "test" / "data" / "encoders" / "rank") as model:
            with self.assertRaisesRegex(riffle.RiffleError, "reranker"):
                model.embed(["a"])


class Folder(Case):
    """Names of models in the folder of `riffle pull`."""

    def setUp(self):
        super().setUp()
        previous = os.environ.get("RIFFLE_MODELS")
        os.environ["RIFFLE_MODELS"] = str(self.folder)
        self.addCleanup(
            lambda: os.environ.pop("RIFFLE_MODELS")
            if previous is None
            else os.environ.update(RIFFLE_MODELS=previous)
        )

    def test_a_known_name_and_a_file_s(self):
        known = _folder.known_files()["smollm2-135m"]
        shutil.copy(TINY, self.folder / known)
        for name in ("smollm2-135m", known, known.removesuffix(".gguf")):
            with riffle.Model(name, header_only=True) as model:
                self.assertEqual(model.info.architecture, "llama")

    def test_what_is_missing_is_said_with_its_remedy(self):
        with self.assertRaisesRegex(riffle.FileError, "riffle pull smollm2-135m"):
            riffle.Model("smollm2-135m")
        with self.assertRaisesRegex(riffle.FileError, "no file or folder nothing, and"):
            riffle.Model("nothing")
        with self.assertRaisesRegex(riffle.FileError, "/nothing"):
            riffle.Model(self.folder / "nothing")
        for name in ("o/r", "hf.co/o/r:Q8_0", "tiny:1b", "qwen3-4b"):
            with self.assertRaisesRegex(riffle.FileError, f"`riffle pull {name}` fetches it"):
                riffle.Model(name)


class Hubs(Case):
    """Names of hubs, for models that `riffle pull` or another program has put on the disk."""

    def setUp(self):
        super().setUp()
        names = ("RIFFLE_MODELS", "HOME", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME")
        previous = {name: os.environ.get(name) for name in names}

        def restore():
            for name, value in previous.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

        self.addCleanup(restore)
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(RIFFLE_MODELS=str(self.folder / "own"), HOME=str(self.folder))

    def put(self, path, data=None):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            shutil.copy(TINY, path)
        else:
            path.write_bytes(data)
        return path

    def check(self, path, *names):
        for name in names:
            self.assertEqual(_folder.find_path(name), path, name)
            with riffle.Model(name, header_only=True) as model:
                self.assertEqual(model.info.architecture, "llama")

    def test_own(self):
        self.put("own/hf.co/o/r/m-q8_0.gguf")
        best = self.put("own/hf.co/o/r/m-q4_k_m.gguf")
        self.put("own/hf.co/o/r/m-F16.gguf")
        self.check(
            best, "o/r", "hf.co/o/r", "o/r:Q4_K_M", "o/r:q4-k-m", "huggingface.co/o/r:m-q4_k_m.gguf",
            "https://huggingface.co/o/r", "https://hf.co/o/r/resolve/main/m-q4_k_m.gguf?download=true",
        )
        tag = self.put("own/ollama.com/library/tiny/1b.gguf")
        self.check(tag, "tiny:1b", "ollama.com/library/tiny:1b", "https://ollama.com/library/tiny:1b")
        other = self.put("own/modelscope.cn/o/r/x-Q4_0.gguf")
        self.check(other, "modelscope.cn/o/r", "modelscope.cn/models/o/r:Q4_0")
        for name in ("o/r:Q2_K", "tiny:2b", "O/x"):
            with self.assertRaises(riffle.FileError):
                riffle.Model(name)

    def test_a_known_name(self):
        path = self.put("own/hf.co/Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf")
        self.check(path, "qwen3-4b")

    def test_other_programs(self):
        cached = self.put(".cache/huggingface/hub/models--a--b/snapshots/1/m-Q4_0.gguf")
        studio = self.put(".lmstudio/models/c/d/m-Q4_0.gguf")
        blob = self.put(".ollama/models/blobs/sha256-" + "1" * 64)
        layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "1" * 64}]
        self.put(
            ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b",
            json.dumps({"layers": layers}).encode(),
        )
        for bad in (b"", b"[]", b'{"layers": 5}', b'{"layers": [{}]}', b"\xff"):
            self.put(".ollama/models/manifests/registry.ollama.ai/library/tiny/bad", bad)
            with self.assertRaises(riffle.FileError):
                riffle.Model("tiny:bad")
        self.check(cached, "a/b", "a/b:q4_0")
        self.check(studio, "c/d")
        self.check(blob, "tiny:1b")
        own = self.put("own/hf.co/a/b/m-Q8_0.gguf")
        self.check(own, "a/b")
        self.check(cached, "a/b:Q4_0")

    def test_the_order_of_types_is_the_program_s(self):
        source = Path(__file__).resolve().parents[3] / "src" / "program" / "hubs" / "types.c"
        if not source.exists():
            self.skipTest("not in a checkout")
        order = re.search(r"order\[\] = \{(.*?)\};", source.read_text(encoding="utf-8"), re.S)[1]
        self.assertEqual(re.findall(r'"(.*?)"', order), _places.TYPES)


class Answers(Case):
    """Answers as messages: the texts that a model with a template would have written."""

    TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    TEMPLATE = (
        "{% for t in tools or [] %}{{ t.function.name }} {{ t.function.description }}{% endfor %}"
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.reasoning_content %}"
        "<think>{{ m.reasoning_content }}</think>{% endif %}{% for c in m.tool_calls or [] %}"
        "<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
    )

    def setUp(self):
        super().setUp()
        path = self.folder / "tools.gguf"
        path.write_bytes(with_template(self.TEMPLATE))
        self.tools_model = riffle.Model(path, threads=1)
        self.addCleanup(self.tools_model.close)

    def message(self, text, prompt="", **options):
        model = self.tools_model
        return model.answer_message(
            model.tokenize(text), prompt=model.tokenize(prompt) if prompt else (), **options
        )

    def test_a_text(self):
        for text in ("", "größer, 你好 🙂", "<tool_call>{}</tool_call>"):
            self.assertEqual(self.message(text), {"role": "assistant", "content": text})
        cut = self.tools_model.tokenize("a 🙂")[:-1]
        self.assertRegex(self.tools_model.answer_message(cut)["content"], "^a \ufffd+$")

    def test_thoughts(self):
        wanted = {"role": "assistant", "content": "Yes.", "reasoning_content": "Is it?"}
        self.assertEqual(self.message("<think>Is it?</think>\n\nYes."), wanted)
        self.assertEqual(self.message("Is it?</think>Yes.", prompt="a<think>"), wanted)

    def test_calls(self):
        text = 'So: <tool_call>{"name": "look_up", "arguments": {"id": 12345678901234567890, "x": 0.1}}'
        message = self.message(text + "</tool_call>", tools=self.TOOLS)
        self.assertEqual(message["content"], "So:")
        (call,) = message["tool_calls"]
        self.assertEqual(call["function"]["name"], "look_up")
        arguments = call["function"]["arguments"]
        self.assertIn("12345678901234567890", arguments)
        self.assertEqual(json.loads(arguments)["x"], 0.1)
        self.tools_model.chat_format([("user", "a"), message, {"role": "tool", "content": "b"}])
        other = [{"type": "function", "function": {"name": "other", "parameters": {}}}]
        self.assertNotIn("tool_calls", self.message(text + "</tool_call>", tools=other))

    def test_errors(self):
        with self.assertRaisesRegex(riffle.ArgumentError, "tools: not a list"):
            self.message("a", tools=[{"type": "function"}])
        with self.assertRaisesRegex(riffle.ArgumentError, "999"):
            self.tools_model.answer_message([999])


class Costs(Case):
    def test_a_session_s_cost(self):
        cost = self.model.session_cost(n_ctx=256)
        per_token = self.model.info.kv_bytes_per_token
        self.assertEqual((cost.n_ctx, cost.kv_bytes), (256, 256 * per_token))
        long = self.model.session_cost(n_ctx=2048, kv="q4")
        self.assertEqual(long.n_ctx, 2048)
        self.assertLess(long.kv_bytes, 2048 * per_token)
        with self.assertRaises(riffle.ArgumentError):
            self.model.session_cost(kv="q3")

    def test_recommended_sampling(self):
        sampling, source = self.model.recommended_sampling(seed=7)
        self.assertEqual(sampling.seed, 7)
        self.assertGreater(sampling.temperature, 0)
        self.assertTrue(source)
        self.session(sampling=sampling)


class Text(Case):
    def test_info(self):
        info = self.model.info
        self.assertEqual((info.architecture, info.n_vocab, info.n_layer), ("llama", 512, 5))
        self.assertIs(info.adds_bos, True)

    def test_tokens_and_back(self):
        for text in ("", PROMPT, "größer, 你好, 🙂, e\u0301", "zero\0byte"):
            tokens = self.model.tokenize(text, bos=True)
            self.assertEqual(tokens[0], self.model.info.bos_token)
            self.assertEqual(self.model.detokenize(tokens, start=True), text)

    def test_part_of_a_character(self):
        tokens = self.model.tokenize("🙂")
        whole = self.model.detokenize_bytes(tokens)
        self.assertEqual(self.model.detokenize_bytes(tokens[:-1]), whole[: len(whole) - 1])
        self.assertTrue(self.model.detokenize(tokens[:-1]).endswith("\ufffd"))

    def test_special_tokens(self):
        self.assertTrue(self.model.token_is_end(self.model.info.eos_token))
        self.assertFalse(self.model.token_is_end(300))

    def test_messages(self):
        kinds = (
            [riffle.Message("user", "Hé?")],
            [{"role": "user", "content": "Hé?"}],
            [("user", "Hé?")],
        )
        texts = [self.model.chat_format(messages) for messages in kinds]
        self.assertEqual(texts[0], "<|im_start|>user\nHé?<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(texts, texts[:1] * 3)
        self.assertNotIn("assistant", self.model.chat_format(kinds[0], add_generation_prompt=False))

    def templated(self, template):
        path = self.folder / "templated.gguf"
        path.write_bytes(with_template(template))
        model = riffle.Model(path, threads=1)
        self.addCleanup(model.close)
        return model

    def test_structured_messages(self):
        model = self.templated(
            "{% for m in messages %}{{ m.role }}({{ m.content }}{{ m.reasoning_content }}"
            "{% for c in m.tool_calls %}{{ c.id }}:{{ c.function.arguments.name }}{% endfor %})"
            "{% endfor %}{{ tools[0].function.name }}{{ enable_thinking }}")
        call = {"id": "a", "type": "function"}
        call["function"] = {"name": "age_of", "arguments": '{"name": "Ann"}'}
        messages = [
            ("developer", "d"),
            riffle.Message("user", "u"),
            {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [call]},
            {"role": "tool", "content": [{"type": "text", "text": t} for t in "12"]},
        ]
        shown = "system(d)user(u)assistant(ra:Ann)tool(12)age_of"
        options = {"tools": [{"type": "function", "function": {"name": "age_of"}}]}
        options["variables"] = {"enable_thinking": False}
        self.assertEqual(model.chat_format(messages, **options).rstrip(), shown + "False")
        with riffle.Session(model, n_ctx=256) as session:
            self.assertEqual(session.chat_prefill(messages, **options), len(session.tokens))
            self.assertTrue(model.detokenize(session.tokens).strip().startswith(shown))
            stream = session.chat(messages, **options, max_tokens=1)
            self.assertLessEqual(len(stream.read()), 8)
            self.assertEqual(len(stream.tokens), 1)
        self.assertEqual(call["function"]["arguments"], '{"name": "Ann"}')

    def test_wrong_messages(self):
        for message, says in (
            ({"role": "user"}, "message 0 has no 'content'"),
            ({"content": ""}, "message 0 has no 'role'"),
            ({"role": "user", "content": [{"type": "image"}]}, "type image"),
            ({"role": "user", "content": 3}, "message 0"),
            ({"role": "user", "content": "", "x": object()}, "cannot be JSON"),
            ({"role": "user", "content": "", "x": float("nan")}, "cannot be JSON"),
            (3, "message 0"),
        ):
            with self.assertRaisesRegex(riffle.ArgumentError, says):
                self.model.chat_format([message])

    def test_wrong_arguments(self):
        for wrong in (
            lambda: self.model.chat_format([("user", "a\0b")]),
            lambda: self.model.chat_format([{"role": "user"}]),
            lambda: self.model.detokenize([512]),
            lambda: self.model.detokenize([-1]),
            lambda: self.model.detokenize([1 << 40]),
            lambda: riffle.Model("a\0b"),
            lambda: riffle.Model(TINY, weights="fp7"),
            lambda: riffle.set_cpu("z80"),
            lambda: riffle.cores("none"),
        ):
            with self.assertRaises(riffle.ArgumentError) as caught:
                wrong()
            self.assertGreater(len(str(caught.exception)), 10)
            self.assertEqual(caught.exception.code, -1)

    def test_files(self):
        with self.assertRaisesRegex(riffle.FileError, "no/such"):
            riffle.Model("no/such.gguf")
        broken = self.folder / "broken.gguf"
        broken.write_bytes(TINY.read_bytes()[:1000])
        with self.assertRaisesRegex(riffle.FormatError, "broken"):
            riffle.Model(broken)
        with self.assertRaises(OSError):
            riffle.Model("no/such.gguf")

    def test_a_header_has_text_but_no_sessions(self):
        with riffle.Model(TINY, header_only=True) as model:
            self.assertEqual(model.tokenize(PROMPT), self.model.tokenize(PROMPT))
            with self.assertRaises(riffle.ArgumentError):
                riffle.Session(model)

    def test_files_can_be_copied(self):
        with riffle.Model(TINY, copy=True, header_only=True) as model:
            self.assertEqual(model.info.mapped_bytes, 0)
        self.assertGreater(self.model.info.mapped_bytes, 0)

    def test_a_budget_of_metadata(self):
        with self.assertRaises(riffle.OutOfMemoryError):
            riffle.Model(TINY, metadata_items=100)

    def test_progress_of_loading(self):
        calls = []
        riffle.Model(TINY, progress=lambda *report: calls.append(report)).close()
        self.assertTrue(calls and all(stage.startswith("loading") for stage, _, _ in calls))

        def fail(stage, done, total):
            raise LookupError("mine")

        with self.assertRaisesRegex(LookupError, "mine"):
            riffle.Model(TINY, progress=fail)
        with self.assertRaises(riffle.CancelledError):
            riffle.Model(TINY, progress=lambda *report: True)

    def test_drafts_are_found_by_name(self):
        asked = []

        def find(name):
            asked.append(name)
            return str(TINY) if name == "tiny" else None

        with riffle.Model(TINY, chain="tiny > target", find_model=find) as model:
            self.assertIn("tiny", model.info.chain)
        with self.assertRaisesRegex(riffle.ArgumentError, "other"):
            riffle.Model(TINY, chain="other > target", find_model=find)
        self.assertEqual(asked, ["tiny", "other"])

    def test_machine_and_cores(self):
        self.assertGreater(riffle.machine().cores, 0)
        cores = riffle.cores(threads=1)
        self.assertEqual(cores.n_workers, 1)
        self.assertEqual(len(cores.threads), cores.n_cpus)
        self.assertEqual(sum(core.worker == 0 for core in cores.threads), 1)
        riffle.set_cpu("scalar")
        self.addCleanup(riffle.set_cpu, None)
        self.assertEqual(riffle.machine().cpu, "scalar")

    def test_quantize(self):
        target = self.folder / "small.gguf"
        calls = []
        riffle.quantize(TINY, target, "q8_0", threads=1, progress=lambda *r: calls.append(r))
        self.assertTrue(calls)
        with riffle.Model(target) as model:
            self.assertIn("Q8_0", model.info.stored_types)

    def test_the_version_is_the_header_s(self):
        self.assertRegex(riffle.__version__, r"^\d+\.\d+\.\d+$")

    def test_a_real_tokenizer(self):
        with riffle.Model(real_model(), header_only=True) as model:
            text = "Grüße 🙂 <|im_end|>"
            plain, special = model.tokenize(text), model.tokenize(text, special=True)
            self.assertGreater(len(plain), len(special))
            self.assertEqual(model.detokenize(plain), text)
            self.assertEqual(model.detokenize(special, special=True), text)


if __name__ == "__main__":
    unittest.main()
