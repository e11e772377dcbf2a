"""serve: which pages of other origins a browser may let ask, and what names a build and its model."""

import http.client
import json

from harness import MODEL, RIFFLE, TIMEOUT, Case, main
from test_serve import CHAT, COMPLETE, HI, STORY, OneServer, Server

PAGE, OTHER = "https://chat.example", "https://evil.example"
KEY = "secret"


def heads(server, method, path, body=None, headers=(), host=None):
    """Status and headers, without the check of the OpenAPI document, which has no OPTIONS."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
    given = {"Content-Type": "application/json", **dict(headers)}
    if host:
        given["Host"] = host
    connection.request(method, path, json.dumps(body) if body else None, given)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}


def preflight(server, path, origin, headers="authorization,content-type", host=None):
    return heads(server, "OPTIONS", path, headers={"Origin": origin, "Access-Control-Request-Method": "POST",
                                                   "Access-Control-Request-Headers": headers}, host=host)


class Off(OneServer):
    def test_nothing_is_said(self):
        status, lines = preflight(self.server, CHAT, PAGE)
        self.assertEqual((status, lines["allow"]), (405, "POST"))
        for found in lines, heads(self.server, "POST", CHAT, HI, {"Origin": PAGE})[1]:
            self.assertFalse([name for name in found if name.startswith("access-control") or name == "vary"])


class Some(OneServer):
    arguments = ("--cors", PAGE, "--cors", "http://localhost:3000", "--api-key", KEY)

    def test_preflight(self):
        """It needs no key, as browsers send none."""
        for origin in PAGE, "http://localhost:3000":
            status, lines = preflight(self.server, CHAT, origin, "authorization, x-stainless-os")
            self.assertEqual((status, lines["access-control-allow-origin"], lines["vary"]), (200, origin, "Origin"))
            self.assertEqual(lines["access-control-allow-methods"], "POST")
            self.assertEqual(lines["access-control-allow-headers"], "authorization, x-stainless-os")
        self.assertEqual(preflight(self.server, "/v1/models", PAGE)[1]["access-control-allow-methods"], "GET, HEAD")

    def test_others(self):
        for origin in OTHER, PAGE + ":444", "http://chat.example", "null", PAGE + ".evil.example":
            status, lines = preflight(self.server, CHAT, origin)
            self.assertEqual((status, lines["vary"]), (200, "Origin"))
            self.assertFalse([name for name in lines if name.startswith("access-control")], origin)
        self.assertEqual(preflight(self.server, "/nothing", PAGE)[0], 404)
        self.assertEqual(heads(self.server, "OPTIONS", CHAT, headers={"Origin": PAGE})[0], 405)
        odd = preflight(self.server, CHAT, PAGE, "a;b")[1]
        self.assertNotIn("access-control-allow-headers", odd)
        self.assertNotIn("access-control-allow-headers", preflight(self.server, CHAT, PAGE, "a" * 5000)[1])

    def test_replies(self):
        """Answers, streams and refusals may be read, and the headers that clients need."""
        bearer = {"Origin": PAGE, "Authorization": "Bearer " + KEY}
        for status, body, headers in ((200, HI, bearer), (200, dict(HI, stream=True), bearer), (401, HI, {"Origin": PAGE}),
                                      (400, {"messages": 1}, bearer)):
            found, lines = heads(self.server, "POST", CHAT, body, headers)
            self.assertEqual((found, lines.get("access-control-allow-origin")), (status, PAGE))
            self.assertIn("Retry-After", lines["access-control-expose-headers"])
        found, lines = heads(self.server, "POST", CHAT, HI, dict(bearer, Origin=OTHER))
        self.assertEqual((found, "access-control-allow-origin" in lines), (200, False))


class All(OneServer):
    arguments = ("--cors", "*")

    def test_any(self):
        self.assertEqual(preflight(self.server, CHAT, OTHER)[1]["access-control-allow-origin"], "*")
        self.assertEqual(heads(self.server, "GET", "/v1/models", headers={"Origin": "null"})[1]["access-control-allow-origin"], "*")

    def test_rebinding(self):
        """A name that a page's owner has mean this machine is still refused."""
        self.assertEqual(heads(self.server, "POST", CHAT, HI, {"Origin": OTHER}, host="evil.example")[0], 403)
        self.assertNotIn("access-control-allow-methods", preflight(self.server, CHAT, OTHER, host="evil.example")[1])


class Usage(Case):
    def test_malformed(self):
        for origin in ("chat.example", "https://", "https://chat.example/", "https://a b", "https://a:", "https://a:123456",
                       "https://A.example", "https://a,https://b", "http://[::1", "https://*", "null", "://a", "https://" + "a" * 300,
                       "https://a\r\nX: y"):
            self.fails(2, "serve", MODEL, "--cors", origin, says=["--cors", "not an origin"])
        self.fails(2, "serve", MODEL, "--cors", "", says="--cors")


class Fingerprint(OneServer):
    def test_same_build_and_model(self):
        """It is the same in all replies and after a restart, and another for other weights."""
        def found(server):
            texts = [server.post(CHAT, HI), server.post(COMPLETE, STORY), *server.events(CHAT, HI), *server.events(COMPLETE, STORY)]
            prints = {reply["system_fingerprint"] for reply in texts}
            self.assertEqual(len(prints), 1)
            return prints.pop()
        first = found(self.server)
        self.assertRegex(first, "^fp_[0-9a-f]{16}$")
        self.assertEqual(found(Server(self, "--name", "another")), first)
        smaller = self.path("smaller.gguf")
        self.ok("quantize", MODEL, smaller, "--type", "q8_0")
        self.assertNotEqual(found(Server(self, model=smaller)), first)


if __name__ == "__main__":
    main()
