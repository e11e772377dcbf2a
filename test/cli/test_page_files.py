"""The files of the page, as any client gets them: headers, types, and that nothing comes from elsewhere."""

import http.client
import os
import pathlib
import re
import socket

from harness import TIMEOUT, main
from test_serve import OneServer

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "src/program/serve/page"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".txt": "text/plain; charset=utf-8"}
NAMES = sorted(str(path.relative_to(FOLDER)).replace(os.sep, "/") for path in FOLDER.rglob("*.*"))
MOST_BYTES = 260000


class Files(OneServer):
    arguments = ("--api-key", "secret")  # the page asks for it, so the page must come without

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    def test_files(self):
        total = 0
        for name in NAMES:
            is_page = name == "index.html"
            reply, body = self.get("/" if is_page else "/page/" + name)
            self.assertEqual(reply.status, 200, name)
            self.assertEqual(body, (FOLDER / name).read_bytes(), name)
            self.assertEqual(reply.headers["Content-Type"],
                             "text/html; charset=utf-8" if is_page else TYPES[os.path.splitext(name)[1]])
            self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(reply.headers["Cache-Control"], "no-cache")
            total += len(body)
        self.assertLess(total, MOST_BYTES)

    def test_policy(self):
        reply, _ = self.get("/")
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
        self.assertEqual(policy, {
            "default-src": "'none'", "connect-src": "'self'", "img-src": "'self'", "style-src": "'self'",
            "script-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
            "require-trusted-types-for": "'script'", "trusted-types": "'none'"})
        self.assertEqual(reply.headers["Referrer-Policy"], "no-referrer")

    def test_same_file_is_not_sent_again(self):
        tags = set()
        for path in ("/", "/page/main.js", "/page/page.css"):
            reply, body = self.get(path)
            tag = reply.headers["ETag"]
            self.assertRegex(tag, r'^"[0-9a-f]{16}"$')
            tags.add(tag)
            for known in (tag, "W/" + tag, '"a", ' + tag, "*"):
                again, nothing = self.get(path, If_None_Match=known)
                self.assertEqual((again.status, nothing, again.headers["ETag"]), (304, b"", tag), known)
                self.assertIsNone(again.headers["Content-Length"])
            self.assertEqual(self.get(path, If_None_Match='"0000000000000000"')[1], body)
            head, nothing = self.get(path, "HEAD")
            self.assertEqual((head.status, nothing, head.headers["Content-Length"]), (200, b"", str(len(body))))
        self.assertEqual(len(tags), 3)

    def test_connection_goes_on(self):
        """What follows a reply without a body is the next reply."""
        tag = self.get("/page/main.js")[0].headers["ETag"]
        with socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT) as connection:
            connection.sendall(b"GET /page/main.js HTTP/1.1\r\nHost: a\r\nIf-None-Match: %s\r\n\r\n"
                               b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % tag.encode())
            with connection.makefile("rb") as file:
                text = file.read()
        self.assertRegex(text, rb"\AHTTP/1\.1 304 Not Modified\r\n(?:[^\r]+\r\n)+\r\nHTTP/1\.1 200 OK\r\n")

    def test_other_names(self):
        for path in ("/page/none.js", "/page/../page/main.js", "/page/..%2fopenapi.json", "/page/vendor", "/page/", "/page/%00"):
            reply, body = self.get(path)
            self.assertIn(reply.status, (400, 404), path)
            self.assertIn(b"error", body)
        self.assertEqual(self.get("/page/main.js", "POST")[0].headers["Allow"], "GET, HEAD")

    def test_nothing_from_elsewhere(self):
        page = (FOLDER / "index.html").read_text()
        loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
        self.assertGreater(len(loaded), 4)
        for path in loaded:
            self.assertEqual(self.get("/" + path)[0].status, 200, path)
        self.assertNotRegex(page, r"<style|<script>|\son\w+=|\sstyle=")  # the policy would refuse it
        self.assertNotRegex((FOLDER / "page.css").read_text(), r"url\(|@import")
        imported = set()
        for path in FOLDER.glob("*.js"):
            text = path.read_text()
            self.assertNotRegex(text, r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
            imported |= set(re.findall(r'from "([^"]+)"', text))
        self.assertEqual({name.removeprefix("./") for name in imported} | {"main.js"}, {p.name for p in FOLDER.glob("*.js")})

    def test_licences(self):
        text = self.get("/page/vendor/LICENSES.txt")[1].decode()
        for name in os.listdir(FOLDER / "vendor"):
            if name.endswith(".js"):
                self.assertIn(name + ":", text)
        self.assertIn("Permission is hereby granted", text)


if __name__ == "__main__":
    main()
