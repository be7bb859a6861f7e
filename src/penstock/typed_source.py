"""From a user's options to the typed columns of a source: what is asked on the driver, and by plain Python."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import OptionError
from penstock.formats.plan import TypedSource
from penstock.formats.resolve import resolve_formats
from penstock.options import SourceOptions
from penstock.sampling import newest
from penstock.topics import AssignedPartitions, TopicNames


def typed_source(options: SourceOptions, given: pa.Schema | None = None) -> TypedSource:
    """Settle the formats. `given` is a user's own schema of the result."""
    source = resolve_formats(
        options.formats,
        _topics(options),
        lambda column, count: newest(options, column, count),
        include_headers=options.include_headers,
        given=given,
    )
    letters = options.formats.dead_letter_topic
    if letters is not None:
        from penstock.dead_letters import check_topic

        topics = _topics(options)
        if topics is not None and letters in topics:
            raise OptionError("deadLetterTopic", letters, "is read by this query itself", "Name another topic")
        check_topic(options.client, letters, transactional=options.formats.dead_letter_transactional)
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
