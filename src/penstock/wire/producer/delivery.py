"""Brings batches to the leaders of their partitions: requests, answers, retries, and waits.

Everything happens in the thread of the caller, during `add`, `advance` and `flush`.
"""

from __future__ import annotations

import select
import struct
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from penstock.errors import BrokerError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES, RetriableError, error_name
from penstock.wire.api.metadata import Leader, Metadata
from penstock.wire.api.produce import KNOWS_ZSTD, LAST_ADDED, LAST_NAMED, PRODUCE, ProduceRequest, TopicBatches
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.cluster import Cluster
from penstock.wire.producer.failures import Failures
from penstock.wire.producer.identity import Identity, OpenTransaction
from penstock.wire.producer.leader_line import LeaderLine, SentRequest
from penstock.wire.producer.partition_leaders import PartitionLeaders
from penstock.wire.producer.partition_queue import Batch, PartitionQueue, QueuedBatch
from penstock.wire.producer.produce_answers import Meaning, PartitionAnswer, gap, meaning_of, refusal
from penstock.wire.producer.producer_config import ProducerConfig
from penstock.wire.producer.transaction_client import lost
from penstock.wire.producer.written import ProducerMetrics, WrittenRange
from penstock.wire.transport.broker_wait import OVERDUE_SECONDS
from penstock.wire.transport.connection import BrokerSilent, Connection
from penstock.wire.transport.pool import POOL

log = get_logger(__name__)

LONGEST_WAIT = 0.25
"""Seconds between two looks at deadlines and backoffs, while no broker answers."""

CLIENT_THROTTLES = 6
"""From this version of Produce on, a broker that throttles answers at once, and the client has to pause (KIP-219)."""

CONCURRENT_TRANSACTIONS = CODES["CONCURRENT_TRANSACTIONS"]
CONCURRENT_PAUSE = 0.02
"""Seconds between two attempts while the last transaction is being ended. That takes some milliseconds."""

_IDENTITY = struct.Struct(">qh")
"""In a batch, from byte 43 on: the producer's id and epoch."""

AddToTransaction = Callable[[Collection[TopicPartition]], None]


