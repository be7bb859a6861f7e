"""Runs a task of the sink on an executor: writes its rows at least once, or into a transaction that stays open (W5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from penstock.config.sink import SinkOptions
from penstock.formats.encoding import Encoding
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.transactions import OpenTransaction
from penstock.writer.names import SinkScope
from penstock.writer.note import Content, Note
from penstock.writer.outcome import TaskOutcome
from penstock.writer.record_writer import RecordWriter

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Which task this is. All attempts at it have the same place."""

    scope: SinkScope | None
    """None: at least once."""
    task: int
    batch: int | None
    """None: a batch write that is never replayed, so that it needs no notes (W7)."""


def run_task(
    options: SinkOptions, place: TaskPlace, batches: Iterable[pa.RecordBatch], encoding: Encoding | None = None
) -> TaskOutcome:
    """Write the rows of one task. A task without rows asks no broker. `encoding`: of typed rows."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskOutcome(place.task, Content())
    rows = chain((first,), filled)
    if place.scope is None:
        return _write(options, place, rows, encoding)
    return _write_in_transaction(options, place, place.scope, rows, encoding)


def _write(
    options: SinkOptions, place: TaskPlace, rows: Iterator[pa.RecordBatch], encoding: Encoding | None
) -> TaskOutcome:
    producer = Producer(options.client, options.producer)
    with RecordWriter(options, producer, encoding, seed=place.task) as writer:
        writer.begin()
        for batch in rows:
            writer.write(batch)
        writer.flush()
        return _outcome(place, writer, None)


def _write_in_transaction(
    options: SinkOptions,
    place: TaskPlace,
    scope: SinkScope,
    rows: Iterator[pa.RecordBatch],
    encoding: Encoding | None,
) -> TaskOutcome:
    name = scope.task(place.task)
    producer = Producer(options.client, options.producer, transactional_id=name)
    with RecordWriter(options, producer, encoding, hashed=place.batch is not None, seed=place.task) as writer:
        writer.begin()  # fences older attempts: the note below is final
        note = None if place.batch is None else read_note(producer.cluster, name, options.notes_in)
        if place.batch is not None and note is not None and note.batch >= place.batch:
            log.info("%s: batch %d is committed already", name, place.batch)
            for batch in rows:
                writer.count(batch)
            return TaskOutcome(place.task, writer.content, note=note)
        try:
            for batch in rows:
                writer.write(batch)
            writer.flush()
            if place.batch is not None:
                note = Note(place.batch, writer.content)
                where = TopicPartition(options.notes_in, 0)
                producer.commit_offsets(name, {where: (place.batch, str(note))})
        except BaseException:
            producer.abort_transaction()  # now: an open transaction holds back readers until the next attempt
            raise
        return _outcome(place, writer, producer.open_transaction())


def _outcome(place: TaskPlace, writer: RecordWriter, transaction: OpenTransaction | None) -> TaskOutcome:
    return TaskOutcome(
        place.task,
        writer.content,
        transaction=transaction,
        written=dict(writer.written),
        metrics=writer.metrics,
        dropped=writer.dropped,
        dead_letters=writer.dead_letters,
    )


def read_note(cluster: Cluster, group: str, topic: str, stable: bool = True) -> Note | None:
    """The note of the last committed transaction of a task. `stable`: wait for one that is being committed."""
    where = TopicPartition(topic, 0)
    committed = cluster.commits(group, [where], stable).get(where)
    return None if committed is None else Note.parse(committed.metadata, group)
