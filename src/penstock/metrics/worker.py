"""What each worker process of a Spark source does at the brokers (F26): its metrics, and their form in Spark's
progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from penstock.metrics.metric import Metric, Sample, samples_of
from penstock.model.worker_figures import WorkerFigures

WORKER = ("worker",)

FETCH_REQUESTS = Metric("fetchRequests", "counter", "Fetch requests that brokers have answered", WORKER)
FETCH_SECONDS = Metric(
    "fetchSeconds", "counter", "Time of the fetch requests whose answers the worker waited for", WORKER
)
FETCH_LATENCY = Metric(
    "fetchLatency", "gauge", "Average seconds of a fetch request whose answer the worker waited for", WORKER
)
SLOWEST_FETCH = Metric("slowestFetch", "gauge", "Seconds of the slowest of them since the report before", WORKER)
THROTTLE_SECONDS = Metric("throttleSeconds", "counter", "Time for which brokers have throttled a worker", WORKER)
RETRIES = Metric("retries", "counter", "Requests of a worker that failed in a way that a retry may heal", WORKER)
OPEN_CONNECTIONS = Metric("openConnections", "gauge", "Open connections of a worker to brokers", WORKER)

WORKER_FAMILIES = (
    FETCH_REQUESTS,
    FETCH_SECONDS,
    FETCH_LATENCY,
    SLOWEST_FETCH,
    THROTTLE_SECONDS,
    RETRIES,
    OPEN_CONNECTIONS,
)


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """One worker, as of its last report. Counts are since its first task of the query. Times are in seconds."""

    worker: str
    """Host and process id."""
    fetch_requests: int = 0
    fetch_seconds: float = 0.0
    fetch_latency: float | None = None
    """The average of the requests whose answers the worker waited for; None if it has waited for none. Answers that
    arrived while it decoded records are left out: when they arrived is not known."""
    slowest_fetch: float = 0.0
    throttle_seconds: float = 0.0
    retries: int = 0
    open_connections: int = 0

    @classmethod
    def of(cls, figures: WorkerFigures) -> WorkerMetrics:
        return cls(
            figures.worker,
            figures.fetches,
            figures.fetch_seconds,
            figures.fetch_seconds / figures.awaited if figures.awaited else None,
            figures.slowest_fetch,
            figures.throttle_seconds,
            figures.retries,
            figures.connections,
        )

    def samples(self) -> Iterator[Sample]:
        values = (
            self.fetch_requests,
            self.fetch_seconds,
            self.fetch_latency,
            self.slowest_fetch,
            self.throttle_seconds,
            self.retries,
            self.open_connections,
        )
        return samples_of(zip(WORKER_FAMILIES, values, strict=True), (self.worker,))


def worker_figures(workers: Iterable[WorkerFigures]) -> dict[str, dict[str, Any]]:
    """The part of a source's report that is about its workers."""
    documents = [asdict(each) for each in workers]
    return {document.pop("worker"): document for document in documents}


def read_worker_figures(document: object) -> tuple[WorkerMetrics, ...]:
    """Parse what `worker_figures` has written. Entries of another form are left out."""
    found = []
    for name, fields in document.items() if isinstance(document, dict) else ():
        try:
            found.append(WorkerMetrics.of(WorkerFigures(name, **fields)))
        except (TypeError, ValueError):
            continue
    return tuple(sorted(found, key=lambda each: each.worker))
