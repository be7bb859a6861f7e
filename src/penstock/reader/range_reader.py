"""Reads one range of offsets from Kafka as Arrow batches.

A range goes through these states:

    leftover -> Connect -> Receive -> Decode -> Receive ... -> Done
                   ^----------'----------'

It first takes the records that an earlier range of this process has left over. Connect finds the leader, borrows a
connection and sends the first request. Decode sends the request for the next chunk before it decodes the current one.
Every failure that may heal leads back to Connect, and so does a broker that refers the reader to another one. When the
range is read, the rest of its last response is kept for the range that follows.

All this happens in the thread that iterates. `prefetch.py` puts that thread beside the one that emits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

import pyarrow as pa

from penstock._kernel import scan
from penstock.errors import (
    BrokerError,
    BrokerUnavailable,
    CorruptBatch,
    DataLoss,
    OpenTransaction,
    ProtocolError,
    UnknownTopic,
)
from penstock.masking import get_logger
from penstock.model.offset_range import OffsetRange
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.leftover import LEFTOVERS, Leftover
from penstock.reader.partition_leader import PartitionLeader
from penstock.reader.prefetch import prefetch
from penstock.reader.worker_counters import WorkerCounters
from penstock.wire.api.error_codes import CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import FetchedPartition, FetchPosition
from penstock.wire.api.fetch_client import PartitionFetch
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import BrokerSilent, Connection, ConnectionLost
from penstock.wire.transport.pool import POOL
from penstock.wire.transport.retry import Attempts, Interrupted

log = get_logger(__name__)

SMALLEST_FETCH = 256 << 10
"""Bytes. The size of a range's last fetch is estimated. Below this size, a second round trip costs more than the bytes
saved, and surplus bytes are kept for the next range."""

DEFAULT_BYTES_PER_OFFSET = 1024.0
"""For the first fetch of a partition that this process has never read. From 4,096 offsets on it makes a full chunk of
the default size. A range of a few records among many does not fetch megabytes."""

CORRUPT_TRIES = 2
"""Damage in transit heals when the bytes are fetched again; damage on disk does not."""

EMPTY_SECONDS = 3.0
"""How long the leader must return no records before the reader takes them for compacted away. Compaction leaves gaps at
the end of a range, but slow tiered storage behind a broker answers the same way. A leader that was just elected has as
long to find out how far its log can be read."""


@dataclass(frozen=True, slots=True)
class _Connect:
    """No connection to the right broker."""


@dataclass(frozen=True, slots=True)
class _Receive:
    """A request was sent."""


@dataclass(frozen=True, slots=True)
class _Decode:
    """A response has arrived."""

    fetched: FetchedPartition
    throttle: float


@dataclass(frozen=True, slots=True)
class _Done:
    """The range is read, or the rest of it is lost."""


_State: TypeAlias = _Connect | _Receive | _Decode | _Done


@dataclass(frozen=True, slots=True)
class _Session:
    """A borrowed connection, with the buffer that its responses are read into."""

    connection: Connection
    fetch: PartitionFetch
    buffer: bytearray


class RangeReader:
    """Reads one range, once. The thread that iterates owns it; only `close` may be called by another thread."""

    def __init__(
        self,
        range_: OffsetRange,
        columns: Sequence[str],
        config: ClientConfig,
        *,
        fail_on_data_loss: bool = True,
        poll_timeout: float,
        counters: WorkerCounters | None = None,
    ) -> None:
        """`counters`: what counts requests; None counts none."""
        self.range = range_
        self._counters = WorkerCounters() if counters is None else counters
        self.position = range_.start
        """The next offset to read. All records before it are emitted."""
        self.lost: tuple[int, int] | None = None
        """Lost offsets of the range [first, last + 1), if failOnDataLoss is false. Valid when the range is read."""
        self._config = config
        self._fail_on_data_loss = fail_on_data_loss
        self._stopped = threading.Event()
        cluster_config = replace(config, api_timeout=min(config.api_timeout, poll_timeout))
        self._leader = PartitionLeader(range_, cluster_config, self._stopped.wait, self._counters.retried)
        self._attempts = Attempts(
            f"reading {range_}",
            poll_timeout,
            backoff=config.retry_backoff,
            backoff_max=config.retry_backoff_max,
            hint="To wait longer, set kafkaConsumer.pollTimeoutMs",
            wait=self._stopped.wait,
            on_error=self._counters.retried,
        )
        self._decoder = ChunkDecoder(range_.topic, range_.partition, columns, config)
        self._session: _Session | None = None
        self._is_untried = False
        """Whether the connection was kept from an earlier task and has not answered since."""
        self._is_aligned = False
        """Whether the position is the first offset of a batch."""
        self._fetch_limit = min(config.partition_max_bytes, config.fetch_max_bytes)
        self._bytes_per_offset = LEFTOVERS.bytes_per_offset(config, range_, DEFAULT_BYTES_PER_OFFSET)
        self._corrupt_attempts = 0
        self._empty_since: float | None = None
        self._truncation_final_at = float("inf")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Emit the range, with retries. Ends when the range is read, or when `close` was called."""
        state: _State = _Connect()
        try:
            yield from self._read_leftover()
            while not self._stopped.is_set():
                try:
                    match state:
                        case _Connect():
                            state = self._connect()
                        case _Receive():
                            state = self._receive()
                        case _Decode():
                            state = yield from self._decode(state.fetched, state.throttle)
                        case _Done():
                            return
                except (ConnectionLost, ProtocolError, RetriableError, BrokerUnavailable) as error:
                    state = self._recover(error)
                except UnknownTopic as error:
                    lost = f"offsets {self.position} to {self.range.stop}"
                    gone = DataLoss([(self.range.topic, self.range.partition, lost, f"nothing: {error}")])
                    state = self._lose_rest(gone)
                except DataLoss as error:
                    state = self._lose_rest(error)
        except Interrupted:
            return
        finally:
            self._disconnect(keep_buffer=isinstance(state, _Done))

    def prefetched(self) -> Generator[pa.RecordBatch, None, None]:
        """Emit the range while another thread fetches and decodes one batch ahead."""
        return prefetch(self.__iter__, self.close, name=f"penstock-fetch-{self.range.topic_partition}")

    def close(self) -> None:
        """Wake the reading thread wherever it waits. Any thread may call it, more than once."""
        self._stopped.set()
        self._leader.cluster.abort()
        session = self._session
        if session is not None:
            session.connection.abort()

    # --- leftovers --------------------------------------------------------------------------------------------------

    def _read_leftover(self) -> Iterator[pa.RecordBatch]:
        """Emit the first records of the range, if an earlier range of this process has left them over."""
        leftover = LEFTOVERS.take(self._config, self.range)
        if leftover is None:
            return
        try:
            yield from self._emit(leftover.chunk, min(leftover.stop, self.range.stop), leftover.at)
        except CorruptBatch as error:
            log.warning("%s; it is left over from an earlier fetch, fetching it again", error)
        else:
            if self.position >= self.range.stop:
                rest = replace(leftover, at=self._decoder.at, start=self.position)
                LEFTOVERS.keep(self._config, self.range, rest)

    def _keep_leftover(self, fetched: FetchedPartition, end: int) -> None:
        """The range is read: keep the records of the chunk beyond it, up to offset `end`."""
        LEFTOVERS.note_bytes_per_offset(self._config, self.range, self._bytes_per_offset)
        epoch = self._leader.leader_epoch
        if end > self.position and self.range.topic_id is not None and epoch >= 0:
            leftover = Leftover.of(
                fetched,
                self._decoder.at,
                self.position,
                end,
                leader_epoch=epoch,
                read_committed=self._config.read_committed,
            )
            LEFTOVERS.keep(self._config, self.range, leftover)

    # --- states -----------------------------------------------------------------------------------------------------

    def _connect(self) -> _State:
        """Find the broker to fetch from, borrow a connection to it and send the first request."""
        self._disconnect(keep_buffer=True)
        if self.position >= self.range.stop:
            return _Done()
        self._is_untried = False
        broker = self._leader.broker()
        truncated_at = self._leader.find_truncation()
        if truncated_at is not None:
            self._lose_truncated(truncated_at)
        self._is_aligned = False  # an error may have stopped the reader in the middle of a batch
        # Room for the response's own fields, so that the buffer need not grow for a full chunk.
        buffer = POOL.acquire_buffer(self._fetch_limit + 4096)
        before = time.monotonic()
        connection = POOL.acquire(
            self._config, broker.host, broker.port, self._attempts.remaining(), self._leader.overdue_check
        )
        try:
            fetch = PartitionFetch(connection, self.range.topic_id)
        except BaseException:
            POOL.release(connection)
            raise
        self._session = _Session(connection, fetch, buffer)
        self._is_untried = connection.last_used < before
        self._send_fetch(fetch, self.position)
        return _Receive()

    def _disconnect(self, *, keep_buffer: bool) -> None:
        """Give back the connection and the buffer. After an error the buffer is dropped: a traceback may hold views of
        it, and a buffer with views cannot grow."""
        session, self._session = self._session, None
        if session is not None:
            POOL.release(session.connection)
            if keep_buffer:
                POOL.release_buffer(session.buffer)

    def _receive(self) -> _State:
        """Wait for the response to the request that was sent last."""
        session = self._session
        assert session is not None
        address = session.connection.address
        # A broker holds back an empty response that long. If the wait ended at the deadline, a log that ends too soon
        # would look like a broker that is silent.
        timeout = self._attempts.remaining() + self._config.fetch_max_wait
        response = session.fetch.answer(session.buffer, timeout)
        self._counters.fetched(response.seconds, response.throttle)
        self._is_untried = False
        if response.throttle > 0 and not response.partitions:
            # Over its quota, a client gets a response without partitions, and is muted for that long.
            self._await_throttle(response.throttle)
            self._send_fetch(session.fetch, self.position)
            return _Receive()
        if len(response.partitions) != 1:
            raise ProtocolError(f"{address} answered for {len(response.partitions)} partitions")
        return _Decode(response.partitions.pop(), response.throttle)

    def _decode(self, fetched: FetchedPartition, throttle: float) -> Generator[pa.RecordBatch, None, _State]:
        """Emit the records of a chunk, while the broker prepares the next one."""
        session = self._session
        assert session is not None
        # Do not leave the release to the garbage collector: a frame that some traceback holds would keep the view, and
        # a buffer with views cannot grow for the next response.
        with fetched.records:
            if fetched.partition != self.range.partition:
                raise ProtocolError(f"{session.connection.address} answered for partition {fetched.partition}")
            if not self._is_usable(fetched):
                return _Connect()
            next_offset = scan(fetched.records, self.position)
            if next_offset > self.position:
                self._bytes_per_offset = len(fetched.records) / (next_offset - self.position)
            more = self.position < next_offset < self.range.stop
            if more and throttle == 0 and not session.connection.session_over:
                self._send_fetch(session.fetch, next_offset, ahead=True)
            yield from self._emit_fetched(fetched)
            if self.position >= self.range.stop:
                self._keep_leftover(fetched, next_offset)
                return _Done()
        if session.fetch.pending and self.position != next_offset:
            # The scan trusted a header that the decoder did not: the pending response has the wrong offsets.
            return _Connect()
        if throttle > 0:
            self._await_throttle(throttle)
        if not session.fetch.pending:
            if session.connection.session_over:
                return _Connect()
            self._send_fetch(session.fetch, self.position)
        return _Receive()

    def _recover(self, error: Exception) -> _State:
        """Back off, unless the cluster is likely to know the right broker at once."""
        self._disconnect(keep_buffer=False)
        if self._stopped.is_set():
            raise Interrupted
        log.info("%s at offset %d: %s", self.range.topic_partition, self.position, error)
        broke = isinstance(error, ConnectionLost) and not isinstance(error, BrokerSilent)
        if self._is_untried and broke and not self._attempts.expired():
            return _Connect()  # the connection broke after the last task, which does not count against the broker
        self._attempts.failed(str(error), error)
        self._leader.forget()
        if self._attempts.count > 1 or self._attempts.expired():
            # Not after the first failure: most often the known leader is out of date, and the cluster knows the new
            # one at once.
            self._attempts.pause()
        return _Connect()

    def _await_throttle(self, seconds: float) -> None:
        """Wait as the broker demands. This counts as a failed attempt: a reader that is always throttled must end."""
        log.info("%s: throttled for %g s", self.range.topic_partition, seconds)
        self._attempts.failed(f"throttled for {seconds:g} s")
        if self._attempts.expired():
            raise self._attempts.give_up()
        if self._stopped.wait(min(seconds, self._attempts.remaining())):
            raise Interrupted

    def _send_fetch(self, fetch: PartitionFetch, offset: int, *, ahead: bool = False) -> None:
        """Request records from `offset` on. `ahead`: while there are others to decode."""
        rest = int((self.range.stop - offset) * self._bytes_per_offset * 1.1)
        size = min(self._fetch_limit, max(rest, SMALLEST_FETCH))
        position = FetchPosition(
            self.range.topic, self.range.partition, offset, self.range.topic_id, self._leader.epoch
        )
        fetch.ask(position, size, ahead=ahead)

    def _is_usable(self, fetched: FetchedPartition) -> bool:
        """Whether to decode the response. False: another broker must be asked. Raises the error that it reports."""
        if fetched.error_code and self._leader.on_follower:
            # A follower's log and metadata may lag: only the leader's errors count.
            self._leader.back_to_leader()
            self._attempts.failed(f"the recommended replica answered with error {fetched.error_code}")
            self._attempts.pause()
            return False
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._skip_deleted()
            return False
        if fetched.error_code == CORRUPT_MESSAGE:
            self._refetch_or_raise(
                CorruptBatch(
                    self.range.topic, self.range.partition, self.position, 0, "the broker reports it as corrupt"
                )
            )
        check(fetched.error_code, f"fetch of {self.range.topic_partition} at offset {self.position}")
        if fetched.preferred_replica >= 0 and len(fetched.records) == 0:
            # Do not take this for an empty log: a leader that recommends a replica sends no records.
            self._leader.prefer(fetched.preferred_replica)
            return False
        return True

    def _emit_fetched(self, fetched: FetchedPartition) -> Iterator[pa.RecordBatch]:
        before = self.position
        if len(fetched.records) == 0:
            self._handle_empty(fetched)
            return
        try:
            yield from self._emit(fetched, self.range.stop)
        except CorruptBatch as error:
            self._refetch_or_raise(error)
        if self.position == before:
            # A fetch returns its first batch whole (KIP-74), so this batch's length is wrong.
            self._refetch_or_raise(
                CorruptBatch(self.range.topic, self.range.partition, before, 0, "the first batch is incomplete")
            )
        self._is_aligned = True
        self._empty_since, self._corrupt_attempts = None, 0
        self._attempts.reset()

    def _emit(self, chunk: FetchedPartition, stop: int, at: int = 0) -> Iterator[pa.RecordBatch]:
        """Emit the records of a chunk from the position to `stop`, and move the position."""
        for batch in self._decoder.batches(chunk, self.position, stop, at=at, aligned=self._is_aligned):
            self.position = self._decoder.next_offset
            yield batch
        self.position = self._decoder.next_offset

    # --- missing and damaged records --------------------------------------------------------------------------------

    def _handle_empty(self, fetched: FetchedPartition) -> None:
        """A response without records: wait for more, or skip to the end of the range if its records were compacted."""
        readable = fetched.readable(self._config.read_committed)
        if readable < self.range.stop:
            self._await_readable(readable, has_open_transaction=fetched.high_watermark >= self.range.stop)
            return
        now = time.monotonic()
        self._empty_since = self._empty_since or now
        if now - self._empty_since < EMPTY_SECONDS:
            self._attempts.failed("no records, though the log goes on")
            self._attempts.pause()
            return
        # Compaction can remove all records at the end of a log. A slow read from tiered storage answers the same way:
        # only an offset on the leader's own disk is certainly gone.
        if self.position >= self._leader.cluster.local_begin(self.range.topic_partition):
            log.warning(
                "%s: the log has no records from offset %d on (%d offsets), probably because of compaction",
                self.range,
                self.position,
                self.range.stop - self.position,
            )
            self.position = self.range.stop
            return
        self._attempts.failed("tiered storage has not answered")
        self._attempts.pause()

    def _await_readable(self, readable: int, *, has_open_transaction: bool) -> None:
        """The log is readable up to an offset before the range's end. Past the deadline this is data loss, unless an
        open transaction hides the rest."""
        final = not has_open_transaction and time.monotonic() >= self._truncation_final_at
        if (self._attempts.expired() or final) and not self._leader.on_follower:
            if has_open_transaction:
                raise self._open_transaction(readable)
            lost = f"offsets {self.position} to {self.range.stop}"
            raise DataLoss([(self.range.topic, self.range.partition, lost, f"offsets up to {readable}")])
        self._attempts.failed(f"the log is readable up to offset {readable} only")
        self._attempts.back_off()  # not `pause`, which would report an unavailable broker past the deadline

    def _open_transaction(self, stable: int) -> OpenTransaction:
        tp = self.range.topic_partition
        try:
            owner = str(self._leader.cluster.open_transactions([tp]).get(tp, ""))
        except BrokerError as error:
            log.info("%s: the owner of its open transaction is unknown: %s", tp, error)
            owner = ""
        return OpenTransaction([(*tp, self.range.stop, stable, owner)], self._attempts.timeout)

    def _skip_deleted(self) -> None:
        """The position is out of range: go on where the log begins, if the user accepts the loss."""
        tp = self.range.topic_partition
        begin = self._leader.cluster.begin([tp])[tp]
        end = self._leader.cluster.high_watermarks([tp])[tp]
        if begin <= self.position <= end:
            raise RetriableError(f"offset {self.position} was out of range, but the log has {begin} to {end}")
        lost = f"from offset {self.position}"
        error = DataLoss([(self.range.topic, self.range.partition, lost, f"offsets {begin} to {end}")])
        if self.position > end:
            raise error
        next_offset = min(begin, self.range.stop)
        self._lose(error, self.position, next_offset)
        self.position, self._is_aligned = next_offset, False

    def _lose_truncated(self, truncated_at: int) -> None:
        """An unclean leader election has replaced records of the range, or removed them."""
        lost = f"offsets {truncated_at} to {self.range.stop} as leader epoch {self.range.leader_epoch} wrote them"
        has = f"none of that epoch from offset {truncated_at} on: an unclean leader election has truncated the log"
        error = DataLoss([(self.range.topic, self.range.partition, lost, has)])
        self._lose(error, max(truncated_at, self.range.start), self.range.stop)
        self._truncation_final_at = time.monotonic() + EMPTY_SECONDS

    def _lose_rest(self, error: DataLoss) -> _State:
        self._disconnect(keep_buffer=False)
        self._lose(error, self.position, self.range.stop)
        return _Done()

    def _lose(self, error: DataLoss, start: int, stop: int) -> None:
        """Fail, or note that offsets [start, stop) are lost, as failOnDataLoss says. Warns once per range."""
        if self._fail_on_data_loss:
            raise error
        if self.lost is None:
            log.warning("%s\nReading on, because failOnDataLoss is false", error.what)
        before, after = self.lost or (start, stop)
        self.lost = min(before, start), max(after, stop)

    def _refetch_or_raise(self, error: CorruptBatch) -> NoReturn:
        """Fetch damaged bytes once more; raise the error if they are damaged again."""
        self._corrupt_attempts += 1
        if self._corrupt_attempts < CORRUPT_TRIES:
            log.warning("%s; fetching it again", error)
            raise RetriableError(str(error))
        raise error
