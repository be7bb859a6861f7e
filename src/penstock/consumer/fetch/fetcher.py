"""A fetcher: one thread that fetches all of a consumer's partitions led by one broker (H9).

Its loop: find the cursors that want records -> fetch all of them in one request -> put the records on their streams'
queues -> again. A cursor whose stream is full is left out (H4), so a slow stream does not delay others on its broker.
The streams' threads decode the records. The fetcher only cuts a response into chunks, so its next request leaves at
once.

A fetcher ends when its broker is lost, when it has nothing left to fetch, or when it is closed. Its cursors then go to
the leader finder (H13).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from penstock._kernel import scan
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.fetch_plan import FetchPlan, HeldCursor, Requested
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.fetch.queue import SMALL_CHUNK
from penstock.errors import BrokerError, CorruptBatch, PenstockError, ProtocolError
from penstock.masking import get_logger
from penstock.wire.api.error_codes import CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import FetchedPartition, FetchPosition, FetchResponse
from penstock.wire.api.fetch_client import Key
from penstock.wire.api.fetch_session import FetchSession
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.pool import POOL

log = get_logger(__name__)

FULL_STREAM_SECONDS = 0.02
"""While a stream is full, requests for the others do not wait at the broker: such a request could not be recalled when
the stream has room again. Instead the fetcher waits this long between two requests, or until there is room."""

HAND_OVER_SECONDS = 50e-6
"""After a small chunk for a thread that waits, the fetcher sleeps this long, and thereby leaves the GIL to that thread.

Do not simplify to the next request at once: until it is sent, the fetcher keeps the GIL, and the woken thread waits for
it a second time. Measured at 1,000 records per second: from the queue to the stream's thread 36 us instead of 94 to
130. The duration hardly matters: rounds with 1 us and with 100 us, to which the kernel adds 50, differed no more than
rounds with the same one."""

FIRST_BUFFER_BYTES = 1 << 20
MAX_BUFFERS_KEPT = 2
MAX_BUFFER_KEPT_BYTES = 64 << 20


class FetcherOwner(Protocol):
    """Handles the events of a fetcher: the leader finder. The fetcher's thread calls every method."""

    def leaderless(self, cursors: Collection[Cursor], reason: str, *, retriable: bool = True) -> None:
        """These cursors have no fetcher any more. If the reason is not retriable, retrying at once would fail again."""

    def overdue(self, fetcher: Fetcher) -> None:
        """The broker does not answer in time. Called repeatedly until it answers."""

    def out_of_range(self, cursor: Cursor, offset: int) -> None:
        """The broker does not have this offset."""

    def preferred(self, cursor: Cursor, node_id: int) -> None:
        """The leader recommends to fetch from this replica (KIP-392)."""

    def failed(self, error: BaseException) -> None:
        """The fetcher ends with an error that the streams' threads must get."""

    def fetched(self, seconds: float, throttle: float) -> None:
        """A fetch request was answered after this time, and the broker throttles this client."""

    def retried(self) -> None:
        """A fetch request, or the fetch of a partition, has failed in a way that a retry may heal."""


