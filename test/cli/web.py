"""A web server for the tests of `riffle pull`: every path is answered by a function, which may misbehave."""

import hashlib
import http.server
import io
import threading
import zipfile


class Server:
    """Answers on a port of this machine until close(). `answers` maps paths to functions of a Request."""

    def __init__(self, tls=None):
        self.answers, self.requests = {}, []
        self.blocked, self.release = threading.Event(), threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.close_connection = True
                server.requests.append(self)
                answer = server.answers.get(self.path)
                try:
                    answer(Request(server, self)) if answer else self.send_error(404)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.url = "%s://localhost:%d" % ("https" if tls else "http", self.http.server_port)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.release.set()
        self.http.shutdown()
        self.http.server_close()

    def ranges(self, path):
        """The Range headers of the requests for a path, in order."""
        return [request.headers["Range"] for request in self.requests if request.path == path]


class Request:
    def __init__(self, server, handler):
        self.server, self.headers, self.path = server, handler.headers, handler.path
        self._handler = handler

    def head(self, status, **headers):
        self._handler.send_response(status)
        for name, value in {"Connection": "close", **headers}.items():
            self._handler.send_header(name.replace("_", "-"), str(value))
        self._handler.end_headers()

    def send(self, data):
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def chunk(self, data):
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def block(self):
        """Waits until the test goes on; server.blocked says that it waits."""
        self.server.blocked.set()
        self.server.release.wait(60)


def whole(data, **headers):
    """Without ranges."""
    def answer(request):
        request.head(200, Content_Length=len(data), **headers)
        request.send(data)
    return answer


def ranged(data, etag='"1"', stop=None, then=None):
    """With ranges and If-Range. Of the file, bytes from `stop` on do not come; `then` is called instead."""
    def answer(request):
        first = 0
        wanted = request.headers["Range"]
        if wanted and request.headers["If-Range"] in (None, etag):
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        headers = {"ETag": etag} if etag else {}
        if first >= len(data) > 0:
            return request.head(416, Content_Range="bytes */%d" % len(data), Content_Length=0)
        if first:
            request.head(206, Content_Length=len(data) - first,
                         Content_Range="bytes %d-%d/%d" % (first, len(data) - 1, len(data)), **headers)
        else:
            request.head(200, Content_Length=len(data), **headers)
        request.send(data[first:stop])
        if then:
            then(request)
    return answer


def redirect(to):
    return lambda request: request.head(302, Location=to, Content_Length=0)


def wheel(members):
    """The bytes of an archive with these members, in that order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


class Index:
    """A package index on a server: the simple API in HTML."""

    def __init__(self, server):
        self.server = server
        self.url = server.url + "/simple"

    def add(self, package, file, data, sha256=None, answer=None):
        digest = sha256 or hashlib.sha256(data).hexdigest()
        page = ('<!DOCTYPE html><html><body>\n<a class="x" href="/files/%s.tar.gz#sha256=%s">source</a>\n'
                '<a href="../../files/%s#sha256=%s" data-requires-python="&gt;=3.9">%s</a><br/>\n</body></html>'
                % (file, "0" * 64, file, digest, file)).encode()
        self.server.answers["/simple/%s/" % package] = whole(page, Content_Type="text/html")
        self.server.answers["/files/" + file] = answer or ranged(data, etag=None)
