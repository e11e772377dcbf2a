"""Models by the names of hubs, on hubs of this machine (hub.py), which also lie; and models that other programs have."""

import json
import os
import pathlib
import random
import shutil
import struct

from harness import MODEL, Case, Terminal, main
from hub import Hub, document, refuse, sha256
from model_files import STRING, Folder, Gguf, split_gguf
from web import Server, ranged, redirect, whole

DATA = pathlib.Path(MODEL).read_bytes()
SMALL = (pathlib.Path(MODEL).parent / "stories260K-q.gguf").read_bytes()
RUN = ["--raw", "-p", "Once", "--max-tokens", "2"]


class Hubs(Case):
    may_precede = r"(Fetching .*\n|.* is called .*\n)*"

    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        self.env = {k: v for k, v in self.env.items() if not k.lower().endswith("_proxy")}
        self.server = Server()
        self.addCleanup(self.server.close)
        self.hub = Hub(self.server)
        self.env.update(RIFFLE_MODELS=self.models, HF_ENDPOINT=self.server.url, MODELSCOPE_DOMAIN=self.server.url,
                        RIFFLE_OLLAMA_REGISTRY=self.server.url)

    def files(self, folder=None):
        """All files below the models' folder but stamps."""
        folder = folder or self.models
        return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder)
                      for name in names if not name.endswith(".verified"))

    def pulled(self, name, file, data=DATA, **options):
        """The name is fetched to that file, and its path is printed."""
        path = os.path.join(self.models, file)
        result = self.ok("pull", name, **options)
        self.assertEqual(result.out, path + "\n")
        self.assertEqual(pathlib.Path(path).read_bytes(), data)
        return result

    def refused(self, name, *arguments, says, status=1, leaves=(), **options):
        result = self.fails(status, "pull", name, *arguments, says=says, **options)
        self.assertEqual(self.files(), sorted(leaves))
        return result

    def asked(self):
        return [request.path for request in self.server.requests]


class Spellings(Hubs):
    def test_huggingface(self):
        """Each way of writing it means the same file, which is fetched once."""
        self.hub.huggingface("Some-One/Tiny.v1-GGUF", {"README.md": b"x", "tiny-q8_0.gguf": SMALL, "tiny-q4_k_m.gguf": DATA})
        file = "hf.co/Some-One/Tiny.v1-GGUF/tiny-q4_k_m.gguf"
        for name in ["Some-One/Tiny.v1-GGUF", "hf.co/Some-One/Tiny.v1-GGUF", "huggingface.co/Some-One/Tiny.v1-GGUF:Q4_K_M",
                     "https://huggingface.co/Some-One/Tiny.v1-GGUF", "https://hf.co/Some-One/Tiny.v1-GGUF/",
                     "https://www.huggingface.co/Some-One/Tiny.v1-GGUF/tree/main",
                     "https://huggingface.co/Some-One/Tiny.v1-GGUF/resolve/main/tiny-q4_k_m.gguf?download=true",
                     "https://huggingface.co/Some-One/Tiny.v1-GGUF/blob/main/tiny-q4_k_m.gguf#x",
                     self.server.url + "/Some-One/Tiny.v1-GGUF", "Some-One/Tiny.v1-GGUF:q4_k_m",
                     "Some-One/Tiny.v1-GGUF:q4-k-m", "hf.co/Some-One/Tiny.v1-GGUF:latest", "hf.co/Some-One/Tiny.v1-GGUF:tiny-q4_k_m.gguf",
                     "Some-One/Tiny.v1-GGUF:TINY-Q4_K_M"]:
            self.pulled(name, file)
        self.assertEqual(self.files(), [file])
        self.assertEqual(self.asked().count(self.hub.file("Some-One/Tiny.v1-GGUF", "tiny-q4_k_m.gguf")), 1)
        self.assertIn("verified", self.ok("pull", "Some-One/Tiny.v1-GGUF").err)

    def test_revision(self):
        self.hub.huggingface("a/b", {"m-Q8_0.gguf": DATA}, revision="refs%2Fpr%2F1")
        self.pulled("https://huggingface.co/a/b/resolve/refs%2Fpr%2F1/m-Q8_0.gguf", "hf.co/a/b/m-Q8_0.gguf")

    def test_ollama(self):
        self.hub.ollama("tiny", "4b-q4_K_M", DATA)
        self.hub.ollama("tiny", "latest", SMALL)
        self.hub.ollama("other", "1b", SMALL, owner="user")
        self.pulled("tiny:4b-q4_K_M", "ollama.com/library/tiny/4b-q4_K_M.gguf")
        self.pulled("ollama.com/library/tiny:4b-q4_K_M", "ollama.com/library/tiny/4b-q4_K_M.gguf")
        for name in ["ollama.com/library/tiny", "https://ollama.com/library/tiny", "tiny:latest",
                     "registry.ollama.ai/library/tiny:latest"]:
            self.pulled(name, "ollama.com/library/tiny/latest.gguf", SMALL)
        self.pulled("ollama.com/user/other:1b", "ollama.com/user/other/1b.gguf", SMALL)
        self.assertIn("manifest.v2+json", self.server.requests[0].headers["Accept"])
        names = [m["name"] for m in self.json("list")["models"] if m["state"] == "verified"]
        self.assertEqual(names, ["ollama.com/user/other:1b", "tiny:4b-q4_K_M", "tiny:latest"])

    def test_modelscope(self):
        self.hub.modelscope("One/Two", {"two-Q8_0.gguf": SMALL, "two-Q5_K_M.gguf": DATA})
        self.pulled("modelscope.cn/One/Two", "modelscope.cn/One/Two/two-Q5_K_M.gguf")
        self.pulled("modelscope.cn/models/One/Two:Q8_0", "modelscope.cn/One/Two/two-Q8_0.gguf", SMALL)
        self.pulled("https://modelscope.cn/models/One/Two/resolve/master/two-Q8_0.gguf",
                    "modelscope.cn/One/Two/two-Q8_0.gguf", SMALL)

    def test_not_a_hub(self):
        """Paths, plain names and addresses of other kinds ask no hub."""
        os.mkdir(self.path("folder"))
        for name in ["a/b/c", "./a", "../a", "/a/b", "folder/model", "a/model.gguf", "model.gguf", "plain", "-a/b", "a/.b",
                     "a/b:", "a b/c", "a/b:../c", "C:model", "no-such:/x"]:
            self.assertNotEqual(self.riffle("pull", "--", name).returncode, 0, name)
        self.assertEqual(self.asked(), [])

    def test_paths_come_first(self):
        shutil.copy(MODEL, self.path("tiny:4b"))
        os.mkdir(self.path("a"))
        shutil.copy(MODEL, self.path("a/b"))
        for name in ["tiny:4b", "a/b"]:
            self.ok("run", name, *RUN)
        self.assertEqual(self.asked(), [])


