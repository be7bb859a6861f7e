"""Every error Penstock raises, and how they relate.

    PenstockError
    ├── OptionError               an option is unknown, malformed or contradicts another
    ├── UnrelatedCheckpoint       a checkpoint and a subscription share no topic
    ├── BrokerError               talking to Kafka failed
    │   ├── BrokerUnavailable     no answer within the deadline; carries the history of tries
    │   ├── AuthenticationFailed  the broker refused who we are, or TLS failed
    │   ├── AuthorizationFailed   the broker knows who we are and says no
    │   ├── UnknownTopic          a topic or partition that does not exist
    │   ├── TimeLookupTimeout     the first record of a time was not found within the deadline
    │   ├── CommitRefused         the group has given our partitions to others, or does not know us any more
    │   └── ProtocolError         the broker's answer makes no sense to us
    ├── CorruptBatch              bytes of a partition that are not what Kafka wrote
    ├── RecordTooLarge            a record that fits no fetch
    ├── DataLoss                  offsets that were asked for and are gone
    ├── OpenTransaction           offsets that were asked for lie past a transaction that did not end in time
    ├── OffsetOutOfRange          a consumer's position is gone and no reset rule is set
    ├── SinkError                 a streamer's sink failed, for good or too often
    │   └── RowsRefused           it will never take some of the rows it was given
    ├── MalformedRecord           a key or value does not parse, and mode is FAILFAST
    ├── RegistryError             a schema registry failed, or its answer makes no sense
    │   ├── RegistryUnavailable   no answer after all retries; carries the history of tries
    │   ├── RegistryRefused       the registry, or a proxy before it, does not let us in, or TLS failed
    │   ├── SchemaNotFound        an id, subject or version that the registry does not have
    │   ├── UnreadableSchema      a schema of a type that Penstock does not know, or that refers to too many others
    │   └── IncompatibleSchema    records were written with a schema that the one to read with cannot take
    ├── DeserializerFailed        a user's own deserializer failed on a record, or broke its contract
    ├── EventTimeError            a column or a user's function gives no event times, or no watermarks
    ├── ConsumerTimeout           nothing came within consumer.timeout.ms; the stream can be read again
    ├── NoOffsetForTimestamp      strategy `error`, and no record is that young
    ├── NoGroupOffset             the group has committed nothing and no reset rule is set
    └── EmbeddedBrokerError       the embedded broker could not be fetched or started

An error says what happened, where (topic, partition, offset) and the way out. All survive pickle, because they cross
from Spark's workers to its driver. None holds a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.masking import MASK, is_secret, masked


class PenstockError(Exception):
    """Base of everything Penstock raises on purpose."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> tuple[Any, ...]:
        # Do not simplify: Exception's own __reduce__ calls cls(*args), and args holds the finished message, not
        # what __init__ wants.
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
            # A part that the reason quotes may be half a password: lists are split at commas.
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
            f"the checkpoint holds offsets of {shown}{more}, and the subscription ({subscription}) includes none of "
            "these topics. Correct the subscription, or give this query a checkpoint of its own. To keep this "
            "checkpoint, set option allowUnrelatedCheckpoint to true: the subscription is then read from the beginning "
            "of its topics, and the offsets in the checkpoint stay, unread. To read the topics in the checkpoint too, "
            "set filterRestoredPartitions to false"
        )


class BrokerError(PenstockError):
    """Talking to Kafka failed."""


class BrokerUnavailable(BrokerError):
    """Kafka did not do what was asked within the deadline. `history` lists the tries, oldest first."""

    def __init__(self, what: str, history: Sequence[str] = (), hint: str = "") -> None:
        self.what = what
        self.history = tuple(history)
        tries = "".join(f"\n  - {line}" for line in self.history)
        super().__init__(what + (f". {hint}" if hint else "") + (f"\ntried:{tries}" if tries else ""))


class AuthenticationFailed(BrokerError):
    """The broker refused who we are, or the TLS handshake failed."""


class AuthorizationFailed(BrokerError):
    """The broker knows who we are and does not allow this."""


class UnknownTopic(BrokerError):
    """A topic or partition that the cluster does not have."""

    def __init__(self, topic: str, partition: int | None = None, detail: str = "") -> None:
        self.topic = topic
        self.partition = partition
        place = f"topic {topic!r}" if partition is None else f"partition {topic}-{partition}"
        super().__init__(f"{place} does not exist" + (f": {detail}" if detail else ""))


