"""The HTTP server of the page: Python's own, with a thread for each open connection.

Answers end the connection, except for the stream of events. The number of connections is bounded.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from penstock.errors import PenstockError
from penstock.masking import get_logger, masked
from penstock.watch.access import HEADERS, Access
from penstock.watch.feed import Feed, Seen
from penstock.watch.queries import QueryRegistry
from penstock.watch.query_report import MAX_BYTES, BadReport, parse_report
from penstock.watch.rows import compact
from penstock.watch.search import BadRequest, Search, parse_request, result_document

log = get_logger(__name__)

STREAMS, CONNECTIONS = 32, 96
"""Browsers that get events, and all open connections. Others get a 503 at once. A stream's thread takes some 50 KB."""
SEARCHES = 2
"""Searches at the same time: each reads from brokers, and uses up to one core."""
HEARTBEAT_SECONDS = 10.0
"""A comment in the stream. It finds connections that are gone, and tells the page that the server is alive."""
CLIENT_SECONDS = 20.0
"""For a client that sends its request, or reads the answer, slowly."""
POLL_SECONDS = 0.1
MAX_BODY = 64 * 1024
ONCE = ("Host", "Origin", "Cookie", "Authorization", "Content-Type", "Content-Length")
"""Headers that may not be sent twice."""

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = {}