class Types(Hubs):
    def choose(self, files, wanted=""):
        self.hub.huggingface("o/r", {file: DATA for file in files})
        shutil.rmtree(self.models, ignore_errors=True)
        return os.path.basename(self.ok("pull", "o/r" + (":" + wanted if wanted else "")).out.strip())

    def test_best(self):
        """Q4_K_M, else the next best that runs here."""
        order = ["Q4_K_M", "Q4_K_S", "IQ4_XS", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "Q3_K_M", "IQ3_XS", "Q2_K", "IQ2_M",
                 "TQ1_0", "BF16", "F16"]
        for i in range(len(order) - 1):
            files = ["m-%s.gguf" % t for t in [*order[i:], "Q4_0_4_4", "NVFP4"]]
            random.Random(i).shuffle(files)
            self.assertEqual(self.choose(files), "m-%s.gguf" % order[i])

    def test_as_people_write_them(self):
        for file in ["Model.Q5_K_M.gguf", "model-q5_k_m.gguf", "model_Q5_K_M.gguf", "model.i1-Q5_K_M.gguf",
                     "MODEL-Q8_0-Q5_K_M.gguf", "Q5_K_M.gguf"]:
            for wanted in ["Q5_K_M", "q5_k_m", "q5-K-m"]:
                self.assertEqual(self.choose([file, "model-Q4_0.gguf", "mmproj-model-Q5_K_M.gguf",
                                              "model.imatrix.gguf"], wanted), file)

    def test_prefix_of_a_maker(self):
        files = ["m-UD-Q4_K_XL.gguf", "m-UD-Q6_K.gguf", "m-Q6_K.gguf"]
        for wanted, file in [("Q4_K_XL", files[0]), ("ud-q4_k_xl", files[0]), ("Q6_K", files[2]), ("UD-Q6_K", files[1])]:
            self.assertEqual(self.choose(files, wanted), file)

    def test_type_in_a_folder(self):
        self.assertEqual(self.choose(["Q8_0/model.gguf", "Q4_K_M/model.gguf"]), "Q4_K_M-model.gguf")
        self.assertEqual(self.json("info", "o/r:Q4_K_M")["path"], self.models + "/hf.co/o/r/Q4_K_M-model.gguf")
        self.assertEqual(self.choose(["more/m-Q8_0.gguf", "m-Q8_0.gguf"], "Q8_0"), "m-Q8_0.gguf")

    def test_the_only_one(self):
        self.assertEqual(self.choose(["model.gguf"]), "model.gguf")
        self.assertEqual(self.json("info", "o/r")["path"], self.models + "/hf.co/o/r/model.gguf")

    def test_none(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA, "m-IQ2_S.gguf": DATA, "mmproj.gguf": DATA})
        self.refused("o/r:Q8_0", says=["o/r has no Q8_0", "it has Q4_0, IQ2_S"])
        self.hub.huggingface("o/r", {"m-Q4_0_4_4.gguf": DATA, "m-NVFP4.gguf": DATA})
        self.refused("o/r", says=["no type that runs here", "Q4_0_4_4, NVFP4"])
        self.hub.huggingface("o/r", {"README.md": b"x", "mmproj-q4_k_m.gguf": DATA})
        self.refused("o/r", says="neither GGUF files nor")
        self.hub.huggingface("o/r", {})
        self.refused("o/r", says="neither GGUF files nor")