class TimeLookupTimeout(BrokerError):
    """The first record at or after a time was not found within the deadline: brokers did not know it, and the log that
    had to be scanned is long.

    `partitions` lists (topic, partition, time, offset where the scan stands, offset where it would end).
    """

    def __init__(self, partitions: Sequence[tuple[str, int, int, int, int]], seconds: float, option: str) -> None:
        self.partitions = tuple(partitions)
        topic, partition, time, at, stop = self.partitions[0]
        more = f" and in {len(self.partitions) - 1} more partitions" if len(self.partitions) > 1 else ""
        super().__init__(
            f"the first record at or after timestamp {time} was not found within {seconds:g} s: the broker does not "
            f"know it, and {topic}-{partition} was scanned up to offset {at} of {stop}{more}. Give offsets instead of "
            f"a time, or raise {option}"
        )


class CommitRefused(BrokerError):
    """The coordinator takes no commit from us: the group was rebalanced, or we are not in it any more."""

    def __init__(self, group: str, reason: str, hint: str = "") -> None:
        self.group = group
        self.reason = reason
        hint = hint or (
            "Its partitions may be with other members, who begin where the last commit was. If it happens often, raise "
            "session.timeout.ms, or commit in revoked of a rebalance listener"
        )
        super().__init__(f"group {group!r} takes no commit from this consumer: {reason}. {hint}")


class ProtocolError(BrokerError):
    """The broker's answer makes no sense to us."""


