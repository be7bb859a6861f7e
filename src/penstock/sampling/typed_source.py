"""From a user's options to the typed columns of a source: what is asked on the driver, and by plain Python."""

from __future__ import annotations

import logging

import pyarrow as pa

from penstock.config.source import SourceOptions
from penstock.errors import BrokerUnavailable, OptionError
from penstock.formats.plan import TypedSource
from penstock.formats.resolve import resolve_formats
from penstock.model.subscription import AssignedPartitions, TopicNames, reads
from penstock.sampling.newest_records import newest

log = logging.getLogger(__name__)


def typed_source(options: SourceOptions, given: pa.Schema | None = None) -> TypedSource:
    """Settle the formats. `given` is a user's own schema of the result."""
    source = resolve_formats(
        options.formats,
        _topics(options),
        lambda column, count: newest(options, column, count),
        include_headers=options.include_headers,
        include_watermarks=options.event_time is not None and options.event_time.include_columns,
        given=given,
    )
    letters = options.formats.dead_letter_topic
    if letters is not None:
        from penstock.dead_letters.task_letters import check_topic

        if reads(options.subscription, letters):
            what = "is read by this query itself, which would write letters about its letters for ever"
            raise OptionError("deadLetterTopic", letters, what, "Name another topic")
        try:
            check_topic(options.client, letters, transactional=options.formats.dead_letter_transactional)
        except BrokerUnavailable as error:  # whoever reads will say so, or wait for it
            log.warning("nobody knows yet whether deadLetterTopic %r is there: %s", letters, error)
    return source


def _topics(options: SourceOptions) -> list[str] | None:
    """Those that a subscription names."""
    match options.subscription:
        case TopicNames(names):
            return list(names)
        case AssignedPartitions(partitions):
            return sorted({tp.topic for tp in partitions})
        case _:
            return None