class Delivery:
    """The batches of one producer identity. For one thread."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerConfig,
        metrics: ProducerMetrics,
        identity: Identity,
        transaction: OpenTransaction | None,
        add_to_transaction: AddToTransaction,
        topic_ids: dict[str, uuid.UUID | None],
    ) -> None:
        """`add_to_transaction` is called with the partitions of each request before it is sent. `topic_ids` as in
        PartitionLeaders."""
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        self._identity = identity
        self._transaction = transaction
        self._add_to_transaction = add_to_transaction
        self.written: dict[TopicPartition, WrittenRange] = {}
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._failures = Failures(cluster.config, settings)
        self._leaders = PartitionLeaders(cluster, settings, self._failures, topic_ids)
        self._bytes = 0
        """Of all batches that are not acknowledged."""

    # --- called by the producer -------------------------------------------------------------------------------------

    def add(self, batches: Iterable[Batch]) -> None:
        """Queue batches, and send what is worth a request. Waits while the buffer is full."""
        deadline = time.monotonic() + self._settings.delivery_timeout
        for batch in batches:
            queue = self._queue(TopicPartition(batch.topic, batch.partition))
            queued = queue.add(batch, deadline)
            # A batch of another epoch could become part of an earlier transaction, whose end is still being written.
            assert _IDENTITY.unpack_from(queued.data, 43) == self._identity, "the encoder has another identity"
            self._bytes += len(queued.data)
            self._leaders.place(queue)
        self._step(wait=False)
        while self._bytes > self._settings.buffer_size:
            self._step(wait=True)

    def flush(self) -> None:
        """Wait until every batch is acknowledged."""
        while self._bytes:
            self._step(wait=True)
        self.close()

    def start(self, transaction: OpenTransaction) -> None:
        """The next batches belong to this transaction. Batches may have another epoch, and sequences from 0 on."""
        assert self.is_empty, "batches of the last transaction are not acknowledged yet"
        self._identity, self._transaction = transaction.identity, transaction
        self._queues.clear()

    @property
    def is_empty(self) -> bool:
        return not self._bytes

    def close(self) -> None:
        """Return the connections. Those with unread answers are closed."""
        for line in self._leaders.lines.values():
            self._release(line)

    def learn(self, metadata: Metadata) -> None:
        """Remember topic ids. Raises TopicRecreated if one has changed."""
        self._leaders.learn(metadata)

    # --- one step ---------------------------------------------------------------------------------------------------

    def _step(self, wait: bool) -> None:
        """Send what can be sent, and read what has been answered. With `wait`, until there is an answer."""
        now = time.monotonic()
        if self._leaders.leaderless:
            self._leaders.find(now)
        for line in self._leaders.lines.values():
            self._send_to(line, now, eager=wait)
        self._receive(wait)
        if wait:
            self._check_deadlines(time.monotonic())

    def _send_to(self, line: LeaderLine, now: float, eager: bool) -> None:
        limit = self._settings.max_request_size
        while line.queues and len(line.in_flight) < self._settings.max_in_flight and now >= line.throttled_until:
            chosen, size = line.next_batches(now, limit)
            if not chosen:
                return
            # The broker is busy with another request: more batches may come until it has answered.
            is_worth_it = eager or not line.in_flight or 2 * size >= limit
            if not is_worth_it and all(queue.waiting == 1 for queue, _ in chosen):
                return
            self._add_to_transaction([queue.tp for queue, _ in chosen])
            if not self._send(line, chosen, now):
                return

    def _send(self, line: LeaderLine, chosen: Sequence[tuple[PartitionQueue, QueuedBatch]], now: float) -> bool:
        """Send one request. False if the connection is lost, or is not to be used for now."""
        timeout = self._cluster.config.request_timeout
        try:
            connection = self._connect(line)
            if connection is None:
                return False
            request = self._request(connection, chosen)
            for queue, batch in chosen:
                queue.sent(batch)
            line.sending = chosen
            line.rotate(chosen)
            self._metrics.requests += 1
            if self._settings.acks == 0:
                connection.tell(request, timeout)
                for queue, batch in chosen:
                    self._acknowledge(queue, batch, -1)
            else:
                line.sent(SentRequest(connection.ask(request, timeout), request.version, chosen), now)
        except RETRIABLE_ERRORS as error:
            self._lose(line, error, chosen)
            return False
        finally:
            line.sending = ()
        return True

    def _request(self, connection: Connection, chosen: Iterable[tuple[PartitionQueue, QueuedBatch]]) -> ProduceRequest:
        by_topic: dict[str, list[tuple[int, bytes]]] = {}
        for queue, batch in chosen:
            by_topic.setdefault(queue.tp.topic, []).append((queue.tp.partition, batch.data))
        topics = [TopicBatches(name, self._leaders.topic_ids.get(name), batches) for name, batches in by_topic.items()]
        transaction = self._transaction
        at_most = None if all(topic.topic_id for topic in topics) else LAST_NAMED
        if transaction is not None and transaction.version < 2:
            at_most = LAST_ADDED
        return ProduceRequest(
            connection.version(PRODUCE, at_most),
            None if transaction is None else transaction.transactional_id,
            self._settings.acks,
            int(self._cluster.config.request_timeout * 1000),
            topics,
        )

    def _receive(self, wait: bool) -> None:
        waited_for = [
            (line, line.connection) for line in self._leaders.lines.values() if line.in_flight and line.connection
        ]
        ready = [line for line, connection in waited_for if connection.has_input()]
        if not ready and wait:
            if not waited_for:
                time.sleep(self._pause())
                return
            by_number = {connection.fileno(): line for line, connection in waited_for}
            poll = select.poll()
            for number in by_number:
                poll.register(number, select.POLLIN)
            ready = [by_number[number] for number, _ in poll.poll(max(1, int(self._pause() * 1000)))]
        for line in ready:
            self._read(line)

    def _read(self, line: LeaderLine) -> None:
        """Read the answers that have arrived."""
        while line.in_flight and line.connection is not None:
            request = line.in_flight[0]
            try:
                response = request.pending(self._cluster.config.request_timeout)
            except RETRIABLE_ERRORS as error:
                self._lose(line, error)
                return
            now = time.monotonic()
            line.in_flight.popleft()
            line.waits_since(now)
            if response.throttle_time_ms > 0 and request.version >= CLIENT_THROTTLES:
                line.throttled_until = now + response.throttle_time_ms / 1000
                self._metrics.throttle_seconds += response.throttle_time_ms / 1000
            names = {self._leaders.topic_ids[queue.tp.topic]: queue.tp.topic for queue, _ in request.batches}
            answers = {
                (names.get(topic.topic_id, "") if request.version > LAST_NAMED else topic.name, each.index): each
                for topic in response.responses
                for each in topic.partition_responses
            }
            for queue, batch in request.batches:
                answer = answers.get(queue.tp)
                if answer is None:
                    self._retry(queue, batch, RetriableError(f"the response leaves out {queue.tp}"), now)
                else:
                    self._settle(queue, batch, PartitionAnswer.of(answer), now)
            if not line.in_flight or not line.connection.has_input():
                return

    def _settle(self, queue: PartitionQueue, batch: QueuedBatch, answer: PartitionAnswer, now: float) -> None:
        code = answer.error_code
        match meaning_of(code):
            case Meaning.WRITTEN:
                self._acknowledge(queue, batch, answer.base_offset)
            case Meaning.RETRY | Meaning.MOVED as meaning:
                said = f": {answer.message}" if answer.message else ""
                problem = RetriableError(f"{error_name(code)}{said}", code)
                self._retry(queue, batch, problem, now, moved=meaning is Meaning.MOVED)
            case Meaning.OUT_OF_ORDER if not queue.is_first(batch):
                self._retry(queue, batch, None, now)  # as expected: a batch before it failed
            case Meaning.OUT_OF_ORDER if self._transaction is None:
                raise gap(queue.tp, batch.batch)
            case Meaning.OUT_OF_ORDER | Meaning.LOST if self._transaction is not None:
                raise lost(code, self._transaction.transactional_id, f"writing to {queue.tp}")
            case Meaning.TOO_LARGE if batch.batch.count > 1:
                self._metrics.batches_split += 1
                self._bytes += queue.split(batch)
                self._leaders.place(queue)
            case _:
                raise refusal(queue.tp, batch.batch, answer, self._cluster.config)

    def _acknowledge(self, queue: PartitionQueue, batch: QueuedBatch, base_offset: int) -> None:
        size, rows = len(batch.data), batch.batch.count
        queue.acknowledged(batch)
        self._bytes -= size
        self._metrics.rows += rows
        self._metrics.bytes += size
        self._metrics.payload_bytes += batch.batch.payload_bytes
        written = self.written.get(queue.tp)
        if written is None:
            written = self.written[queue.tp] = WrittenRange()
        written.add(base_offset, rows, size)

    # --- failures ---------------------------------------------------------------------------------------------------

    def _retry(
        self, queue: PartitionQueue, batch: QueuedBatch, problem: RetriableError | None, now: float, moved: bool = False
    ) -> None:
        """Send a batch again. `moved`: to the leader that the cluster names then."""
        self._metrics.retries += 1
        retry_at = now
        if problem is not None:
            retry_at += self._failures.note(queue, problem)
            if problem.error_code == CONCURRENT_TRANSACTIONS:
                retry_at = now + CONCURRENT_PAUSE
        queue.failed(batch, retry_at)
        if moved:
            self._leaders.forget(queue)
        self._leaders.place(queue)

    def _lose(
        self, line: LeaderLine, error: Exception, sent: Iterable[tuple[PartitionQueue, QueuedBatch]] = ()
    ) -> None:
        """The connection to a leader is lost: send everything again, to the leaders that the cluster names then."""
        if line.connection is not None:
            line.connection.close()
            line.connection = None
        requests = [request.batches for request in line.in_flight]
        line.in_flight.clear()
        affected = dict.fromkeys(line.queues)
        now = time.monotonic()
        for queue, batch in [each for batches in (*requests, sent) for each in batches]:
            if batch.in_flight:
                self._metrics.retries += 1
            queue.failed(batch, now)
            affected[queue] = None
        for queue in affected:
            queue.retry_at = now + self._failures.note(queue, error)
            self._leaders.forget(queue)

    def _check_deadlines(self, now: float) -> None:
        for queue in self._queues.values():
            if len(queue) and queue.deadline <= now:
                raise self._failures.give_up(queue)
        for line in self._leaders.lines.values():
            if line.in_flight and now >= line.check_at:
                self._check_overdue(line, now)

    def _check_overdue(self, line: LeaderLine, now: float) -> None:
        quiet = now - line.quiet_since
        if quiet >= self._cluster.config.request_timeout:
            reason: str | None = "the request timed out"
        else:
            reason = self._departed(line)
        if reason is not None and not (line.connection is not None and line.connection.has_input()):
            where = f"{line.broker.host}:{line.broker.port}"
            self._lose(line, BrokerSilent(f"{where}: nothing came for {quiet:.1f} s, and {reason}"))
        line.check_at = time.monotonic() + OVERDUE_SECONDS

    def _departed(self, line: LeaderLine) -> str | None:
        """The reason to leave a leader that does not answer, if the cluster has elected another one."""
        led: dict[TopicPartition, Leader | None] = {}
        for queue in line.concerned():
            if queue.leader is None or queue.leader.broker.address != line.broker.address:
                return f"it does not lead {queue.tp} any more"
            led[queue.tp] = queue.leader
        return next(iter(self._cluster.departed(line.broker, led).values()), None)

    def _pause(self) -> float:
        """Seconds until something is to be done, if no broker answers."""
        now = time.monotonic()
        times = [now + LONGEST_WAIT]
        if self._leaders.leaderless:
            times.append(self._leaders.ask_at)
        for line in self._leaders.lines.values():
            times += [max(queue.retry_at, line.throttled_until) for queue in line.queues if not queue.in_flight]
        return max(0.001, min(times) - now)

    def _queue(self, tp: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = PartitionQueue(tp, self._settings.idempotent)
            self._leaders.add(queue)
        return queue

    # --- connections ------------------------------------------------------------------------------------------------

    def _connect(self, line: LeaderLine) -> Connection | None:
        """The connection to a leader. None while it must not be used, because its login is about to end."""
        if line.connection is not None and line.connection.session_over and line.in_flight:
            return None
        if line.connection is not None and not line.in_flight and not line.connection.reusable:
            self._release(line)
        if line.connection is None:
            config = self._cluster.config
            line.connection = POOL.acquire(
                config, line.broker.host, line.broker.port, config.request_timeout, partial(self._departed, line)
            )
            check_codec(line.connection, self._settings.compression)
        return line.connection

    def _release(self, line: LeaderLine) -> None:
        connection, line.connection = line.connection, None
        if connection is not None:
            POOL.release(connection)


def check_codec(connection: Connection, compression: str) -> None:
    """Raise BrokerError if the broker does not know the codec. It would answer UNKNOWN_SERVER_ERROR."""
    if compression == "zstd" and not connection.speaks(PRODUCE, KNOWS_ZSTD):
        raise BrokerError(
            f"{connection.address} does not know zstd: its Kafka is older than 2.1. Set "
            f"{connection.config.option('compression.type')} to lz4 or gzip"
        )
