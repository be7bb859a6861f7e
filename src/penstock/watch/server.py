"""The HTTP server of the page. Answers end the connection, except for the stream of events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from penstock.errors import PenstockError
from penstock.masking import get_logger, masked
from penstock.serving.server import Answer, Connection, HttpServer, plain
from penstock.watch.access import HEADERS, Access
from penstock.watch.feed import Seen
from penstock.watch.queries import QueryRegistry
from penstock.watch.query_report import MAX_BYTES, BadReport, parse_report
from penstock.watch.resets import parse_commit, parse_plan
from penstock.watch.rows import compact
from penstock.watch.search import BadRequest, parse_request, result_document
from penstock.watch.watched_cluster import WatchedCluster

log = get_logger(__name__)

STREAMS, CONNECTIONS = 32, 96
"""Browsers that get events, and all open connections. Others get a 503 at once. A stream's thread takes some 50 KB."""
SEARCHES = 2
"""Searches and resets at the same time: each asks brokers, and a search uses up to one core."""
HEARTBEAT_SECONDS = 10.0
"""An event in the stream. It finds connections that are gone, and tells the page that the server is alive."""
MAX_BODY = 2 * 1024 * 1024
"""Of a browser's request that has passed all checks: a reset of 20,000 partitions, or a search."""
NO_CLUSTER = "no such cluster is watched"

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


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
        clusters: Mapping[str, WatchedCluster],
        access: Access,
        reports: QueryRegistry | None = None,
    ) -> None:
        """Port 0 is a free one. `clusters` by name; a request that names none means the first one. `reports` takes what
        the drivers of streaming queries send; None refuses it."""
        self._clusters = dict(clusters)
        self._first = next(iter(self._clusters))
        self.access = access
        self._reports = reports
        self._files = page_files()
        self._searches = threading.BoundedSemaphore(SEARCHES)
        self.streams = threading.BoundedSemaphore(STREAMS)
        try:
            self._server = HttpServer(
                address,
                port,
                lambda connection: _respond(self, connection),
                name="penstock-watch",
                connections=CONNECTIONS,
                headers=HEADERS,
                secret=access.token,
            )
        except (OSError, OverflowError) as error:
            raise PenstockError(
                f"the page cannot be served on {address}:{port}: {error}. --port chooses another port; 0 is a free one"
            ) from error

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        """End the server. Streams end with the feed; what still hangs in a send is cut."""
        self._server.close()

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
        if not is_post and urlsplit(target).path in self._files:
            return None  # public: the page itself takes the token from its address, and sends it with each request
        if reason := self.access.refuses_origin(headers, required=is_post) or self.access.refuses_token(headers):
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

    def cluster(self, target: str) -> WatchedCluster | None:
        """The one that the request names; None if there is no such cluster."""
        return self._clusters.get(parse_qs(urlsplit(target).query).get("cluster", [self._first])[0])

    def get(self, target: str) -> Answer:
        parts = urlsplit(target)
        cluster = self.cluster(target)
        if cluster is None:
            # The page of a cluster that is no longer watched, such as a bookmark, leads to the first one.
            is_page = parts.path == "/"
            return Answer(303, "text/plain", b"", {"Location": "/"}) if is_page else plain(404, NO_CLUSTER)
        if parts.path in self._files:
            kind, content = self._files[parts.path]
            return Answer(200, kind, content)
        feed = cluster.feed
        details = {"/api/topic": feed.topic, "/api/group": feed.group, "/api/query": feed.query}
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
        work = {"/api/records": _search, "/api/reset/plan": _plan_reset, "/api/reset": _reset}.get(
            urlsplit(target).path
        )
        cluster = self.cluster(target)
        if work is None or cluster is None:
            return plain(404, "not found" if work is None else NO_CLUSTER)
        if work is not _search and cluster.resets is None:
            return plain(403, "this page only reads: penstock watch --allow-writes allows resets")
        if not _is_json(kind):
            return plain(415, "the request is not application/json")
        if not self._searches.acquire(blocking=False):
            return as_json(429, {"error": f"{SEARCHES} searches are running already: wait for one to end"})
        try:
            return as_json(200, work(cluster, body))
        except BadRequest as error:
            return as_json(400, {"error": str(error)})
        except PenstockError as error:
            # Not a status of failure: the browser would report a mistyped predicate as an error of the page.
            return as_json(200, {"error": masked(str(error))})
        finally:
            self._searches.release()


def _search(cluster: WatchedCluster, body: bytes) -> Any:
    return result_document(cluster.search(parse_request(body)))


def _plan_reset(cluster: WatchedCluster, body: bytes) -> Any:
    assert cluster.resets is not None
    return {"moves": [asdict(move) for move in cluster.resets.plan(parse_plan(body))]}


def _reset(cluster: WatchedCluster, body: bytes) -> Any:
    assert cluster.resets is not None
    group, moves = parse_commit(body)
    cluster.resets.commit(group, moves)
    log.warning("offsets of group %r were reset in the page, in %d partitions", group, len(moves))
    return {"committed": len(moves)}


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == "application/json"


def _respond(page: PageServer, connection: Connection) -> None:
    headers, is_post = connection.single_headers(), connection.command == "POST"
    path = urlsplit(connection.path).path
    try:
        if is_post and path == "/api/queries":
            refusal = page.refuses_report(connection.client_address[0], headers)
            connection.send(refusal or _with_body(connection, MAX_BYTES, page.report))
            return
        answer = page.refusal(connection.path, headers, is_post=is_post)
        if answer is None and not is_post and path == "/api/events":
            _stream(page, connection)
            return
        if answer is None and is_post:
            kind = headers.get("Content-Type", "")
            answer = _with_body(connection, MAX_BODY, lambda body: page.post(connection.path, kind, body))
        elif answer is None:
            answer = page.get(connection.path)
    except (OSError, TimeoutError):
        raise
    except Exception:
        log.exception("the page cannot be served")
        answer = plain(500, "failed: the log of penstock watch has the reason")
    connection.send(answer)


def _with_body(connection: Connection, limit: int, answer: Callable[[bytes], Answer]) -> Answer:
    length = connection.headers.get("Content-Length", "")
    if not (length.isascii() and length.isdecimal() and len(length) < 10) or int(length) > limit:
        return plain(413, f"the request has no length, or more than {limit} bytes")
    return answer(connection.rfile.read(int(length)))


def _stream(page: PageServer, connection: Connection) -> None:
    """Send events until the browser or the server ends."""
    cluster = page.cluster(connection.path)
    if cluster is None:
        connection.send(plain(404, NO_CLUSTER))
        return
    if not page.streams.acquire(blocking=False):
        connection.send(plain(503, f"{STREAMS} pages are open already: close one"))
        return
    try:
        connection.start(200, "text/event-stream", {"X-Accel-Buffering": "no"})
        if connection.command == "HEAD":
            return
        seen, feed = Seen(), cluster.feed
        while not feed.is_closed:
            found = feed.after(seen, HEARTBEAT_SECONDS)
            if found is not None:
                seen, encoded = found
                connection.wfile.write(encoded)
            elif not feed.is_closed:
                connection.wfile.write(b"event: alive\ndata: {}\n\n")
        connection.wfile.write(b"event: end\ndata: {}\n\n")
    finally:
        page.streams.release()