class Several(Hubs):
    """Models of several files."""

    def parts(self, name="m-Q4_K_M"):
        return {"%s-%05d-of-00003.gguf" % (name, i + 1): part for i, part in enumerate(split_gguf(DATA, [10, 20, 18]))}

    def setUp(self):
        super().setUp()
        self.assertEqual(DATA[8], 48)  # tensors: 10 + 20 + 18

    def test_split(self):
        self.hub.huggingface("o/r", {**self.parts(), "m-Q8_0.gguf": SMALL})
        first = self.models + "/hf.co/o/r/m-Q4_K_M-00001-of-00003.gguf"
        self.assertEqual(self.ok("pull", "o/r").out, first + "\n")
        self.assertEqual(self.ok("run", "o/r", *RUN).out, self.ok("run", MODEL, *RUN).out)
        shown = {m["name"]: m for m in self.json("list")["models"]}["o/r:Q4_K_M"]
        self.assertEqual((shown["path"], shown["bytes"]), (first, sum(map(len, self.parts().values()))))
        self.assertIn("verified", self.ok("pull", "o/r:Q4_K_M").err)
        self.ok("rm", "o/r:Q4_K_M", "--yes")
        self.assertEqual(os.listdir(self.models), [])

    def test_split_in_a_folder(self):
        self.hub.huggingface("o/r", {"BF16/" + name: part for name, part in self.parts("m").items()})
        self.ok("pull", "o/r:bf16")
        n = len(self.asked())
        for name in ["o/r:BF16", "https://hf.co/o/r/blob/main/BF16/m-00001-of-00003.gguf",
                     "https://hf.co/o/r/blob/main/BF16/m-00002-of-00003.gguf"]:
            self.ok("run", name, *RUN)
        self.assertEqual(len(self.asked()), n)

    def test_address_of_a_part(self):
        self.hub.huggingface("o/r", self.parts())
        first = self.models + "/hf.co/o/r/m-Q4_K_M-00001-of-00003.gguf"
        url = "https://huggingface.co/o/r/resolve/main/m-Q4_K_M-00003-of-00003.gguf"
        self.assertEqual(self.ok("pull", url).out, first + "\n")
        n = len(self.asked())
        self.assertEqual(self.json("info", url)["path"], first)
        self.assertEqual(len(self.asked()), n)

    def test_interrupted(self):
        """What is not complete is no model, and the same command continues."""
        parts = self.parts()
        self.hub.huggingface("o/r", parts)
        for i, name in enumerate(["m-Q4_K_M-00002-of-00003.gguf", "m-Q4_K_M-00003-of-00003.gguf",
                                  "m-Q4_K_M-00001-of-00003.gguf"]):
            path = self.hub.file("o/r", name)
            good = self.server.answers[path]
            self.server.answers[path] = ranged(parts[name], stop=1000)
            self.fails(1, "pull", "o/r", says="continues")
            self.server.answers[path] = good
            shown = {m["name"]: m for m in self.json("list")["models"]}["o/r:Q4_K_M"]
            self.assertEqual((shown["state"], shown["path"]), ("interrupted", None))
            self.assertGreaterEqual(shown["kept_bytes"], 1000)
            self.fails(1, "info", "o/r", says="riffle pull o/r:Q4_K_M")
        self.ok("pull", "o/r")
        for name in parts:
            self.assertLessEqual(self.asked().count(self.hub.file("o/r", name)), 2)
        self.ok("info", "o/r")

    def test_removed_when_incomplete(self):
        parts = self.parts()
        self.hub.huggingface("o/r", parts)
        path = self.hub.file("o/r", "m-Q4_K_M-00003-of-00003.gguf")
        self.server.answers[path] = ranged(parts["m-Q4_K_M-00003-of-00003.gguf"], stop=1000)
        self.fails(1, "pull", "o/r", says="continues")
        self.ok("rm", "o/r:Q4_K_M", "--yes")
        self.assertEqual(os.listdir(self.models), [])

    def test_part_is_missing(self):
        parts = self.parts()
        del parts["m-Q4_K_M-00002-of-00003.gguf"]
        self.hub.huggingface("o/r", parts)
        self.refused("o/r", says="missing on the hub")

    def test_safetensors(self):
        """A repository without GGUF files is a folder."""
        folder = self.path("made")
        os.mkdir(folder)
        Folder().write(folder)
        files = {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}
        more = {"README.md": b"x", "consolidated.safetensors": b"x", "onnx/model.onnx": b"x", "pytorch_model.bin": b"x"}
        self.hub.huggingface("Maker/Model", {**files, **more})
        path = self.models + "/hf.co/Maker/Model/Model"
        self.assertEqual(self.ok("pull", "Maker/Model").out, path + "\n")
        self.assertEqual(self.files(path), sorted(files))
        for name in ["Maker/Model", "maker/model", "hf.co/Maker/Model:safetensors"]:
            self.assertEqual(self.json("info", name)["path"], path)
        self.assertEqual(self.json("info", "Maker/Model")["container"], "safetensors")
        self.ok("rm", "Maker/Model:safetensors", "--yes")
        self.assertEqual(os.listdir(self.models), [])

    def test_safetensors_interrupted(self):
        folder = self.path("made")
        os.mkdir(folder)
        Folder().write(folder)
        files = {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}
        self.hub.huggingface("o/r", files)
        for name in files:
            path = self.hub.file("o/r", name)
            good = self.server.answers[path]
            self.server.answers[path] = refuse(500)
            self.fails(1, "pull", "o/r", says="500")
            self.server.answers[path] = good
            self.fails(1, "info", "o/r", says="riffle pull o/r")
        self.ok("pull", "o/r")
        self.ok("info", "o/r")


