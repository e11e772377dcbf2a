"""Chromium without a screen, over its DevTools protocol, and a server that answers the page as a test tells it."""

import base64
import http.server
import json
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60  # only so that a hang becomes a failure
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}

HELPERS = """
window.seen = node => node.checkVisibility({visibilityProperty: true});
window.nameOf = node => (node.getAttribute("aria-label") ?? node.textContent).trim();
window.named = (name, within) => [...(within ?? document).querySelectorAll("button, summary, textarea, input, select")]
  .filter(node => seen(node) && nameOf(node) === name);
"""


class Socket:
    """A client of WebSocket (RFC 6455)."""

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

    def close(self):
        self.file.close()
        self.socket.close()


class Browser:
    def __init__(self, env=None):
        self.profile = tempfile.mkdtemp(prefix="riffle-chromium-")
        self.process = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-port=0", "--user-data-dir=" + self.profile, "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, start_new_session=True)
        for line in self.process.stderr:
            if b"DevTools listening on " in line:
                self.port = urllib.parse.urlsplit(line.split()[-1].decode()).port
                break
        else:
            raise AssertionError("the browser ended")
        # What it says later is read, so that it never waits for that.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def open(self, url):
        request = urllib.request.Request("http://127.0.0.1:%d/json/new?about:blank" % self.port, method="PUT")
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            target = json.load(reply)
        return Tab(target["webSocketDebuggerUrl"], url)

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + SECONDS
        while os.path.exists(self.profile) and time.monotonic() < end:  # its other processes end later
            shutil.rmtree(self.profile, ignore_errors=True)


class Tab:
    def __init__(self, address, url):
        self.socket, self.n_calls, self.events = Socket(address), 0, []
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=HELPERS)
        self.go(url)

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("location.href.startsWith(%s) && document.readyState == 'complete'" % json.dumps(url))

    def close(self):
        self.call("Page.close")
        self.socket.close()

    def call(self, method, **params):
        self.n_calls += 1
        self.socket.send(json.dumps({"id": self.n_calls, "method": method, "params": params}))
        while True:
            reply = json.loads(self.socket.receive())
            if reply.get("id") == self.n_calls:
                return reply.get("result")  # None: refused, such as while the page is being left
            self.events.append(reply)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                           userGesture=True)
        if not result:
            return None
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + SECONDS
        while not self.value(expression):
            assert time.monotonic() < end, (expression, self.value("document.body?.innerText"), self.faults())
            time.sleep(0.02)

    def see(self, text, within="body"):
        """Waits until a user sees the text."""
        self.wait("document.querySelector(%s)?.innerText.includes(%s)" % (json.dumps(within), json.dumps(text)))

    def press(self, name, at=-1):
        """Clicks what has that name, when it can be seen and clicked; of several the last."""
        found = "named(%s).at(%d)" % (json.dumps(name), at)
        self.wait("%s && !%s.disabled" % (found, found))
        self.value(found + ".click()")

    def enter(self, name, text):
        """Types into a field that is empty."""
        self.wait("named(%s).length" % json.dumps(name))
        self.value("named(%s).at(-1).focus(); named(%s).at(-1).select()" % ((json.dumps(name),) * 2))
        self.call("Input.insertText", text=text)

    def key(self, name, shift=False):
        press = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS[name], "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", **press, **({"text": "\r"} if name == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **press)

    def texts(self, selector):
        return self.value("[...document.querySelectorAll(%s)].filter(seen).map(node => node.innerText.trim())"
                          % json.dumps(selector))

    def faults(self):
        """What went wrong in the page: exceptions, and what its policy refused."""
        self.value("0")
        found = [e["params"]["exceptionDetails"] for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        return found + [e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"
                        and e["params"]["entry"]["source"] == "security"]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def delta(**members):
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def end(tokens=0, drafted=0, reason="stop"):
    """The last events of an answer."""
    usage = {"completion_tokens": tokens, "completion_tokens_details": {"accepted_prediction_tokens": drafted}}
    return [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]


class Scripted:
    """Gives the page of the server at `port`, and answers chats with what the test puts into `answers`: a list of
    events, of which a threading.Event holds the answer, or (status, message)."""

    def __init__(self, port, models=("one",), key=None):
        self.answers, self.requests, self.gone = queue.Queue(), [], threading.Event()
        scripted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def give(self, status, type, body, headers=()):
                self.send_response(status)
                for name, value in [("Content-Type", type), ("Content-Length", str(len(body))), *headers]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def give_json(self, status, value):
                self.give(status, "application/json", json.dumps(value).encode())

            def refused(self):
                if key and self.headers.get("Authorization") != "Bearer " + key:
                    self.give_json(401, {"error": {"message": "the API key is missing or wrong"}})
                    return True
                return False

            def do_GET(self):
                if self.path == "/v1/models":
                    if not self.refused():
                        self.give_json(200, {"data": [{"id": name} for name in models]})
                    return
                with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, self.path), timeout=SECONDS) as reply:
                    policy = reply.headers.get("Content-Security-Policy")
                    self.give(200, reply.headers["Content-Type"], reply.read(),
                              [("Content-Security-Policy", policy)] if policy else [])

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.refused():
                    return
                scripted.requests.append(body)
                answer = scripted.answers.get(timeout=SECONDS)
                if isinstance(answer[0], int):
                    self.give_json(answer[0], {"error": {"message": answer[1]}})
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                try:
                    for event in answer:
                        if isinstance(event, threading.Event):
                            self.hold(event)
                        else:
                            self.wfile.write(b"data: %s\n\n" % json.dumps(event).encode())
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    scripted.gone.set()

            def hold(self, event):
                """A client that leaves shows only where something is written."""
                while not event.wait(0.05):
                    self.wfile.write(b": waiting\n\n")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
