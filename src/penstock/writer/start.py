"""Checks when a write starts: the topic, and permissions that tasks will need. Runs on the driver."""

from __future__ import annotations

import uuid
from functools import cache, lru_cache

import pyarrow as pa

from penstock.config.in_force import options_text, versions
from penstock.config.option import warn_of_ignored
from penstock.config.sink import SinkOptions, check_notes
from penstock.config.write_formats import WriteFormats
from penstock.errors import AuthorizationFailed, UnknownTopic
from penstock.formats.encoding import Encoding
from penstock.formats.encoding_resolve import resolve_encoding
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster
from penstock.wire.producer.producer import Producer
from penstock.writer.columns import written_columns
from penstock.writer.names import SinkScope

log = get_logger(__name__)


def check_batch_write(options: SinkOptions) -> None:
    """Check before the tasks of a batch write."""
    log.info("a batch write starts: %s; options: %s", versions(), options_text(options.shown))
    warn_of_ignored(options.ignored)
    has_notes = options.batch_id is not None
    if has_notes and options.exactly_once:
        check_notes(options)
    _check(options, has_notes)


def checked_encoding(options: SinkOptions, schema: pa.Schema) -> Encoding | None:
    """Check the columns of rows (W1), and resolve how typed ones are encoded; None if none is."""
    if not options.formats.typed:
        written_columns(schema, options.topic, options.include_headers)
        return None
    encoding = _resolved(options.formats, schema, options.topic)
    encoded, _ = encoding.encode(pa.RecordBatch.from_pylist([], schema))
    written_columns(encoded.schema, options.topic, options.include_headers)
    return encoding


@lru_cache(maxsize=16)
def _resolved(formats: WriteFormats, schema: pa.Schema, topic: str | None) -> Encoding:
    """Asks the registry once per process, not for each batch of a stream."""
    return resolve_encoding(formats, schema, topic)


@cache
def check_stream_write(options: SinkOptions) -> None:
    """Check before the tasks of a stream's first batch. Spark calls it for each batch, in a process that it reuses."""
    log.info("a stream write starts: %s; options: %s", versions(), options_text(options.shown))
    warn_of_ignored(options.ignored)
    _check(options, has_notes=True)


def _check(options: SinkOptions, has_notes: bool) -> None:
    cluster = Cluster(options.client)
    if options.topic is not None:
        _check_topic(cluster, options.topic)
    if (letters := options.formats.dead_letter_topic) is not None:
        cluster.metadata((letters,))
    if not options.exactly_once:
        return
    if has_notes and options.note_topic is not None:
        cluster.metadata((options.note_topic,))
    _check_transactions(options, has_notes)


def _check_topic(cluster: Cluster, topic: str) -> None:
    try:
        cluster.metadata((topic,), create=True)
    except UnknownTopic as error:
        hint = "Create it first: the brokers do not, because their auto.create.topics.enable is false"
        raise UnknownTopic(topic, detail=hint) from error
    if cluster.may_write(topic) is False:
        raise AuthorizationFailed(f"topic {topic!r}: the broker's ACLs do not allow Write for this user")


def _check_transactions(options: SinkOptions, has_notes: bool) -> None:
    """Prove with an empty transaction that tasks may use transactional ids, and private groups if they keep notes."""
    name = SinkScope(options.prefix, "check", uuid.uuid4().hex, options.topic or "*").task(0)
    try:
        with Producer(options.client, options.producer, transactional_id=name) as producer:
            producer.begin()
            if has_notes:
                producer.commit_offsets(name, {TopicPartition(options.notes_in, 0): (0, "")})
                producer.abort_transaction()
    except AuthorizationFailed as error:
        needed = f"Write on transactional ids with the prefix {options.prefix!r}"
        if has_notes:
            needed += f", Read on groups with that prefix, and Read on topic {options.notes_in!r}"
        raise AuthorizationFailed(f"{error}. deliveryGuarantee=exactly-once needs {needed}") from error
