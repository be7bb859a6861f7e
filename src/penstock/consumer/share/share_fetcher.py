"""A share fetcher: one thread that acquires records from one broker, and sends it acknowledgements (Q4).

Its loop: which partitions have streams with room -> one fetch for all of them, with the acknowledgements that wait ->
put the acquired records on the streams' queues -> again. Without room, or if a commit waits, acknowledgements go out
without a fetch. The broker takes one request of a share session at a time.

The broker releases what a session has acquired when its connection ends. So a chunk counts for its session only: when
the session ends, its locks are lost, and the broker delivers the records again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from penstock.consumer.fetch.lease import Lease
from penstock.consumer.share.share_acknowledgements import ShareAcknowledgements
from penstock.consumer.share.share_chunk import ShareChunk
from penstock.consumer.share.share_partition import SharePartition
from penstock.consumer.share.share_session import ShareSession
from penstock.errors import BrokerError, PenstockError, ProtocolError
from penstock.masking import get_logger
from penstock.model.acknowledgement import AcknowledgeType, AcquiredRange, SharedPartition
from penstock.wire.api.error_codes import RetriableError, check, codes, error_name
from penstock.wire.api.metadata import Broker
from penstock.wire.api.share_acknowledge import (
    KNOWS_RENEWALS,
    SHARE_ACKNOWLEDGE,
    acknowledge_answer,
    acknowledge_request,
)
from penstock.wire.api.share_fetch import (
    KNOWS_RECORD_LIMIT,
    RECORD_LIMIT,
    SHARE_FETCH,
    SharedRecords,
    ShareFetchResponse,
    read_share_fetch_response,
    share_fetch_request,
)
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.pool import POOL

log = get_logger(__name__)

FLUSH_SECONDS = 1.0
"""Acknowledgements wait at most this long for a fetch that carries them."""

BUSY_WAIT_SECONDS = 0.02
"""How long a fetch with acknowledgements waits at the broker while records are in the user's hands.

Do not simplify to one long wait: a group has a limit of locks per partition. Once they are taken, nothing can be
acquired before an acknowledgement, which cannot be sent while a fetch waits. So a fetch without acknowledgements does
not wait there. One that carries some may: the broker answers it when they have freed locks."""

STARVED_SECONDS = 0.1
"""After a fetch without acknowledgements has found nothing while records are in the user's hands, the next one comes
after this time, or with acknowledgements."""

MAX_WAIT_SECONDS = 1.0
"""How long a fetch waits at most, so that a commit need not wait longer."""

FIRST_BUFFER_BYTES = 1 << 20
MAX_BUFFERS_KEPT = 2
MAX_BUFFER_KEPT_BYTES = 64 << 20

SESSION_ENDED = codes("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED")


class ShareFetcherOwner(Protocol):
    """Handles the events of a share fetcher: `ShareLeaders`. The fetcher's thread calls every method."""

    def leaderless(self, partitions: Collection[SharePartition], reason: str, *, retriable: bool = True) -> None:
        """These partitions have no fetcher any more. If the reason is not retriable, a retry would fail again."""

    def failed(self, error: BaseException) -> None:
        """An error that the streams' threads must get."""

    def fetched(self, seconds: float, throttle: float) -> None:
        """A fetch request was answered after this time, and the broker throttles this client."""

    def retried(self) -> None:
        """A request, or the fetch of a partition, has failed in a way that a retry may heal."""


