"""The Fetch API, encoded and decoded by hand.

kafka-python's decoder copies the records out of the frame with the GIL held (8 MB: about 1 ms each way, per response).
Here they stay where the socket put them, as a view. Its encoder takes 40 us for a request of one partition, all of it
with the GIL, which delays a reader that waits for single records.
"""

from __future__ import annotations

import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ProtocolError
from penstock.wire.api.frame import READ_ERRORS, FrameReader, encode_count, encode_text
from penstock.wire.api.message import Api, EncodedRequest
from penstock.wire.client_config import ClientConfig

NAMES_ONLY = 12
"""From version 13 on a fetch names topics by id. This is the highest version for topics without a known id."""

FLEXIBLE = 12

TOPIC_IDS = 1000
"""How many topic ids of responses are kept."""

NO_SESSION = (0, -1)
"""Session id and epoch of a fetch without a session."""

LOWEST = 4
"""The first version that carries magic 2 batches and aborted transactions."""

HIGHEST = 18
"""The last version that is written and read here."""

FETCH = Api("Fetch", 1, LOWEST, HIGHEST, FLEXIBLE)

# The versions that brought these fields. From 15 on the replica id is a tagged field, which consumers leave out.
_HAS_LOG_START, _HAS_SESSIONS, _HAS_EPOCHS, _HAS_RACKS, _REPLICA_TAGGED = 5, 7, 9, 11, 15
_NO_REPLICA = struct.pack(">i", -1)
_NUMBER = struct.Struct(">i")
_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_POSITION_4 = struct.Struct(">iqi")
_POSITION_5 = struct.Struct(">iqqi")
_POSITION_9 = struct.Struct(">iiqqi")
_POSITION = struct.Struct(">iiqiqib")
_NO_TAGS = b"\0"

# A response before version 7, and from it on; a partition before version 5, and from it on.
_RESPONSE_4, _RESPONSE = struct.Struct(">i"), struct.Struct(">ihi")
_PARTITION_4, _PARTITION = struct.Struct(">ihqq"), struct.Struct(">ihqqq")


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """Where a fetch starts: one partition and an offset."""

    topic: str
    partition: int
    offset: int
    topic_id: uuid.UUID | None = None
    leader_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """The response for one partition. `records` is a view of the frame: valid until the buffer is used again."""

    topic: str | uuid.UUID
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    preferred_replica: int
    records: memoryview
    log_start: int = 0
    """The first offset of the log. A batch may begin before it."""

    def readable(self, read_committed: bool) -> int:
        """The offset at which reading ends: the last stable offset under read_committed, else the high watermark."""
        return self.last_stable_offset if read_committed else self.high_watermark


@dataclass(slots=True)
class FetchResponse:
    throttle: float
    error_code: int
    partitions: list[FetchedPartition]
    session_id: int = 0
    """0 if the broker keeps no session."""
    seconds: float | None = None
    """The time from the request to this response; None if it is not known."""


def fetch_request(
    version: int,
    positions: Iterable[FetchPosition],
    config: ClientConfig,
    *,
    max_bytes: int,
    partition_max_bytes: int,
    max_wait: float,
    rack: str = "",
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[FetchPosition] = (),
) -> EncodedRequest:
    """A fetch of these positions: all of them, or the new ones of a session (its id and epoch, KIP-227)."""
    flexible = version >= FLEXIBLE
    parts = [] if version >= _REPLICA_TAGGED else [_NO_REPLICA]
    isolation = 1 if config.read_committed else 0
    parts.append(_LIMITS.pack(int(max_wait * 1000), config.fetch_min_bytes, max_bytes, isolation))
    if version >= _HAS_SESSIONS:
        parts.append(_SESSION.pack(*session))
    by_topic: dict[str | uuid.UUID, list[bytes]] = defaultdict(list)
    for position in positions:
        by_topic[_topic(version, position)].append(_encode_position(version, position, partition_max_bytes))
    _encode_topics(version, by_topic, parts)
    if version >= _HAS_SESSIONS:
        gone: dict[str | uuid.UUID, list[bytes]] = defaultdict(list)
        for position in forgotten:
            gone[_topic(version, position)].append(_NUMBER.pack(position.partition))
        _encode_topics(version, gone, parts)
    if version >= _HAS_RACKS:
        parts.append(encode_text(rack, flexible))
    if flexible:
        parts.append(_NO_TAGS)
    return EncodedRequest(FETCH, version, b"".join(parts))


