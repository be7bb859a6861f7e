"""Every error Penstock raises, and how they relate.

    PenstockError
    ├── OptionError               an option is unknown, malformed or contradicts another
    ├── UnrelatedCheckpoint       a checkpoint and a subscription share no topic
    ├── BrokerError               a request to Kafka failed
    │   ├── BrokerUnavailable     no answer within the deadline; has the history of tries
    │   ├── AuthenticationFailed  the broker refused the login, or the TLS handshake failed
    │   ├── AuthorizationFailed   the broker accepted the login but does not allow the request
    │   ├── UnknownTopic          a topic or partition does not exist
    │   ├── TimeLookupTimeout     the first record of a time was not found within the deadline
    │   ├── TopicRecreated        a topic was deleted and created again while a producer wrote to it
    │   ├── TransactionLost       another producer took the transactional id, or the broker ended the transaction
    │   ├── CommitRefused         the group assigned the partitions to others, or removed this member
    │   ├── AcknowledgementRefused  a record of a share group cannot be acknowledged (any more)
    │   └── ProtocolError         the broker's response is invalid
    ├── CorruptBatch              the bytes of a record batch are damaged
    ├── RecordTooLarge            a record does not fit into a fetch response
    ├── UnwritableRecord          Kafka will never accept a record
    ├── DataLoss                  requested offsets no longer exist
    ├── OpenTransaction           requested offsets are behind a transaction that did not end in time
    ├── OffsetOutOfRange          a consumer's position no longer exists and auto.offset.reset is none
    ├── ColumnError               a column to write is missing or has the wrong type
    ├── ReplayError               a replayed batch has other rows than those that are visible already
    ├── SinkError                 the sink of a Streamer failed
    │   └── RowsRefused           the sink will never store some of the rows
    ├── MalformedRecord           a key or value does not parse, and mode is FAILFAST
    ├── PredicateFailed           option where has no value for a row: an ANSI error such as a division by zero
    ├── RegistryError             a request to a schema registry failed
    │   ├── RegistryUnavailable   no answer after all retries; has the history of tries
    │   ├── RegistryRefused       the registry, or a proxy, refused the login, or the TLS handshake failed
    │   ├── SchemaNotFound        the registry does not have an id, subject or version
    │   ├── SchemaRefused         the registry does not register a schema: it is incompatible or invalid
    │   ├── UnreadableSchema      Penstock does not support the type of a schema, or it has too many references
    │   └── IncompatibleSchema    records cannot be read with the reader's schema
    ├── DeserializerFailed        a user's deserializer failed on a record, or broke its contract
    ├── EventTimeError            a column or a user's function gives no event times, or no watermarks
    ├── ConsumerTimeout           no message arrived within consumer.timeout.ms; the stream can be read again
    ├── MessageStreamsExist       a connector creates its streams once, and a second call asks for more
    ├── NoOffsetForTimestamp      no record is at or after a timestamp, and the strategy is `error`
    ├── NoGroupOffset             the group has no committed offset and auto.offset.reset is none
    ├── UnknownQuery              a LagListener has not seen a streaming query of this name or id
    ├── UnsupportedSpark          this version of Spark is too old, or lacks what a call or a setting needs
    └── EmbeddedBrokerError       the embedded broker could not be downloaded or started

An error says what happened, where (topic, partition, offset) and how to fix it. All errors can be pickled, because they
go from Spark's workers to its driver. None contains a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.masking import MASK, is_secret, masked


class PenstockError(Exception):
    """Base class of Penstock's errors."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> tuple[Any, ...]:
        # Do not simplify: Exception's own __reduce__ calls cls(*args), and args is the finished message, not the
        # arguments of __init__.
        return _revive, (type(self), str(self), self.__dict__)


def _revive(cls: type[PenstockError], message: str, state: dict[str, Any]) -> PenstockError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class OptionError(PenstockError, ValueError):
    """An option is unknown, malformed, or contradicts another one."""

    def __init__(self, name: str, value: object, reason: str, hint: str = "") -> None:
        if value is not None and is_secret(name):
            value = MASK
        if isinstance(value, str) and (harmless := masked(value)) != value:
            # The reason may quote a part of the value that is half a password: lists are split at commas.
            value, reason = harmless, re.sub(r"""['"].*['"]""", repr(MASK), reason, flags=re.DOTALL)
        self.name = name
        self.value = value
        self.reason = reason = masked(reason)
        self.hint = hint
        shown = "" if value is None else f" = {value!r}"
        super().__init__(f"option {name}{shown}: {reason}" + (f". {hint}" if hint else ""))


