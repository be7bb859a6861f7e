"""An HTTP server: Python's own, with a thread for each open connection.

What a client can cost is bounded before it has shown any token: the number of connections, also of one address, the
time of a whole request, and the size of its head.
"""

from __future__ import annotations

import contextlib
import io
import math
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from penstock.masking import get_logger

log = get_logger(__name__)

CLIENT_SECONDS = 20.0
"""For a whole request, however slowly its bytes come, and for each part of an answer to be taken."""

HEAD_BYTES = 64 * 1024
"""Of a request's line and headers together. Python's limits alone allow 6 MB for each connection."""

SHARE_OF_ADDRESS = 0.75
"""Of the connections, for one client address: others get an answer while it holds all that it can."""

POLL_SECONDS = 0.1
"""How often the server looks whether it is closed."""

ONCE = ("Host", "Origin", "Cookie", "Authorization", "Content-Type", "Content-Length")
"""Headers that may not be sent twice: they could be read in two ways."""

FULL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = {}


def plain(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", text.encode() + b"\n")


Respond: TypeAlias = "Callable[[Connection], None]"
"""Answers a request, in the thread of its connection."""


class Connection(BaseHTTPRequestHandler):
    """One request, in a thread of its own: `command`, `path`, `client_address`, `rfile`, `wfile`, and what is below."""

    server_version = "penstock"
    sys_version = ""

    def __init__(self, respond: Respond, every: Mapping[str, str], secret: str | None, *given: Any) -> None:
        self._respond = respond
        self._every = every
        self._secret = secret
        super().__init__(*given)  # handles the request

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._request = _RequestReader(self.connection)
        self.rfile = io.BufferedReader(self._request)

    def do_GET(self) -> None:
        self._request.head_has_ended()
        try:
            urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        self._respond(self)

    do_HEAD = do_GET  # noqa: N815 (the name that http.server looks for)
    do_POST = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called for requests that cannot be read. Without their text, which http.server would repeat."""
        self.close_connection = True
        self.request_version = "HTTP/1.0"  # until it is known, http.server sends no headers
        self.send(plain(code, HTTPStatus(code).phrase))

    def single_headers(self) -> dict[str, str]:
        """The headers by their names in title case; none at all if one of `ONCE` was sent twice."""
        if any(len(self.headers.get_all(name) or ()) > 1 for name in ONCE):
            return {}
        return {name.title(): value for name, value in self.headers.items()}

    def start(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        """Send all of an answer but its body."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in {**self._every, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, answer: Answer) -> None:
        self.start(answer.status, answer.kind, {"Content-Length": str(len(answer.body)), **answer.headers})
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that http.server gives it)
        text = format % args
        log.debug("%r", text if self._secret is None else text.replace(self._secret, "***"))


class HttpServer:
    """Listens from its construction on; closing it ends its thread and cuts the connections that are still open."""

    def __init__(
        self,
        address: str,
        port: int,
        respond: Respond,
        *,
        name: str,
        connections: int,
        headers: Mapping[str, str],
        secret: str | None = None,
    ) -> None:
        """Port 0 is a free one. `name` is that of the thread. Connections beyond the limit get a 503 at once. `headers`
        are those of every answer, and `secret` is not logged. Raises OSError or OverflowError if it cannot listen."""
        self._server = _Server((address, port), partial(Connection, respond, headers, secret), connections)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_connections()
        self._thread.join()


class _RequestReader(io.RawIOBase):
    """The bytes of one request, until its deadline: a byte now and then does not hold a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + CLIENT_SECONDS
        self._left: float = HEAD_BYTES

    def head_has_ended(self) -> None:
        self._left = math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            raise HTTPException("the head of the request is too large")  # http.server answers it with 431
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining)
        try:
            count = self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(CLIENT_SECONDS)
        self._left -= count
        return count


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # `cut_connections` ends them
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: Callable[..., Connection], connections: int) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._connections = connections
        self._of_address = math.ceil(connections * SHARE_OF_ADDRESS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, str] = {}
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Without HTTPServer's reverse look-up of the address, which may take as long as a DNS server hangs.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            of_address = Counter(self._open.values())[client_address[0]]
            is_full = len(self._open) >= self._connections or of_address >= self._of_address
            if not is_full:
                self._open[request] = client_address[0]
        if is_full:
            request.settimeout(1.0)
            with contextlib.suppress(OSError):
                request.sendall(FULL)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request failed", exc_info=True)
