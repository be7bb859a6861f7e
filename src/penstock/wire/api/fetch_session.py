"""An incremental fetch session (KIP-227): the broker remembers the partitions, and requests name only changes.

Life of a session: a full request (epoch 0) -> the broker names the session -> requests with changes only (epochs 1, 2,
...) -> a last request that ends it. If the broker keeps no session, or has dropped it, the next request is a full one.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.errors import ProtocolError
from penstock.wire.api.error_codes import SESSION_ENDED
from penstock.wire.api.fetch import FetchPosition, FetchResponse
from penstock.wire.api.fetch_client import FetchClient, Key, response_key
from penstock.wire.transport.connection import Connection, ConnectionLost

LAST_EPOCH = 2**31 - 1
FINAL_EPOCH = -1
FIRST_WITH_SESSIONS = 7
CLOSE_SECONDS = 0.5
"""For ending a session. It only saves the broker's memory: brokers drop sessions that are not used."""


class FetchSession:
    """Fetches of many partitions over one connection, in two halves: `ask`, and later `answer`. For one thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._client = FetchClient(connection)
        self._version = self._client.version_for(())
        self._max_wait = 0.0
        self._restart()

    def _restart(self) -> None:
        """Make the next request a full one."""
        self._session_id, self._epoch = 0, 0
        self._remembered: dict[Key, FetchPosition] = {}

    @property
    def epoch(self) -> int:
        """0 if the next request is a full one."""
        return self._epoch

    def key(self, position: FetchPosition) -> Key:
        """How the response to the last request names the partition of a position."""
        return response_key(self._version, position)

    def ask(self, positions: Collection[FetchPosition], max_wait: float) -> None:
        """Ask for all these positions. A position that the broker knows from the last request is not sent again: it
        must be the same object."""
        version = self._client.version_for(positions)
        if version != self._version:
            self._version = version
            self._restart()  # a session names topics by id or by name, never by both
        wanted = {self.key(position): position for position in positions}
        known = self._remembered
        changed = [position for key, position in wanted.items() if known.get(key) is not position]
        forgotten = [position for key, position in known.items() if key not in wanted]
        config = self.connection.config
        self._remembered = wanted
        self._max_wait = max_wait
        self._client.send(
            changed,
            version=version,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.partition_max_bytes,
            max_wait=max_wait,
            rack=config.rack,
            session=(self._session_id, self._epoch),
            forgotten=forgotten,
        )

    def answer(self, buffer: bytearray) -> FetchResponse | None:
        """The answer to the last `ask`, its records views of `buffer`; None if the session has ended: ask again."""
        limit = self.connection.config.request_timeout + self._max_wait
        # A first request has no session that could have ended: then these codes are errors like all others.
        response = self._client.receive(buffer, limit, SESSION_ENDED if self._epoch else ())
        if response.error_code:
            self._restart()
            return None
        if response.session_id == 0:  # the broker keeps none for us, or has closed ours
            self._restart()
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        return response

    def close(self) -> None:
        """End the session, unless a response is still to come."""
        if self._session_id == 0 or self._client.pending or self._version < FIRST_WITH_SESSIONS:
            return
        session = (self._session_id, FINAL_EPOCH)
        self._restart()
        try:
            self._client.send(
                (), version=self._version, max_bytes=1, partition_max_bytes=1, session=session, timeout=CLOSE_SECONDS
            )
            self.connection.receive_into(bytearray(4096), CLOSE_SECONDS)
        except (ConnectionLost, ProtocolError):
            self.connection.close()
