"""An HTTP server with the faults that real servers do not show on demand: redirects, slow bodies, resets, refusals."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT = 60.0
"""Seconds, for events that happen at once on an idle machine."""


@dataclass
class Answer:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    """A Content-Length that differs from the body."""
    pause: float = 0.0
    """Seconds between two bytes of the body, until the server is stopped."""
    head: bool = True
    """Whether the server writes status and headers. If not, the body contains them."""


def answer(content: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(content).encode(), status, named)


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    client_port: int
    body: bytes = b""


class Server:
    """Answers GET and POST by `answers`: a path, and an answer or a list of answers, of which the last one repeats. As
    a proxy it tunnels CONNECT to the address in `tunnel`."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.requests: list[Request] = []
        self.proxy_login: str | None = None
        self.tunnel: int | None = None
        self.stopped = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                server._note(self)
                if server._refuses(self):
                    return
                server._send(self, server._answer(self.path))

            def do_POST(self) -> None:
                self.do_GET()

            def do_CONNECT(self) -> None:
                server._note(self)
                if server._refuses(self):
                    return
                assert server.tunnel is not None
                self.send_response(200)
                self.end_headers()
                with socket.create_connection(("127.0.0.1", server.tunnel), WAIT) as target:
                    forward(self.connection, target, server.stopped)
                self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = False

            def finish_request(self, request: Any, address: Any) -> None:
                if context is not None:  # in the thread of the connection: a handshake may fail or block
                    try:
                        request = context.wrap_socket(request, server_side=True)
                    except OSError:
                        return
                with contextlib.closing(request), contextlib.suppress(OSError):
                    request.settimeout(WAIT)
                    super().finish_request(request, address)

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="test-http-server")
        self._thread.start()

    def _note(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers.get("content-length", "0")))
        self.requests.append(Request(handler.path, headers, handler.client_address[1], body))

    def _refuses(self, handler: BaseHTTPRequestHandler) -> bool:
        if self.proxy_login is None or handler.headers.get("Proxy-Authorization") == self.proxy_login:
            return False
        self._send(handler, Answer(b"{}", 407))
        return True

    def _answer(self, path: str) -> Answer:
        found = self.answers.get(path, answer({"error_code": 40403, "message": "none"}, 404))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found

    def _send(self, handler: BaseHTTPRequestHandler, given: Answer) -> None:
        if given.head:
            handler.send_response(given.status)
            length = len(given.body) if given.promised is None else given.promised
            for name, value in {"Content-Length": str(length), **given.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
        if given.pause:
            for byte in given.body:
                handler.wfile.write(bytes([byte]))
                if self.stopped.wait(given.pause):
                    break
        else:
            handler.wfile.write(given.body)
        handler.close_connection = handler.close_connection or given.promised is not None

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._thread.join(WAIT)
        self._server.server_close()


def forward(one: socket.socket, other: socket.socket, stopped: threading.Event) -> None:
    ends = {one: other, other: one}
    while not stopped.is_set():
        readable, _, _ = select.select(list(ends), [], [], 0.05)
        for end in readable:
            piece = end.recv(65536)
            if not piece:
                return
            ends[end].sendall(piece)
