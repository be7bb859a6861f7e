"""Sends a task's report to its stream's planner on the driver (`model/task_report.py` says what it holds)."""

from __future__ import annotations

import hmac
import logging
import socket
import time
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.model.task_report import ReportAddress, TaskReport, acknowledgement, written

log = logging.getLogger(__name__)
Note = TypeVar("Note")


RETRY_SECONDS = 0.2
"""Between two rounds of the hosts, for what must arrive."""

SILENCE_SECONDS = 600.0
"""How long a worker keeps mere counts to itself after it could not reach a planner. Without this a firewall that drops
packets would cost every task its time-out."""

EVENT_TIME_SILENCE_SECONDS = 20.0
"""The same of event times. While they are missing, the planner asks brokers at every trigger how far a partition has
been read, or looks at its last records, and that costs time."""

UNTOLD_COUNTS = "the query's counts of lost ranges, malformed and skipped records are too low"
UNTOLD_EVENT_TIME = (
    "the query asks brokers how far its event time has come, or looks at the last records again, and its counts of "
    "lost ranges, late, malformed and skipped records are too low"
)


def send_report(address: ReportAddress, report: TaskReport, timeout: float) -> bool:
    """Tell the planner; called by a task when it has read its range. True when the planner has it.

    Counts are never worth failing a task: if no host answers, that is logged and False. The end of a partition is, for
    without it the query would go on behind it: that is tried until the time is up, and then raises, so that Spark runs
    the task again.
    """
    if report.is_empty:
        return True
    must_arrive = report.ended_at is not None
    deadline = time.monotonic() + timeout
    if not must_arrive and time.monotonic() < _silent_until.get(address.token, 0.0):
        return False
    while True:
        tries = _tell_any(address, report, deadline)
        if tries is None:
            return True
        if not must_arrive or time.monotonic() + RETRY_SECONDS >= deadline:
            break
        time.sleep(RETRY_SECONDS)
    said = "; ".join(tries)
    if must_arrive:
        raise PenstockError(
            f"the deserializer ended {report.topic_partition} at offset {report.ended_at}, but the query's planner on "
            f"the driver's machine could not be told so within {timeout:g} s ({said}). Executors must reach it: set "
            "SPARK_LOCAL_IP in the driver's environment to the address that they see, and let them through to its ports"
        )
    silence = EVENT_TIME_SILENCE_SECONDS if report.has_event_time else SILENCE_SECONDS
    _remember(_silent_until, address.token, time.monotonic() + silence)
    log.warning(
        "the planner could not be told what was met in %s [%d, %d), so %s. Nothing else is lost (%s)",
        report.topic_partition,
        report.start,
        report.stop,
        UNTOLD_EVENT_TIME if report.has_event_time else UNTOLD_COUNTS,
        said,
    )
    return False


_silent_until: dict[str, float] = {}
"""By token, until when a planner that was not reached is left alone."""

_reached: dict[str, str] = {}
"""By token, the host by which a planner was reached last."""


def _remember(notes: dict[str, Note], token: str, note: Note) -> None:
    if len(notes) >= 100:  # a worker may live on from query to query
        notes.clear()
    notes[token] = note


def _tell_any(address: ReportAddress, report: TaskReport, deadline: float) -> list[str] | None:
    """Try the hosts in turn. None when one has taken the report, else what each try came to."""
    known = _reached.get(address.token)
    hosts = sorted(address.hosts, key=lambda host: host != known)
    tries: list[str] = []
    for number, host in enumerate(hosts):
        # An equal share of what is left for each of the rest, so that a silent host leaves some to the others.
        share = max(0.01, (deadline - time.monotonic()) / (len(hosts) - number))
        try:
            _tell(host, address, report, time.monotonic() + share)
        except (OSError, ValueError) as error:
            tries.append(f"{host} port {address.port}: {error or type(error).__name__}")
        else:
            _remember(_reached, address.token, host)
            return None
    return tries


def _tell(host: str, address: ReportAddress, report: TaskReport, deadline: float) -> None:
    message = written(report, address.token)
    expected = acknowledgement(message, address.token)
    with socket.create_connection((host, address.port), max(0.01, deadline - time.monotonic())) as connection:
        connection.sendall(message)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < len(expected):
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            received = connection.recv(len(expected) - len(answer))
            if not received:
                raise ValueError("the connection was closed without a word")
            answer += received
    if not hmac.compare_digest(answer, expected):
        raise ValueError("whoever answers there is not this query's planner")