class CorruptBatch(PenstockError):
    """A record batch whose bytes are not what Kafka wrote: damaged on the way, on disk, or made with intent."""

    def __init__(self, topic: str, partition: int, base_offset: int, position: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.position = position
        self.reason = reason
        super().__init__(
            f"corrupt record batch in {topic}-{partition}, base offset {base_offset}, byte {position} of the "
            f"response: {reason}. Check the broker's log files (kafka-dump-log) and the network in between"
        )


class DataLoss(PenstockError):
    """Offsets that were asked for and that the broker no longer (or not yet) has.

    `ranges` lists (topic, partition, wanted, available) with `available` in words; `what` is the message without the
    way out, for those who have taken it.
    """

    def __init__(self, ranges: Sequence[tuple[str, int, str, str]]) -> None:
        self.ranges = tuple(ranges)
        lines = "".join(f"\n  - {t}-{p}: wanted {wanted}, the broker has {has}" for t, p, wanted, has in self.ranges)
        self.what = (
            f"some of the data asked for is gone (retention, a deleted or recreated topic, or truncation).{lines}"
        )
        super().__init__(f"{self.what}\nTo read what is left, set option failOnDataLoss to false")


class OpenTransaction(PenstockError):
    """Under read_committed, offsets that were asked for lie past a transaction that was not ended in time.

    `partitions` lists (topic, partition, wanted, last stable offset, owner): up to which offset was to be read, where
    the first open transaction begins, and who began it, in words, empty where brokers do not say.
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
            f"records that were asked for lie past an open transaction, which was waited for {seconds:g} s.{lines}\n"
            "Committed records cannot be read past it. Commit or abort it (kafka-transactions.sh shows and aborts it), "
            "wait longer with kafkaConsumer.pollTimeoutMs, end the read before it, or set kafka.isolation.level to "
            "read_uncommitted"
        )


class OffsetOutOfRange(PenstockError):
    """A consumer stands where its partition has no records, and `auto.offset.reset` is none."""

    def __init__(self, topic: str, partition: int, offset: int, has: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"{topic}-{partition}: wanted offset {offset}, the broker has {has}, and auto.offset.reset is none. Seek "
            "to an offset that is there, or set auto.offset.reset to earliest or latest"
        )


class RecordTooLarge(PenstockError):
    """A record whose batch came incomplete: no fetch can hold it."""

    def __init__(self, topic: str, partition: int, offset: int, fetched: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"the record batch at offset {offset} of {topic}-{partition} does not fit into {fetched} bytes, all that "
            "the broker sends at once. Raise max.partition.fetch.bytes and fetch.max.bytes (the broker has a "
            "fetch.max.bytes too), or seek past it"
        )


class SinkError(PenstockError):
    """A streamer's sink failed.

    A sink raises it for what cannot get better by trying again, such as a table that does not exist: the Streamer then
    fails at once. Every other error of a sink is tried again; the Streamer wraps it in a SinkError when it gives up.
    """


class RowsRefused(SinkError):
    """A sink will never take some of the rows it was given, though others it may: wrong data, not a wrong sink.

    The Streamer looks for the messages that they came from, and goes on without them.
    """


FIRST_BYTES = 64


class MalformedRecord(PenstockError):
    """A key or value that does not parse, and `mode` is FAILFAST."""

    def __init__(self, topic: str, partition: int, offset: int, column: str, reason: str, data: bytes | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.column = column
        self.reason = reason
        self.data = None if data is None else bytes(data[:FIRST_BYTES])
        begins = "" if self.data is None else f" It begins with {self.data!r}."
        super().__init__(
            f"{topic}-{partition}, offset {offset}: the {column} does not parse: {reason}.{begins} To go on without "
            "such records, set mode to PERMISSIVE, DROPMALFORMED or DEADLETTER"
        )


class RegistryError(PenstockError):
    """A schema registry failed, or answered what makes no sense."""


class RegistryUnavailable(RegistryError):
    """A schema registry gave no answer after all retries. `history` lists the tries, oldest first."""

    def __init__(self, what: str, history: Sequence[str] = ()) -> None:
        self.what = what
        self.history = tuple(history)
        tries = "".join(f"\n  - {line}" for line in self.history)
        super().__init__(
            f"the schema registry did not answer: {what}. Check schemaRegistry.url and schemaRegistry.proxy, that this "
            "machine reaches them, and schemaRegistry.timeout.ms and schemaRegistry.retries"
            + (f"\ntried:{tries}" if tries else "")
        )


class RegistryRefused(RegistryError):
    """A schema registry, or a proxy before it, does not let us in; or TLS with it failed."""

    def __init__(self, url: str, reason: str, hint: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"the schema registry at {url} refused us: {reason}. {hint}")


class SchemaNotFound(RegistryError):
    """An id, subject or version that the schema registry does not have."""

    def __init__(self, url: str, what: str) -> None:
        self.url = url
        self.what = what
        super().__init__(
            f"the schema registry at {url} has no {what}. It may have been deleted, or registered elsewhere: check "
            "schemaRegistry.url, and subjectNameStrategy where a subject was looked for"
        )


class UnreadableSchema(RegistryError):
    """A schema that the registry has and Penstock does not read. `kind` and `text` are the registry's."""

    def __init__(self, url: str, what: str, reason: str, kind: str, text: str) -> None:
        self.url = url
        self.what = what
        self.reason = reason
        self.kind = kind
        self.text = text
        super().__init__(f"{what} at {url} {reason}")


class IncompatibleSchema(RegistryError):
    """Records were written with a schema that the one they are to be read with cannot take.

    `where` is a subject or a column.
    """

    def __init__(self, where: str, writer_id: int, reader_id: int | None, reason: str) -> None:
        self.where = where
        self.writer_id = writer_id
        self.reader_id = reader_id
        self.reason = reason
        reader = "the schema given" if reader_id is None else f"schema {reader_id}"
        super().__init__(
            f"{where}: records written with schema {writer_id} cannot be read with {reader}: {reason}. Start the query "
            "anew to read with the latest schema, or name one that takes both; a compatibility rule in the registry "
            "keeps such schemas out"
        )


class DeserializerFailed(PenstockError):
    """A user's own deserializer failed on a record, or returned what it must not.

    `details` is the traceback of what it raised, if it did: the cause itself stays in the process where it happened.
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
    """A column, or a user's own function, gives no event times or no watermarks.

    `details` is the traceback of what a function raised, if it did: the cause itself stays in the process where it
    happened.
    """

    def __init__(self, where: str, reason: str, hint: str = "", details: str = "") -> None:
        self.where = where
        self.reason = reason
        self.hint = hint
        self.details = details
        super().__init__(f"event time: {where} {reason}" + (f". {hint}" if hint else ""))


class ConsumerTimeout(PenstockError):
    """No message came within `consumer.timeout.ms`. Nothing is broken: the stream can be read again."""

    def __init__(self, thread_id: str, seconds: float) -> None:
        self.thread_id = thread_id
        self.seconds = seconds
        super().__init__(f"stream {thread_id}: no message within {seconds:g} s (consumer.timeout.ms)")


class NoOffsetForTimestamp(PenstockError):
    """No record at or after a timestamp, and the strategy says that is an error."""

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
            f"group {group!r} has no committed offset for {places}. Commit one (penstock groups reset), name the "
            "offsets to start at, or set auto.offset.reset to earliest or latest (for the Spark source: "
            "startingOffsets, kafka.auto.offset.reset)"
        )


class EmbeddedBrokerError(PenstockError):
    """The embedded broker could not be fetched or started."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known one, or nothing."""
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"Did you mean {lowered[close[0]]}?" if close else ""
