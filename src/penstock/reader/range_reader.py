"""Reads one range of offsets from Kafka as Arrow batches.

A range's life: take what an earlier range has left -> find the leader -> borrow a connection -> ask -> [receive -> ask
for what follows -> decode -> emit]... -> leave what lies beyond -> give the connection back. The request for the next
chunk is on its way while the last one is decoded; both happen in the thread that iterates, and `fetch.handover` puts
that thread beside the one that emits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

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
from penstock.model.offset_range import OffsetRange
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.leftover import TAILS, Tail
from penstock.reader.partition_leader import PartitionLeader
from penstock.reader.prefetch import run_ahead
from penstock.wire.api.error_codes import CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import FetchedPartition, FetchPosition
from penstock.wire.api.fetch_client import PartitionFetch
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import BrokerSilent, Connection, ConnectionLost
from penstock.wire.transport.pool import POOL
from penstock.wire.transport.retry import Attempts, Interrupted

log = logging.getLogger(__name__)

SMALLEST_ASK = 256 << 10
"""The end of a range is asked for by estimate; below this a second round trip costs more than the bytes saved, and
what is too much is kept for the next range."""

GUESSED_BYTES_PER_OFFSET = 1024.0
"""For the first ask of a partition that this process has never read. From 4,096 offsets on it makes a full chunk of
the default size; a range of a few records among many does not fetch megabytes."""

CORRUPT_TRIES = 2
"""Damage on the way heals when the bytes are fetched again; damage on disk does not."""

EMPTY_SECONDS = 3.0
"""How long the leader must have nothing on its own disk until a gap up to the end of the range is believed. Compaction
leaves such gaps; storage behind a broker that is slow to answer only looks like one. A leader elected a moment ago
has as long to find out how far its log may be read."""


class RangeReader:
    """Reads one range, once. The thread that iterates owns it; only `close` may come from another one."""

    def __init__(
        self,
        range_: OffsetRange,
        columns: Sequence[str],
        config: ClientConfig,
        *,
        fail_on_data_loss: bool = True,
        poll_timeout: float = 120.0,
    ) -> None:
        self.range = range_
        self.position = range_.start
        """The next offset to read: everything before it has been emitted."""
        self.lost: tuple[int, int] | None = None
        """Offsets of the range that were gone, from the first to the one after the last (failOnDataLoss false). To be
        read when the range is."""
        self._config = config
        self._fail_on_data_loss = fail_on_data_loss
        self._stopped = threading.Event()
        asking = replace(config, api_timeout=min(config.api_timeout, poll_timeout))
        self._leader = PartitionLeader(range_, asking, self._stopped.wait)
        self._attempts = Attempts(
            f"reading {range_}",
            poll_timeout,
            backoff=config.retry_backoff,
            backoff_max=config.retry_backoff_max,
            hint="To wait longer, set kafkaConsumer.pollTimeoutMs",
            wait=self._stopped.wait,
        )
        self._decoder = ChunkDecoder(range_.topic, range_.partition, columns, config)
        self._connection: Connection | None = None
        self._untried = False
        """Whether the connection was kept from an earlier task and has not answered since."""
        self._aligned = False
        self._bytes_per_offset = TAILS.bytes_per_offset(config, range_, GUESSED_BYTES_PER_OFFSET)
        self._corrupt_tries = 0
        self._empty_since: float | None = None
        self._cut_believed_at = float("inf")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Emit the range, retrying what may heal. Ends when the range is read or `close` was called."""
        limit = min(self._config.partition_max_bytes, self._config.fetch_max_bytes)
        try:
            yield from self._read_tail()
            while self.position < self.range.stop and not self._stopped.is_set():
                # Room for the response's own fields, so that a full chunk needs no growing.
                buffer = POOL.acquire_buffer(limit + 4096)
                try:
                    yield from self._read(buffer, limit)
                    # Not after an error: its traceback may hold views of the buffer, which then cannot grow any more.
                    POOL.release_buffer(buffer)
                except (ConnectionLost, ProtocolError, RetriableError, BrokerUnavailable) as error:
                    if self._stopped.is_set():
                        return
                    log.info("%s at offset %d: %s", self.range.topic_partition, self.position, error)
                    broke = isinstance(error, ConnectionLost) and not isinstance(error, BrokerSilent)
                    if self._untried and broke and not self._attempts.expired():
                        continue  # it broke since the last task, which says nothing of the broker now
                    self._attempts.failed(str(error), error)
                    self._leader.forget()
                    if self._attempts.count > 1 or self._attempts.expired():
                        # Not at the first failure: most often the leader we knew was the wrong one, and the cluster
                        # knows the right one at once.
                        self._attempts.pause()
                except UnknownTopic as error:
                    lost = f"offsets {self.position} to {self.range.stop}"
                    gone = DataLoss([(self.range.topic, self.range.partition, lost, f"nothing: {error}")])
                    self._lose(gone, self.position, self.range.stop)
                    return
                except DataLoss as error:
                    self._lose(error, self.position, self.range.stop)
                    return
        except Interrupted:
            return

    def prefetched(self) -> Generator[pa.RecordBatch, None, None]:
        """Emit the range with a thread fetching and decoding one batch ahead."""
        name = f"penstock-fetch-{self.range.topic_partition}"
        return run_ahead(self.__iter__, self.close, name)

    def close(self) -> None:
        """Wake the reading thread wherever it waits. May be called by any thread, more than once."""
        self._stopped.set()
        self._leader.cluster.abort()
        connection = self._connection
        if connection is not None:
            connection.abort()

    # --- what is here already ---------------------------------------------------------------------------------------

    def _read_tail(self) -> Iterator[pa.RecordBatch]:
        """Emit what an earlier range of this process has left of ours."""
        tail = TAILS.take(self._config, self.range)
        if tail is None:
            return
        try:
            yield from self._emit(tail.chunk, min(tail.stop, self.range.stop), tail.at)
        except CorruptBatch as error:
            log.warning("%s; it was left by an earlier fetch, fetching it again", error)
        else:
            if self.position >= self.range.stop:
                TAILS.keep(self._config, self.range, replace(tail, at=self._decoder.at, start=self.position))

    def _leave_tail(self, fetched: FetchedPartition, end: int) -> None:
        """The range is done; keep what the chunk holds beyond it, up to offset `end`."""
        TAILS.note_bytes_per_offset(self._config, self.range, self._bytes_per_offset)
        epoch = self._leader.leader_epoch
        if end > self.position and self.range.topic_id is not None and epoch >= 0:
            tail = Tail.of(
                fetched,
                self._decoder.at,
                self.position,
                end,
                leader_epoch=epoch,
                read_committed=self._config.read_committed,
            )
            TAILS.keep(self._config, self.range, tail)

    # --- reading over one connection --------------------------------------------------------------------------------

    def _read(self, buffer: bytearray, limit: int) -> Iterator[pa.RecordBatch]:
        """Read on over one connection until the range is done or another broker must be asked."""
        self._untried = False
        broker = self._leader.broker()
        cut = self._leader.cut_at()
        if cut is not None:
            self._truncated(cut)
        self._aligned = False  # an error may have stopped us in the middle of a batch
        before = time.monotonic()
        self._connection = POOL.acquire(
            self._config, broker.host, broker.port, self._attempts.remaining(), self._leader.doubt
        )
        self._untried = self._connection.last_used < before
        try:
            fetch = PartitionFetch(self._connection, self.range.topic_id)
            self._ask(fetch, self.position, limit)
            while True:
                if self._stopped.is_set():
                    raise Interrupted
                # A broker holds an empty answer back so long. Cut short at the deadline, a log that ends too soon
                # would be taken for a broker that is silent.
                response = fetch.answer(buffer, self._attempts.remaining() + self._config.fetch_max_wait)
                self._untried = False
                if response.error_code:
                    check(response.error_code, f"fetch from {self._connection.address}")
                if response.throttle > 0 and not response.partitions:
                    # Over its quota a client gets an answer without partitions, and is not heard for that long.
                    self._throttled(response.throttle)
                    self._ask(fetch, self.position, limit)
                    continue
                if len(response.partitions) != 1:
                    raise ProtocolError(
                        f"{self._connection.address} answered for {len(response.partitions)} partitions"
                    )
                fetched = response.partitions.pop()
                # Released by hand, not by the garbage collector: a frame that some traceback holds would keep the view,
                # and a buffer that is viewed cannot grow for the next answer.
                with fetched.records:
                    if fetched.partition != self.range.partition:
                        raise ProtocolError(f"{self._connection.address} answered for partition {fetched.partition}")
                    if not self._usable(fetched):
                        return
                    follows = scan(fetched.records, self.position)
                    if follows > self.position:
                        self._bytes_per_offset = len(fetched.records) / (follows - self.position)
                    more = self.position < follows < self.range.stop
                    if more and response.throttle == 0 and not self._connection.session_over:
                        self._ask(fetch, follows, limit)
                    yield from self._decode(fetched)
                    if self.position >= self.range.stop:
                        self._leave_tail(fetched, follows)
                        return
                if fetch.pending and self.position != follows:
                    # The scan trusted a header that decoding did not: what is on its way is not what comes next.
                    return
                if response.throttle > 0:
                    self._throttled(response.throttle)
                if not fetch.pending:
                    if self._connection.session_over:
                        return
                    self._ask(fetch, self.position, limit)
        finally:
            connection, self._connection = self._connection, None
            POOL.release(connection)

    def _throttled(self, seconds: float) -> None:
        """The broker wants a pause. It counts as a try: what never gets a record must end some time."""
        log.info("%s: throttled for %g s", self.range.topic_partition, seconds)
        self._attempts.failed(f"throttled for {seconds:g} s")
        if self._attempts.expired():
            raise self._attempts.give_up()
        if self._stopped.wait(min(seconds, self._attempts.remaining())):
            raise Interrupted

    def _ask(self, fetch: PartitionFetch, offset: int, limit: int) -> None:
        """Ask for records from `offset` on."""
        rest = int((self.range.stop - offset) * self._bytes_per_offset * 1.1)
        size = min(limit, max(rest, SMALLEST_ASK))
        position = FetchPosition(
            self.range.topic, self.range.partition, offset, self.range.topic_id, self._leader.epoch
        )
        fetch.ask(position, size)

    def _usable(self, fetched: FetchedPartition) -> bool:
        """Whether there is something to decode; False sends us to another broker. Raises what an error means."""
        if fetched.error_code and self._leader.on_follower:
            # A follower may lag, in its log and in what it knows; only the leader's word counts.
            self._leader.back_to_leader()
            self._attempts.failed(f"the recommended replica answered with error {fetched.error_code}")
            self._attempts.pause()
            return False
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return False
        if fetched.error_code == CORRUPT_MESSAGE:
            self._damaged(
                CorruptBatch(self.range.topic, self.range.partition, self.position, 0, "the broker says so itself")
            )
        check(fetched.error_code, f"fetch of {self.range.topic_partition} at offset {self.position}")
        if fetched.preferred_replica >= 0 and len(fetched.records) == 0:
            # Never to be taken for "there is nothing": a leader that recommends sends no records.
            self._leader.prefer(fetched.preferred_replica)
            return False
        return True

    def _decode(self, fetched: FetchedPartition) -> Iterator[pa.RecordBatch]:
        before = self.position
        if len(fetched.records) == 0:
            self._nothing_there(fetched)
            return
        try:
            yield from self._emit(fetched, self.range.stop)
        except CorruptBatch as error:
            self._damaged(error)
        if self.position == before:
            # A fetch returns its first batch whole (KIP-74), so this one's length is a lie.
            incomplete = CorruptBatch(
                self.range.topic, self.range.partition, before, 0, "the first batch is incomplete"
            )
            raise self._damaged(incomplete)
        self._aligned = True
        self._empty_since, self._corrupt_tries = None, 0
        self._attempts.reset()

    def _emit(self, chunk: FetchedPartition, stop: int, at: int = 0) -> Iterator[pa.RecordBatch]:
        """The records of a chunk from our position to `stop`; the position moves along."""
        for batch in self._decoder.batches(chunk, self.position, stop, at=at, aligned=self._aligned):
            self.position = self._decoder.next_offset
            yield batch
        self.position = self._decoder.next_offset

    # --- what can go wrong ------------------------------------------------------------------------------------------

    def _nothing_there(self, fetched: FetchedPartition) -> None:
        """An answer without records: wait for more, or believe that the log has a gap up to the range's end."""
        readable = fetched.readable(self._config.read_committed)
        if readable < self.range.stop:
            hidden = fetched.high_watermark >= self.range.stop  # by an open transaction: nothing is lost
            ended = self._attempts.expired() or (not hidden and time.monotonic() >= self._cut_believed_at)
            if ended and not self._leader.on_follower:
                if hidden:
                    raise self._open_transaction(readable)
                lost = f"offsets {self.position} to {self.range.stop}"
                raise DataLoss([(self.range.topic, self.range.partition, lost, f"offsets up to {readable}")])
            self._attempts.failed(f"the log is readable up to offset {readable} only")
            self._attempts.rest()  # not `pause`: past the deadline this is data loss, not an absent broker
            return
        now = time.monotonic()
        self._empty_since = self._empty_since or now
        if now - self._empty_since < EMPTY_SECONDS:
            self._attempts.failed("no records, though the log goes on")
            self._attempts.pause()
            return
        # Compaction can leave nothing at the end of a log. A slow tiered read answers the same way, so ask where the
        # leader's own disk begins: there, nothing means nothing.
        if self.position >= self._leader.cluster.local_begin(self.range.topic_partition):
            log.warning(
                "%s: the log has no records from offset %d on (%d offsets): compaction, it seems",
                self.range,
                self.position,
                self.range.stop - self.position,
            )
            self.position = self.range.stop
            return
        self._attempts.failed("tiered storage has not answered")
        self._attempts.pause()

    def _open_transaction(self, stable: int) -> OpenTransaction:
        tp = self.range.topic_partition
        try:
            owner = str(self._leader.cluster.open_transactions([tp]).get(tp, ""))
        except BrokerError as error:
            log.info("%s: who holds its transaction open cannot be asked: %s", tp, error)
            owner = ""
        return OpenTransaction([(*tp, self.range.stop, stable, owner)], self._attempts.timeout)

    def _out_of_range(self) -> None:
        tp = self.range.topic_partition
        begin = self._leader.cluster.begin([tp])[tp]
        end = self._leader.cluster.high_watermarks([tp])[tp]
        if begin <= self.position <= end:
            raise RetriableError(f"offset {self.position} was out of range, but the log has {begin} to {end}")
        lost = f"from offset {self.position}"
        error = DataLoss([(self.range.topic, self.range.partition, lost, f"offsets {begin} to {end}")])
        if self.position > end:
            raise error
        follows = min(begin, self.range.stop)
        self._lose(error, self.position, follows)
        self.position, self._aligned = follows, False

    def _truncated(self, cut: int) -> None:
        """An unclean election replaced records of the range by others, or by none so far."""
        lost = f"offsets {cut} to {self.range.stop} as leader epoch {self.range.leader_epoch} wrote them"
        has = f"none of that epoch from offset {cut} on: an unclean leader election has cut the log"
        error = DataLoss([(self.range.topic, self.range.partition, lost, has)])
        self._lose(error, max(cut, self.range.start), self.range.stop)
        self._cut_believed_at = time.monotonic() + EMPTY_SECONDS

    def _lose(self, error: DataLoss, start: int, stop: int) -> None:
        """Fail, or note that offsets [start, stop) are gone and go on, as the user chose. A range that meets several
        losses warns once."""
        if self._fail_on_data_loss:
            raise error
        if self.lost is None:
            log.warning("%s\nGoing on with what is left, because failOnDataLoss is false", error.what)
        before, after = self.lost or (start, stop)
        self.lost = min(before, start), max(after, stop)

    def _damaged(self, error: CorruptBatch) -> NoReturn:
        """Damaged bytes: fetch them again first, raise the error when they come again."""
        self._corrupt_tries += 1
        if self._corrupt_tries < CORRUPT_TRIES:
            log.warning("%s; fetching it again", error)
            raise RetriableError(str(error))
        raise error