def plain(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def as_json(status: int, document: Any) -> Answer:
    return Answer(status, "application/json", compact(document).encode())


def page_files() -> dict[str, tuple[str, bytes]]:
    """Path -> kind and content, of all files of the page. Nothing else is ever served from disk."""
    found = {}
    for each in files("penstock.watch").joinpath("page").iterdir():
        kind = KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if each.name == "index.html" else f"/{each.name}"
            found[path] = (f"{kind}; charset=utf-8", each.read_bytes())
    return found


class PageServer:
    """Listens from its construction on; closing it ends all connections and its threads."""

    def __init__(
        self,
        address: str,
        port: int,
        feed: Feed,
        search: Search,
        access: Access,
        reports: QueryRegistry | None = None,
    ) -> None:
        """Port 0 is a free one. `reports` takes what the drivers of streaming queries send; None refuses it."""
        self.feed = feed
        self.access = access
        self._reports = reports
        self._search = search
        self._files = page_files()
        self._searches = threading.BoundedSemaphore(SEARCHES)
        self.streams = threading.BoundedSemaphore(STREAMS)
        try:
            self._server = _Server((address, port), self)
        except (OSError, OverflowError) as error:
            raise PenstockError(
                f"the page cannot be served on {address}:{port}: {error}. --port chooses another port; 0 is a free one"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="penstock-watch", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        """End the server. Streams end with the feed; what still hangs in a send is cut."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_connections()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def refusal(self, target: str, headers: Mapping[str, str], *, is_post: bool) -> Answer | None:
        """Why a request is not answered; None if it is. Called by the threads of requests, like all below."""
        if reason := self.access.refuses_host(headers.get("Host")):
            return plain(421, reason)
        path = urlsplit(target).path
        if self.access.token is not None:
            given = parse_qs(urlsplit(target).query).get("token")
            if not is_post and path == "/" and given and self.access.is_token(given[0]):
                return Answer(303, "text/plain", b"", {"Location": "/", "Set-Cookie": self.access.set_cookie})
            if reason := self.access.refuses_token(headers.get("Cookie")):
                return plain(403, reason)
        is_ours = is_post or path.startswith("/api/")
        if is_ours and (reason := self.access.refuses_origin(headers, required=is_post)):
            return plain(403, reason)
        return None

    def refuses_report(self, client: str, headers: Mapping[str, str]) -> Answer | None:
        """Why the report of a query's driver is not taken; None if it is. It has rules of its own: no browser sends
        one."""
        if self._reports is None:
            return plain(404, "this page takes no reports")
        if reason := self.access.refuses_host(headers.get("Host")):
            return plain(421, reason)
        if reason := self.access.refuses_report(client, headers):
            return plain(403, reason)
        if not _is_json(headers.get("Content-Type", "")):
            return plain(415, "the report is not application/json")
        return None

    def report(self, body: bytes) -> Answer:
        assert self._reports is not None
        try:
            self._reports.put(parse_report(body))
        except BadReport as error:
            return plain(400, masked(str(error)))
        return Answer(204, "text/plain", b"")

    def get(self, target: str) -> Answer:
        parts = urlsplit(target)
        if parts.path in self._files:
            kind, content = self._files[parts.path]
            return Answer(200, kind, content)
        details = {"/api/topic": self.feed.topic, "/api/group": self.feed.group, "/api/query": self.feed.query}
        if (find := details.get(parts.path)) is not None:
            query = parse_qs(parts.query, keep_blank_values=True)
            since = query.get("since", ["0"])[0]
            is_number = since.isascii() and since.isdecimal() and len(since) < 16
            found = find(query.get("name", [""])[0], int(since) if is_number else 0)
            # `null` for what does not exist, or is not selected: it may appear, and the browser would report every 404
            # until then as an error of the page.
            return Answer(200, "application/json", b"null" if found is None else found)
        return plain(404, "not found")

    def post(self, target: str, kind: str, body: bytes) -> Answer:
        if urlsplit(target).path != "/api/records":
            return plain(404, "not found")
        if not _is_json(kind):
            return plain(415, "the request is not application/json")
        if not self._searches.acquire(blocking=False):
            return as_json(429, {"error": f"{SEARCHES} searches are running already: wait for one to end"})
        try:
            return as_json(200, result_document(self._search(parse_request(body))))
        except BadRequest as error:
            return as_json(400, {"error": str(error)})
        except PenstockError as error:
            # Not a status of failure: the browser would report a mistyped predicate as an error of the page.
            return as_json(200, {"error": masked(str(error))})
        finally:
            self._searches.release()


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == "application/json"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # `cut_connections` ends them
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], page: PageServer) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.page = page
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Without HTTPServer's reverse look-up of the address, which may take as long as a DNS server hangs.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= CONNECTIONS
            if not is_full:
                self._open.add(request)
        if is_full:
            request.settimeout(1.0)
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request of a browser failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_SECONDS
    server_version = "penstock"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(is_post=False)

    def do_HEAD(self) -> None:
        self._answer(is_post=False)

    def do_POST(self) -> None:
        self._answer(is_post=True)

    def _answer(self, *, is_post: bool) -> None:
        page = self.server.page
        # A header that is sent twice could be read in two ways.
        doubled = [name for name in ONCE if len(self.headers.get_all(name) or ()) > 1]
        headers = dict(self.headers.items()) if not doubled else {}
        headers = {name.title(): value for name, value in headers.items()}
        try:
            if is_post and urlsplit(self.path).path == "/api/queries":
                self._send(page.refuses_report(self.client_address[0], headers) or self._report(page))
                return
            answer = page.refusal(self.path, headers, is_post=is_post)
            if answer is None and not is_post and urlsplit(self.path).path == "/api/events":
                self._stream(page)
                return
            if answer is None:
                answer = self._post(page) if is_post else page.get(self.path)
        except (OSError, TimeoutError):
            raise
        except Exception:
            log.exception("the page cannot be served")
            answer = plain(500, "failed: the log of penstock watch has the reason")
        self._send(answer)

    def _post(self, page: PageServer) -> Answer:
        body = self._body(MAX_BODY)
        if isinstance(body, Answer):
            return body
        return page.post(self.path, self.headers.get("Content-Type", ""), body)

    def _report(self, page: PageServer) -> Answer:
        body = self._body(MAX_BYTES)
        return body if isinstance(body, Answer) else page.report(body)

    def _body(self, limit: int) -> bytes | Answer:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 10) or int(length) > limit:
            return plain(413, f"the request has no length, or more than {limit} bytes")
        return self.rfile.read(int(length))

    def _start(self, status: int, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in (HEADERS | dict(more)).items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, answer: Answer) -> None:
        self._start(answer.status, answer.kind, {"Content-Length": str(len(answer.body))} | dict(answer.headers))
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _stream(self, page: PageServer) -> None:
        """Send events until the browser or the server ends."""
        if not page.streams.acquire(blocking=False):
            self._send(plain(503, f"{STREAMS} pages are open already: close one"))
            return
        try:
            self._start(200, "text/event-stream", {"X-Accel-Buffering": "no"})
            if self.command == "HEAD":
                return
            self.wfile.write(b"retry: 1000\n\n")
            seen = Seen()
            while not page.feed.is_closed:
                found = page.feed.after(seen, HEARTBEAT_SECONDS)
                if found is not None:
                    seen, encoded = found
                    self.wfile.write(encoded)
                elif not page.feed.is_closed:
                    self.wfile.write(b"event: alive\ndata: {}\n\n")
            self.wfile.write(b"event: end\ndata: {}\n\n")
        finally:
            page.streams.release()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that http.server gives it)
        log.debug("%s", json.dumps(format % args).replace(page_token(self.server.page), "***"))


def page_token(page: PageServer) -> str:
    return page.access.token or "\0"
