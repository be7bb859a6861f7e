"""Sends Fetch requests over one connection and reads their responses: the only place that does.

The range reader (`PartitionFetch`), the consumer's fetchers (`fetch_session.FetchSession`) and the look-ups in
`penstock.wire.lookup` are its callers.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from penstock.errors import ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import check
from penstock.wire.api.fetch import (
    FETCH,
    NAMES_ONLY,
    NO_SESSION,
    FetchPosition,
    FetchResponse,
    fetch_request,
    read_fetch_response,
)
from penstock.wire.api.metadata import Metadata
from penstock.wire.transport.connection import Connection

Key: TypeAlias = tuple[object, int]
"""Topic, as a response names it (by id, or by name if the version has no ids), and partition."""


class _Sent(NamedTuple):
    correlation_id: int
    version: int
    max_wait: float
    at: float


class FetchClient:
    """Fetches over one connection. Several requests may be sent before the first response is received.

    For one thread.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._by_id = connection.version(FETCH)
        self._by_name = connection.version(FETCH, at_most=NAMES_ONLY)
        self._sent: deque[_Sent] = deque()

    def version_for(self, positions: Iterable[FetchPosition]) -> int:
        """The version to send: one that names topics by id needs the ids of all of them."""
        return self._by_id if all(position.topic_id is not None for position in positions) else self._by_name

    @property
    def pending(self) -> bool:
        """Whether a request was sent whose response was not received."""
        return bool(self._sent)

    def send(
        self,
        positions: Iterable[FetchPosition],
        *,
        version: int,
        max_bytes: int,
        partition_max_bytes: int,
        max_wait: float = 0.0,
        rack: str = "",
        session: tuple[int, int] = NO_SESSION,
        forgotten: Iterable[FetchPosition] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one request. A leader that recommends another replica for the `rack` sends no records."""
        config = self.connection.config
        request = fetch_request(
            version,
            positions,
            config,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            max_wait=max_wait,
            rack=rack,
            session=session,
            forgotten=forgotten,
        )
        correlation_id = self.connection.send(request, config.request_timeout if timeout is None else timeout)
        self._sent.append(_Sent(correlation_id, version, max_wait, time.monotonic()))

    def receive(self, buffer: bytearray, timeout: float, returned_errors: Collection[int] = ()) -> FetchResponse:
        """The response to the oldest request. Its records are views of `buffer`.

        Raises what the response's own error code means, unless it is one of `returned_errors`. The caller checks the
        codes of partitions.
        """
        correlation_id, version, max_wait, at = self._sent.popleft()
        frame = self.connection.receive_into(buffer, timeout, allowed=max_wait)
        try:
            response = read_fetch_response(frame, version, correlation_id, self.connection.address)
        except ProtocolError:
            self.connection.close()  # out of step: the next response cannot be found
            raise
        response.seconds = time.monotonic() - at
        if response.error_code not in returned_errors:
            check(response.error_code, f"fetch from {self.connection.address}")
        return response


class PartitionFetch:
    """Fetches of one partition over one connection, in two halves: `ask`, and later `answer`. For one thread."""

    def __init__(self, connection: Connection, topic_id: uuid.UUID | None) -> None:
        self._client = FetchClient(connection)
        self._version = self._client.version_for((FetchPosition("", 0, 0, topic_id),))
        self._is_ahead = False

    def ask(self, position: FetchPosition, max_bytes: int, *, ahead: bool = False) -> None:
        """`ahead`: the caller has other work before it calls `answer`."""
        self._is_ahead = ahead
        config = self._client.connection.config
        self._client.send(
            (position,),
            version=self._version,
            max_bytes=max_bytes,
            partition_max_bytes=max_bytes,
            max_wait=config.fetch_max_wait,
            rack=config.rack,
        )

    @property
    def pending(self) -> bool:
        """Whether something was asked that is not answered."""
        return self._client.pending

    def answer(self, buffer: bytearray, timeout: float) -> FetchResponse:
        """The answer to the last `ask`. Its records are views of `buffer`."""
        connection = self._client.connection
        config = connection.config
        has_arrived = self._is_ahead and connection.is_open and connection.has_input()
        response = self._client.receive(buffer, min(timeout, config.request_timeout + config.fetch_max_wait))
        if has_arrived:
            response.seconds = None  # it may have arrived long ago
        return response


def response_key(version: int, position: FetchPosition) -> Key:
    """How a response of this version names the partition of a position."""
    return position.topic_id if version > NAMES_ONLY else position.topic, position.partition


def leader_positions(offsets: Mapping[TopicPartition, int], metadata: Metadata) -> dict[TopicPartition, FetchPosition]:
    """What to ask the leaders of partitions for, from these offsets on."""
    return {tp: _leader_position(tp, offset, metadata) for tp, offset in offsets.items()}


def _leader_position(tp: TopicPartition, offset: int, metadata: Metadata) -> FetchPosition:
    leader = metadata.leader(tp)
    epoch = -1 if leader is None else leader.epoch
    return FetchPosition(tp.topic, tp.partition, offset, metadata.topics[tp.topic].topic_id, epoch)