def _topic(version: int, position: FetchPosition) -> str | uuid.UUID:
    if version <= NAMES_ONLY:
        return position.topic
    assert position.topic_id is not None, "the version depends on it"
    return position.topic_id


def _encode_topics(version: int, by_topic: Mapping[str | uuid.UUID, list[bytes]], parts: list[bytes]) -> None:
    flexible = version >= FLEXIBLE
    parts.append(encode_count(len(by_topic), flexible))
    for topic, partitions in by_topic.items():
        parts.append(topic.bytes if isinstance(topic, uuid.UUID) else encode_text(topic, flexible))
        parts.append(encode_count(len(partitions), flexible))
        parts += partitions
        if flexible:
            parts.append(_NO_TAGS)


def _encode_position(version: int, position: FetchPosition, max_bytes: int) -> bytes:
    number, epoch, offset = position.partition, position.leader_epoch, position.offset
    if version >= FLEXIBLE:  # -1: the last fetched epoch and the start of the log, which only followers send
        return _POSITION.pack(number, epoch, offset, -1, -1, max_bytes, 0)
    if version >= _HAS_EPOCHS:
        return _POSITION_9.pack(number, epoch, offset, -1, max_bytes)
    if version >= _HAS_LOG_START:
        return _POSITION_5.pack(number, offset, -1, max_bytes)
    return _POSITION_4.pack(number, offset, max_bytes)


def read_fetch_response(frame: memoryview, version: int, correlation_id: int, broker: str) -> FetchResponse:
    """Read a response frame of versions 4 to 18."""
    try:
        reader = FrameReader(frame, version >= FLEXIBLE)
        reader.response_header(correlation_id)
        return _read_response(reader, version)
    except READ_ERRORS as error:
        raise ProtocolError(
            f"{broker} sent a fetch response (version {version}) that cannot be read: {error}"
        ) from error


def _read_response(reader: FrameReader, version: int) -> FetchResponse:
    begin = reader.compiled(_RESPONSE) if version >= 7 else (*reader.compiled(_RESPONSE_4), 0, 0)
    throttle, error_code, session_id = begin
    partitions = []
    for _ in range(reader.count()):
        topic = _topic_id(bytes(reader.take(16))) if version > NAMES_ONLY else reader.text()
        for _ in range(reader.count()):
            partitions.append(_read_partition(reader, version, topic))
        reader.tags()
    return FetchResponse(throttle / 1000, error_code, partitions, session_id)


@lru_cache(TOPIC_IDS)
def _topic_id(data: bytes) -> uuid.UUID:
    """To make a UUID takes longer than the rest of a small response."""
    return uuid.UUID(bytes=data)


def _read_partition(reader: FrameReader, version: int, topic: str | uuid.UUID) -> FetchedPartition:
    begin = reader.compiled(_PARTITION) if version >= 5 else (*reader.compiled(_PARTITION_4), 0)
    partition, error_code, high_watermark, last_stable, log_start = begin
    fetched = FetchedPartition(
        topic,
        partition,
        error_code,
        high_watermark,
        last_stable,
        aborted=[_read_aborted(reader) for _ in range(reader.count())],
        preferred_replica=reader.compiled(_NUMBER)[0] if version >= 11 else -1,
        records=reader.data(),
        log_start=log_start,
    )
    reader.tags()
    return fetched


def _read_aborted(reader: FrameReader) -> tuple[int, int]:
    producer_id, first_offset = reader.numbers(">qq")
    reader.tags()
    return producer_id, first_offset
