"""Serves the metrics of a cluster to Prometheus over HTTP. Requires the extra `penstock[prometheus]`.

A scrape reads the last snapshot and asks no broker. Each snapshot is written as text at most once, however many
Prometheus servers scrape.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Set
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.errors import PenstockError
from penstock.masking import get_logger
from penstock.metrics.prometheus import MetricsCollector
from penstock.monitor.cluster_metrics import CLUSTER_METRICS, ClusterMetrics
from penstock.monitor.snapshot import Snapshot
from penstock.serving.hosts import refuses_host
from penstock.serving.server import Answer, Connection, HttpServer, plain

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

log = get_logger(__name__)

REQUESTS_AT_ONCE = 8
"""Others get a 503 at once."""

HEADERS = {"X-Content-Type-Options": "nosniff"}
INDEX = "Penstock's exporter. Metrics: /metrics. Health: /health."


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
        hosts: Set[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`read` returns the last snapshot. /health fails if brokers last answered `stale_after` seconds ago. Port 0 is
        a free one. Requests must name the machine by an address, as localhost, or by one of `hosts`; None accepts any
        name."""
        self._text = MetricsText(read, by_partition=by_partition)
        self._read = read
        self._stale_after = stale_after
        self._hosts = hosts
        self._clock = clock
        try:
            self._server = HttpServer(
                address, port, self._respond, name="penstock-exporter", connections=REQUESTS_AT_ONCE, headers=HEADERS
            )
        except (OSError, OverflowError) as error:
            raise PenstockError(f"the exporter cannot listen on {address}:{port}: {error}") from error

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _respond(self, connection: Connection) -> None:
        headers = connection.single_headers()
        try:
            answer = self.answer(connection.path, headers.get("Host"), headers.get("Accept", ""))
        except Exception:
            log.exception("the exporter cannot answer %s", connection.path)
            answer = plain(500, "failed: the exporter's log has the reason")
        connection.send(answer if connection.command != "POST" else plain(405, "the exporter only reads"))

    def answer(self, path: str, host: str | None, accept: str) -> Answer:
        """Called by the threads of requests."""
        if self._hosts is not None and (reason := refuses_host(host, self._hosts)):
            return plain(421, reason)
        match path.partition("?")[0]:
            case "/metrics":
                text = self._text.text(accept)
                return plain(503, "no broker was asked yet") if text is None else Answer(200, text[1], text[0])
            case "/health":
                healthy, why = self._health()
                body = json.dumps({"status": "ok" if healthy else "failing", "reason": why}).encode() + b"\n"
                return Answer(200 if healthy else 503, "application/json", body)
            case "/":
                return plain(200, INDEX)
        return plain(404, "not found: /metrics and /health exist")

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
