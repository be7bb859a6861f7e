"""Sends a task's report to the planner on the driver (`model/task_report.py` defines it)."""

from __future__ import annotations

import hmac
import socket
import time
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.masking import get_logger
from penstock.model.task_report import ReportAddress, TaskReport, acknowledgement, encode

log = get_logger(__name__)
Note = TypeVar("Note")


RETRY_SECONDS = 0.2
"""Pause between two rounds over the hosts, for a report that must arrive."""

SILENCE_SECONDS = 600.0
"""How long a worker sends no counts after it could not reach a planner. Without this, a firewall that drops packets
would cost every task its timeout."""

EVENT_TIME_SILENCE_SECONDS = 20.0
"""The same for event times. While they are missing, the planner looks them up at every trigger, at the brokers or in
the last records, and that costs time."""

MISSING_COUNTS = "the query's counts of lost ranges, malformed and skipped records are too low"
MISSING_EVENT_TIME = (
    "the planner looks up the event times itself, and the query's counts of lost ranges, late, malformed and skipped "
    "records are too low"
)


def send_report(address: ReportAddress, report: TaskReport, timeout: float) -> bool:
    """Send a report to the planner, when a task has read its range. True when the planner has received it.

    A report with counts never fails its task: if no host answers, this logs a warning and returns False. The end of a
    partition must arrive, or the query would read on behind it: this retries until the timeout, and then raises, so
    that Spark runs the task again.
    """
    if report.is_empty and report.worker is None:
        return True
    must_arrive = report.ended_at is not None
    deadline = time.monotonic() + timeout
    if not must_arrive and time.monotonic() < _silent_until.get(address.token, 0.0):
        return False
    while True:
        failures = _send_to_any(address, report, deadline)
        if failures is None:
            return True
        if not must_arrive or time.monotonic() + RETRY_SECONDS >= deadline:
            break
        time.sleep(RETRY_SECONDS)
    reason = "; ".join(failures)
    if must_arrive:
        raise PenstockError(
            f"the deserializer ended {report.topic_partition} at offset {report.ended_at}, but the query's planner on "
            f"the driver's machine could not be reached within {timeout:g} s ({reason}). Executors must reach it: set "
            "SPARK_LOCAL_IP in the driver's environment to an address that executors can reach, and open its ports to "
            "them"
        )
    silence = EVENT_TIME_SILENCE_SECONDS if report.has_event_time else SILENCE_SECONDS
    _remember(_silent_until, address.token, time.monotonic() + silence)
    if report.is_empty:
        log.info("the planner was not reached, so the query's metrics lack this worker (%s)", reason)
        return False
    log.warning(
        "the report about %s [%d, %d) did not reach the planner, so %s. Nothing else is lost (%s)",
        report.topic_partition,
        report.start,
        report.stop,
        MISSING_EVENT_TIME if report.has_event_time else MISSING_COUNTS,
        reason,
    )
    return False


_silent_until: dict[str, float] = {}
"""By token: until when no counts are sent to a planner that was not reached."""

_reached: dict[str, str] = {}
"""By token: the host through which the planner was reached last."""


def _remember(notes: dict[str, Note], token: str, note: Note) -> None:
    if len(notes) >= 100:  # Spark reuses a worker for several queries
        notes.clear()
    notes[token] = note


def _send_to_any(address: ReportAddress, report: TaskReport, deadline: float) -> list[str] | None:
    """Try the hosts in turn. None if one has received the report, else why each has not."""
    known = _reached.get(address.token)
    hosts = sorted(address.hosts, key=lambda host: host != known)
    failures: list[str] = []
    for number, host in enumerate(hosts):
        # An equal share of the remaining time, so that a silent host leaves time for the others.
        share = max(0.01, (deadline - time.monotonic()) / (len(hosts) - number))
        try:
            _send(host, address, report, time.monotonic() + share)
        except (OSError, ValueError) as error:
            failures.append(f"{host} port {address.port}: {error or type(error).__name__}")
        else:
            _remember(_reached, address.token, host)
            return None
    return failures


def _send(host: str, address: ReportAddress, report: TaskReport, deadline: float) -> None:
    message = encode(report, address.token)
    expected = acknowledgement(message, address.token)
    with socket.create_connection((host, address.port), max(0.01, deadline - time.monotonic())) as connection:
        connection.sendall(message)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < len(expected):
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            received = connection.recv(len(expected) - len(answer))
            if not received:
                raise ValueError("the connection was closed without an acknowledgement")
            answer += received
    if not hmac.compare_digest(answer, expected):
        raise ValueError("another program than this query's planner has answered")
