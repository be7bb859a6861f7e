"""`penstock read TOPIC`: shows the records of a topic, as a table or as JSON lines."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

from penstock.cli import table
from penstock.cli.argument_names import argument_names, format_options
from penstock.cli.connection import add_connection_arguments, connection_options
from penstock.cli.output import say
from penstock.cli.positions import Position, parse_position
from penstock.cli.records import FORMATS, RecordView
from penstock.cli.topic_offsets import TopicOffsets
from penstock.cli.typed_records import TypedRecordView, typed_view
from penstock.config.option import warn_of_ignored
from penstock.config.source import SourceOptions, parse_options
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan, raw_source
from penstock.model.offset_range import OffsetRange
from penstock.model.offset_spec import GroupOffsets
from penstock.model.topic_partition import TopicPartition
from penstock.progress import Progress
from penstock.reader.task import read_range
from penstock.sampling.typed_source import typed_source

DESCRIPTION = """\
Show the records of a topic, one partition after the other: as a table on a terminal, as JSON lines in a pipe or file.
Stops at the present end of the topic, unless --follow is given. Characters that are not printable are escaped.
"""
POSITIONS = """\
positions (--from, --until):
  earliest, latest      the beginning of a partition, its end now
  1234                  this offset, or the nearest one that exists
  -10                   ten offsets before the end of each partition
  2025-01-31T12:00Z     the first record at or after a time (without a zone: local time)
  1738324800000         the same in milliseconds (13 digits)
  -1h, -30m, -2d        the same, counted back from now
  group                 the committed offsets of -o group.id=NAME (--from only)
"""
EPILOG = f"""\
{POSITIONS}
examples:
  penstock read clicks -b localhost:9092 --limit 20
  penstock read clicks -b localhost:9092 --from -5 --follow
  penstock read clicks -b localhost:9092 --from 2025-01-31T12:00Z --until 2025-01-31T13:00Z --json > clicks.jsonl
  penstock read clicks -b localhost:9092 --value-format json | jq .value.user
  penstock read clicks -b localhost:9092 --where "key LIKE 'user-1%' AND headers['kind'] = 'click'" --limit 10
  penstock read orders -b localhost:9092 --format avro --registry http://localhost:8081
  penstock read orders -b localhost:9092 --format json --schema 'id BIGINT, price DOUBLE' --mode DROPMALFORMED
  penstock read orders -b localhost:9092 --format protobuf --schema orders.proto --message Order

