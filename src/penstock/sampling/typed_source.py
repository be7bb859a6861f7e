"""Resolves the typed columns of a source from its options: asks the schema registry and samples records if needed."""

from __future__ import annotations

import pyarrow as pa

from penstock.config.source import SourceOptions
from penstock.errors import BrokerUnavailable, OptionError
from penstock.formats.plan import TypedSource
from penstock.formats.resolve import resolve_formats
from penstock.masking import get_logger
from penstock.model.subscription import AssignedPartitions, TopicNames, reads
from penstock.sampling.newest_records import newest_values

log = get_logger(__name__)


def typed_source(options: SourceOptions, given: pa.Schema | None = None) -> TypedSource:
    """The typed columns of a source. `given`: the schema that the user wants for the result.

    Called on the driver, and in plain Python by the reading process.
    """
    source = resolve_formats(
        options.formats,
        _topics(options),
        lambda column, count: newest_values(options, column, count),
        include_headers=options.include_headers,
        include_watermarks=options.event_time is not None and options.event_time.include_columns,
        given=given,
    )
    if options.formats.dead_letter_topic is not None:
        _check_dead_letter_topic(options, options.formats.dead_letter_topic)
    return source


def _check_dead_letter_topic(options: SourceOptions, topic: str) -> None:
    from penstock.dead_letters.task_letters import check_topic

    if reads(options.subscription, topic):
        what = "is read by this query itself, which would write dead letters about its dead letters forever"
        raise OptionError("deadLetterTopic", topic, what, "Name another topic")
    try:
        check_topic(options.client, topic, transactional=options.formats.dead_letter_transactional)
    except BrokerUnavailable as error:  # reading raises it too, or waits for the broker
        log.warning("cannot check yet whether deadLetterTopic %r exists: %s", topic, error)


def _topics(options: SourceOptions) -> list[str] | None:
    """The topics that a subscription names; None for a pattern."""
    match options.subscription:
        case TopicNames(names):
            return list(names)
        case AssignedPartitions(partitions):
            return sorted({tp.topic for tp in partitions})
        case _:
            return None
