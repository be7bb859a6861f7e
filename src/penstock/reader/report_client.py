"""What a task tells its stream's planner: how many records it left out, which offsets were gone, up to which event time
it has read, and that a partition has come to its end.

Spark has no way from a task of a Python source back to that source. So a plan carries the address of a small listener
in the planner's process (`report_listener.py`), and a task that has something to tell tells it there when it is done:

    task     -> planner   <signature> <report as JSON> \\n
    planner  -> task      <signature of that signature> \\n

A signature is an HMAC with the plan's token, which itself never crosses the network: a planner believes only tasks of
its own query, and a task only its own planner, whoever else may listen at that port of that machine.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import time
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.model.subscription import TopicPartition

log = logging.getLogger(__name__)
Note = TypeVar("Note")

LARGEST_MESSAGE = 4096
"""A topic's name has at most 249 characters; the rest is numbers."""

SIGNATURE_LENGTH = 64

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

LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task met in its range. A task that is run again reports the same range again."""

    topic: str
    partition: int
    start: int
    stop: int
    malformed: int = 0
    """Records that did not parse."""
    dropped: int = 0
    """Of those, left out (DROPMALFORMED, DEADLETTER)."""
    dead_letters: int = 0
    """Of those, written to deadLetterTopic."""
    skipped: int = 0
    """Records that a user's deserializer left out (F3)."""
    ended_at: int | None = None
    """F4: the offset of the record by which a user's deserializer ended the partition."""
    has_event_time: bool = False
    """Whether event times were looked at. Then a report is sent in any case: that there was none is news too."""
    event_time: int | None = None
    """The highest, in milliseconds; None: no record has one."""
    late: int = 0
    """E5: records whose event time the combined watermark had passed when the batch was planned."""
    lost_start: int | None = None
    """F27: the first offset that was gone when the task read (failOnDataLoss false); None: nothing was."""
    lost_stop: int | None = None
    """The offset after the last one that was gone."""

    def __post_init__(self) -> None:
        counts = (self.malformed, self.dropped, self.dead_letters, self.skipped, self.late)
        numbers = (self.partition, self.start, self.stop, *counts)
        if not isinstance(self.topic, str) or not self.topic:
            raise ValueError("a report needs a topic")
        if self.event_time is not None and not (
            type(self.event_time) is int and -LARGEST - 1 <= self.event_time <= LARGEST
        ):
            raise ValueError(f"{self.event_time!r} is no event time")
        if type(self.has_event_time) is not bool:
            raise ValueError(f"{self.has_event_time!r} is neither yes nor no")
        if not all(type(number) is int and 0 <= number <= LARGEST for number in numbers):
            raise ValueError(f"a report's numbers are whole and 0 or more, not {numbers}")
        if self.ended_at is not None and not (type(self.ended_at) is int and self.start <= self.ended_at < self.stop):
            raise ValueError(f"{self.ended_at!r} is no offset in [{self.start}, {self.stop})")
        if (self.lost_start, self.lost_stop) != (None, None) and not (
            type(self.lost_start) is int
            and type(self.lost_stop) is int
            and self.start <= self.lost_start < self.lost_stop <= self.stop
        ):
            raise ValueError(f"{self.lost_start!r} to {self.lost_stop!r} is not in [{self.start}, {self.stop})")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lost(self) -> tuple[int, int] | None:
        """The offsets that were gone, from the first to the one after the last."""
        return None if self.lost_start is None or self.lost_stop is None else (self.lost_start, self.lost_stop)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        counts = self.malformed or self.dropped or self.dead_letters or self.skipped
        return self.ended_at is None and self.lost is None and not self.has_event_time and not counts


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where a planner takes reports: hosts by which it may be reached, the likeliest first. Part of a plan."""

    hosts: tuple[str, ...]
    port: int
    token: str = field(repr=False)


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


# --- bytes ------------------------------------------------------------------------------------------------------------


def written(report: TaskReport, token: str) -> bytes:
    """A report as it is sent: one line."""
    document = json.dumps(asdict(report), separators=(",", ":")).encode("ascii")
    return _signature(document, token) + document + b"\n"


def read(message: bytes, token: str) -> TaskReport:
    """The report in a message that came from anywhere; ValueError if it is not one of this token's."""
    signature, document = message[:SIGNATURE_LENGTH], message[SIGNATURE_LENGTH:].removesuffix(b"\n")
    if not hmac.compare_digest(signature, _signature(document, token)):
        raise ValueError("the signature is wrong")
    try:
        return TaskReport(**json.loads(document))
    except (TypeError, RecursionError) as error:  # signed by a task, but of another version of this package
        raise ValueError(f"the report cannot be read: {error}") from error


def acknowledgement(message: bytes, token: str) -> bytes:
    """What only the planner can answer to a message."""
    return _signature(b"taken " + message[:SIGNATURE_LENGTH], token) + b"\n"


def _signature(document: bytes, token: str) -> bytes:
    return hmac.digest(token.encode("ascii"), document, "sha256").hex().encode("ascii")