class UnrelatedCheckpoint(PenstockError):
    """A stream's checkpoint and its subscription share no topic (F12)."""

    def __init__(self, topics: Sequence[str], subscription: str) -> None:
        self.topics = tuple(topics)
        self.subscription = subscription
        shown = ", ".join(map(repr, self.topics[:10]))
        more = f" and {len(self.topics) - 10} more" if len(self.topics) > 10 else ""
        super().__init__(
            f"the checkpoint has offsets of {shown}{more}, and the subscription ({subscription}) includes none of "
            "these topics. Correct the subscription, or use another checkpoint location for this query. To keep this "
            "checkpoint, set option allowUnrelatedCheckpoint to true: the subscribed topics are then read from their "
            "beginning, and the offsets in the checkpoint stay unread. To read the topics of the checkpoint too, set "
            "filterRestoredPartitions to false"
        )


class BrokerError(PenstockError):
    """A request to Kafka failed."""


class BrokerUnavailable(BrokerError):
    """A request did not succeed within the deadline. `history` lists the tries, oldest first."""

    def __init__(self, what: str, history: Sequence[str] = (), hint: str = "") -> None:
        self.what = what
        self.history = tuple(history)
        tries = "".join(f"\n  - {line}" for line in self.history)
        super().__init__(what + (f". {hint}" if hint else "") + (f"\ntried:{tries}" if tries else ""))


class AuthenticationFailed(BrokerError):
    """The broker refused the login, or the TLS handshake failed."""


class AuthorizationFailed(BrokerError):
    """The broker accepted the login but does not allow the request."""


class UnknownTopic(BrokerError):
    """A topic or partition that the cluster does not have."""

    def __init__(self, topic: str, partition: int | None = None, detail: str = "") -> None:
        self.topic = topic
        self.partition = partition
        place = f"topic {topic!r}" if partition is None else f"partition {topic}-{partition}"
        super().__init__(f"{place} does not exist" + (f": {detail}" if detail else ""))


class TimeLookupTimeout(BrokerError):
    """The first record at or after a time was not found within the deadline: the broker's index did not have it, and
    scanning the log took too long.

    `partitions` lists (topic, partition, time, next offset of the scan, last offset of the scan).
    """

    def __init__(self, partitions: Sequence[tuple[str, int, int, int, int]], seconds: float, option: str) -> None:
        self.partitions = tuple(partitions)
        topic, partition, time, at, stop = self.partitions[0]
        more = f" and in {len(self.partitions) - 1} more partitions" if len(self.partitions) > 1 else ""
        super().__init__(
            f"the first record at or after timestamp {time} was not found within {seconds:g} s: the broker's index "
            f"does not have it, and {topic}-{partition} was scanned up to offset {at} of {stop}{more}. Use offsets "
            f"instead of a time, or raise {option}"
        )


class TopicRecreated(BrokerError):
    """A topic was deleted and created again while a producer wrote to it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic!r} was deleted and created again during the write. Records that were written before are "
            "lost with the old topic. Start the write again to write to the new one"
        )


class TransactionLost(BrokerError):
    """Another producer has taken the transactional id, or the coordinator has ended the transaction.

    `aborted`: whether it is certain that the transaction is not committed. Otherwise it may be, if a commit was
    requested.
    """

    def __init__(self, transactional_id: str, reason: str, aborted: bool = False, hint: str = "") -> None:
        self.transactional_id = transactional_id
        self.reason = reason
        self.aborted = aborted
        super().__init__(
            f"the transaction of transactional id {transactional_id!r} is lost: {reason}. Another producer has taken "
            "the id, or the transaction took longer than transaction.timeout.ms" + (f". {hint}" if hint else "")
        )


class CommitRefused(BrokerError):
    """The coordinator refused a commit: the group was rebalanced, or this member is no longer in it."""

    def __init__(self, group: str, reason: str, hint: str = "") -> None:
        self.group = group
        self.reason = reason
        hint = hint or (
            "Other members may own its partitions and continue at the last commit. If it happens often, raise "
            "session.timeout.ms, or commit in revoked of a rebalance listener"
        )
        super().__init__(f"group {group!r} refused a commit of this consumer: {reason}. {hint}")


class AcknowledgementRefused(BrokerError):
    """A record of a share group cannot be acknowledged: it is acknowledged already, or its lock is lost."""

    def __init__(self, topic: str, partition: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.reason = reason
        super().__init__(
            f"{topic}-{partition}: nothing was acknowledged: {reason}. The group delivers records again whose "
            "acknowledgement has not arrived"
        )


class ProtocolError(BrokerError):
    """The broker's response is invalid."""