class Fetcher:
    """Fetches the cursors of one broker. Methods may be called by any thread unless they say otherwise."""

    def __init__(self, broker: Broker, number: int, config: ClientConfig, owner: FetcherOwner) -> None:
        self.broker = broker
        self.number = number
        self._config = config
        self._owner = owner
        self._lock = threading.Lock()
        self._held: dict[Cursor, HeldCursor] = {}
        self._wake = threading.Event()
        self._closed = False
        self._connection: Connection | None = None
        self._requesting = False
        """Whether a request is under way, so that only an abort wakes the thread."""
        self._buffers: deque[bytearray] = deque(maxlen=MAX_BUFFERS_KEPT)
        name = f"penstock-fetch-{broker.host}:{broker.port}-{number}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, cursors: Iterable[tuple[Cursor, int]]) -> bool:
        """Fetch these cursors too, each with its leader's epoch. False if this fetcher has ended."""
        with self._lock:
            if self._closed:
                return False
            self._held.update({cursor: HeldCursor(cursor, epoch) for cursor, epoch in cursors})
        self._wake.set()
        return True

    def remove(self, cursors: Collection[Cursor]) -> None:
        """Stop fetching these cursors. Responses under way are dropped for cursors that have moved on (H11)."""
        with self._lock:
            for cursor in cursors:
                self._held.pop(cursor, None)
            empty = not self._held
        if empty:
            self._wake.set()

    def cursors(self) -> list[HeldCursor]:
        with self._lock:
            return list(self._held.values())

    def remove_if_held(self, held: HeldCursor) -> bool:
        """Stop fetching a cursor, if this fetcher still has it from the same leader epoch. Drops responses under
        way."""
        with self._lock:
            is_held = self._held.get(held.cursor) is held
            if is_held:
                del self._held[held.cursor]
            return is_held

    def wake(self) -> None:
        """Check again which cursors want records: a stream has room, or a partition was resumed."""
        self._wake.set()

    def end(self, unless_busy: bool = False) -> bool:
        """Start to end; `join` waits for it. With `unless_busy`, only if there is nothing to fetch."""
        with self._lock:
            if unless_busy and self._held:
                return False
            self._closed = True
            self._held.clear()
            if self._requesting and self._connection is not None:
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
        reason, retriable = "it has ended", True
        try:
            self._fetch()
        except (ConnectionLost, ProtocolError, RetriableError) as error:
            reason = str(error)
            if not self._closed:
                self._owner.retried()
        except PenstockError as error:  # not retriable: authentication, authorization
            reason, retriable = str(error), False
            self._owner.failed(error)
        except BaseException as error:
            reason, retriable = f"{type(error).__name__}: {error}", False
            log.exception("%s ended with an unexpected error", self._thread.name)
            self._owner.failed(error)
        finally:
            with self._lock:
                closed, self._closed = self._closed, True
                orphans = list(self._held)
                self._held.clear()
            if orphans and not closed:
                log.info("%s: %s", self._thread.name, reason)
            self._owner.leaderless(orphans, reason, retriable=retriable)

    def _fetch(self) -> None:
        connection = POOL.acquire(
            self._config, self.broker.host, self.broker.port, self._config.connect_timeout, self._on_slow_answer
        )
        try:
            session = FetchSession(connection)
            while (wanted := self._wanted()) is not None:
                if connection.session_over:
                    raise ConnectionLost(f"{connection.address}: the login has expired")
                buffer = self._buffers.pop() if self._buffers else bytearray(FIRST_BUFFER_BYTES)
                if not self._start_request(connection):
                    break
                asked = time.monotonic()
                session.ask(wanted.positions, 0.0 if wanted.stream_full else self._config.fetch_max_wait)
                by_key = wanted.by_key(session)  # now: after the answer, a reader may wait for its records
                response = session.answer(buffer)
                seconds = time.monotonic() - asked
                with self._lock:
                    self._requesting = False
                received = False
                if response is not None:
                    received = self._distribute(response, wanted, by_key, session, Lease(buffer, self._give_back))
                self._owner.fetched(seconds, 0.0 if response is None else response.throttle)
                if response is not None:
                    if response.throttle > 0:
                        self._wait_out(response.throttle)
                    elif wanted.stream_full and not received:
                        self._wake.wait(FULL_STREAM_SECONDS)
            session.close()
        finally:
            with self._lock:
                self._requesting, self._connection = False, None
            POOL.release(connection)

    def _on_slow_answer(self) -> str | None:
        """The broker does not answer. The owner asks which brokers lead now, and moves cursors that others lead. If
        those are all cursors, it ends this fetcher."""
        if self._closed:
            return "the fetcher was closed"
        self._owner.overdue(self)
        return None

    def _start_request(self, connection: Connection) -> bool:
        """From now on `end` wakes this thread by an abort. False if `end` was called already."""
        with self._lock:
            self._requesting, self._connection = not self._closed, connection
            return self._requesting

    def _wanted(self) -> FetchPlan | None:
        """Wait until a cursor wants records; returns the next request. None when closed."""
        while not self._closed:
            self._wake.clear()
            wanted = FetchPlan()
            for held in self.cursors():
                cursor = held.cursor
                if not cursor.wants_more:
                    continue
                if cursor.reader.full:
                    wanted.stream_full = True
                    continue
                with cursor.reader.lock:
                    version, position = cursor.version, cursor.request(held.epoch)
                if position is not None:
                    wanted.add(position, held, version)
            if wanted.positions:
                return wanted
            self._wake.wait()
        return None

    def _wait_out(self, throttle: float) -> None:
        """Wait as long as the broker throttles this client."""
        until = time.monotonic() + throttle
        while not self._closed and (left := until - time.monotonic()) > 0:
            self._wake.clear()
            self._wake.wait(left)

    def _give_back(self, buffer: bytearray) -> None:
        """Keep a buffer for the next response. Called by the thread that releases its last chunk."""
        if len(buffer) <= MAX_BUFFER_KEPT_BYTES:
            self._buffers.append(buffer)

    def _distribute(
        self,
        response: FetchResponse,
        wanted: FetchPlan,
        by_key: Mapping[Key, Requested],
        session: FetchSession,
        lease: Lease,
    ) -> bool:
        """Put the partitions of a response on their streams' queues. Returns whether it had records."""
        received = wakes = False
        refused: set[Cursor] = set()
        for fetched in response.partitions:
            asked = by_key.get((fetched.topic, fetched.partition))
            if asked is None:
                raise ProtocolError(f"{session.connection.address} answered for a partition that was not requested")
            position, held, version = asked
            if self._held.get(held.cursor) is not held:
                fetched.records.release()  # too late: another fetcher has this cursor by now
                continue
            if fetched.error_code:
                fetched.records.release()
                refused.add(held.cursor)
                self._handle_error(held, position, version, fetched)
                continue
            cursor = held.cursor
            cursor.readable = fetched.readable(self._config.read_committed)
            cursor.epoch = max(cursor.epoch, held.epoch)
            if len(fetched.records) == 0:
                fetched.records.release()
                if fetched.preferred_replica >= 0:
                    self._drop(cursor)
                    self._owner.preferred(cursor, fetched.preferred_replica)
                continue
            received = True
            follows = scan(fetched.records, position.offset)
            chunk_lease = lease
            if len(fetched.records) <= SMALL_CHUNK:
                wakes = wakes or cursor.reader.waiting
                # Copy it out of its response, which may hold megabytes of other streams: a queue may hold many small
                # chunks.
                with fetched.records as view:
                    fetched.records = memoryview(bytes(view))
                chunk_lease = Lease(bytearray(), lambda buffer: None)
            if cursor.reader.put(cursor, version, position.offset, fetched, follows, chunk_lease):
                self._move_to_end(held)
            else:
                fetched.records.release()
        lease.release()
        if not response.throttle:  # else it answers for no partition
            wanted.note_answer(time.monotonic(), refused, self._held)
        if wakes:
            time.sleep(HAND_OVER_SECONDS)
        return received

    def _handle_error(self, held: HeldCursor, position: FetchPosition, version: int, fetched: FetchedPartition) -> None:
        """Handle the error of one partition; the others continue (H13)."""
        cursor = held.cursor
        if cursor.version != version:
            return  # a seek or reset has come meanwhile
        what = f"fetch of {cursor.tp} at offset {position.offset}"
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._drop(cursor)
            self._owner.out_of_range(cursor, position.offset)
            return
        if fetched.error_code == CORRUPT_MESSAGE:
            text = "the broker reports it"
            error = CorruptBatch(cursor.tp.topic, cursor.tp.partition, position.offset, 0, text)
            cursor.reader.fail(cursor, error, version)
            return
        try:
            check(fetched.error_code, what)
        except RetriableError as error:
            self._drop(cursor)
            self._owner.retried()
            self._owner.leaderless([cursor], str(error))
        except BrokerError as error:  # such as a missing ACL, which may be granted later
            self._drop(cursor)
            cursor.reader.report(cursor, error)
            self._owner.leaderless([cursor], str(error), retriable=False)

    def _move_to_end(self, held: HeldCursor) -> None:
        """Make a cursor the last of the next request: without a fetch session a broker fills its answer in that
        order."""
        with self._lock:
            if self._held.pop(held.cursor, None) is not None:
                self._held[held.cursor] = held

    def _drop(self, cursor: Cursor) -> None:
        with self._lock:
            self._held.pop(cursor, None)
