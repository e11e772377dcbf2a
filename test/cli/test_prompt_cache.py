"""serve --prompt-cache: what prompts begin with survives a restart; files that are damaged, foreign or another model's."""

import json
import os
import pathlib
import shutil
import signal
import time

from harness import MODEL, TIMEOUT, Case, main, with_template
from test_serve import COMPLETE, Server

TALE = ("Once upon a time there was a little dog that wanted to see the big red ball of the girl who lived in the house by "
        "the sea, and each day it went to the door and looked at the sun and the birds. ")
STORY = {"prompt": TALE, "max_tokens": 20, "temperature": 1, "seed": 7}


class Caching(Server):
    """Events of files before the server listens count, too."""

    def __init__(self, case, *arguments, model=MODEL, env=None):
        self.process = case.start("serve", model, "--port", "0", "--prompt-cache", case.cache, *arguments, env=env)
        self.sentences = []
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                break
            case.assertEqual(event["event"], "stored_text")
            self.sentences.append(event["sentence"])
        self.port = event["port"]


class PromptCache(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.path("cache")

    def serve(self, *arguments, model=MODEL):
        return Caching(self, *arguments, model=model)

    def ask(self, server, body=None, **changes):
        """The text and the tokens that were not read again."""
        reply = server.post(COMPLETE, dict(body or STORY, **changes))
        return reply["choices"][0]["text"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    def stop(self, server):
        """The sentences about files that it wrote to its log."""
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.process.stdout]
        return server.sentences + [event["sentence"] for event in events if event["event"] == "stored_text"]

    def files(self):
        return sorted(os.listdir(self.cache))

    def bytes(self):
        return sum(os.path.getsize(os.path.join(self.cache, name)) for name in self.files())

    def fill(self, *arguments, **options):
        """Runs a server for one answer; its text."""
        server = self.serve(*arguments, **options)
        text, cached = self.ask(server)
        self.assertEqual(self.stop(server), [])
        return text

    def test_restart(self):
        plain = Server(self, template=None)
        bodies = [dict(STORY, seed=seed, prompt=TALE + end) for seed, end in ((1, ""), (2, "The dog"), (3, "But the girl"))]
        wanted = [self.ask(plain, body)[0] for body in bodies]
        self.assertEqual(self.fill(), self.ask(plain)[0])
        self.assertEqual(os.stat(self.cache).st_mode & 0o777, 0o700)
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(os.stat(os.path.join(self.cache, self.files()[0])).st_mode & 0o777, 0o600)
        for _ in range(2):
            for body, text in zip(bodies, wanted):
                server = self.serve()
                found = self.ask(server, body)
                self.assertEqual(found[0], text)
                self.assertGreater(found[1], 40)
                self.assertEqual(self.stop(server), [])

    def test_kinds_of_caches(self):
        """Quantised keys and values, states of layers, experts, and a draft head: the same text, also beside its end."""
        data = pathlib.Path(MODEL).parent
        for number, (model, arguments) in enumerate((
                (MODEL, ("--kv", "q8")), (MODEL, ("--kv", "q4")), (MODEL, ("--kv", "bf16")), (MODEL, ("--chain", "none")),
                (data / "stories260K-conv.gguf", ()), (data / "stories260K-q.gguf", ()), (data / "experts/lfm2moe.gguf", ()),
                (data / "experts/qwen3moe.gguf", ()), (MODEL, ("--head", str(data / "heads/plain.gguf"))))):
            self.cache = self.path("cache-%d" % number)
            # A text that goes on where the stored one ends, and one that leaves it in the middle.
            n = 2 if "experts" in str(model) else 5  # these have more tokens for a text
            prompts = [(TALE * n, 64), (TALE * n + "A dog and a cat and a bird and a girl", 64), (TALE * (n - 1) + "A cat", -1)]
            plain = Server(self, *arguments, model=str(model), template=None)
            wanted = [self.ask(plain, prompt=prompt)[0] for prompt, _ in prompts]
            server = self.serve(*arguments, model=str(model))
            self.ask(server, prompt=prompts[0][0], max_tokens=1)
            self.assertEqual(self.stop(server), [])
            for (prompt, least), text in zip(prompts, wanted):
                server = self.serve(*arguments, model=str(model))
                found, cached = self.ask(server, prompt=prompt)
                self.assertEqual(found, text, (model, arguments))
                self.assertGreater(cached, least, (model, arguments))
                server.process.kill()  # and stores nothing more
                server.process.wait(TIMEOUT)

    def test_other_prompts(self):
        self.fill()
        server = self.serve()
        self.assertLessEqual(self.ask(server, prompt="A cat sat on the mat and looked at the moon all night.")[1], 1)  # BOS
        self.assertGreater(self.ask(server, prompt=TALE[:80])[1], 16)

    def test_written_while_idle(self):
        """A server that is killed has written what it kept before."""
        server = self.serve()
        wanted = self.ask(server)[0]
        end = time.monotonic() + TIMEOUT
        while not os.path.isdir(self.cache) or not [name for name in self.files() if name[0] != "."]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(TIMEOUT)
        left = "." + self.files()[-1] + ".new-0123abcd"  # what a killed writer leaves
        pathlib.Path(self.cache, left).write_bytes(b"half of a")
        server = self.serve()
        text, cached = self.ask(server)
        self.assertEqual((text, cached > 40), (wanted, True))
        self.assertNotIn(left, self.files())

    def test_conversation(self):
        """A text that goes on takes the place of its beginning."""
        server = self.serve()
        prompt = TALE
        for _ in range(4):
            prompt += self.ask(server, prompt=prompt)[0] + " And then"
        self.assertEqual(self.stop(server), [])
        self.assertEqual(len(self.files()), 1)
        server = self.serve()
        prompt += self.ask(server, prompt=prompt)[0] + " So"
        self.assertEqual(self.stop(server), [])
        self.assertEqual(len(self.files()), 1)

    def test_damage(self):
        wanted = self.fill()
        name, = self.files()
        path = pathlib.Path(self.cache, name)
        data = path.read_bytes()
        flips = [0, 8, 17, 30, 40, len(data) // 3, len(data) // 2, len(data) - 1]
        damaged = [bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]) for at in flips]
        damaged += [data[:n] for n in (0, 3, 60, 200, len(data) - 1)] + [data + b"\0", b"no session" * 40, bytes(len(data))]
        for content in damaged:
            path.write_bytes(content)
            server = self.serve()
            text, cached = self.ask(server)
            self.assertEqual((text, cached <= 1), (wanted, True), content[:20])
            sentences = self.stop(server)
            if content[:8] == data[:8] and content[8:12] != data[8:12] and len(content) >= 12:
                self.assertEqual(sentences, [])  # it says that it has another version, and may be of use to that
            else:
                self.assertEqual(len(sentences), 1, content[:20])
                self.assertIn(name, sentences[0])
                self.assertTrue(sentences[0].endswith("; removed"), sentences[0])
            server = self.serve()
            self.assertEqual(self.ask(server)[0], wanted)
            self.assertEqual(self.stop(server), [])

    def test_foreign_files(self):
        """Files that are not the server's stay as they are."""
        wanted = self.fill()
        name, = self.files()
        foreign = {"notes.txt": b"mine", "text-short": b"a", name + ".bak": b"b", name[:-1] + "G": b"c", "." + name: b"d"}
        for other, content in foreign.items():
            pathlib.Path(self.cache, other).write_bytes(content)
        os.mkdir(os.path.join(self.cache, name[:-4] + "0000"))
        os.symlink("/etc/hostname", os.path.join(self.cache, name[:-4] + "1111"))
        server = self.serve("--prompt-cache-size", "1")
        text, cached = self.ask(server)
        self.assertEqual((text, cached > 40), (wanted, True))
        self.assertEqual(self.stop(server), [])
        for other, content in foreign.items():
            self.assertEqual(pathlib.Path(self.cache, other).read_bytes(), content)
        self.assertTrue(os.path.islink(os.path.join(self.cache, name[:-4] + "1111")))

    def test_other_model(self):
        """A folder for several models, and files that say another model's name."""
        other = self.path("other.gguf", with_template("{{ messages[0].content }}"))
        data = bytearray(pathlib.Path(other).read_bytes())
        data[-400:] = bytes(400)  # other weights
        pathlib.Path(other).write_bytes(data)
        wanted = self.fill()
        mine, = self.files()
        self.fill(model=other)
        self.assertEqual(len(self.files()), 2)
        theirs, = set(self.files()) - {mine}
        self.assertNotEqual(mine[:21], theirs[:21])
        for model in (MODEL, other):
            server = self.serve(model=model)
            self.assertGreater(self.ask(server)[1], 40)
            self.stop(server)
        shutil.copy(os.path.join(self.cache, theirs), os.path.join(self.cache, mine))
        server = self.serve()
        text, cached = self.ask(server)
        self.assertEqual((text, cached <= 1), (wanted, True))
        sentence, = self.stop(server)
        self.assertIn("another model", sentence)
        self.assertIn(theirs, self.files())

    def test_other_options(self):
        """Keys and values of another type, or of another tier, are not taken for these."""
        wanted = self.fill()
        server = self.serve("--kv", "q8")
        self.assertLessEqual(self.ask(server)[1], 1)
        self.assertEqual(self.stop(server), [])
        server = Caching(self, env={"RIFFLE_CPU": "scalar"})
        self.assertLessEqual(self.ask(server)[1], 1)
        self.assertEqual(self.stop(server), [])
        server = self.serve("--ctx", "32")  # the text is longer, and stays for others
        self.assertEqual(self.ask(server, prompt="Once upon a time", max_tokens=3)[1] <= 1, True)
        self.assertEqual(self.stop(server), [])
        server = self.serve()
        text, cached = self.ask(server)
        self.assertEqual((text, cached > 40), (wanted, True))

    def test_bound(self):
        server = self.serve("--prompt-cache-size", "1")
        prompts = ["Number %d. " % i + TALE * 4 for i in range(8)]
        for prompt in prompts:
            self.ask(server, prompt=prompt, max_tokens=4)
        self.assertEqual(self.stop(server), [])
        self.assertLessEqual(self.bytes(), 1000000)
        self.assertGreater(len(self.files()), 1)
        n = len(self.files())
        server = self.serve("--prompt-cache-size", "1")
        oldest = min(self.files(), key=lambda name: os.stat(os.path.join(self.cache, name)).st_mtime_ns)
        self.assertGreater(self.ask(server, prompt=prompts[-1], max_tokens=4)[1], 100)
        self.ask(server, prompt="Another. " + TALE * 4, max_tokens=4)
        self.stop(server)
        self.assertNotIn(oldest, self.files())
        self.assertLessEqual(self.bytes(), 1000000)
        self.assertLessEqual(abs(len(self.files()) - n), 1)

    def test_other_ends(self):
        """Answers with other seeds are not worth a file each; a text that made room for others is written again."""
        server = self.serve()
        for seed in range(4):
            self.ask(server, seed=seed, max_tokens=4)
        self.assertEqual(self.stop(server), [])
        name, = self.files()
        os.remove(os.path.join(self.cache, name))
        server = self.serve()
        self.ask(server, max_tokens=4)
        end = time.monotonic() + TIMEOUT
        while not [found for found in self.files() if found[0] != "."]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        for found in self.files():
            os.remove(os.path.join(self.cache, found))
        self.ask(server, seed=9, max_tokens=4)
        self.assertEqual(self.stop(server), [])
        self.assertEqual(len(self.files()), 1)

    def test_folder_of_others(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o777)
        self.fails(1, "serve", MODEL, "--prompt-cache", self.cache, says=[self.cache, "write"])
        file = self.path("file", b"")
        self.fails(1, "serve", MODEL, "--prompt-cache", file, says=file)


if __name__ == "__main__":
    main()