exit codes: 0 done, 1 failed (no broker, unknown topic, data lost), 2 wrong usage, 130 Ctrl-C
"""

FOLLOW_PAUSE = 0.5
WIDTHS = {"OFFSET": 8, "TIMESTAMP": 24, "KEY": 8}
PROGRESS_PAUSE = 0.2


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "read",
        help="show the records of a topic",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from", dest="start", default="earliest", metavar="POSITION", help="where to start (default earliest)"
    )
    parser.add_argument("--until", metavar="POSITION", help="where to stop, exclusive (default latest)")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated"
    )
    parser.add_argument("--where", metavar="SQL", help="show only the records that meet a predicate (docs/where.md)")
    parser.add_argument("--limit", type=record_count, metavar="N", help="stop after N records")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="wait for new records until Ctrl-C, or until your own class ends the partitions",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON lines (default if the output is not a terminal)"
    )
    parser.add_argument("--keys", action=argparse.BooleanOptionalAction, default=True, help="show keys (default: yes)")
    parser.add_argument("--headers", action="store_true", help="show headers")
    parser.add_argument("--key-format", choices=FORMATS, default="text", help="how to show keys (default text)")
    parser.add_argument("--value-format", choices=FORMATS, default="text", help="how to show values (default text)")
    _add_format_arguments(parser)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def _add_format_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("typed values", "-o accepts every option of docs/formats.md")
    group.add_argument(
        "--format",
        metavar="FORMAT",
        help="decode values: string, json, avro, protobuf, or your own class as package.module:Name",
    )
    group.add_argument("--schema", metavar="TEXT|FILE", help="DDL for json, JSON or .avsc for avro, .proto or .desc")
    group.add_argument("--message", metavar="NAME", help="the message of a Protobuf schema (default: the first)")
    group.add_argument(
        "--registry", metavar="URL", help="the schema registry; for a login use -o schemaRegistry....=..."
    )
    group.add_argument("--framing", choices=("none", "confluent"), help="the prefix of a value (see the docs)")
    group.add_argument("--mode", metavar="MODE", help="PERMISSIVE (default), DROPMALFORMED or FAILFAST")


def run(arguments: argparse.Namespace) -> int:
    if arguments.follow and arguments.until:
        raise OptionError("--until", arguments.until, "contradicts --follow", "Use one of the two")
    start = parse_position("--from", arguments.start)
    until = parse_position("--until", arguments.until or "latest")
    if isinstance(until, GroupOffsets):
        raise OptionError("--until", "group", "a group's offsets say where to start, not where to stop")
    given = _formats(arguments, connection_options(arguments)) | {"subscribe": arguments.topic}
    if arguments.where is not None:
        given["where"] = arguments.where
    with argument_names():
        options = parse_options(given)
    warn_of_ignored(options.ignored)
    refuse_columns(options)
    if options.formats.flatten or options.formats.mode == "DEADLETTER":
        raise OptionError("-o", None, "flatten and DEADLETTER are for queries, not for penstock read")
    if isinstance(start, GroupOffsets) and options.rules.group is None:
        raise OptionError("--from", "group", "needs the name of the group", "Add -o group.id=NAME")
    view, columns = _view(arguments, options)
    reader = TopicReader(options, arguments.topic, arguments.partition, view, columns)
    records = reader.records(start, until, arguments.follow, arguments.limit)
    if arguments.json or not sys.stdout.isatty():
        lines: Iterator[str] = map(view.json_line, records)
    else:
        width = shutil.get_terminal_size().columns
        rows = map(view.row, records)
        sample = 0 if arguments.follow else table.SAMPLE  # the next record may take long
        lines = table.lines(view.header, rows, right=("PARTITION", "OFFSET"), width=width, sample=sample, least=WIDTHS)
    for line in lines:
        say(line, flush=arguments.follow)
    return 0


def _view(
    arguments: argparse.Namespace, options: SourceOptions
) -> tuple[RecordView | TypedRecordView, list[str] | TypedPlan]:
    """How records are shown, and the columns to read for it."""
    if options.formats.typed:
        with argument_names():
            source = typed_source(options)
        where = source.parse_where(options.where)
        typed = typed_view(arguments.topic, source, keys=arguments.keys, headers=arguments.headers, where=where)
        return typed, typed.plan
    view = RecordView(arguments.topic, arguments.keys, arguments.headers, arguments.key_format, arguments.value_format)
    if options.where is None:
        return view, view.columns
    source = raw_source()
    return view, source.select(view.columns, where=source.parse_where(options.where))


def _formats(arguments: argparse.Namespace, options: dict[str, str]) -> dict[str, str]:
    """The options, with those that have their own arguments."""
    found = options | format_options(arguments)
    names = {name.lower() for name in found}
    if names.isdisjoint({"valueschema", "schemaregistry.url", "schemainference"}) and arguments.format == "json":
        # JSON without a schema: show it like --value-format json.
        del found["valueFormat"]
        arguments.value_format = "json"
    return found


class TopicReader:
    """Reads a topic up to its present end, and with --follow up to the next ends."""

    def __init__(
        self,
        options: SourceOptions,
        topic: str,
        partitions: list[int] | None,
        view: RecordView | TypedRecordView,
        columns: list[str] | TypedPlan,
    ) -> None:
        self._options = options
        self._columns = columns
        self._view = view
        self._offsets = TopicOffsets(options, topic, partitions)
        self._partitions = self._offsets.partitions
        self._ended: set[TopicPartition] = set()
        """Partitions that a user's own class has ended (F4)."""

    def records(self, start: Position, until: Position, follow: bool, limit: int | None) -> Iterator[dict[str, Any]]:
        # The ends first: records that are produced during the lookup of the start belong to the next round.
        stops = self._offsets.at(until, ending=True)
        positions = self._offsets.at(start)
        left = sys.maxsize if limit is None else limit
        while left > 0:
            with Rate(sum(max(stops[tp] - positions[tp], 0) for tp in stops)) as rate:
                for tp in self._partitions:
                    for record in self._read(tp, positions[tp], stops[tp]):
                        yield record
                        rate.count()
                        left -= 1
                        if left == 0:
                            return
            self._partitions = [tp for tp in self._partitions if tp not in self._ended]
            if not follow or not self._partitions:
                return
            # A truncated partition, whose end is before the position, is followed from its new end.
            positions = stops
            time.sleep(FOLLOW_PAUSE)
            stops = self._offsets.cluster.end(self._partitions)

    def _read(self, tp: TopicPartition, start: int, stop: int) -> Iterator[dict[str, Any]]:
        if start >= stop:
            return
        range_ = OffsetRange(tp.topic, tp.partition, start, stop, self._offsets.topic.topic_id)
        for batch in read_range(range_, self._columns, self._options, on_end=lambda _: self._ended.add(tp)):
            yield from self._view.records(batch)


class Rate:
    """Shows the number of records on standard error, if the records do not go to the terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._count = 0
        self._began = self._due = time.monotonic()
        self._progress = Progress()

    def count(self) -> None:
        self._count += 1
        if self._count % 1024 or sys.stdout.isatty():
            return
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PROGRESS_PAUSE
            rate = self._count / max(now - self._began, 0.001)
            share = min(self._count / max(self._total, 1), 1)
            self._progress.show(f"{self._count:,} records, {share:.0%}, {rate:,.0f} per second")

    def __enter__(self) -> Rate:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)


def refuse_columns(options: SourceOptions) -> None:
    if options.columns is not None:
        raise OptionError("columns", ", ".join(options.columns), "is for queries: this command has its own columns")


def record_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)
