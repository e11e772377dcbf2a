"""The page of `riffle serve` in Chromium without a screen, over its DevTools protocol. Skipped (77) where there is none.
Nothing waits longer than SECONDS."""

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

from harness import Case, main
from test_serve import Server

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60


class Socket:
    """A client of WebSocket (RFC 6455), for short texts."""

    def __init__(self, url):
        place = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port), SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n"
                             % (place.path, place.netloc, key)).encode())
        self.file = self.socket.makefile("rb")
        while self.file.readline() != b"\r\n":
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        head = bytes([0x81, 0x80 | len(data)]) if len(data) < 126 else struct.pack(">BBH", 0x81, 0xfe, len(data))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        text, is_last = b"", False
        while not is_last:
            first, n = self.file.read(2)
            is_last = first & 0x80
            if n == 126:
                n, = struct.unpack(">H", self.file.read(2))
            elif n == 127:
                n, = struct.unpack(">Q", self.file.read(8))
            text += self.file.read(n)
        return text.decode()


class Page(Case):
    def setUp(self):
        super().setUp()
        self.server, self.tab = Server(self), None
        self.profile = os.path.join(self.folder, "profile")
        self.browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-port=0", "--user-data-dir=" + self.profile, "http://127.0.0.1:%d/" % self.server.port],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.env, start_new_session=True)
        self.addCleanup(self.close)
        for line in self.browser.stderr:
            if b"DevTools listening on " in line:
                port = urllib.parse.urlsplit(line.split()[-1].decode()).port
                break
        else:
            self.fail("the browser ended")
        tabs = json.load(urllib.request.urlopen("http://127.0.0.1:%d/json" % port, timeout=SECONDS))
        self.tab = Socket(next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"))
        self.n_calls = 0
        self.wait("document.title == 'Riffle' && document.readyState == 'complete'")

    def close(self):
        if self.tab:
            self.tab.file.close()
            self.tab.socket.close()
        os.killpg(self.browser.pid, signal.SIGKILL)
        self.browser.stderr.close()
        self.browser.wait()
        end = time.monotonic() + SECONDS
        while os.path.exists(self.profile) and time.monotonic() < end:  # its other processes end later
            shutil.rmtree(self.profile, ignore_errors=True)

    def value(self, expression):
        self.n_calls += 1
        self.tab.send(json.dumps({"id": self.n_calls, "method": "Runtime.evaluate", "params": {
            "expression": expression, "returnByValue": True}}))
        while True:
            reply = json.loads(self.tab.receive())
            if reply.get("id") == self.n_calls:
                if "error" in reply:  # the page is being left
                    return None
                self.assertNotIn("exceptionDetails", reply["result"])
                return reply["result"]["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + SECONDS
        while not self.value(expression):
            self.assertLess(time.monotonic(), end, expression)
            time.sleep(0.05)

    def say(self, text):
        self.value("box.value = %s; form.requestSubmit()" % json.dumps(text))

    def test_chat(self):
        self.assertEqual(self.value("document.title"), "Riffle")
        self.say("Tell <b>me</b>")
        self.wait("!running && messages.length == 2")
        first = self.value("messages[1].content")
        self.assertTrue(first)
        self.assertEqual(self.value("document.querySelector('.assistant').textContent"), first)
        self.assertEqual(self.value("document.querySelector('.user').textContent"), "Tell <b>me</b>")
        self.assertEqual(self.value("document.querySelectorAll('#talk b').length"), 0)
        self.assertRegex(self.value("byId('note').textContent"), r"^\d+ tokens")
        self.value("byId('again').click()")
        self.wait("running == null && messages.length == 2")
        self.assertEqual(self.value("document.querySelectorAll('.assistant').length"), 1)
        self.value("byId('again').click()")
        self.wait("document.querySelector('.assistant').textContent")
        self.value("byId('stop').click()")
        self.wait("!running && messages.length == 2")
        self.assertEqual(self.value("document.querySelectorAll('.error').length"), 0)
        self.assertFalse(self.value("byId('stop').disabled && byId('again').disabled"))

    def test_error(self):
        self.server.stop()
        self.say("Hello")
        self.wait("document.querySelector('.error')?.textContent")


if __name__ == "__main__":
    if not BROWSER:
        sys.exit(77)
    main()
