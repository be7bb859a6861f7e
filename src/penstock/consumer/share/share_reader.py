"""The reading side of a share stream: hands out acquired records, and acknowledges them (Q2, Q3).

In implicit mode asking for more accepts what was handed out before and is not acknowledged. It happens when the next
batch is asked for, or for messages at most FLUSH_SECONDS later, and at the end of a chunk.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock._kernel import Batch, Messages
from penstock.consumer.share.share_batches import ShareBatches
from penstock.consumer.share.share_chunk import Piece, ShareChunk
from penstock.consumer.share.share_queue import ShareQueue
from penstock.consumer.share.share_records import ShareBatch, ShareMessage, row_numbers
from penstock.consumer.stream.decoders import DecoderCache
from penstock.consumer.stream.records import MESSAGE_COLUMNS, Decode
from penstock.errors import AcknowledgementRefused, BrokerError, BrokerUnavailable, ConsumerTimeout, CorruptBatch
from penstock.masking import get_logger
from penstock.model.acknowledgement import AcknowledgeType
from penstock.model.topic_partition import TopicPartition
from penstock.reader.range_reader import CORRUPT_TRIES

log = get_logger(__name__)

FLUSH_SECONDS = 1.0
"""Acknowledgements of messages wait at most this long before they are sent."""

LOG_INTERVAL = 10.0
"""Refused acknowledgements are logged at most this often."""

CommitResults = dict[TopicPartition, BrokerError | None]
"""By partition: why an acknowledgement was refused; None if none was."""


class ShareReader:
    """One thread reads at a time. Acknowledgements may come from any thread, and so may `commit` and `close`."""

    def __init__(
        self,
        queue: ShareQueue,
        decoders: DecoderCache,
        *,
        explicit: bool,
        key_decoder: Decode | None,
        value_decoder: Decode | None,
        on_consumed: Callable[[str, int, int], None],
        on_corrupt: Callable[[], None],
        on_answered: Callable[[bool], None],
    ) -> None:
        """`on_consumed` counts records (topic, messages, bytes), `on_corrupt` damaged chunks, `on_answered` requests
        with acknowledgements: whether they succeeded."""
        self.queue = queue
        self.lock: threading.RLock = queue.lock
        self._decoders = decoders
        self._explicit = explicit
        self._message_decoders = key_decoder, value_decoder
        self._on_consumed = on_consumed
        self._on_corrupt = on_corrupt
        self._on_answered = on_answered
        self._is_read = False
        self._opened: ShareChunk | None = None
        self._messages: Messages | None = None
        self._last_begin = 0
        """Where the batch that was handed out last begins."""
        self._rest: tuple[ShareBatches, Piece] | None = None
        """The part of the last piece that an iteration has not converted yet."""
        self._held: dict[ShareChunk, None] = {}
        """Chunks that were opened and are not done."""
        self._results: CommitResults = {}
        """Since the last commit."""
        self._logged_at = float("-inf")
        self.flush_at = 0.0
        """When `flush` is due, or the locks of the open chunk end. For the stream's thread."""

    # --- reading: the stream's thread ---------------------------------------------------------------------------------

    def messages_left(self) -> Messages | None:
        """The rest of a batch whose iteration stopped in the middle; None if there is none."""
        messages = self._messages
        return messages if messages is not None and messages.remaining else None

    def wrapped(self) -> Callable[[object], ShareMessage]:
        """A function that makes a message of the open chunk one that can be acknowledged."""
        chunk = self._opened
        assert chunk is not None
        acquired, count = chunk.acquired, chunk.acquired.delivery_count
        if count is not None:
            return lambda message: ShareMessage(message, chunk, count)  # type: ignore[arg-type]
        return lambda message: ShareMessage(message, chunk, acquired.delivery_count_at(message.offset))  # type: ignore

    def next_messages(self, timeout: float | None) -> Messages | None:
        """The messages of the next piece. None after a shutdown; raises ConsumerTimeout if none comes in time."""
        with _Reading(self):
            deadline = None if timeout is None else time.monotonic() + timeout
            self._settle()
            while (piece := self._next_piece(MESSAGE_COLUMNS, deadline, timeout)) is not None:
                with self.lock:
                    chunk = self._opened
                    if self.queue.closed or chunk is None:
                        return None
                    tp = chunk.partition.tp
                    self._messages = Messages(piece.native, *tp, piece.end, *self._message_decoders)
                    self._on_consumed(tp.topic, piece.records.num_rows, chunk.take_size())
                    self.flush_at = min(time.monotonic() + FLUSH_SECONDS, chunk.deadline)
                    return self._messages
            return None

    def next_batch(self, batches: ShareBatches, timeout: float | None) -> ShareBatch | None:
        """The next batch with rows. None after a shutdown; raises ConsumerTimeout if none comes in time."""
        with _Reading(self):
            began = time.monotonic()
            deadline = None if timeout is None else began + timeout
            self._settle()
            while not batches.has_ended:
                piece = self._next_piece(batches.columns, deadline, timeout, batches)
                if piece is None:
                    return None
                chunk = self._opened
                assert chunk is not None
                try:
                    made = self._converted(batches, chunk, piece)
                except BaseException:  # a malformed record that fails the batch: the next call meets it again
                    self._rest = (batches, piece)
                    raise
                batch = self._hand_out(chunk, *made)
                if batch is not None:
                    return batch
                if self.queue.closed:
                    return None
                if deadline is not None and time.monotonic() >= deadline:
                    raise ConsumerTimeout(self.queue.thread_id, timeout or 0.0)
            return None

    def _converted(
        self, batches: ShareBatches, chunk: ShareChunk, piece: Piece
    ) -> tuple[ShareBatches, pa.RecordBatch, pa.Array, int]:
        """The rows of a piece, their offsets, and the offset after them."""
        rows, offsets, next_offset = batches.convert(chunk.partition, piece)
        if next_offset is None:
            return batches, rows, offsets, piece.end
        at = bisect_left(piece.records.column("offset").to_pylist(), next_offset)
        rest = piece.records.slice(at)
        if not batches.has_ended:
            self._rest = (batches, Piece(Batch.from_arrow(rest), rest, piece.end))
        return batches, rows, offsets, next_offset

    def _hand_out(
        self, chunk: ShareChunk, batches: ShareBatches, rows: pa.RecordBatch, offsets: pa.Array, end: int
    ) -> ShareBatch | None:
        """None if no row is left, or after a shutdown."""
        with self.lock:
            acquired, begin = chunk.acquired, chunk.acquired.handed
            if self.queue.closed:
                return None
            are_all = rows.num_rows == end - begin and acquired.are_all_open(begin, end)
            if not are_all:
                # Rows that do not meet `where`, and records that were skipped, need no decision of the user.
                acquired.settle_absent(begin, end, offsets.to_pylist(), AcknowledgeType.ACCEPT)
            acquired.handed, self._last_begin = end, begin
            if not rows.num_rows:
                chunk.note_unsent()
                return None
            self._on_consumed(chunk.partition.tp.topic, rows.num_rows, chunk.take_size())
            counts = acquired.delivery_count
            of_rows = [acquired.delivery_count_at(each) for each in offsets.to_pylist()] if counts is None else None
            most = counts if of_rows is None else max(of_rows)
            assert most is not None
            records = batches.finished(rows, of_rows, most)
            return ShareBatch(records, chunk, begin, end, None if are_all else offsets, most)

    def _next_piece(
        self,
        columns: tuple[str, ...],
        deadline: float | None,
        timeout: float | None,
        batches: ShareBatches | None = None,
    ) -> Piece | None:
        """Decode until there are acquired records; None after a shutdown."""
        while True:
            chunk = self._opened
            if chunk is None:
                chunk = self.queue.take(deadline, timeout)
                if chunk is None:
                    return None
                with self.lock:
                    self._opened = chunk
                    self._held[chunk] = None
            rest, self._rest = self._rest, None
            if rest is not None and rest[0] is batches:
                return rest[1]
            if rest is not None:
                chunk.rewind()
            if chunk.is_over:
                self._abandon(chunk)
                continue
            try:
                piece = chunk.next_piece(columns, self._decoders.get, self.lock)
            except CorruptBatch as error:
                self._refuse(chunk, error)
                continue
            if piece is not None:
                return piece
            self._finish(chunk)

    def _finish(self, chunk: ShareChunk) -> None:
        """The chunk is read to its end."""
        with self.lock:
            self._opened = self._messages = self._rest = None
            chunk.release_bytes()
            chunk.note_unsent()
            self._forget_done()

    def _abandon(self, chunk: ShareChunk) -> None:
        """The locks of what was not handed out have ended: the broker delivers those records again."""
        with self.lock:
            log.info("%r: its locks have ended before all records were read", chunk)
            chunk.acquired.lose(chunk.acquired.handed)
        self._finish(chunk)

    def _refuse(self, chunk: ShareChunk, error: CorruptBatch) -> None:
        """Damaged bytes: release the rest, so that it is fetched again. If that does not help, reject it, and raise."""
        with self.lock:
            acquired = chunk.acquired
            is_final = acquired.delivery_count_at(acquired.handed) >= CORRUPT_TRIES
            kind = AcknowledgeType.REJECT if is_final else AcknowledgeType.RELEASE
            acquired.settle(acquired.handed, acquired.last + 1, kind)
        self._finish(chunk)
        self._on_corrupt()
        if is_final:
            raise error
        log.warning("%s; released, to fetch it again", error)

    def flush(self) -> None:
        """Between two messages: accept those before in implicit mode, and stop if the locks of the rest have ended."""
        with self.lock:
            chunk, messages = self._opened, self._messages
            if chunk is None or messages is None:
                return
            self._accept_handed(chunk, messages.position)
            self.flush_at = min(time.monotonic() + FLUSH_SECONDS, chunk.deadline)
            if chunk.is_over:
                messages.stop()

    def _settle(self) -> None:
        """The user asks for more."""
        with self.lock:
            chunk, messages = self._opened, self._messages
            self._messages = None
            if chunk is None:
                return
            if messages is not None:
                left = messages.remaining
                self._accept_handed(chunk, messages.stop())
                if left:
                    chunk.rewind()
            else:
                self._accept_handed(chunk, chunk.acquired.handed)

    def _accept_handed(self, chunk: ShareChunk, handed: int) -> None:
        """With the lock held."""
        chunk.acquired.handed = handed
        if not self._explicit:
            chunk.acquired.settle(chunk.acquired.first, handed, AcknowledgeType.ACCEPT)
        chunk.note_unsent()

    # --- fetchers -----------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> int:
        return self.queue.wanted

    def put(self, chunk: ShareChunk) -> bool:
        chunk.results = self
        return self.queue.put(chunk)

    # --- acknowledging: any thread ------------------------------------------------------------------------------------

    @staticmethod
    def acknowledge(record: object, kind: AcknowledgeType, rows: object = None) -> None:
        """Acknowledge a message, or rows of a batch. Raises AcknowledgementRefused."""
        if not isinstance(record, ShareMessage | ShareBatch):
            raise TypeError(
                f"a {type(record).__name__} cannot be acknowledged. Give a message or a batch of a share stream; of a "
                "batch that was made from one, give the original and the rows"
            )
        chunk = record._chunk
        with chunk.lock:
            if (reason := _refusal(chunk, kind)) is not None:
                raise AcknowledgementRefused(*chunk.partition.tp, reason)
            if isinstance(record, ShareMessage):
                if rows is not None:
                    raise TypeError("rows are those of a batch, and this is a message")
                done = chunk.acquired.acknowledge((record.offset,), kind)
            elif rows is None and record._offsets is None:
                done = chunk.acquired.acknowledge_range(record._first, record._end, kind)
            else:
                done = chunk.acquired.acknowledge(_offsets_of(record, rows), kind)
            if not done:
                reason = "a record is acknowledged already, or its lock has ended"
                raise AcknowledgementRefused(*chunk.partition.tp, reason)
            chunk.note_unsent()

    def answered(self, chunk: ShareChunk, error: Exception | None) -> None:
        """Acknowledgements of a chunk were carried out or refused. Called by fetchers, with the lock held."""
        self._on_answered(error is None)
        tp = chunk.partition.tp
        if error is None:
            self._results.setdefault(tp, None)
        else:
            self._results[tp] = error if isinstance(error, BrokerError) else BrokerError(str(error))
            if time.monotonic() - self._logged_at >= LOG_INTERVAL:
                self._logged_at = time.monotonic()
                log.warning("%s: acknowledgements were refused, and the records come again: %s", tp, error)
        self._forget_done()
        self.queue.changed.notify_all()

    def _forget_done(self) -> None:
        for chunk in [each for each in self._held if each.is_done and each is not self._opened]:
            del self._held[chunk]

    def commit(self, timeout: float) -> CommitResults:
        """Send all acknowledgements and wait for the answers. In implicit mode what was handed out is accepted first.

        Raises BrokerUnavailable if they do not come in time.
        """
        deadline = time.monotonic() + timeout
        with self.queue.changed:
            if self._opened is not None and not self.queue.closed:
                handed = self._opened.acquired.handed if self._messages is None else self._messages.position
                self._accept_handed(self._opened, handed)
            waiting = [chunk for chunk in self._held if chunk.is_unanswered]
            for fetcher in {id(chunk.fetcher): chunk.fetcher for chunk in waiting}.values():
                fetcher.flush()
            while any(chunk.is_unanswered for chunk in waiting):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise BrokerUnavailable(f"acknowledgements of {waiting[0].partition.tp} were not answered in time")
                self.queue.changed.wait(left)
            results, self._results = self._results, {}
            return results

    def close(self) -> list[ShareChunk]:
        """Hand out nothing more, and release what was handed out and is not acknowledged. In implicit mode that is the
        last message or batch only. Returns the chunks that were not read."""
        with self.lock:
            chunk, messages = self._opened, self._messages
            unread = self.queue.close()
            if chunk is not None:
                acquired = chunk.acquired
                if messages is not None:
                    acquired.handed = messages.stop()
                    last = acquired.last_open(acquired.handed)
                    self._last_begin = acquired.first if last is None else last
                if not self._explicit:
                    acquired.settle(acquired.first, self._last_begin, AcknowledgeType.ACCEPT)
            for held in self._held:
                held.acquired.settle(held.acquired.first, held.acquired.handed, AcknowledgeType.RELEASE)
                held.note_unsent()
            return unread


class _Reading:
    """Around one read of a stream: only one thread may read at a time."""

    __slots__ = ("_reader",)

    def __init__(self, reader: ShareReader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        with self._reader.lock:
            if self._reader._is_read:
                name = self._reader.queue.thread_id
                raise RuntimeError(f"stream {name} is read by another thread: only one may read at a time")
            self._reader._is_read = True

    def __exit__(self, *_: object) -> None:
        self._reader._is_read = False


def _offsets_of(batch: ShareBatch, rows: object) -> Sequence[int]:
    """The offsets of the selected rows."""
    first, offsets = batch._first, batch._offsets
    numbers = range(batch.num_rows) if rows is None else row_numbers(rows, batch.num_rows)
    if offsets is None:
        return [first + number for number in numbers]
    listed = offsets.to_pylist()
    return [listed[number] for number in numbers]


def _refusal(chunk: ShareChunk, kind: AcknowledgeType) -> str | None:
    """Why records of a chunk cannot be acknowledged in this way; None if they can."""
    if chunk.lost:
        return "the session with the broker has ended, and the broker has released the records"
    if kind is AcknowledgeType.RENEW and not chunk.fetcher.knows_renewals:
        return "the broker cannot renew locks: it needs Kafka 4.2 or newer"
    return None