class CorruptBatch(PenstockError):
    """The bytes of a record batch are damaged: on the network, on disk, or on purpose."""

    def __init__(self, topic: str, partition: int, base_offset: int, position: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.position = position
        self.reason = reason
        super().__init__(
            f"corrupt record batch in {topic}-{partition}, base offset {base_offset}, byte {position} of the "
            f"response: {reason}. Check the broker's log files (kafka-dump-log) and the network"
        )


class DataLoss(PenstockError):
    """The broker no longer (or not yet) has requested offsets.

    `ranges` lists (topic, partition, wanted, available), with `available` in words. `what` is the message without the
    hint, for warnings when failOnDataLoss is already false.
    """

    def __init__(self, ranges: Sequence[tuple[str, int, str, str]]) -> None:
        self.ranges = tuple(ranges)
        lines = "".join(f"\n  - {t}-{p}: wanted {wanted}, the broker has {has}" for t, p, wanted, has in self.ranges)
        self.what = (
            f"some of the requested data is lost (retention, a deleted or recreated topic, or truncation).{lines}"
        )
        super().__init__(f"{self.what}\nTo read the remaining data, set option failOnDataLoss to false")


class OpenTransaction(PenstockError):
    """Under read_committed, requested offsets are behind a transaction that did not end in time.

    `partitions` lists (topic, partition, wanted, last stable offset, owner): the end of the read, the start of the
    first open transaction, and its producer in words, empty if brokers do not report it.
    """

    def __init__(self, partitions: Sequence[tuple[str, int, int, int, str]], seconds: float, option: str = "") -> None:
        self.partitions = tuple(partitions)
        self.seconds = seconds
        by = f" ({option})" if option else ""
        lines = "".join(
            f"\n  - {topic}-{partition}: wanted up to offset {wanted}{by}, open since offset {stable}"
            + (f": {owner}" if owner else "")
            for topic, partition, wanted, stable, owner in self.partitions
        )
        super().__init__(
            f"requested records are behind an open transaction that did not end within {seconds:g} s.{lines}\n"
            "Committed records cannot be read past it. Commit or abort it (kafka-transactions.sh shows and aborts it), "
            "wait longer with kafkaConsumer.pollTimeoutMs, end the read before it, or set kafka.isolation.level to "
            "read_uncommitted"
        )


class OffsetOutOfRange(PenstockError):
    """The partition does not have the consumer's position, and `auto.offset.reset` is none."""

    def __init__(self, topic: str, partition: int, offset: int, has: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"{topic}-{partition}: wanted offset {offset}, the broker has {has}, and auto.offset.reset is none. Seek "
            "to an existing offset, or set auto.offset.reset to earliest or latest"
        )


class RecordTooLarge(PenstockError):
    """A record batch does not fit into a fetch response."""

    def __init__(self, topic: str, partition: int, offset: int, fetched: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"the record batch at offset {offset} of {topic}-{partition} does not fit into {fetched} bytes, the most "
            "that the broker sends at once. Raise max.partition.fetch.bytes and fetch.max.bytes (the broker has a "
            "fetch.max.bytes too), or seek past it"
        )


class ColumnError(PenstockError, ValueError):
    """A column to write is missing or has the wrong type."""

    def __init__(self, column: str, reason: str, hint: str = "") -> None:
        super().__init__(f"column {column}: {reason}{'. ' + hint if hint else ''}")
        self.column = column
        self.reason = reason
        self.hint = hint


class ReplayError(PenstockError):
    """A batch that was committed in part has other rows in its replay, or its notes cannot be read.

    Some of its rows would be visible twice, or never. Nothing more of the batch is committed.
    """


class SinkError(PenstockError):
    """The sink of a Streamer failed.

    A sink raises it if a retry cannot help, for example if a table does not exist: the Streamer then fails at once.
    After any other error of a sink the Streamer retries; when it gives up, it raises a SinkError with that error as
    its cause.
    """


class RowsRefused(SinkError):
    """A sink will never store some of the rows, because of their data.

    The Streamer finds the messages that they came from, and continues without them.
    """


FIRST_BYTES = 64


class MalformedRecord(PenstockError):
    """A key or value does not parse, and `mode` is FAILFAST."""

    def __init__(self, topic: str, partition: int, offset: int, column: str, reason: str, data: bytes | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.column = column
        self.reason = reason
        self.data = None if data is None else bytes(data[:FIRST_BYTES])
        begins = "" if self.data is None else f" It begins with {self.data!r}."
        super().__init__(
            f"{topic}-{partition}, offset {offset}: the {column} does not parse: {reason}.{begins} To skip such "
            "records, set mode to PERMISSIVE, DROPMALFORMED or DEADLETTER"
        )


class PredicateFailed(PenstockError):
    """The predicate of option `where` has no value for a row: what Spark raises in ANSI mode. `offset` is None if it is
    not known."""

    def __init__(self, topic: str, partition: int, offset: int | None, where: str, reason: str, hint: str = "") -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.where = where
        self.reason = reason
        at = "" if offset is None else f", offset {offset}"
        super().__init__(f"{topic}-{partition}{at}: where = {where!r}: {reason}" + (f". {hint}" if hint else ""))


class UnwritableRecord(PenstockError):
    """Kafka will never accept a record (W8). `row` counts the rows of a task, or of a Writer, from 0.

    `topic` is None if the row does not name one, and `partition` if none was chosen. `key` holds the first bytes of
    the key. `too_large`: the topic refused it because of its size.
    """

    def __init__(
        self, topic: str | None, partition: int | None, row: int, key: bytes | None, reason: str, hint: str = ""
    ) -> None:
        self.too_large = False
        self.topic = topic
        self.partition = partition
        self.row = row
        self.key = None if key is None else bytes(key[:FIRST_BYTES])
        self.reason = reason
        self.hint = hint
        place = "" if topic is None else f" for topic {topic!r}"
        place += "" if partition is None else f", partition {partition}"
        shown = "without a key" if self.key is None else f"with key {self.key!r}"
        super().__init__(f"row {row}{place} ({shown}) cannot be written: {reason}" + (f". {hint}" if hint else ""))


class RegistryError(PenstockError):
    """A request to a schema registry failed, or its response is invalid."""


class RegistryUnavailable(RegistryError):
    """A schema registry did not answer after all retries. `history` lists the tries, oldest first."""

    def __init__(self, what: str, history: Sequence[str] = ()) -> None:
        self.what = what
        self.history = tuple(history)
        tries = "".join(f"\n  - {line}" for line in self.history)
        super().__init__(
            f"the schema registry did not answer: {what}. Check schemaRegistry.url and schemaRegistry.proxy, whether "
            "this machine can reach them, and schemaRegistry.timeout.ms and schemaRegistry.retries"
            + (f"\ntried:{tries}" if tries else "")
        )


class RegistryRefused(RegistryError):
    """A schema registry, or a proxy before it, refused the login, or the TLS handshake failed."""

    def __init__(self, url: str, reason: str, hint: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"the schema registry at {url} refused access: {reason}. {hint}")


class SchemaNotFound(RegistryError):
    """The schema registry does not have an id, subject or version."""

    def __init__(self, url: str, what: str) -> None:
        self.url = url
        self.what = what
        super().__init__(
            f"the schema registry at {url} has no {what}. It may have been deleted, or registered elsewhere: check "
            "schemaRegistry.url, and subjectNameStrategy if a subject is missing"
        )


class SchemaRefused(RegistryError):
    """The schema registry does not register a schema. `reason` is the registry's message."""

    def __init__(self, url: str, subject: str, reason: str, status: int) -> None:
        self.url = url
        self.subject = subject
        self.reason = reason
        self.status = status
        if status == 409:
            what = f"the schema is incompatible with the versions of subject {subject!r}"
            hint = (
                "Change the columns or the schema so that the subject's compatibility rule allows them, for example "
                "new fields with a default. Or write with the registered schema: remove valueSchema"
            )
        else:
            what, hint = f"the schema for subject {subject!r} is not valid", "Correct valueSchema"
        super().__init__(f"the schema registry at {url} refuses to register: {what}: {reason}. {hint}")


class UnreadableSchema(RegistryError):
    """Penstock does not support a schema of the registry. `kind` and `text` are the registry's."""

    def __init__(self, url: str, what: str, reason: str, kind: str, text: str) -> None:
        self.url = url
        self.what = what
        self.reason = reason
        self.kind = kind
        self.text = text
        super().__init__(f"{what} at {url} {reason}")


class IncompatibleSchema(RegistryError):
    """Records were written with a schema that is incompatible with the reader's.

    `where` is a subject or a column.
    """

    def __init__(self, where: str, writer_id: int, reader_id: int | None, reason: str) -> None:
        self.where = where
        self.writer_id = writer_id
        self.reader_id = reader_id
        self.reason = reason
        reader = "the given schema" if reader_id is None else f"schema {reader_id}"
        super().__init__(
            f"{where}: records written with schema {writer_id} cannot be read with {reader}: {reason}. Restart the "
            "query to read with the latest schema, or set one that is compatible with both. A compatibility rule in "
            "the registry refuses such schemas"
        )


class DeserializerFailed(PenstockError):
    """A user's deserializer failed on a record, or returned a wrong result.

    `details` is the traceback of its exception, if it raised one. The exception itself stays in the worker process.
    """

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        deserializer: str,
        reason: str,
        details: str = "",
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.deserializer = deserializer
        self.reason = reason
        self.details = details
        place = ", ".join(
            ([] if topic is None else [f"{topic}-{partition}"]) + ([] if offset is None else [f"offset {offset}"])
        )
        super().__init__((f"{place}: " if place else "") + f"deserializer {deserializer} failed: {reason}")


class EventTimeError(PenstockError):
    """A column, or a user's function, gives no event times or no watermarks.

    `details` is the traceback of the function's exception, if it raised one. The exception itself stays in the worker
    process.
    """

    def __init__(self, where: str, reason: str, hint: str = "", details: str = "") -> None:
        self.where = where
        self.reason = reason
        self.hint = hint
        self.details = details
        super().__init__(f"event time: {where} {reason}" + (f". {hint}" if hint else ""))


class ConsumerTimeout(PenstockError):
    """No message arrived within `consumer.timeout.ms`. The stream can be read again.

    `reason` is the likely cause, such as a topic that does not exist; empty if none is known.
    """

    def __init__(self, thread_id: str, seconds: float, reason: str = "") -> None:
        self.thread_id = thread_id
        self.seconds = seconds
        self.reason = reason
        why = f": {reason}" if reason else ""
        super().__init__(f"stream {thread_id}: no message within {seconds:g} s (consumer.timeout.ms){why}")


class MessageStreamsExist(PenstockError, RuntimeError):
    """A connector creates its streams once (H2). Named after the error of Kafka's old consumer."""

    def __init__(self, consumer_id: str) -> None:
        self.consumer_id = consumer_id
        super().__init__(
            f"consumer {consumer_id!r} already has its streams: a connector creates them once. Use another connector "
            "for other streams"
        )


class NoOffsetForTimestamp(PenstockError):
    """No record is at or after a timestamp, and startingOffsetsByTimestampStrategy is `error`."""

    def __init__(self, partitions: Sequence[tuple[str, int, int]]) -> None:
        self.partitions = tuple(partitions)
        places = ", ".join(f"{t}-{p} (timestamp {ts})" for t, p, ts in self.partitions)
        super().__init__(
            f"no record at or after the timestamp in {places}. To start such partitions at their end, set "
            "option startingOffsetsByTimestampStrategy to latest"
        )


class NoGroupOffset(PenstockError):
    """The group has no committed offset and `auto.offset.reset` is none."""

    def __init__(self, group: str, partitions: Sequence[tuple[str, int]]) -> None:
        self.group = group
        self.partitions = tuple(partitions)
        places = ", ".join(f"{t}-{p}" for t, p in self.partitions)
        super().__init__(
            f"group {group!r} has no committed offset for {places}. Commit one (penstock groups reset), set the "
            "starting offsets, or set auto.offset.reset to earliest or latest (for the Spark source: "
            "startingOffsets, kafka.auto.offset.reset)"
        )


class UnknownQuery(PenstockError, LookupError):
    """A LagListener has not seen a streaming query of this name or id."""

    def __init__(self, query: str, known: Sequence[str]) -> None:
        self.query = query
        self.known = tuple(known)
        names = f"It has seen {', '.join(map(repr, self.known))}" if self.known else "It has seen no query so far"
        hint = "" if self.known else ": add it with spark.streams.addListener before the query starts"
        super().__init__(f"the listener has seen no query named {query!r}. {names}{hint}")


class UnsupportedSpark(PenstockError):
    """This version of Spark is too old for Penstock, or lacks what a call or a setting needs."""

    def __init__(self, reason: str, hint: str) -> None:
        self.reason = reason
        self.hint = hint
        super().__init__(f"{reason}. {hint}")


class EmbeddedBrokerError(PenstockError):
    """The embedded broker could not be downloaded or started."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name; empty if none is near."""
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"Did you mean {lowered[close[0]]}?" if close else ""