class ShareFetcher:
    """Fetches the partitions of one broker. Methods may be called by any thread unless they say otherwise."""

    def __init__(
        self,
        broker: Broker,
        config: ClientConfig,
        *,
        group: str,
        member_id: str,
        max_records: int,
        acquire_mode: int,
        owner: ShareFetcherOwner,
    ) -> None:
        self.broker = broker
        self.knows_renewals = True
        """Whether the broker can renew locks, as far as it is known."""
        self._config = config
        self._group = group
        self._member_id = member_id
        self._max_records = max_records
        self._acquire_mode = acquire_mode
        self._owner = owner
        self._lock = threading.Lock()
        self._partitions: dict[SharedPartition, SharePartition] = {}
        self._chunks: dict[ShareChunk, None] = {}
        """Chunks that are not done."""
        self._wake = threading.Event()
        self._flushes = False
        """Whether a commit waits."""
        self._starved_at, self._starved_until = 0, 0.0
        """So many records were held when a fetch that did not wait found nothing. While as many are, the next one
        without acknowledgements comes after this time: the held records may have all locks."""
        self._ending = self._aborted = self._closed = False
        self._connection: Connection | None = None
        self._buffers: deque[bytearray] = deque(maxlen=MAX_BUFFERS_KEPT)
        name = f"penstock-share-{broker.host}:{broker.port}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __repr__(self) -> str:
        return self._thread.name

    def start(self) -> None:
        self._thread.start()

    def add(self, partitions: Iterable[SharePartition]) -> bool:
        """Fetch these partitions too. False if this fetcher has ended."""
        with self._lock:
            if self._closed or self._ending:
                return False
            self._partitions.update({each.key: each for each in partitions})
        self._wake.set()
        return True

    def remove(self, partitions: Collection[SharePartition]) -> None:
        """Acquire nothing more of these partitions. What was acquired can still be acknowledged."""
        with self._lock:
            for each in partitions:
                if self._partitions.get(each.key) is each:
                    del self._partitions[each.key]
        self._wake.set()

    def wake(self) -> None:
        """A stream has room."""
        self._wake.set()

    def acknowledged(self, chunk: ShareChunk) -> None:
        self._wake.set()

    def flush(self) -> None:
        """Send all acknowledgements now: a commit waits."""
        self._flushes = True
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to fetch and nothing to acknowledge."""
        with self._lock:
            return not self._partitions and not self._chunks

    def end(self) -> None:
        """Send the last acknowledgements, close the session, and end. `join` waits for it."""
        self._ending = True
        self._wake.set()

    def abort(self) -> None:
        """End now: the time for closing is over."""
        self._ending = self._aborted = True
        with self._lock:
            if self._connection is not None:
                self._connection.abort()
        self._wake.set()

    def join(self, timeout: float) -> bool:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    # --- the fetcher's thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        reason, retriable = "it has ended", True
        failure: Exception = BrokerError(f"the share session with {self.broker.host}:{self.broker.port} has ended")
        try:
            self._serve()
        except (ConnectionLost, ProtocolError, RetriableError) as error:
            reason, failure = str(error), error
            if not self._ending:
                self._owner.retried()
        except PenstockError as error:  # not retriable: authentication, authorization, an old broker
            reason, retriable, failure = str(error), False, error
            self._owner.failed(error)
        except BaseException as error:
            reason, retriable = f"{type(error).__name__}: {error}", False
            log.exception("%s ended with an unexpected error", self._thread.name)
            self._owner.failed(error)
        finally:
            with self._lock:
                self._closed = True
                orphans = list(self._partitions.values())
                self._partitions.clear()
                chunks, self._chunks = list(self._chunks), {}
            for chunk in chunks:
                with chunk.lock:
                    chunk.lose(failure)
            if orphans and not self._ending:
                log.info("%s: %s", self._thread.name, reason)
                self._owner.leaderless(orphans, reason, retriable=retriable)

    def _serve(self) -> None:
        connection = POOL.acquire(self._config, self.broker.host, self.broker.port, self._config.connect_timeout)
        with self._lock:
            self._connection = connection
            if self._aborted:
                connection.abort()
        session = ShareSession()
        try:
            self.knows_renewals = connection.version(SHARE_ACKNOWLEDGE) >= KNOWS_RENEWALS
            if self._acquire_mode == RECORD_LIMIT and connection.version(SHARE_FETCH) < KNOWS_RECORD_LIMIT:
                raise BrokerError(
                    f"broker {connection.address} does not know share.acquire.mode=record_limit: it needs Kafka 4.2 or "
                    "newer. Remove the setting, or upgrade the brokers"
                )
            while not self._ending and not self.is_idle:
                if connection.session_over:
                    break  # the login has expired: another connection needs another session
                self._wake.clear()
                if not self._step(connection, session):
                    self._wake.wait(self._seconds_to_wait())
            self._close_session(connection, session)
            if not self._ending and connection.session_over:
                raise ConnectionLost(f"{connection.address}: the login has expired")
        finally:
            with self._lock:
                self._connection = None
            # Not back to the pool: the broker has a session of this connection, unless it was closed in order.
            connection.close()

    def _step(self, connection: Connection, session: ShareSession) -> bool:
        """Send a request. False if there is nothing to ask for now."""
        chunks = self._unfinished()
        with self._lock:
            partitions = dict(self._partitions)
        wanted = {key: each for key, each in partitions.items() if each.reader.wanted}
        unsent = [chunk for chunk in chunks if chunk.unsent_since is not None]
        if session.is_open and unsent and self._is_due(unsent, wanted):
            self._flushes = False
            self._acknowledge(connection, session, unsent)
            return True
        if not session.is_open and unsent:
            wanted = wanted or partitions  # acknowledgements need an open session
            if not wanted:
                self._give_up(unsent)
        if not wanted:
            return False
        carried = [chunk for chunk in unsent if chunk.partition.key in wanted] if session.is_open else []
        max_wait = min(self._config.fetch_max_wait, MAX_WAIT_SECONDS)
        held = sum(chunk.acquired.last - chunk.acquired.first + 1 for chunk in chunks)
        if chunks:
            max_wait = min(max_wait, BUSY_WAIT_SECONDS) if carried else 0.0
        is_starved = chunks and self._starved_at <= held and time.monotonic() < self._starved_until
        if is_starved and not any(map(self._is_ready, carried)):
            return False
        if not self._fetch(connection, session, wanted, carried, max_wait) and not max_wait:
            self._starved_at, self._starved_until = held, time.monotonic() + STARVED_SECONDS
        return True

    def _unfinished(self) -> list[ShareChunk]:
        with self._lock:
            for chunk in [each for each in self._chunks if each.is_done]:
                del self._chunks[chunk]
            return list(self._chunks)

    def _is_due(self, unsent: Collection[ShareChunk], wanted: Collection[SharedPartition]) -> bool:
        """Whether acknowledgements go out without a fetch."""
        if self._flushes or any(chunk.acquired.has_renewals for chunk in unsent):
            return True
        return any(chunk.partition.key not in wanted and self._is_ready(chunk) for chunk in unsent)

    @staticmethod
    def _is_ready(chunk: ShareChunk) -> bool:
        """Whether the acknowledgements of a chunk should not wait for more of them."""
        since = chunk.unsent_since
        return chunk.acquired.are_acknowledged or (since is not None and time.monotonic() >= since + FLUSH_SECONDS)

    def _seconds_to_wait(self) -> float | None:
        """The time until a request must be sent without news; None if there is none to send."""
        with self._lock:
            times = [chunk.unsent_since for chunk in self._chunks if chunk.unsent_since is not None]
        if self._starved_until > time.monotonic():
            return STARVED_SECONDS
        return max(0.0, min(times) + FLUSH_SECONDS - time.monotonic()) if times else None

    @staticmethod
    def _give_up(chunks: Iterable[ShareChunk]) -> None:
        """The session has ended, and no partition is left to open another one with."""
        for chunk in chunks:
            with chunk.lock:
                chunk.lose(
                    BrokerError(f"acknowledgements of {chunk.partition.tp} are lost: the share session has ended")
                )

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def _acknowledge(self, connection: Connection, session: ShareSession, chunks: Iterable[ShareChunk]) -> None:
        sent = ShareAcknowledgements.take(chunks)
        if sent:
            self._send_acknowledgements(connection, session, sent, session.epoch, self._config.request_timeout)

    def _send_acknowledgements(
        self, connection: Connection, session: ShareSession, sent: ShareAcknowledgements, epoch: int, timeout: float
    ) -> None:
        batches = sent.batches()
        renews = any(AcknowledgeType.RENEW in each.types for listed in batches.values() for each in listed)
        request = acknowledge_request(
            connection.version(SHARE_ACKNOWLEDGE), self._group, self._member_id, epoch, batches, renews=renews
        )
        try:
            answer = acknowledge_answer(connection.call(request, timeout))
        except BaseException as error:
            sent.fail(error)
            raise
        if not self._note_session(session, answer.error_code, "acknowledging", sent):
            return
        sent.answered(answer.errors)
        self._wait_out(answer.throttle)

    def _note_session(self, session: ShareSession, error_code: int, what: str, sent: ShareAcknowledgements) -> bool:
        """Whether the broker has carried out a request. If it does not know the session, another one is opened, and
        acknowledgements are sent again. Raises the broker's other errors."""
        if error_code == 0:
            session.answered()
            return True
        self._owner.retried()
        text = f"{what} in share group {self._group!r} at {self.broker.host}:{self.broker.port}"
        if error_code in SESSION_ENDED:
            log.info("%s: %s: opening another session", text, error_name(error_code))
            session.restart()
            sent.send_again()
            self._wake.wait(self._config.retry_backoff)
            return False
        try:
            check(error_code, text)
        except BaseException as error:
            sent.fail(error)
            raise
        raise AssertionError("a code other than 0 is an error")

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _fetch(
        self,
        connection: Connection,
        session: ShareSession,
        wanted: Mapping[SharedPartition, SharePartition],
        chunks: Iterable[ShareChunk],
        max_wait: float,
    ) -> bool:
        """Returns whether records were acquired."""
        sent, config = ShareAcknowledgements.take(chunks), self._config
        change = session.fetch(wanted)
        limit = self._max_records
        if self._acquire_mode != RECORD_LIMIT:
            limit = max(limit, *(each.reader.wanted for each in wanted.values()))
        request = share_fetch_request(
            connection.version(SHARE_FETCH),
            self._group,
            self._member_id,
            change.epoch,
            max_wait=max_wait,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=limit,
            batch_size=self._max_records,
            acquire_mode=self._acquire_mode,
            added=change.added,
            forgotten=change.forgotten,
            acks=sent.batches(),
        )
        buffer = self._buffers.pop() if self._buffers else bytearray(FIRST_BUFFER_BYTES)
        asked = time.monotonic()
        try:
            correlation_id = connection.send(request, config.request_timeout)
            frame = connection.receive_into(buffer, config.request_timeout + max_wait, allowed=max_wait)
            response = read_share_fetch_response(frame, correlation_id, connection.address)
        except BaseException as error:
            sent.fail(error)
            raise
        if not self._note_session(session, response.error_code, "fetching", sent):
            return True
        self._owner.fetched(time.monotonic() - asked, response.throttle)
        sent.answered({each.key: each.acknowledge_error_code for each in response.partitions})
        acquired = self._distribute(response, wanted, buffer, asked)
        self._wait_out(response.throttle)
        return acquired

    def _distribute(
        self,
        response: ShareFetchResponse,
        wanted: Mapping[SharedPartition, SharePartition],
        buffer: bytearray,
        asked: float,
    ) -> bool:
        """Put the acquired records on the streams' queues. Returns whether there are any."""
        acquired = False
        lease = Lease(buffer, self._give_back)
        # The locks begin between the request and the response: the earliest time is safe.
        deadline = asked + response.lock_seconds
        for fetched in response.partitions:
            partition = wanted.get(fetched.key)
            if fetched.error_code or partition is None or not fetched.acquired:
                fetched.records.release()
                if fetched.error_code and partition is not None:
                    self._handle_error(partition, fetched)
                continue
            acquired = True
            self._supersede(partition, fetched.acquired)
            chunk = ShareChunk(partition, fetched.records, fetched.acquired, lease, deadline, self)
            with self._lock:
                self._chunks[chunk] = None
            if not partition.reader.put(chunk):
                with self._lock:  # closing the session releases its records
                    del self._chunks[chunk]
                chunk.release_bytes()
        lease.release()
        return acquired

    def _supersede(self, partition: SharePartition, acquired: Iterable[AcquiredRange]) -> None:
        """These records are acquired again: the locks of their earlier deliveries to this member have ended. The broker
        would take a late acknowledgement of those for one of the new delivery."""
        with self._lock:
            earlier = [chunk for chunk in self._chunks if chunk.partition.key == partition.key]
        for chunk in earlier:
            for first, last, _ in acquired:
                if first <= chunk.acquired.last and chunk.acquired.first <= last:
                    with chunk.lock:
                        chunk.acquired.lose(first, last + 1)

    def _handle_error(self, partition: SharePartition, fetched: SharedRecords) -> None:
        """The other partitions continue."""
        what = f"fetch of {partition.tp} in share group {self._group!r}"
        retriable, reason = True, what
        try:
            check(fetched.error_code, what)
        except RetriableError as error:
            reason = str(error)
            self._owner.retried()
        except PenstockError as error:
            retriable, reason = False, str(error)
            self._owner.failed(error)
        self.remove([partition])
        self._owner.leaderless([partition], reason, retriable=retriable)

    def _give_back(self, buffer: bytearray) -> None:
        """Keep a buffer for the next response. Called by the thread that releases its last chunk."""
        if len(buffer) <= MAX_BUFFER_KEPT_BYTES:
            self._buffers.append(buffer)

    def _wait_out(self, throttle: float) -> None:
        """Wait as long as the broker throttles this client."""
        until = time.monotonic() + throttle
        while not self._ending and (left := until - time.monotonic()) > 0:
            self._wake.clear()
            self._wake.wait(left)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _close_session(self, connection: Connection, session: ShareSession) -> None:
        """Send the last acknowledgements with the end of the session. The broker then releases what this session has
        acquired and not acknowledged."""
        if not session.is_open or self._aborted:
            return
        chunks = self._unfinished()
        for chunk in chunks:
            if chunk.partition.key not in session.partitions:  # the broker would keep these locks until they time out
                with chunk.lock:
                    chunk.acquired.settle(chunk.acquired.first, chunk.acquired.last + 1, AcknowledgeType.RELEASE)
                    chunk.note_unsent()
        sent = ShareAcknowledgements.take(chunks)
        alone: list[ShareChunk] = [chunk for chunk in chunks if chunk.unsent_since is not None]
        while alone:  # chunks that cannot share a request
            self._send_acknowledgements(connection, session, sent, session.epoch, self._config.request_timeout)
            sent = ShareAcknowledgements.take(alone)
            alone = [chunk for chunk in alone if chunk.unsent_since is not None]
        epoch = session.close()
        self._send_acknowledgements(connection, session, sent, epoch, self._config.request_timeout)
