"""Serves the metrics of a cluster to Prometheus over HTTP. Requires the extra `penstock[prometheus]`.

A scrape reads the last snapshot and asks no broker. Each snapshot is written as text at most once, however many
Prometheus servers scrape.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import PenstockError
from penstock.masking import get_logger
from penstock.metrics.prometheus import MetricsCollector
from penstock.monitor.cluster_metrics import CLUSTER_METRICS, ClusterMetrics
from penstock.monitor.snapshot import Snapshot

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

log = get_logger(__name__)

REQUESTS_AT_ONCE = 8
"""Others get a 503 at once: a client that reads slowly must not cost a thread for each connection it opens."""

POLL_SECONDS = 0.1
"""How often the server looks whether it is closed."""

CLIENT_SECONDS = 30.0
"""For a client that sends its request, or reads the answer, slowly."""

INDEX = b"Penstock's exporter. Metrics: /metrics. Health: /health.\n"


class MetricsText:
    """The text of the last snapshot. Any thread may ask for it."""

    def __init__(self, read: Callable[[], Snapshot | None], *, by_partition: bool = True) -> None:
        from prometheus_client.registry import CollectorRegistry

        self._read = read
        self._by_partition = by_partition
        self._lock = threading.Lock()
        self._number = 0
        self._texts: dict[str, tuple[bytes, str]] = {}
        self._current: Snapshot | None = None
        self._registry: CollectorRegistry = CollectorRegistry(auto_describe=False)
        self._registry.register(MetricsCollector(self._samples, CLUSTER_METRICS, ()))  # type: ignore[arg-type]

    def _samples(self) -> dict[tuple[()], ClusterMetrics]:
        return {} if self._current is None else {(): ClusterMetrics(self._current, self._by_partition)}

    def text(self, accept: str) -> tuple[bytes, str] | None:
        """The metrics and their content type, in the format that the client accepts. None before the first snapshot."""
        from prometheus_client.exposition import choose_encoder

        snapshot = self._read()
        if snapshot is None:
            return None
        encode, content_type = choose_encoder(accept)
        with self._lock:  # others wait for the one that writes
            if snapshot.number != self._number:
                self._number, self._current, self._texts = snapshot.number, snapshot, {}
            if content_type not in self._texts:
                self._texts[content_type] = encode(self._registry), content_type
            return self._texts[content_type]


class Exporter:
    """An HTTP server in a thread of its own. Closing it ends the thread and frees the port."""

    def __init__(
        self,
        address: str,
        port: int,
        read: Callable[[], Snapshot | None],
        *,
        stale_after: float,
        by_partition: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`read` returns the last snapshot. /health fails if brokers last answered `stale_after` seconds ago. Port 0 is
        a free one."""
        self._text = MetricsText(read, by_partition=by_partition)
        self._read = read
        self._stale_after = stale_after
        self._clock = clock
        try:
            self._server = _Server((address, port), self)
        except (OSError, OverflowError) as error:
            raise PenstockError(f"the exporter cannot listen on {address}:{port}: {error}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="penstock-exporter", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """Status, content type and body. Called by the threads of requests."""
        match path.partition("?")[0]:
            case "/metrics":
                text = self._text.text(accept)
                if text is None:
                    return 503, "text/plain", b"no broker was asked yet\n"
                return 200, text[1], text[0]
            case "/health":
                healthy, why = self._health()
                body = json.dumps({"status": "ok" if healthy else "failing", "reason": why}).encode() + b"\n"
                return 200 if healthy else 503, "application/json", body
            case "/":
                return 200, "text/plain", INDEX
        return 404, "text/plain", b"not found: /metrics and /health exist\n"

    def _health(self) -> tuple[bool, str]:
        snapshot = self._read()
        if snapshot is None:
            return False, "no broker was asked yet"
        if snapshot.answered_at is None:
            return False, "no broker has answered yet"
        age = self._clock() - snapshot.answered_at
        if age > self._stale_after:
            return False, f"brokers last answered {age:.0f} s ago"
        return True, ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], exporter: Exporter) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.exporter = exporter
        self._free = threading.Semaphore(REQUESTS_AT_ONCE)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Without HTTPServer's reverse look-up of the address, which may take as long as a DNS server hangs.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            request.settimeout(1.0)
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request to the exporter failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_SECONDS
    server_version = "penstock"
    sys_version = ""

    def do_GET(self) -> None:
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        try:
            status, kind, body = self.server.exporter.answer(self.path, self.headers.get("Accept", ""))
        except Exception:
            log.exception("the exporter cannot answer %s", self.path)
            status, kind, body = 500, "text/plain", b"failed: the exporter's log has the reason\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that http.server gives it)
        log.debug(format, *args)