class Pages(Hubs):
    """The list of a repository's files, in pages, moved, refused or wrong."""

    def test_pages(self):
        entries = [self.hub.entry("m-Q2_K.gguf", SMALL), self.hub.entry("m-Q4_K_M.gguf", DATA)]
        first, second = self.hub.tree("o/r"), "/api/models/o/r/tree/main?recursive=1&cursor=x%3D"
        self.server.answers[first] = document(entries[:1], Link='<%s%s>; rel="next"' % (self.server.url, second))
        self.server.answers[second] = document(entries[1:], Link='</x>; rel="prev"')
        self.server.answers[self.hub.file("o/r", "m-Q4_K_M.gguf")] = ranged(DATA)
        self.pulled("o/r", "hf.co/o/r/m-Q4_K_M.gguf")

    def test_pages_stay_on_the_server(self):
        other = Server()
        self.addCleanup(other.close)
        for link in [other.url, self.server.url.replace("localhost", "127.0.0.1"), "file:///etc"]:
            self.server.answers[self.hub.tree("o/r")] = document([], Link='<%s/x>; rel="next"' % link)
            self.refused("o/r", says="another server", env={"HF_TOKEN": "secret"})
        self.assertEqual(other.requests, [])

    def test_endless_pages(self):
        self.server.answers[self.hub.tree("o/r")] = document([], Link='<%s>; rel="next"' % self.hub.tree("o/r"))
        self.refused("o/r", says="more pages")

    def test_many_files(self):
        """A repository of ten thousand files is read; one of more than any model is not."""
        entries = [self.hub.entry("x/%d.txt" % i, b"", False) for i in range(10000)]
        self.server.answers[self.hub.tree("o/r")] = document([*entries, self.hub.entry("m-Q4_0.gguf", DATA)])
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = ranged(DATA)
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")
        shutil.rmtree(self.models)
        self.server.answers[self.hub.tree("o/r")] = document(entries * 11)
        self.refused("o/r", says="100000 files")
        def endless(request):
            request.head(200)
            while True:
                request.send(b"[" + b" " * (1 << 20))
        self.server.answers[self.hub.tree("o/r")] = endless
        self.refused("o/r", says="32 MiB")

    def test_moved(self):
        self.hub.huggingface("New/Name", {"m-Q4_0.gguf": DATA})
        def moved(request):
            request.head(307, Location=self.hub.tree("New/Name"), Content_Length=0)
        self.server.answers[self.hub.tree("old/name")] = moved
        result = self.pulled("old/name", "hf.co/New/Name/m-Q4_0.gguf")
        self.assertIn("old/name is called New/Name:Q4_0 now", result.err)
        self.pulled("old/name:Q4_0", "hf.co/New/Name/m-Q4_0.gguf")

    def test_file_moved(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        path = self.hub.file("o/r", "m-Q4_0.gguf")
        self.server.answers["/cdn"] = self.server.answers[path]
        self.server.answers[path] = redirect("/cdn")
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")

    def test_no_list(self):
        for answer in [b"", b"<html>log in</html>", b"{}", b"[", b"[1]", b"null", b'[{"type": "file"}]', b"\xff\xfe",
                       b'[{"type": "file", "path": "m-Q4_0.gguf"}]', b"[" * 100000,
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": "12"}]',
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": -1}]',
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": 1e99}]',
                       b'[{"type": "file", "path": 5, "size": 1}]',
                       b'[{"type": "file", "path": "m\\u0000.gguf", "size": 1}]',
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": 5, "lfs": {"oid": "12", "size": 5}}]',
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": 5, "lfs": {"oid": null, "size": 5}}]',
                       b'[{"type": "file", "path": "m-Q4_0.gguf", "size": 5, "lfs": {"size": 5}}]']:
            self.server.answers[self.hub.tree("o/r")] = document(answer)
            self.refused("o/r", says="the answer of the hub")

    def test_names_stay_in_the_folder(self):
        for path in ["../m-Q4_0.gguf", "/m-Q4_0.gguf", "a/../../m-Q4_0.gguf", "a//m-Q4_0.gguf", "..", ".", "a/./m-Q4_0.gguf",
                     "a/..", ""]:
            self.server.answers[self.hub.tree("o/r")] = document([self.hub.entry(path, DATA)])
            self.server.answers["/o/r/resolve/main/" + path] = ranged(DATA)
            self.refused("o/r", says="could lie anywhere")
        for path in ["..\\m-Q4_0.gguf", "C:m-Q4_0.gguf", "a\nm-Q4_0.gguf", "\x1b[2Jm-Q4_0.gguf", "x" * 600 + "-Q4_0.gguf"]:
            self.server.answers[self.hub.tree("o/r")] = document([self.hub.entry(path, DATA)])
            result = self.refused("o/r", says="neither GGUF")
            self.assertNotIn("\x1b", result.err)
        for path in [".m-Q4_0.gguf", "-m-Q4_0.gguf", "m$(x)-Q4_0.gguf", "x" * 300 + "-Q4_0.gguf"]:
            self.hub.huggingface("o/r", {path: DATA})
            self.refused("o/r:" + "Q4_0", says="")
        self.assertEqual(self.files(self.folder), [])

    def test_absent(self):
        self.refused("o/absent", says=["Hugging Face has no o/absent", "HF_TOKEN"])
        self.server.answers[self.hub.tree("o/r")] = refuse(401, X_Error_Code="RepoNotFound")
        self.refused("o/r", says=["Hugging Face has no o/r", "HF_TOKEN"])
        result = self.refused("o/r", says="Hugging Face has no o/r", env={"HF_TOKEN": "t"})
        self.assertNotIn("HF_TOKEN", result.err)
        self.server.answers[self.hub.tree("o/r", "gone")] = refuse(404, X_Error_Code="RevisionNotFound")
        self.refused("https://huggingface.co/o/r/tree/gone", says="in this revision")
        self.refused("absent:4b", says="ollama's registry has no absent:4b")
        self.refused("modelscope.cn/o/absent", says="ModelScope has no modelscope.cn/o/absent")

    def test_server_is_away(self):
        self.server.http.server_close()
        self.refused("o/r", says="localhost")


class Tokens(Hubs):
    SECRET = "hf_SECRET"

    def tokens(self, server=None):
        return [request.headers["Authorization"] for request in (server or self.server).requests]

    def gate(self, status=401, reason="GatedRepo"):
        """A repository whose list everybody may read, and whose files are for those with the token."""
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        path = self.hub.file("o/r", "m-Q4_0.gguf")
        def answer(request):
            if request.headers["Authorization"] == "Bearer " + self.SECRET:
                ranged(DATA)(request)
            else:
                request.head(status, Content_Length=0, **({"X-Error-Code": reason} if reason else {}))
        self.server.answers[path] = answer

    def test_gated(self):
        self.gate()
        self.refused("o/r", says=["o/r:Q4_0 is only for those who accepted its conditions", "/o/r", "HF_TOKEN"])
        self.assertEqual(self.tokens(), [None, None])
        self.refused("o/r", says=["may not read o/r", "/o/r"], env={"HF_TOKEN": "other"})
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", env={"HF_TOKEN": self.SECRET + "\n"})

    def test_forbidden(self):
        self.gate(403)
        self.refused("o/r", says=["may not read o/r", "/o/r"], env={"HF_TOKEN": "other"})
        self.gate(401, None)
        self.refused("o/r", says=["does not accept the token in HF_TOKEN"], env={"HF_TOKEN": "other"})

    def test_file_of_the_client(self):
        self.gate()
        os.makedirs(self.path(".cache/huggingface"))
        self.path(".cache/huggingface/token", self.SECRET)
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")
        shutil.rmtree(self.models)
        self.path("elsewhere", self.SECRET)
        self.path(".cache/huggingface/token", "other")
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", env={"HF_TOKEN_PATH": self.path("elsewhere")})

    def test_not_a_token(self):
        """Nothing that would make another header is sent."""
        self.gate()
        for token in ["a b", "a\r\nX-Evil: 1", "é", "x" * 5000, " ", ""]:
            self.refused("o/r", says="HF_TOKEN", env={"HF_TOKEN": token})
        self.assertEqual(set(self.tokens()), {None})

    def test_never_for_another_host(self):
        """Files lie on another host, whose address is a redirect, and so may lists."""
        cdn = Server()
        self.addCleanup(cdn.close)
        cdn.answers["/m"] = ranged(DATA)
        self.gate()
        for host in [cdn.url, cdn.url.replace("localhost", "127.0.0.1")]:
            shutil.rmtree(self.models, ignore_errors=True)
            self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = redirect(host + "/m")
            self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", env={"HF_TOKEN": self.SECRET})
        self.assertEqual(set(self.tokens()), {"Bearer " + self.SECRET})
        self.assertEqual(self.tokens(cdn), [None, None])
        tree = self.server.answers[self.hub.tree("o/r")]
        cdn.answers["/list"] = tree
        self.server.answers[self.hub.tree("o/r")] = redirect(cdn.url + "/list")
        self.ok("pull", "o/r", env={"HF_TOKEN": self.SECRET})
        self.assertEqual(set(self.tokens(cdn)), {None})

    def test_only_for_its_hub(self):
        self.hub.ollama("tiny", "1b", DATA)
        self.hub.modelscope("o/r", {"m-Q4_0.gguf": SMALL})
        self.ok("pull", "tiny:1b", env={"HF_TOKEN": self.SECRET})
        self.ok("pull", "modelscope.cn/o/r", env={"HF_TOKEN": self.SECRET})
        self.server.answers["/m.gguf"] = whole(DATA)
        self.ok("pull", self.server.url + "/m.gguf", env={"HF_TOKEN": self.SECRET})
        self.assertEqual(set(self.tokens()), {None})

    def test_never_unencrypted(self):
        """Through a proxy, so that a host of any name answers."""
        base = "http://hub.invalid"
        for path, data in [(self.hub.tree("o/r"), None), (self.hub.file("o/r", "m-Q4_0.gguf"), DATA)]:
            self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
            self.server.answers[base + path] = self.server.answers[path]
        self.ok("pull", "o/r", env={"HF_ENDPOINT": base, "http_proxy": self.server.url, "HF_TOKEN": self.SECRET})
        self.assertEqual(self.tokens(), [None, None])

    def test_not_kept(self):
        self.gate()
        good = self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")]
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = ranged(DATA, stop=1000)
        self.fails(1, "pull", "o/r", says="kept", env={"HF_TOKEN": self.SECRET})
        for name in self.files():
            self.assertNotIn(self.SECRET.encode(), pathlib.Path(self.models, name).read_bytes())
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = good
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", env={"HF_TOKEN": self.SECRET})
        self.assertEqual(self.server.ranges(self.hub.file("o/r", "m-Q4_0.gguf")), [None, "bytes=1000-"])


class Busy(Hubs):
    """A hub that takes no more requests."""

    def busy(self, path, n, status=429, **headers):
        good, left = self.server.answers[path], [n]
        def answer(request):
            left[0] -= 1
            request.head(status, Content_Length=0, **headers) if left[0] >= 0 else good(request)
        self.server.answers[path] = answer

    def test_waits(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.busy(self.hub.tree("o/r"), 2, Retry_After="1")
        self.busy(self.hub.file("o/r", "m-Q4_0.gguf"), 1, 503, Retry_After="0")
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")
        self.assertEqual(self.asked().count(self.hub.tree("o/r")), 3)

    def test_by_the_window(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.busy(self.hub.tree("o/r"), 1, RateLimit='"api";r=0;t=1')
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")

    def test_too_long(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        for headers, says in [({"Retry_After": "9000"}, "again in 9000 seconds"), ({}, "again later"),
                              ({"Retry_After": "Fri, 31 Dec 1999 23:59:59 GMT"}, "again later")]:
            self.busy(self.hub.tree("o/r"), 1, **headers)
            self.refused("o/r", says=["takes no more requests", says])

    def test_not_for_ever(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.busy(self.hub.tree("o/r"), 1000, Retry_After="0")
        self.refused("o/r", says="takes no more requests")
        self.assertLess(len(self.server.requests), 10)


class Lies(Hubs):
    """Files that are not what the list says."""

    def serve(self, data, claimed=DATA, **changes):
        self.server.answers[self.hub.tree("o/r")] = document([self.hub.entry("m-Q4_0.gguf", claimed, **changes)])
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = data if callable(data) else ranged(data)

    def test_hash(self):
        self.serve(DATA[:-1] + bytes([DATA[-1] ^ 1]))
        self.refused("o/r", says=["SHA-256", sha256(DATA)])

    def test_size(self):
        for data in [DATA + bytes(32), DATA[:-32], SMALL, b"", b"GGUF"]:
            self.serve(data)
            self.refused("o/r", says="bytes instead of %d" % len(DATA))

    def test_sizes_that_no_disk_has(self):
        lfs = {"oid": sha256(DATA), "size": 1 << 60, "pointerSize": 1}
        self.serve(DATA, lfs=lfs)
        self.refused("o/r", says="do not fit")
        self.server.answers[self.hub.tree("o/r")] = document(
            [self.hub.entry("m-Q4_0-%05d-of-00003.gguf" % i, DATA, lfs={**lfs, "size": (1 << 63) - 1}) for i in (1, 2, 3)])
        self.refused("o/r", says="no disk holds")

    def test_larger_than_allowed(self):
        self.serve(DATA)
        self.refused("o/r", "--max-size", "1", says=[str(len(DATA)), "1000000"])
        self.assertEqual(len(self.server.requests), 1)

    def test_page_instead(self):
        self.serve(whole(b"<html>" + bytes(len(DATA) - 6)))
        self.refused("o/r", says="not a GGUF file")

    def test_unreadable(self):
        data = b"GGUF" + bytes(2000)
        self.serve(data, data)
        self.refused("o/r", says="Riffle cannot read it")

    def test_another_architecture(self):
        """A model that does not run is refused when its first bytes have come."""
        model = b"".join(Gguf().parts())
        self.assertGreater(len(model), 10000)
        for written, says in [(b"mamba", '"mamba", which does not run'), (b"llam\x1b", "does not run")]:
            data = model.replace(b"llama", written, 1)
            def answer(request):
                request.head(200, Content_Length=len(data))
                request.send(data[:8192])
                request.block()
            self.serve(answer, data)
            result = self.refused("o/r", says=says)
            self.assertNotIn("\x1b", result.err)
        self.hub.ollama("tiny", "1b", data)
        self.refused("tiny:1b", says="does not run")

    def test_first_bytes_that_say_nothing(self):
        """An architecture that is not at the beginning is found out at the end."""
        model = b"".join(Gguf().parts())
        for key in ["a", "a" * 5000]:
            late = Gguf()
            late.values.insert(0, (key, struct.pack("<IQ", STRING, 5000) + b"x" * 5000))
            data = b"".join(late.parts())
            self.serve(ranged(data), data)
            self.ok("pull", "o/r")
            self.ok("rm", "o/r:Q4_0", "--yes")
        for i in range(24, 4200, 37):  # a length that leads anywhere
            data = model[:i] + b"\xff" * 8 + model[i + 8:]
            self.serve(ranged(data), data)
            self.assertIn(self.riffle("pull", "o/r").returncode, (0, 1))
            shutil.rmtree(self.models)

    def test_redirects(self):
        self.serve(redirect(self.hub.file("o/r", "m-Q4_0.gguf")))
        self.refused("o/r", says="redirects")
        self.server.answers[self.hub.tree("o/r")] = redirect(self.hub.tree("o/r"))
        self.refused("o/r", says="redirects")
        self.server.answers[self.hub.tree("o/r")] = redirect("file://" + MODEL)
        self.refused("o/r", says="redirects")

    def test_cut(self):
        """A transfer that ends early is continued, and only the rest comes."""
        half = len(DATA) // 2
        self.serve(ranged(DATA, stop=half))
        self.fails(1, "pull", "o/r", says=["ended", "continues"])
        self.assertEqual([name for name in self.files() if name.endswith(".gguf")], [])
        self.serve(ranged(DATA))
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf")
        self.assertEqual(self.server.ranges(self.hub.file("o/r", "m-Q4_0.gguf")), [None, "bytes=%d-" % half])

    def test_changed_on_the_hub(self):
        self.serve(DATA)
        self.ok("pull", "o/r")
        self.serve(SMALL, SMALL)
        self.fails(1, "pull", "o/r", says="riffle rm o/r:Q4_0")
        self.ok("rm", "o/r:Q4_0", "--yes")
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", SMALL)

    def test_damaged_here(self):
        self.serve(DATA)
        path = self.ok("pull", "o/r").out.strip()
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")
        self.fails(1, "pull", "o/r", says=["SHA-256", "riffle rm o/r:Q4_0"])

    def test_without_a_hash(self):
        self.server.answers[self.hub.tree("o/r")] = document([self.hub.entry("m-Q4_0.gguf", DATA, large=False)])
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = ranged(DATA)
        self.assertIn("not verified: its SHA-256 is " + sha256(DATA), self.ok("pull", "o/r").err)

    def test_manifests(self):
        path = "/v2/library/tiny/manifests/1b"
        blob = "/v2/library/tiny/blobs/sha256:" + sha256(DATA)
        self.server.answers[blob] = ranged(DATA)
        good = self.hub.manifest(DATA)
        layer = good["layers"][0]
        for manifest, says in [(b"[]", "not a manifest"), (b"{", "not JSON"), ({"layers": 5}, "not a manifest"),
                               ({"layers": []}, "has 0 GGUF files"), ({"layers": [layer, layer]}, "has 2 GGUF files"),
                               ({"layers": [{**layer, "digest": "sha256:../../x"}]}, "SHA-256 that is none"),
                               ({"layers": [{**layer, "digest": "md5:" + "1" * 64}]}, "without digest"),
                               ({"layers": [{**layer, "size": None}]}, "without digest or size"),
                               ({"layers": [layer, {**layer, "mediaType": "application/vnd.ollama.image.adapter"}]}, "adapter"),
                               ({"layers": [{**layer, "size": 7}]}, "bytes instead of 7"),
                               ({"layers": [{**layer, "digest": "sha256:" + "3" * 64}]}, "404")]:
            self.server.answers[path] = document(manifest)
            if says == "404":
                says = "has no tiny:1b"
            self.refused("tiny:1b", says=says)
        self.server.answers[path] = document(good)
        self.server.answers[blob] = ranged(DATA[:-1] + b"!")
        self.refused("tiny:1b", says="SHA-256")


class Use(Hubs):
    """Hub names in other verbs."""

    def test_run_fetches(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.hub.ollama("tiny", "1b", DATA)
        wanted = self.ok("run", MODEL, *RUN).out
        for name in ["o/r", "tiny:1b"]:
            first = self.ok("run", name, *RUN)
            self.assertEqual(first.out, wanted)
            self.assertIn("Fetching", first.err)
        n = len(self.server.requests)
        self.server.close()
        for name in ["o/r", "hf.co/o/r:q4_0", "O/R:Q4_0", "https://huggingface.co/o/r", "tiny:1b",
                     "ollama.com/library/tiny:1b", "m-Q4_0", "m-Q4"]:
            again = self.ok("run", name, *RUN)
            self.assertEqual((again.out, again.err), (wanted, ""), name)
        self.assertEqual(len(self.server.requests), n)

    def test_chat_and_serve_fetch(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.ok("chat", "o/r", "--template", "chatml", "--max-tokens", "2", stdin="Hi\n")
        self.hub.huggingface("o/s", {"m-Q8_0.gguf": DATA})
        process = self.start("serve", "o/s", "--port", "0")
        line = process.stdout.readline()
        self.assertIn(b"{", line, process.stderr.read() if not line else b"")
        self.assertIn("hf.co/o/s/m-Q8_0.gguf", self.files())

    def test_others_do_not_fetch(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        for arguments in [["info", "o/r"], ["tokenize", "o/r", "-p", "a"], ["bench", "tiny:1b"], ["perplexity", "o/r", "-f", MODEL],
                          ["quantize", "o/r", "out.gguf", "--type", "q4"], ["run", MODEL, *RUN, "--draft", "o/r"]]:
            self.fails(1, *arguments, says="riffle pull %s" % (arguments[arguments.index("--draft") + 1]
                                                              if "--draft" in arguments else arguments[1]))
        self.assertEqual(self.asked(), [])

    def test_a_checked_file_needs_no_hub(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        path = self.ok("pull", "o/r").out
        self.server.close()
        self.assertEqual(self.ok("pull", "o/r:Q4_0").out, path)
        self.fails(1, "pull", "o/r:Q4_0", "--verify", says="localhost")

    def test_failure_of_a_fetch(self):
        self.fails(1, "run", "o/absent", *RUN, says="Hugging Face has no o/absent")

    def test_asks_at_a_terminal(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        terminal = Terminal(self, "run", "o/r", *RUN)
        terminal.wait_for("o/r:Q4_0 (1.19 MB) is not on this disk. Fetch it now? [Y/n] ")
        terminal.send("n\n")
        self.assertEqual(terminal.leave(), 1)
        self.assertEqual(self.files(), [])
        terminal = Terminal(self, "run", "o/r", *RUN)
        terminal.wait_for("Fetch it now?")
        terminal.send("\n")
        self.assertEqual(terminal.leave(), 0)

    def test_types_that_are_here(self):
        """Without a type, the best one that is on the disk; pull means the best one of the hub."""
        self.hub.huggingface("o/r", {"m-Q4_K_M.gguf": DATA, "m-Q8_0.gguf": SMALL, "m-F16.gguf": SMALL})
        folder = self.models + "/hf.co/o/r/"
        self.ok("pull", "o/r:F16")
        self.assertEqual(self.json("info", "o/r")["path"], folder + "m-F16.gguf")
        self.ok("pull", "o/r:Q8_0")
        self.assertEqual(self.json("info", "o/r")["path"], folder + "m-Q8_0.gguf")
        self.fails(1, "info", "o/r:Q4_K_M", says="riffle pull o/r:Q4_K_M")
        self.pulled("o/r", "hf.co/o/r/m-Q4_K_M.gguf")
        self.assertEqual(self.json("info", "o/r")["path"], folder + "m-Q4_K_M.gguf")
        self.assertEqual(self.json("info", "o/r:f16")["path"], folder + "m-F16.gguf")

    def test_names_of_tags_are_no_names(self):
        self.hub.ollama("tiny", "latest", DATA)
        self.ok("pull", "tiny:latest")
        for name in ["latest", "late", "latest.gguf"]:
            self.fails(1, "info", name, says=name)
        for name in ["tiny:latest", "tiny", "tin"]:
            self.assertIn("latest.gguf", self.json("info", name)["path"])
        self.fails(1, "info", "other", says="NAME:latest")

    def test_complete_before_own(self):
        """An interrupted fetch of Riffle's does not hide another program's file."""
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.server.answers[self.hub.file("o/r", "m-Q4_0.gguf")] = ranged(DATA, stop=1000)
        self.fails(1, "pull", "o/r", says="kept")
        path = self.path(".lmstudio/models/o/r")
        os.makedirs(path)
        path = shutil.copy(MODEL, path + "/m-Q4_0.gguf")
        for name in ["o/r", "o/r:Q4_0"]:
            self.assertEqual(self.json("info", name)["path"], path)

    def test_a_file_before_a_known_name(self):
        os.makedirs(self.models)
        path = shutil.copy(MODEL, self.models + "/qwen3-4b.gguf")
        self.assertEqual(self.json("info", "qwen3-4b")["path"], path)

    def test_list_and_rm(self):
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA, "m-Q8_0.gguf": SMALL})
        self.ok("pull", "o/r")
        self.ok("pull", "o/r:Q8_0")
        self.assertRegex(self.ok("list").out, r"o/r:Q4_0 +1.19 MB .* verified\n")
        self.fails(1, "rm", "o/r", "--yes")
        self.ok("rm", "o/r:Q4_0", "--yes")
        self.assertEqual(self.files(), ["hf.co/o/r/m-Q8_0.gguf"])
        self.ok("rm", "hf.co/o/r:q8_0", "--yes")
        self.assertEqual(os.listdir(self.models), [])

    def test_usage(self):
        self.fails(2, "pull", "o/r", "--sha256", "0" * 64, says="--sha256")
        self.fails(2, "pull", "tiny:1b", "--name", "x", says="--name")


class Others(Hubs):
    """Models of other programs are found, listed and used in place, and nothing there changes."""

    def put(self, path, data=DATA):
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pathlib.Path(path).write_bytes(data)
        return path

    def huggingface(self, repo, files, root=".cache/huggingface/hub", revision="a" * 40, main=True):
        """Snapshots link to blobs, as the client makes them."""
        folder = root + "/models--" + repo.replace("/", "--")
        for name, data in files.items():
            blob = self.put("%s/blobs/%s" % (folder, sha256(data)), data)
            link = self.path("%s/snapshots/%s/%s" % (folder, revision, name))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
        if main:
            self.put(folder + "/refs/main", revision.encode())
        return self.path("%s/snapshots/%s" % (folder, revision))

    def ollama(self, name, data=DATA, root=".ollama/models", **options):
        self.put(root + "/manifests/" + name, json.dumps(self.hub.manifest(data, **options)).encode())
        return self.put(root + "/blobs/sha256-" + sha256(data), data)

    def shown(self, **options):
        return {m["name"]: (m["place"], m["path"]) for m in self.json("list", **options)["models"]
                if m["place"] not in (None, "Riffle")}

    def test_each_place(self):
        snapshot = self.huggingface("o/r", {"m-Q4_0.gguf": DATA, "mmproj-m.gguf": SMALL, "deep/m-F16.gguf": SMALL})
        studio = self.put(".lmstudio/models/maker/Model-GGUF/Model-Q8_0.gguf")
        old = self.put(".cache/lm-studio/models/maker/Old-GGUF/Old-Q8_0.gguf")
        blob = self.ollama("registry.ollama.ai/library/tiny/1b")
        user = self.ollama("registry.ollama.ai/someone/other/latest", SMALL)
        self.ollama("hf.co/maker/Third/Q4_K_M")
        cached = self.put(".cache/llama.cpp/ggml-org_tiny-Q4_0.gguf")
        wanted = {"o/r:Q4_0": ("Hugging Face", snapshot + "/m-Q4_0.gguf"),
                  "o/r:F16": ("Hugging Face", snapshot + "/deep/m-F16.gguf"),
                  "maker/Model-GGUF:Q8_0": ("LM Studio", studio), "maker/Old-GGUF:Q8_0": ("LM Studio", old),
                  "tiny:1b": ("ollama", blob), "ollama.com/someone/other:latest": ("ollama", user),
                  "maker/Third:Q4_K_M": ("ollama", blob)}
        shown = self.shown()
        self.assertEqual({k: v for k, v in shown.items() if v[0] != "llama.cpp"}, wanted)
        self.assertEqual([v for v in shown.values() if v[0] == "llama.cpp"], [("llama.cpp", cached)])
        text = self.ok("list").out
        before = self.state()
        for name, (place, path) in shown.items():
            self.assertIn("Of %s, only read:" % place, text)
            self.assertIn(path, text)
            self.assertEqual(self.json("info", name)["path"], path)
            self.assertEqual(self.ok("run", name, *RUN).err, "", name)
            self.fails(1, "rm", name, "--yes", says=["belongs to " + place, path])
        self.ok("list", "--verify")
        self.assertEqual(self.asked(), [])
        self.assertEqual(self.state(), before)

    def state(self):
        """Everything in the home folder but Riffle's own cache."""
        return {path: os.stat(path).st_mtime_ns for path in
                (os.path.join(at, name) for at, _, names in os.walk(self.folder) for name in names)
                if "/.cache/riffle/" not in path}

    def test_variables(self):
        a = self.huggingface("a/b", {"m-Q4_0.gguf": DATA}, root="one")
        b = self.huggingface("c/d", {"m-Q4_0.gguf": DATA}, root="two/hub")
        blob = self.ollama("registry.ollama.ai/library/tiny/1b", root="three")
        cached = self.put("four/x.gguf")
        env = {"HF_HUB_CACHE": self.path("one"), "OLLAMA_MODELS": self.path("three"), "LLAMA_CACHE": self.path("four")}
        self.assertEqual(self.shown(env=env), {"a/b:Q4_0": ("Hugging Face", a + "/m-Q4_0.gguf"),
                                               "tiny:1b": ("ollama", blob), "x": ("llama.cpp", cached)})
        self.assertEqual(self.shown(env={"HF_HOME": self.path("two")}), {"c/d:Q4_0": ("Hugging Face", b + "/m-Q4_0.gguf")})

    def test_revisions(self):
        """The main revision's file counts; another revision only for what main has not."""
        self.huggingface("o/r", {"m-Q4_0.gguf": SMALL, "m-Q8_0.gguf": SMALL}, revision="b" * 40, main=False)
        main_snapshot = self.huggingface("o/r", {"m-Q4_0.gguf": DATA}, revision="c" * 40)
        shown = self.shown()
        self.assertEqual(shown["o/r:Q4_0"][1], main_snapshot + "/m-Q4_0.gguf")
        self.assertIn("b" * 40, shown["o/r:Q8_0"][1])

    def test_incomplete_is_not_shown(self):
        """A link to nothing, a blob that is not there, parts that are missing, files of other kinds."""
        snapshot = self.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        os.unlink(os.path.realpath(snapshot + "/m-Q4_0.gguf"))
        os.unlink(self.ollama("registry.ollama.ai/library/tiny/1b"))
        self.put(".lmstudio/models/a/b/m-Q4_0-00001-of-00002.gguf")
        self.put(".lmstudio/models/a/b/notes.txt")
        self.put(".lmstudio/models/a/b/mmproj-F16.gguf")
        self.assertEqual(self.shown(), {})

    def test_split(self):
        for i, part in enumerate(split_gguf(DATA, [10, 38])):
            self.put(".lmstudio/models/a/b/m-Q4_0-%05d-of-00002.gguf" % (i + 1), part)
        self.assertEqual(list(self.shown()), ["a/b:Q4_0"])
        self.ok("run", "a/b", *RUN)

    def test_safetensors(self):
        os.mkdir(self.path("made"))
        Folder().write(self.path("made"))
        files = {name: pathlib.Path(self.path("made"), name).read_bytes() for name in os.listdir(self.path("made"))}
        snapshot = self.huggingface("o/r", files)
        self.assertEqual(self.shown(), {"o/r:safetensors": ("Hugging Face", snapshot)})
        self.assertEqual(self.json("info", "o/r")["path"], snapshot)

    def test_hostile_manifests(self):
        blob = self.ollama("registry.ollama.ai/library/tiny/1b")
        path = ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"
        good = self.hub.manifest(DATA)
        for manifest in [b"", b"{", b"[]", b"[" * 100000, json.dumps({"layers": 5}).encode(), bytes(2 << 20),
                         json.dumps({"layers": [{**good["layers"][0], "digest": "sha256:../../../../etc/passwd"}]}).encode(),
                         json.dumps({"layers": [{**good["layers"][0], "digest": None}]}).encode(),
                         json.dumps(self.hub.manifest(DATA, {"mediaType": "application/vnd.ollama.image.adapter"})).encode()]:
            self.put(path, manifest)
            self.assertEqual(self.shown(), {})
        self.put(path, json.dumps(good).encode())
        self.assertEqual(self.shown(), {"tiny:1b": ("ollama", blob)})
        self.put(".ollama/models/manifests/registry.ollama.ai/library/a b/\x1b[2J", json.dumps(good).encode())
        self.assertEqual(list(self.shown()), ["tiny:1b"])

    def test_order(self):
        """A path, Riffle's own models, other programs' files, the hub."""
        studio = self.put(".lmstudio/models/o/r/m-Q4_0.gguf")
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        self.assertEqual(self.json("info", "o/r")["path"], studio)
        own = self.put("models/hf.co/o/r/m-Q8_0.gguf")
        self.assertEqual(self.json("info", "o/r")["path"], own)
        self.assertEqual(self.json("info", "o/r:Q4_0")["path"], studio)
        self.put("o/r")
        self.assertEqual(self.json("info", "o/r")["path"], "o/r")
        self.assertEqual(self.asked(), [])

    def test_pull_uses_them(self):
        """The same file of another program is not fetched again; another one is."""
        studio = self.put(".lmstudio/models/o/r/m-Q4_0.gguf")
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": DATA})
        result = self.ok("pull", "o/r")
        self.assertEqual(result.out, studio + "\n")
        self.assertIn("LM Studio has it", result.err)
        self.hub.huggingface("o/r", {"m-Q4_0.gguf": SMALL})
        self.pulled("o/r", "hf.co/o/r/m-Q4_0.gguf", SMALL)

    def test_folder_with_one_model(self):
        path = self.put("some/folder/anything.gguf")
        self.put("some/folder/mmproj.gguf", b"x")
        self.put("some/folder/README.md", b"x")
        self.assertEqual(self.json("info", "some/folder")["path"], "some/folder/anything.gguf")
        self.assertEqual(self.json("info", os.path.dirname(path))["path"], path)
        self.put("some/folder/second.gguf")
        self.fails(1, "info", "some/folder", says=["some/folder", "holds 2 models"])
        for i, part in enumerate(split_gguf(DATA, [10, 38])):
            self.put("split/m-%05d-of-00002.gguf" % (i + 1), part)
        self.ok("run", "split", *RUN)


if __name__ == "__main__":
    main()
