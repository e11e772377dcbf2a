"""Heads and targets as llama.cpp reads them. riffle reads both kinds of files: what it drafts and
writes with an exported file must be what it does with the original. Skipped where the Python
(RIFFLE_TEST_PYTHON, else this one) lacks a package."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "cli"))
from harness import MODEL, Case, main  # noqa: E402

PYTHON = os.environ.get("RIFFLE_TEST_PYTHON", sys.executable)
HEADS = ROOT / "test" / "data" / "heads"
EXPORT = ROOT / "training" / "export_llama_cpp.py"
PROMPTS = ["One day, a dog and a cat went to the park. They saw", "Tom had a big red ball.",
           "Once upon a time, there was a small bird."]

# Writes the small model as one of the architecture qwen2: its rows of q and k in the other order
# (not if they stay), and biases, which qwen2 has. argv: the model, the file to write, turned or
# stays.
QWEN2 = """
import sys
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
model, path, stays = GGUFReader(sys.argv[1]), sys.argv[2], sys.argv[3] == "stays"
of = lambda name: model.fields["llama.attention." + name].contents()
heads = {"attn_q": of("head_count"), "attn_k": of("head_count_kv"), "attn_v": of("head_count_kv")}
out, random = GGUFWriter(path, "qwen2"), np.random.default_rng(7)
for name, field in model.fields.items():
    if name.startswith("GGUF.") or name == "general.architecture":
        continue
    kind = field.types[0]
    inner = field.types[-1] if len(field.types) > 1 else None
    out.add_key_value(name.replace("llama.", "qwen2.") if name.startswith("llama.") else name,
                      field.contents(), kind, inner)
for t in model.tensors:
    part = t.name.split(".")[-2]
    rows = slice(None)
    if part in ("attn_q", "attn_k") and not stays:
        rows = np.arange(len(t.data)).reshape(heads[part], -1, 2).swapaxes(1, 2).reshape(-1)
    out.add_tensor(t.name, np.ascontiguousarray(t.data[rows]), raw_dtype=t.tensor_type)
    if part in heads:
        bias = random.normal(size=int(t.shape[1])).astype(np.float32)
        if part == "attn_v":
            bias *= 0.05
        out.add_tensor(t.name.replace("weight", "bias"), bias[rows],
                       raw_dtype=GGMLQuantizationType.F32)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
"""


class Export(Case):
    def python(self, *arguments):
        return subprocess.run([PYTHON, "-B", *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def export(self, model, head, *options):
        out = self.path("exported.gguf")
        done = self.python(EXPORT, "--model", model, "--head", head, "--out", out, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def text(self, model, prompt):
        return self.json("run", model, "--raw", "-p", prompt, "--max-tokens", "32", "--chain",
                         "none")["text"]

    def test_drafts_of_an_exported_head(self):
        head = HEADS / "chosen.gguf"
        exported = self.export(MODEL, head)
        kept = {"judged_at": None, "accepted_at": None}
        for prompt in PROMPTS:
            results = [self.json("run", MODEL, "--raw", "-p", prompt, "--max-tokens", "40",
                                 "--chain", "head", "--gamma", "3", "--head", file)
                       for file in (head, exported)]
            self.assertEqual(results[0]["text"], results[1]["text"])
            for key in kept:
                self.assertEqual(results[0]["levels"][0][key], results[1]["levels"][0][key])
            self.assertGreater(results[0]["levels"][0]["judged_at"][0], 0)

    def test_target_of_qwen2(self):
        model, target = self.path("qwen2.gguf"), self.path("target.gguf")
        wrong = self.path("wrong.gguf")
        for path, how in ((model, "turned"), (wrong, "stays")):
            done = self.python("-c", QWEN2, MODEL, path, how)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.export(model, HEADS / "chosen.gguf", "--target", target)
        self.assertIn("llama:", self.ok("info", target).out)
        for prompt in PROMPTS:
            self.assertEqual(self.text(target, prompt), self.text(model, prompt))
        self.assertNotEqual([self.text(wrong, p) for p in PROMPTS],
                            [self.text(model, p) for p in PROMPTS])

    def test_refusals(self):
        other = self.path("other.gguf")
        for head, says in ((HEADS / "plain.gguf", "is not a head of ours"),
                           (MODEL, "general.architecture is not eagle3"),
                           (self.path("none.gguf"), "cannot be read")):
            done = self.python(EXPORT, "--model", MODEL, "--head", head, "--out", other)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse(os.path.exists(other))


def lacks_packages():
    found = subprocess.run([PYTHON, "-c", "import gguf"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    return found.returncode != 0


if __name__ == "__main__":
    if lacks_packages():
        print("skipped: %s has not gguf" % PYTHON)
        sys.exit(77)
    main()
