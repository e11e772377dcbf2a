"""embed, /v1/embeddings and /v1/rerank with encoders, beside what transformers computes; files of encoders that are wrong."""

import base64
import json
import math
import pathlib
import shutil
import struct

from harness import MODEL, Case, main
from test_serve import CHAT, COMPLETE, EMBED, Server

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "encoders"
BERT, Q8, NOMIC, RANK, ROBERTA, MODERN, GEMMA = (str(DATA / path) for path in (
    "bert/model.gguf", "bert/q8.gguf", "nomic/model.gguf", "rank/model.gguf", "roberta/model.gguf", "modern/model.gguf",
    "gemma/model.gguf"))
RERANK = "/v1/rerank"


def expected(name, which=""):
    return json.loads((DATA / name / f"expected{which}.json").read_text())


def cosine(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


class Embed(Case):
    def lines(self, *arguments, **options):
        return [json.loads(line) for line in self.ok("embed", *arguments, **options).out.splitlines()]

    def test_texts(self):
        """Arguments, lines of a file and standard input, from both containers."""
        for name, models in (("bert", (BERT, str(DATA / "bert"))), ("nomic", (NOMIC, str(DATA / "nomic"))),
                             ("roberta", (ROBERTA, str(DATA / "roberta"))), ("modern", (MODERN, str(DATA / "modern"))),
                             ("gemma", (GEMMA, str(DATA / "gemma")))):
            cases = [c for c in expected(name) if "\n" not in c["text"]]
            lines = "".join(c["text"] + "\n" for c in cases)
            for model in models:
                got = self.lines(model, "-f", self.path("texts", lines))
                self.assertEqual([g["index"] for g in got], list(range(len(cases))))
                for value, case in zip(got, cases):
                    self.assertEqual(value["tokens"], len(case["tokens"]), case["text"])
                    self.assertGreater(cosine(value["embedding"], case["vector"]), 0.99999)
                self.assertEqual(self.lines(model, "-f", "-", stdin=lines), got)
                self.assertEqual(self.lines(model, stdin=lines), got)
                given = [(i, c["text"]) for i, c in enumerate(cases) if c["text"]]
                alone = self.lines(model, *(text for _, text in given))
                self.assertEqual([a["embedding"] for a in alone], [got[i]["embedding"] for i, _ in given])

    def test_tokens(self):
        for name, model in (("bert", BERT), ("bert", str(DATA / "bert")), ("nomic", str(DATA / "nomic")), ("roberta", ROBERTA),
                            ("roberta", str(DATA / "roberta")), ("modern", MODERN), ("modern", str(DATA / "modern")),
                            ("gemma", GEMMA), ("gemma", str(DATA / "gemma"))):
            for case in expected(name):
                run = self.json("tokenize", model, "-f", self.path("text", case["text"]))
                self.assertEqual(run["tokens"], case["tokens"], case["text"])

    def test_quantised(self):
        cases = [c for c in expected("bert") if c["text"] and "\n" not in c["text"]]
        got = self.lines(Q8, *(c["text"] for c in cases))
        for value, case in zip(got, cases):
            self.assertGreater(cosine(value["embedding"], case["vector"]), 0.999)

    def test_npy(self):
        texts = ["The river.", "a", "the house"]
        wanted = self.lines(BERT, *texts)
        data = self.ok_bytes("embed", BERT, *texts, "--format", "npy")
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        size = struct.unpack("<H", data[8:10])[0]
        self.assertEqual((10 + size) % 64, 0)
        header = data[10:10 + size].decode()
        self.assertTrue(header.endswith("\n"))
        self.assertEqual(eval(header), {"descr": "<f4", "fortran_order": False, "shape": (3, 32)})
        values = struct.unpack("<96f", data[10 + size:])
        flat = [v for line in wanted for v in line["embedding"]]
        self.assertTrue(all(abs(a - b) < 1e-7 for a, b in zip(values, flat)))

    def ok_bytes(self, *arguments):
        result = self.start(*arguments)
        out, err = result.communicate()
        self.assertEqual(result.returncode, 0, err)
        return out

    def test_prefix(self):
        with_prefix = self.lines(NOMIC, "house", "--prefix", "the river: ")
        self.assertEqual(with_prefix, self.lines(NOMIC, "the river: house"))
        self.assertNotEqual(with_prefix[0]["embedding"], self.lines(NOMIC, "house")[0]["embedding"])

    def test_prompts(self):
        """Prompts by the names of config_sentence_transformers.json, and the one for texts without."""
        folder = str(DATA / "roberta")
        query = self.lines(folder, "house", "--prompt", "query")
        self.assertEqual(query, self.lines(folder, "query: house"))
        self.assertEqual(self.lines(folder, "house", "--prompt", "document"), self.lines(folder, "passage: house"))
        plain = self.lines(folder, "house")
        self.assertEqual(plain, self.lines(folder, "house", "--prefix", ""))
        self.assertNotEqual(plain[0]["embedding"], query[0]["embedding"])
        usual, name = self.path("usual"), "config_sentence_transformers.json"
        shutil.copytree(folder, usual)
        given = json.loads((DATA / "roberta" / name).read_text())
        change = lambda **members: pathlib.Path(usual, name).write_text(json.dumps(given | members))
        change(default_prompt_name="query")
        self.assertEqual(self.lines(usual, "house"), query)
        self.assertEqual(self.lines(usual, "house", "--prefix", ""), plain)
        self.assertEqual(self.lines(usual, "house", "--prompt", "document"), self.lines(folder, "passage: house"))
        self.fails(1, "embed", folder, "a", "--prompt", "nothing", says=("no prompt nothing", "query, document"))
        self.fails(1, "embed", ROBERTA, "a", "--prompt", "query", says="no prompt query")
        self.fails(2, "embed", folder, "a", "--prompt", "query", "--prefix", "x", says="--prefix")
        for members, says in (({"default_prompt_name": "other"}, "default_prompt_name"), ({"prompts": {"query": 1}}, '"query"')):
            change(**members)
            self.fails(1, "embed", usual, "a", says=(name, says))

    def test_info(self):
        for model, kind, pooling, prompts, line in (
                (str(DATA / "roberta"), "encoder", "cls", ["query", "document"], "32 values for a text: its first token's row"),
                (NOMIC, "encoder", "mean", [], "32 values for a text: the mean"), (RANK, "reranker", "cls", [], "a score for a query"),
                (str(DATA / "modern_rank"), "reranker", "mean", [], "a score for a query"),
                (MODERN, "encoder", "cls", [], "32 values for a text: its first token's row")):
            said = self.json("info", model)
            self.assertEqual((said["kind"], said["pooling"], said["prompts"], said["memory"]["kv_bytes"]), (kind, pooling, prompts, 0))
            text = self.ok("info", model).out
            longest = 640 if "modern" in model else 288
            for part in (line, f"texts of at most {longest} tokens", *prompts):
                self.assertIn(part, text)
            for part in ("chain", "chat template", "--kv", "BOS"):
                self.assertNotIn(part, text)
        said = self.json("info", MODEL)
        self.assertEqual((said["kind"], said["prompts"]), ("decoder", []))
        self.assertIn("chain", self.ok("info", MODEL).out)

    def test_decoder(self):
        value = self.lines(MODEL, "Once upon a time")[0]
        self.assertAlmostEqual(sum(v * v for v in value["embedding"]), 1, places=5)

    def test_refusals(self):
        self.fails(2, "embed", says="MODEL")
        self.fails(2, "embed", BERT, "a", "--file", "x", says="--file")
        self.fails(1, "embed", BERT, "--file", "nowhere", says="nowhere")
        self.fails(1, "embed", BERT, stdin="", says="no line")
        self.fails(1, "embed", BERT, "a", "the " * 300, says=("text 2", "288"))
        self.fails(1, "embed", RANK, "a", says="/v1/rerank")
        self.fails(1, "run", BERT, "-p", "a", says="it gives vectors of texts, no answers")
        self.fails(1, "perplexity", BERT, stdin="a " * 1000, says="it gives vectors of texts, no answers")


class Serve(Case):
    def test_vectors(self):
        server = Server(self, "--name", "b", model=BERT, template=None)
        cases = expected("bert")
        reply = server.post(EMBED, {"input": [c["text"] for c in cases]})
        for value, case in zip(reply["data"], cases):
            self.assertGreater(cosine(value["embedding"], case["vector"]), 0.99999)
        self.assertEqual(reply["usage"]["prompt_tokens"], sum(len(c["tokens"]) for c in cases))
        one = server.post(EMBED, {"input": cases[0]["text"], "pooling": "cls"})
        self.assertEqual(one["data"][0]["embedding"], reply["data"][0]["embedding"])
        mean = server.post(EMBED, {"input": cases[0]["text"], "pooling": "mean"})
        self.assertNotEqual(mean["data"][0]["embedding"], reply["data"][0]["embedding"])
        for path, body in ((CHAT, {"messages": [{"role": "user", "content": "a"}]}), (COMPLETE, {"prompt": "a"})):
            status, refused = server.ask("POST", path, body)
            self.assertEqual((status, refused["error"]["message"]),
                             (400, "bert is an encoder (bert): it gives vectors of texts, no answers"))
        self.assertIn("no reranker", server.ask("POST", RERANK, {"query": "a", "documents": ["b"]})[1]["error"]["message"])
        self.assertEqual(server.ask("POST", EMBED, {"input": "the " * 300})[0], 400)

    def test_decoder_has_no_cls(self):
        server = Server(self)
        status, reply = server.ask("POST", EMBED, {"input": "a", "pooling": "cls"})
        self.assertEqual(status, 400)
        self.assertIn("encoder", reply["error"]["message"])

    def test_rerank(self):
        by_cls = self.path("cls")  # the head reads the first token's row in place of the mean
        shutil.copytree(DATA / "modern_rank", by_cls)
        config = pathlib.Path(by_cls, "config.json")
        config.write_text(json.dumps(json.loads(config.read_text()) | {"classifier_pooling": "cls"}))
        for name, file, model in (("roberta_rank", "", str(DATA / "roberta_rank" / "model.gguf")),
                                  ("modern_rank", "", str(DATA / "modern_rank")), ("modern_rank", "_cls", by_cls),
                                  ("rank", "", str(DATA / "rank")), ("rank", "", RANK)):
            server = Server(self, "--name", "r", model=model, template=None)
            for case in expected(name, file):
                reply = server.post(RERANK, {"query": case["query"], "documents": [case["document"]]})
                wanted = 1 / (1 + math.exp(-case["score"]))
                self.assertAlmostEqual(reply["results"][0]["relevance_score"], wanted, places=3)
                self.assertEqual(reply["usage"]["total_tokens"], len(case["tokens"]))
        documents = ["unable", "river", {"text": "the"}, "river", "of " * 500]
        reply = server.post(RERANK, {"query": "the house", "documents": documents, "return_documents": True})
        scores = [r["relevance_score"] for r in reply["results"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(sorted(r["index"] for r in reply["results"]), [0, 1, 2, 3, 4])
        same = [r for r in reply["results"] if r["index"] in (1, 3)]
        self.assertEqual([r["index"] for r in same], [1, 3])
        self.assertEqual(same[0]["relevance_score"], same[1]["relevance_score"])
        for result in reply["results"]:
            document = documents[result["index"]]
            self.assertEqual(result["document"]["text"], document if isinstance(document, str) else document["text"])
        top = server.post("/rerank", {"query": "the house", "documents": documents, "top_n": 2})
        self.assertEqual([(r["index"], r["relevance_score"]) for r in top["results"]],
                         [(r["index"], r["relevance_score"]) for r in reply["results"][:2]])
        for body, says in (({"documents": ["a"]}, "query"), ({"query": "a"}, "documents"),
                           ({"query": "a", "documents": []}, "documents"), ({"query": "a", "documents": [1]}, "documents"),
                           ({"query": "a", "documents": ["b"], "top_n": -1}, "top_n"),
                           ({"query": "a", "documents": ["b"], "other": 1}, "other"),
                           ({"query": "the " * 300, "documents": ["b"]}, "query")):
            status, refused = server.ask("POST", RERANK, body)
            self.assertEqual(status, 400, body)
            self.assertIn(says, refused["error"]["message"])
        self.assertIn("/v1/rerank", server.ask("POST", EMBED, {"input": "a"})[1]["error"]["message"])


class Files(Case):
    """Files that are wrong are refused with a sentence."""

    def changed(self, name, change, model="bert"):
        """A copy of a folder whose config.json, or another file, has other members."""
        folder = self.path("folder")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(DATA / model, folder)
        path = pathlib.Path(folder, name)
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))
        return folder

    def renamed(self, old, new):
        data = pathlib.Path(BERT).read_bytes()
        self.assertEqual(data.count(old), 1, old)
        return self.path("model.gguf", data.replace(old, new))

    def test_tensors(self):
        self.fails(1, "embed", self.renamed(b"blk.1.attn_output_norm.bias", b"blk.1.attn_output_norm.bios"), "a",
                   says="tensor blk.1.attn_output_norm.bias is missing")
        self.fails(1, "embed", self.renamed(b"position_embd.weight", b"position_embd.wright"), "a",
                   says="tensor position_embd.weight is missing")
        self.fails(1, "embed", self.changed("config.json", lambda c: c.update(max_position_embeddings=64)), "a",
                   says="embeddings.position_embeddings.weight")
        self.fails(1, "embed", self.changed("config.json", lambda c: c.update(intermediate_size=96)), "a",
                   says="intermediate.dense")

    def test_pooling(self):
        key = b"bert.pooling_type"
        data = pathlib.Path(BERT).read_bytes()
        at = data.index(key) + len(key) + 4
        path = self.path("model.gguf", data[:at] + struct.pack("<I", 9) + data[at + 4:])
        self.fails(1, "embed", path, "a", says=("pooling_type is 9", "reranker"))
        folder = self.changed("1_Pooling/config.json",
                              lambda c: c.update(pooling_mode_cls_token=False, pooling_mode_max_tokens=True))
        self.fails(1, "embed", folder, "a", says="1_Pooling/config.json: names no pooling that is supported")

    def test_configurations(self):
        for member, value, says in (("hidden_act", "relu", "hidden_act"), ("is_decoder", True, "is_decoder"),
                                    ("position_embedding_type", "relative_key", "position_embedding_type"),
                                    ("num_attention_heads", 3, "num_attention_heads")):
            folder = self.changed("config.json", lambda c: c.update({member: value}))
            self.fails(1, "embed", folder, "a", says=("config.json", says))

    def test_tokenizers(self):
        for change, says in ((lambda t: t["normalizer"].update(clean_text=False), "clean_text"),
                             (lambda t: t["normalizer"].update(type="NFC"), "BertNormalizer"),
                             (lambda t: t["model"].update(vocab=[]), "model.vocab"),
                             (lambda t: t["model"].update(unk_token="[NONE]"), "unknown token"),
                             (lambda t: t.update(post_processor=None), "post_processor")):
            self.fails(1, "embed", self.changed("tokenizer.json", change), "a", says=says)

    def test_windows(self):
        """Encoders with windows: configurations that are not computed, tensors that are missing."""
        for member, value, says in (
                ("hidden_activation", "relu", "hidden_activation"), ("norm_bias", True, "norm_bias"), ("mlp_bias", True, "mlp_bias"),
                ("rope_scaling", {"rope_type": "linear", "factor": 2}, "rope_scaling"), ("local_attention", 0, "local_attention"),
                ("layer_types", ["full_attention"], "layer_types"), ("layer_types", ["linear_attention"] * 4, "linear_attention"),
                ("classifier_activation", "tanh", "classifier_activation"), ("classifier_pooling", "max", "classifier_pooling"),
                ("num_hidden_layers", 5, "layer_types")):
            folder = self.changed("config.json", lambda c: c.update({member: value}), "modern")
            self.fails(1, "embed", folder, "a", says=("config.json", says))
        folder = self.changed("config.json", lambda c: c.update(use_bidirectional_attention=False), "gemma")
        self.fails(1, "embed", folder, "a", says="use_bidirectional_attention")
        data = pathlib.Path(MODERN).read_bytes()
        for old, new, says in ((b"gelu", b"relu", 'hidden_activation is "relu"'),
                               (b"output_norm.weight", b"output_norm.weighs", "output_norm"),
                               (b"blk.1.attn_norm.weight", b"blk.1.attn_norm.weighs", "tensor blk.1.attn_norm.weight is missing")):
            self.assertEqual(data.count(old), 1, old)
            self.fails(1, "embed", self.path("model.gguf", data.replace(old, new)), "a", says=says)
        data = (DATA / "modern_rank" / "model.gguf").read_bytes()
        key = b"modern-bert.classifier.pooling_type"
        at = data.index(key) + len(key) + 4
        path = self.path("model.gguf", data[:at] + struct.pack("<I", 3) + data[at + 4:])
        self.fails(1, "embed", path, "a", says="classifier.pooling_type is 3")

    def test_modules(self):
        """Linear layers behind the pooling, and modules that are not computed."""
        def modules(*changes):
            def change(listed):
                for i, members in changes:
                    listed[i].update(members)
            return self.changed("modules.json", change, "gemma")

        dense = "2_Dense/config.json"
        for make, says in (
                (lambda: modules((2, {"path": "../gemma"})), 'the folder "../gemma"'),
                (lambda: modules((2, {"path": ""})), 'the folder ""'),
                (lambda: modules((2, {"path": "nowhere"})), "nowhere: holds no config.json"),
                (lambda: modules((4, {"type": "sentence_transformers.models.LayerNorm"})), "LayerNorm"),
                (lambda: modules((4, {"type": "x.Dense", "path": "2_Dense"})), "more than 2 modules"),
                (lambda: modules((2, {"path": "3_Dense"}), (3, {"path": "2_Dense"})), "dense_2.weight is [64, 32"),
                (lambda: modules((3, {"type": "x.Normalize"})), "give 64 values"),
                (lambda: self.changed(dense, lambda c: c.update(activation_function="torch.nn.Tanh"), "gemma"), "torch.nn.Tanh"),
                (lambda: self.changed(dense, lambda c: c.update(use_residual=True), "gemma"), "use_residual")):
            self.fails(1, "embed", make(), "a", says=says)
        folder = modules()
        pathlib.Path(folder, "2_Dense/model.safetensors").unlink()
        self.fails(1, "embed", folder, "a", says="2_Dense: holds no model.safetensors")
        folder = modules()
        pathlib.Path(folder, "modules.json").write_text("{}")
        self.fails(1, "embed", folder, "a", says="modules.json: is not a JSON array")
        weights = pathlib.Path(DATA, "gemma/2_Dense/model.safetensors").read_bytes()
        folder = modules()
        pathlib.Path(folder, "2_Dense/model.safetensors").write_bytes(weights.replace(b"linear.weight", b"linear.weighs"))
        self.fails(1, "embed", folder, "a", says=("2_Dense", "linear.weighs"))

    def test_maps(self):
        """Maps of characters and what is beside them; positions behind padding's."""
        def charsmap(data):
            return lambda t: t["normalizer"].update(precompiled_charsmap=base64.b64encode(data).decode())

        size = lambda n: struct.pack("<I", n)
        for change, says in ((charsmap(size(8) + bytes(8) + b"a"), "map is damaged"), (charsmap(size(8) + bytes(8)), "map is damaged"),
                             (charsmap(size(6) + bytes(9)), "map is damaged"), (charsmap(size(0) + bytes(9)), "map is damaged"),
                             (charsmap(size(4) + bytes(4) + b"a" * 257 + b"\0"), "replaces a character by 257 bytes"),
                             (lambda t: t["normalizer"].update(precompiled_charsmap="a_b="), "base64"),
                             (lambda t: t["pre_tokenizer"]["pretokenizers"][1].update(prepend_scheme="first"), "Metaspace"),
                             (lambda t: t["pre_tokenizer"]["pretokenizers"][0].update(type="Digits"), "Metaspace"),
                             (lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [t["normalizer"], {"type": "NFD"}]}),
                              'type "NFD"')):
            self.fails(1, "embed", self.changed("tokenizer.json", change, "roberta"), "a", says=says)
        # Whatever a trie of the right size holds, it replaces nothing outside its bounds.
        for unit in (0xffffffff, 0x100, 0x7fffff61, 0x161, 0x400, 0):
            folder = self.changed("tokenizer.json", charsmap(size(1024) + size(unit) * 256 + b"b\0"), "roberta")
            self.ok("embed", folder, "aaa a b" * 9)
        for pad in (-1, 289, 1000):
            self.fails(1, "embed", self.changed("config.json", lambda c: c.update(pad_token_id=pad), "roberta"), "a",
                       says=("config.json", "pad_token_id"))
        self.fails(1, "embed", self.changed("config.json", lambda c: c.update(pad_token_id=3), "roberta"), "the " * 287, says="286")


if __name__ == "__main__":
    main()
