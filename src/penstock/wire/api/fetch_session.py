"""An incremental fetch session (KIP-227): a broker remembers what is fetched, and is told only what changes.

Life of a session: a full request (epoch 0) -> the broker names the session -> requests of what changed (epochs 1, 2,
...) -> a last request that ends it. A broker that keeps no session, or has forgotten it, is asked in full again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from kafka.protocol.consumer import FetchRequest

from penstock.errors import BrokerError, ProtocolError
from penstock.wire.api.error_codes import SESSION_ENDED, check
from penstock.wire.api.fetch import (
    HIGHEST,
    LOWEST,
    NAMES_ONLY,
    FetchPosition,
    FetchResponse,
    fetch_request,
    read_fetch_response,
)
from penstock.wire.transport.connection import Connection, ConnectionLost

Key: TypeAlias = tuple[object, int]
"""Topic, as an answer names it (by id, or by name where a broker is old), and partition."""

LAST_EPOCH = 2**31 - 1
FINAL_EPOCH = -1
GOODBYE_SECONDS = 0.5
"""For ending a session: a courtesy, since brokers drop those that nobody uses."""


class FetchSession:
    """Fetches of many partitions over one connection, in two halves: `ask`, and later `answer`. For one thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._by_id = connection.version(FetchRequest, at_most=HIGHEST)
        self._by_name = connection.version(FetchRequest, at_most=NAMES_ONLY)
        if self._by_name < LOWEST:
            raise BrokerError(f"broker {connection.address} is too old: Penstock needs Kafka 1.0 or newer")
        self._version = self._by_id
        self._asked: int | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._session_id, self._epoch = 0, 0
        self._remembered: dict[Key, FetchPosition] = {}

    @property
    def epoch(self) -> int:
        """0 if the next request is a full one."""
        return self._epoch

    def key(self, position: FetchPosition) -> Key:
        """By what name the answers of the request last sent call this partition."""
        return position.topic_id if self._version > NAMES_ONLY else position.topic, position.partition

    def ask(self, positions: Collection[FetchPosition], max_wait: float) -> None:
        """Ask for all these positions. One that the broker knows from the last request is not sent again: it must be
        the same object."""
        version = self._by_id if all(position.topic_id is not None for position in positions) else self._by_name
        if version != self._version:
            self._version = version
            self._begin_anew()  # a session speaks of topics by id or by name, never by both
        wanted = {self.key(position): position for position in positions}
        known = self._remembered
        changed = [position for key, position in wanted.items() if known.get(key) is not position]
        forgotten = [position for key, position in known.items() if key not in wanted]
        config = self.connection.config
        request = fetch_request(
            version,
            changed,
            config,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.partition_max_bytes,
            max_wait=max_wait,
            rack=config.client_rack,
            session=(self._session_id, self._epoch),
            forgotten=forgotten,
        )
        self._remembered = wanted
        self._max_wait = max_wait
        self._asked = self.connection.send(request, config.request_timeout)

    def answer(self, buffer: bytearray) -> FetchResponse | None:
        """The answer to the last `ask`, its records lying in `buffer`; None if the session is over: ask again."""
        assert self._asked is not None, "answer without ask"
        asked, self._asked = self._asked, None
        limit = self.connection.config.request_timeout + self._max_wait
        frame = self.connection.receive_into(buffer, limit, allowed=self._max_wait)
        try:
            response = read_fetch_response(frame, self._version, asked, self.connection.address)
        except ProtocolError:
            self.connection.close()  # out of step: not to be reused
            raise
        if response.error_code in SESSION_ENDED:
            if self._epoch == 0:
                check(response.error_code, f"a first fetch from {self.connection.address}")
            self._begin_anew()
            return None
        check(response.error_code, f"fetch from {self.connection.address}")
        if response.session_id == 0:  # it keeps none for us, or has closed ours
            self._begin_anew()
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        return response

    def close(self) -> None:
        """End the session, if that takes no waiting for an answer."""
        if self._session_id == 0 or self._asked is not None or self._version < 7:
            return
        config = self.connection.config
        session = (self._session_id, FINAL_EPOCH)
        request = fetch_request(
            self._version, (), config, max_bytes=1, partition_max_bytes=1, max_wait=0, session=session
        )
        self._begin_anew()
        try:
            self.connection.send(request, GOODBYE_SECONDS)
            self.connection.receive_into(bytearray(4096), GOODBYE_SECONDS)
        except (ConnectionLost, ProtocolError):
            self.connection.close()
