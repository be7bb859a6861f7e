"""What a task reports to its stream's planner: records that it dropped, offsets that were gone, the highest event time,
the record that ended its partition, and what its worker has done at the brokers.

Spark gives a task of a Python source no way to send data back to the source. So each task gets the address of a server
in the planner's process (`planner/report_server.py`). It sends its report when it has read its range:

    task     -> planner   <signature> <report as JSON> \\n
    planner  -> task      <signature of that signature> \\n

A signature is an HMAC with the token of the plan. The token itself is never sent to that port. So a planner accepts
only reports of its own tasks, and a task accepts an answer only from its own planner.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass, field

from penstock.model.topic_partition import TopicPartition
from penstock.model.worker_figures import WorkerFigures

LARGEST_MESSAGE = 4096
"""Bytes. A topic's name has at most 249 characters; the rest is numbers."""

SIGNATURE_LENGTH = 64

LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of one task about its range. A task that Spark retries reports the same range again."""

    topic: str
    partition: int
    start: int
    stop: int
    malformed: int = 0
    """Records that did not parse."""
    dropped: int = 0
    """Malformed records that were dropped (DROPMALFORMED, DEADLETTER)."""
    dead_letters: int = 0
    """Malformed records that were written to deadLetterTopic."""
    skipped: int = 0
    """Records that a user's deserializer skipped (F3)."""
    read: int = 0
    """Records that the predicate of `where` was applied to."""
    passed: int = 0
    """Those that met it."""
    ended_at: int | None = None
    """F4: the offset of the record by which a user's deserializer ended the partition."""
    has_event_time: bool = False
    """Whether the task looked at event times. Then it sends a report in any case, also if no record has one."""
    event_time: int | None = None
    """The highest, in milliseconds; None if no record has one."""
    late: int = 0
    """E5: records whose event time the combined watermark had passed when the batch was planned."""
    lost_start: int | None = None
    """F27: the first offset that was gone when the task read (failOnDataLoss false); None if none was."""
    lost_stop: int | None = None
    """The offset after the last one that was gone."""
    worker: WorkerFigures | None = None
    """What the task's worker has done at the brokers for the query so far (F26)."""

    def __post_init__(self) -> None:
        if self.worker is not None and not isinstance(self.worker, WorkerFigures):
            raise ValueError(f"{self.worker!r} are not the figures of a worker")
        counts = (self.malformed, self.dropped, self.dead_letters, self.skipped, self.read, self.passed, self.late)
        numbers = (self.partition, self.start, self.stop, *counts)
        if not isinstance(self.topic, str) or not self.topic:
            raise ValueError("a report needs a topic")
        if self.event_time is not None and not (
            type(self.event_time) is int and -LARGEST - 1 <= self.event_time <= LARGEST
        ):
            raise ValueError(f"{self.event_time!r} is not an event time")
        if type(self.has_event_time) is not bool:
            raise ValueError(f"{self.has_event_time!r} is not a bool")
        if not all(type(number) is int and 0 <= number <= LARGEST for number in numbers):
            raise ValueError(f"the numbers of a report must be integers of 0 or more, not {numbers}")
        if self.ended_at is not None and not (type(self.ended_at) is int and self.start <= self.ended_at < self.stop):
            raise ValueError(f"{self.ended_at!r} is not an offset in [{self.start}, {self.stop})")
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
        """Whether there is nothing to report about the range."""
        counts = self.malformed or self.dropped or self.dead_letters or self.skipped or self.read
        return self.ended_at is None and self.lost is None and not self.has_event_time and not counts


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where a planner receives reports: the hosts by which tasks may reach it, the likeliest first."""

    hosts: tuple[str, ...]
    port: int
    token: str = field(repr=False)
    wants_figures: bool = False
    """Whether tasks report what their workers do at the brokers (F26)."""


def encode(report: TaskReport, token: str) -> bytes:
    """A report as one line of bytes."""
    document = json.dumps(asdict(report), separators=(",", ":")).encode("ascii")
    return _signature(document, token) + document + b"\n"


def decode(message: bytes, token: str) -> TaskReport:
    """The report in a message. Raises ValueError if the message is not signed with this token."""
    signature, document = message[:SIGNATURE_LENGTH], message[SIGNATURE_LENGTH:].removesuffix(b"\n")
    if not hmac.compare_digest(signature, _signature(document, token)):
        raise ValueError("the signature is wrong")
    try:
        fields = json.loads(document)
        if fields.get("worker") is not None:
            fields["worker"] = WorkerFigures(**fields["worker"])
        return TaskReport(**fields)
    except (TypeError, AttributeError, RecursionError) as error:
        # It is signed by a task with another version of this package.
        raise ValueError(f"the report cannot be read: {error}") from error


def acknowledgement(message: bytes, token: str) -> bytes:
    """The answer to a message, which only the planner can sign."""
    return _signature(b"taken " + message[:SIGNATURE_LENGTH], token) + b"\n"


def _signature(document: bytes, token: str) -> bytes:
    return hmac.digest(token.encode("ascii"), document, "sha256").hex().encode("ascii")
