"""`penstock copy FROM TO`: copies records from one topic to another, of the same or another cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.cli.connection import add_connection_arguments, add_target_arguments, connection_options, target_options
from penstock.cli.output import say
from penstock.cli.positions import parse_position
from penstock.cli.read import POSITIONS, record_count, refuse_columns
from penstock.cli.target_topic import add_create_argument, target_topic
from penstock.cli.topic_offsets import TopicOffsets
from penstock.cli.transfer import Transfer, partition_lines, summary
from penstock.config.formats import FORMAT_OPTIONS
from penstock.config.option import merged, warn_of_ignored
from penstock.config.sink import parse_sink_options
from penstock.config.source import SOURCE_OPTIONS, SourceOptions, parse_options
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan, raw_source
from penstock.model.offset_range import OffsetRange
from penstock.model.offset_spec import GroupOffsets
from penstock.model.topic_partition import TopicPartition
from penstock.reader.task import read_range
from penstock.wire.cluster import Topic

DESCRIPTION = """\
Copy the records of a topic to another topic, up to its present end. Keys, values, headers and timestamps stay the same.
A record with a key goes to the partition that Java producers choose for it, unless --keep-partitions is given.
Records of aborted transactions are left out (-o isolation.level=read_uncommitted copies them too).
"""
EPILOG = f"""\
{POSITIONS}
examples:
  penstock copy clicks clicks-copy -b localhost:9092 --create 8
  penstock copy clicks clicks -b localhost:9092 --to-bootstrap-server other:9092 --keep-partitions
  penstock copy clicks test -b localhost:9092 --from 2025-01-31T12:00Z --limit 1000
  penstock copy clicks clicks -b broker:9093 --options-file a.properties --to-options-file b.properties

exit codes: 0 done, 1 failed (no broker, unknown topic, data lost), 2 wrong usage, 130 Ctrl-C
"""

COLUMNS = ["key", "value", "timestamp", "headers"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("source", metavar="FROM", help="the topic to read")
    parser.add_argument("target", metavar="TO", help="the topic to write to")
    parser.add_argument(
        "--from", dest="start", default="earliest", metavar="POSITION", help="where to start (default earliest)"
    )
    parser.add_argument("--until", metavar="POSITION", help="where to stop, exclusive (default latest)")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated"
    )
    parser.add_argument("--where", metavar="SQL", help="copy only the records that meet a predicate (docs/where.md)")
    parser.add_argument("--limit", type=record_count, metavar="N", help="stop after N records")
    parser.add_argument(
        "--keep-partitions", action="store_true", help="write each record to the partition it comes from"
    )
    add_create_argument(parser)
    parser.add_argument("--verbose", action="store_true", help="also print what was written to each partition")
    add_connection_arguments(parser)
    add_target_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from penstock.arrow.writing import Writer

    start = parse_position("--from", arguments.start)
    until = parse_position("--until", arguments.until or "latest")
    if isinstance(until, GroupOffsets):
        raise OptionError("--until", "group", "a group's offsets say where to start, not where to stop")
    given = merged({"isolation.level": "read_committed"}, connection_options(arguments))
    if arguments.where is not None:
        given["where"] = arguments.where
    refuse_formats(given)
    options = parse_options(given | {"subscribe": arguments.source})
    to_options = target_options(arguments) | {"topic": arguments.target}
    client = parse_sink_options(to_options).client
    warn_of_ignored(options.ignored)
    refuse_columns(options)
    offsets = TopicOffsets(options, arguments.source, arguments.partition)
    # The ends first: records that are copied into the range during the lookup do not belong to it.
    stops, starts = offsets.at(until, ending=True), offsets.at(start)
    target = target_topic(client, arguments.target, arguments.create)
    check_targets(offsets.topic, offsets.partitions, target, arguments.keep_partitions)
    ranges = [
        OffsetRange(tp.topic, tp.partition, starts[tp], stops[tp], offsets.topic.topic_id)
        for tp in offsets.partitions
        if starts[tp] < stops[tp]
    ]
    total = max(1, sum(each.stop - each.start for each in ranges))
    transfer = Transfer()
    with transfer, Writer(to_options) as writer:
        for batch in batches(ranges, options, arguments.keep_partitions, arguments.limit):
            writer.write(batch)
            transfer.count(batch.num_rows, transfer.rows / min(total, arguments.limit or total))
    say(summary(writer.result, arguments.target, transfer.seconds))
    if arguments.verbose:
        for line in partition_lines(writer.result):
            say(line)
    return 0


def refuse_formats(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if SOURCE_OPTIONS.declared_name(name) in FORMAT_OPTIONS:
            hint = "Leave it out. With --where, name fields of JSON as value:user.id"
            raise OptionError(name, value, "has no effect: copies have the same bytes, and nothing is decoded", hint)


def check_targets(source: Topic, partitions: list[TopicPartition], target: Topic, keep_partitions: bool) -> None:
    """Refuse a topic that would be copied into itself, and one that lacks the partitions to keep."""
    same = source.topic_id is not None and source.topic_id == target.topic_id
    if same or (source.topic_id is None and source == target):
        raise OptionError("TO", target.name, "is the topic that is read: its copy would never be complete")
    if keep_partitions and (missing := [tp.partition for tp in partitions if tp.partition not in target.partitions]):
        raise OptionError(
            "--keep-partitions",
            None,
            f"topic {target.name!r} has {len(target.partitions)} partitions, and no partition {missing[0]}",
            "Add partitions to it, or copy without --keep-partitions",
        )


def batches(
    ranges: list[OffsetRange], options: SourceOptions, keep_partitions: bool, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges, up to a limit."""
    names = [*COLUMNS, "partition"] if keep_partitions else COLUMNS
    columns: list[str] | TypedPlan = names
    if options.where is not None:
        source = raw_source()
        columns = source.select(names, where=source.parse_where(options.where))
    left = sys.maxsize if limit is None else limit
    for range_ in ranges:
        if left <= 0:
            return
        for batch in read_range(range_, columns, options):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                break
