"""A fetcher: one thread that fetches all of a consumer's partitions led by one broker (H9).

Its loop: see which cursors want something -> ask for all of them in one request -> put what comes on their streams'
queues -> again. A cursor whose stream is full is left out (H4), so a slow stream holds up nobody else on its broker.
Decoding is the readers' work; here a response is only cut into chunks, so the next request leaves at once.

A fetcher ends when its broker is lost, when it has nothing left to fetch, or when it is closed; whatever it holds then
goes to the leader finder (H13).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock._kernel import scan
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.fetch.queue import SMALL_CHUNK
from penstock.errors import BrokerError, CorruptBatch, PenstockError, ProtocolError
from penstock.wire.api.error_codes import CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import FetchedPartition, FetchPosition, FetchResponse
from penstock.wire.api.fetch_client import Key
from penstock.wire.api.fetch_session import FetchSession
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.pool import POOL

log = logging.getLogger(__name__)

HELD_BACK_SECONDS = 0.02
"""While a stream is full its broker is asked for the others without letting it wait: a request that waits at the broker
could not be recalled when the stream has room again. So long we wait here instead, unless there is room earlier."""

FIRST_BUFFER = 1 << 20
BUFFERS_KEPT = 2
BUFFER_KEPT_BYTES = 64 << 20


class Owner(Protocol):
    """To whom a fetcher passes on what is not its business. Called by the fetcher's thread."""

    def leaderless(self, cursors: Collection[Cursor], reason: str, *, hopeless: bool = False) -> None:
        """These have no fetcher any more. Hopeless: asking again at once would end the same way."""

    def overdue(self, fetcher: Fetcher) -> None:
        """Its broker lets it wait. Called again and again for as long as it does."""

    def out_of_range(self, cursor: Cursor, offset: int) -> None: ...
    def preferred(self, cursor: Cursor, node_id: int) -> None: ...
    def broken(self, error: BaseException) -> None: ...
    def fetched(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Held:
    """A cursor as its fetcher has it: with the epoch of the leader that it was given to."""

    cursor: Cursor
    epoch: int


class Fetcher:
    """The cursors of one broker. Methods may come from any thread unless they say otherwise."""

    def __init__(self, broker: Broker, number: int, config: ClientConfig, owner: Owner) -> None:
        self.broker = broker
        self.number = number
        self._config = config
        self._owner = owner
        self._lock = threading.Lock()
        self._held: dict[Cursor, Held] = {}
        self._wake = threading.Event()
        self._closed = False
        self._connection: Connection | None = None
        self._asking = False
        """Whether a request is out, so that only an abort wakes the thread."""
        self._buffers: deque[bytearray] = deque(maxlen=BUFFERS_KEPT)
        name = f"penstock-fetch-{broker.host}:{broker.port}-{number}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, cursors: Iterable[tuple[Cursor, int]]) -> bool:
        """Fetch these too, each with its leader's epoch. False if this fetcher has ended."""
        with self._lock:
            if self._closed:
                return False
            self._held.update({cursor: Held(cursor, epoch) for cursor, epoch in cursors})
        self._wake.set()
        return True

    def remove(self, cursors: Collection[Cursor]) -> None:
        """Fetch these no more. What is on its way for them counts no more if they have moved on (H11)."""
        with self._lock:
            for cursor in cursors:
                self._held.pop(cursor, None)
            empty = not self._held
        if empty:
            self._wake.set()

    def cursors(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def let_go(self, held: Held) -> bool:
        """Fetch this no more, if it is still ours as it was. What is on its way for it counts no more."""
        with self._lock:
            ours = self._held.get(held.cursor) is held
            if ours:
                del self._held[held.cursor]
            return ours

    def wake(self) -> None:
        """Something may have changed: a stream has room, a partition was resumed."""
        self._wake.set()

    def end(self, unless_busy: bool = False) -> bool:
        """Begin to end; `join` waits for it. With `unless_busy` only if it has nothing to fetch."""
        with self._lock:
            if unless_busy and self._held:
                return False
            self._closed = True
            self._held.clear()
            if self._asking and self._connection is not None:
                self._connection.abort()
        self._wake.set()
        return True

    def join(self, timeout: float) -> bool:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __repr__(self) -> str:
        return self._thread.name

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    # --- the fetcher's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        reason, hopeless = "it has ended", False
        try:
            self._fetch()
        except (ConnectionLost, ProtocolError, RetriableError) as error:
            reason = str(error)
        except PenstockError as error:  # not to be healed by asking again: who we are, what we may
            reason, hopeless = str(error), True
            self._owner.broken(error)
        except BaseException as error:
            reason, hopeless = f"{type(error).__name__}: {error}", True
            log.exception("%s ended by an error of its own", self._thread.name)
            self._owner.broken(error)
        finally:
            with self._lock:
                closed, self._closed = self._closed, True
                orphans = list(self._held)
                self._held.clear()
            if orphans and not closed:
                log.info("%s: %s", self._thread.name, reason)
            self._owner.leaderless(orphans, reason, hopeless=hopeless)

    def _fetch(self) -> None:
        connection = POOL.acquire(
            self._config, self.broker.host, self.broker.port, self._config.connect_timeout, self._doubt
        )
        try:
            session = FetchSession(connection)
            while (wanted := self._wanted()) is not None:
                if connection.session_over:
                    raise ConnectionLost(f"{connection.address}: the login has run out")
                buffer = self._buffers.pop() if self._buffers else bytearray(FIRST_BUFFER)
                if not self._begins_to_ask(connection):
                    break
                session.ask(wanted.positions, 0.0 if wanted.held_back else self._config.fetch_max_wait)
                response = session.answer(buffer)
                with self._lock:
                    self._asking = False
                self._owner.fetched()
                if response is not None:
                    came = self._take(response, wanted, session, Lease(buffer, self._give_back))
                    if response.throttle > 0:
                        self._obey(response.throttle)
                    elif wanted.held_back and not came:
                        self._wake.wait(HELD_BACK_SECONDS)
            session.close()
        finally:
            with self._lock:
                self._asking, self._connection = False, None
            POOL.release(connection)

    def _doubt(self) -> str | None:
        """The broker lets us wait. The owner finds out who leads now, and takes away from us what others lead: if that
        is everything, we are ended."""
        if self._closed:
            return "it is waited for no longer"
        self._owner.overdue(self)
        return None

    def _begins_to_ask(self, connection: Connection) -> bool:
        """From now on `end` wakes us by an abort. False if it has come already."""
        with self._lock:
            self._asking, self._connection = not self._closed, connection
            return self._asking

    def _wanted(self) -> Wanted | None:
        """What to ask for now; waits until there is something. None when closed."""
        while not self._closed:
            self._wake.clear()
            wanted = Wanted()
            for held in self.cursors():
                cursor = held.cursor
                if not cursor.wants_more:
                    continue
                if cursor.reader.full:
                    wanted.held_back = True
                    continue
                with cursor.reader.lock:
                    version, position = cursor.version, cursor.request(held.epoch)
                if position is not None:
                    wanted.add(position, held, version)
            if wanted.positions:
                return wanted
            self._wake.wait()
        return None

    def _obey(self, throttle: float) -> None:
        """The broker does not hear us for so long."""
        until = time.monotonic() + throttle
        while not self._closed and (left := until - time.monotonic()) > 0:
            self._wake.clear()
            self._wake.wait(left)

    def _give_back(self, buffer: bytearray) -> None:
        """Called by whichever thread is done with a response last."""
        if len(buffer) <= BUFFER_KEPT_BYTES:
            self._buffers.append(buffer)

    def _take(self, response: FetchResponse, wanted: Wanted, session: FetchSession, lease: Lease) -> bool:
        """Put what came where it belongs. Returns whether anything came."""
        came = False
        refused: set[Cursor] = set()
        by_key = wanted.by_key(session)
        for fetched in response.partitions:
            asked = by_key.get((fetched.topic, fetched.partition))
            if asked is None:
                raise ProtocolError(f"{session.connection.address} answered for a partition that was not asked for")
            position, held, version = asked
            if self._held.get(held.cursor) is not held:
                fetched.records.release()  # a late answer: another broker's counts by now
                continue
            if fetched.error_code:
                fetched.records.release()
                refused.add(held.cursor)
                self._refused(held, position, version, fetched)
                continue
            cursor = held.cursor
            cursor.readable = fetched.readable(self._config.read_committed)
            cursor.epoch = max(cursor.epoch, held.epoch)
            if len(fetched.records) == 0:
                fetched.records.release()
                if fetched.preferred_replica >= 0:
                    self._give_away(cursor)
                    self._owner.preferred(cursor, fetched.preferred_replica)
                continue
            came = True
            follows = scan(fetched.records, position.offset)
            mine = lease
            if len(fetched.records) <= SMALL_CHUNK:
                # Out of its response, which may be megabytes of other streams: of these a queue may hold many.
                with fetched.records as view:
                    fetched.records = memoryview(bytes(view))
                mine = Lease(bytearray(), lambda buffer: None)
            if cursor.reader.put(cursor, version, position.offset, fetched, follows, mine):
                self._move_back(held)
            else:
                fetched.records.release()
        lease.release()
        if not response.throttle:  # else it answers for none of them
            wanted.note_answer(time.monotonic(), refused, self._held)
        return came

    def _refused(self, held: Held, position: FetchPosition, version: int, fetched: FetchedPartition) -> None:
        """What an error of one partition means; the others go on (H13)."""
        cursor = held.cursor
        if cursor.version != version:
            return  # it has moved on meanwhile
        what = f"fetch of {cursor.tp} at offset {position.offset}"
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._give_away(cursor)
            self._owner.out_of_range(cursor, position.offset)
            return
        if fetched.error_code == CORRUPT_MESSAGE:
            text = "the broker says so itself"
            error = CorruptBatch(cursor.tp.topic, cursor.tp.partition, position.offset, 0, text)
            cursor.reader.fail(cursor, error, version)
            return
        try:
            check(fetched.error_code, what)
        except RetriableError as healing:
            self._give_away(cursor)
            self._owner.leaderless([cursor], str(healing))
        except BrokerError as refused:  # such as an ACL, which may be given later
            self._give_away(cursor)
            cursor.reader.report(cursor, refused)
            self._owner.leaderless([cursor], str(refused), hopeless=True)

    def _move_back(self, held: Held) -> None:
        """Ask for it last the next time: a broker that keeps no session for us fills its answer in our order."""
        with self._lock:
            if self._held.pop(held.cursor, None) is not None:
                self._held[held.cursor] = held

    def _give_away(self, cursor: Cursor) -> None:
        with self._lock:
            self._held.pop(cursor, None)


class Wanted:
    """What one request asks for, and for whom."""

    def __init__(self) -> None:
        self.positions: list[FetchPosition] = []
        self.held_back = False
        """Whether a stream is full, so that some cursor is left out."""
        self._asked: list[tuple[FetchPosition, Held, int]] = []

    def add(self, position: FetchPosition, held: Held, version: int) -> None:
        self.positions.append(position)
        self._asked.append((position, held, version))

    def note_answer(self, now: float, refused: Collection[Cursor], ours: Mapping[Cursor, Held]) -> None:
        """For all others that are still ours: a session's answer leaves out those of which there is nothing new."""
        for _, held, version in self._asked:
            cursor = held.cursor
            if cursor.version == version and cursor not in refused and ours.get(cursor) is held:
                cursor.answered_at = now

    def by_key(self, session: FetchSession) -> dict[Key, tuple[FetchPosition, Held, int]]:
        return {session.key(asked[0]): asked for asked in self._asked}
