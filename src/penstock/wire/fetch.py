"""The Fetch API: the request through kafka-python, the response read here.

The response is read here because kafka-python's decoder copies the records out of the frame with the GIL held
(8 MB: about 1 ms each way, per response); here they stay where the socket put them, as a view.
"""

from __future__ import annotations

import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import FetchRequest

from penstock.errors import BrokerError, ProtocolError
from penstock.wire.config import ClientConfig
from penstock.wire.connection import Connection

NAMES_ONLY = 12
"""From version 13 on a fetch names topics by id; without the id of a topic this is the highest one to speak."""

LOWEST = 4
"""The first version that carries magic 2 batches and aborted transactions."""


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """What to ask for: one partition from one offset."""

    topic: str
    partition: int
    offset: int
    topic_id: uuid.UUID | None = None
    leader_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """What came back for one partition. `records` is a view into the frame: valid until the buffer is used again."""

    topic: str | uuid.UUID
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    preferred_replica: int
    records: memoryview


@dataclass(slots=True)
class FetchResponse:
    throttle: float
    error_code: int
    partitions: list[FetchedPartition]


class PartitionFetch:
    """Fetches of one partition over one connection, in two halves: `ask`, and later `answer`. For one thread."""

    def __init__(self, connection: Connection, topic_id: uuid.UUID | None) -> None:
        self.connection = connection
        self._version = connection.version(FetchRequest, at_most=None if topic_id else NAMES_ONLY)
        if self._version < LOWEST:
            raise BrokerError(f"broker {connection.address} is too old: Penstock needs Kafka 1.0 or newer")
        self._asked: int | None = None

    def ask(self, position: FetchPosition, max_bytes: int) -> None:
        config = self.connection.config
        request = fetch_request(
            self._version,
            [position],
            config,
            max_bytes=max_bytes,
            partition_max_bytes=max_bytes,
            max_wait=config.fetch_max_wait,
            rack=config.client_rack,
        )
        self._asked = self.connection.send(request, config.request_timeout)

    @property
    def pending(self) -> bool:
        """Whether something was asked that is not answered."""
        return self._asked is not None

    def answer(self, buffer: bytearray, timeout: float) -> FetchResponse:
        """The answer to the last `ask`, its records lying in `buffer`."""
        assert self._asked is not None, "answer without ask"
        asked, self._asked = self._asked, None
        config = self.connection.config
        frame = self.connection.receive_into(buffer, min(timeout, config.request_timeout + config.fetch_max_wait))
        try:
            return read_fetch_response(frame, self._version, asked, self.connection.address)
        except ProtocolError:
            self.connection.close()  # out of step: nobody else may have it
            raise


def fetch_request(
    version: int,
    positions: Iterable[FetchPosition],
    config: ClientConfig,
    *,
    max_bytes: int,
    partition_max_bytes: int,
    max_wait: float,
    rack: str = "",
) -> Any:
    """A full (sessionless) fetch."""
    topic_class = FetchRequest.FetchTopic
    by_topic: dict[str | uuid.UUID | None, list[Any]] = defaultdict(list)
    for position in positions:
        by_topic[position.topic_id if version > NAMES_ONLY else position.topic].append(
            topic_class.FetchPartition(
                version=version,
                partition=position.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=partition_max_bytes,
            )
        )
    key = "topic_id" if version > NAMES_ONLY else "topic"
    return FetchRequest(
        version=version,
        replica_id=-1,
        max_wait_ms=int(max_wait * 1000),
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=1 if config.read_committed else 0,
        session_id=0,
        session_epoch=-1,
        topics=[topic_class(version=version, partitions=ps, **{key: topic}) for topic, ps in by_topic.items()],
        forgotten_topics_data=[],
        rack_id=rack,
    )


def read_fetch_response(frame: memoryview, version: int, correlation_id: int, broker: str) -> FetchResponse:
    """Read a response frame of versions 4 to 18."""
    try:
        return _FrameReader(frame, version).response(correlation_id)
    except (struct.error, IndexError, ValueError) as error:
        raise ProtocolError(
            f"{broker} sent a fetch response (version {version}) that cannot be read: {error}"
        ) from error


class _FrameReader:
    """A position moving over one frame. Flexible versions (12 and up) have compact lengths and tagged fields."""

    def __init__(self, frame: memoryview, version: int) -> None:
        self._frame = frame
        self._at = 0
        self._version = version
        self._flexible = version >= 12

    def response(self, expected: int) -> FetchResponse:
        correlation_id = self._number(">i")
        if correlation_id != expected:
            raise ValueError(f"it answers request {correlation_id}, not {expected}")
        if self._flexible:
            self._skip_tags()
        throttle = self._number(">i")
        error_code = self._number(">h") if self._version >= 7 else 0
        if self._version >= 7:
            self._number(">i")  # session id: we ask for none
        partitions = []
        for _ in range(self._count()):
            topic = self._topic()
            for _ in range(self._count()):
                partitions.append(self._partition(topic))
            if self._flexible:
                self._skip_tags()
        return FetchResponse(throttle / 1000, error_code, partitions)

    def _partition(self, topic: str | uuid.UUID) -> FetchedPartition:
        partition, error_code, high_watermark, last_stable = self._numbers(">ihqq")
        if self._version >= 5:
            self._number(">q")  # log start offset
        fetched = FetchedPartition(
            topic,
            partition,
            error_code,
            high_watermark,
            last_stable,
            aborted=[self._aborted() for _ in range(self._count())],
            preferred_replica=self._number(">i") if self._version >= 11 else -1,
            records=self._bytes(),
        )
        if self._flexible:
            self._skip_tags()
        return fetched

    def _aborted(self) -> tuple[int, int]:
        producer_id, first_offset = self._numbers(">qq")
        if self._flexible:
            self._skip_tags()
        return producer_id, first_offset

    def _topic(self) -> str | uuid.UUID:
        if self._version > NAMES_ONLY:
            return uuid.UUID(bytes=bytes(self._take(16)))
        length = self._varint() - 1 if self._flexible else self._number(">h")
        return str(self._take(length), "utf-8")

    def _bytes(self) -> memoryview:
        length = self._varint() - 1 if self._flexible else self._number(">i")
        return self._take(max(length, 0))

    def _count(self) -> int:
        """Elements of an array; null counts as none. Bounded by the bytes left, so that no count makes us loop long."""
        count = self._varint() - 1 if self._flexible else self._number(">i")
        if count > len(self._frame) - self._at:
            raise ValueError(f"an array of {count} elements in {len(self._frame) - self._at} bytes")
        return max(count, 0)

    def _skip_tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._take(self._varint())

    def _number(self, layout: str) -> int:
        return int(self._numbers(layout)[0])

    def _numbers(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._frame, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError("a length of more than five bytes")

    def _take(self, length: int) -> memoryview:
        if not 0 <= length <= len(self._frame) - self._at:
            raise ValueError(f"a field of {length} bytes where {len(self._frame) - self._at} are left")
        self._at += length
        return self._frame[self._at - length : self._at]
