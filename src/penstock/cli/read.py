"""`penstock read TOPIC`: shows, searches or saves the records of a topic."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from penstock.cli import table
from penstock.cli.argument_names import argument_names, format_options
from penstock.cli.arrow_start import without_pandas
from penstock.cli.connection import add_connection_arguments, connection_options
from penstock.cli.exit_codes import INTERRUPTED, OK
from penstock.cli.output import counted, json_text, say
from penstock.cli.positions import parse_position
from penstock.cli.record_file import STANDARD_OUTPUT, csv_lines, output_file, write_records
from penstock.cli.records import FORMATS, RecordView
from penstock.cli.topic_reader import TopicReader
from penstock.cli.typed_records import TypedRecordView, typed_view
from penstock.config.option import warn_of_ignored
from penstock.config.source import SourceOptions, parse_options
from penstock.errors import OptionError
from penstock.formats.plan import CHEAPEST, TypedPlan, raw_source
from penstock.model.offset_spec import GroupOffsets
from penstock.progress import can_move
from penstock.sampling.typed_source import typed_source

DESCRIPTION = """\
Show the records of a topic, one partition after the other: as a table on a terminal, as JSON lines in a pipe or file.
Stops at the present end of the topic, unless --follow is given. Characters that are not printable are escaped.
With --where it searches: Ctrl-C ends the search, and what was found so far is shown.
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
  penstock read clicks -b localhost:9092 --from -1h --where "value:user.id = 5 AND value:page LIKE '/cart%'"
  penstock read clicks -b localhost:9092 --where "value:status >= 500" --limit 0          count only
  penstock read clicks -b localhost:9092 --from -1d --output clicks.parquet
  penstock read clicks -b localhost:9092 --from -1d --csv > clicks.csv
  penstock read orders -b localhost:9092 --format avro --registry http://localhost:8081
  penstock read orders -b localhost:9092 --format json --schema 'id BIGINT, price DOUBLE' --mode DROPMALFORMED
  penstock read orders -b localhost:9092 --format protobuf --schema orders.proto --message Order

exit codes: 0 done, 1 failed (no broker, unknown topic, data lost), 2 wrong usage, 130 Ctrl-C
"""

WIDTHS = {"OFFSET": 8, "TIMESTAMP": 24, "KEY": 8}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from", dest="start", default="earliest", metavar="POSITION", help="where to start (default earliest)"
    )
    parser.add_argument("--until", metavar="POSITION", help="where to stop, exclusive (default latest)")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this partition; may be repeated"
    )
    parser.add_argument("--where", metavar="SQL", help="show only the records that meet a predicate (docs/where.md)")
    parser.add_argument(
        "--limit", type=record_count, metavar="N", help="stop after N records; with --where, 0 only counts them"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="wait for new records until Ctrl-C, or until your own class ends the partitions",
    )
    lines = parser.add_mutually_exclusive_group()
    lines.add_argument("--json", action="store_true", help="print JSON lines (default if the output is not a terminal)")
    lines.add_argument("--csv", action="store_true", help="print CSV with a header")
    lines.add_argument(
        "--output",
        type=output_file,
        metavar="FILE",
        help="write a file instead: .csv, .jsonl or .parquet; an existing one is replaced. - prints JSON lines",
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
    if arguments.output == STANDARD_OUTPUT:
        arguments.output, arguments.json = None, True
    _check(arguments)
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
    reader = TopicReader(options, arguments.topic, arguments.partition, columns)
    batches = reader.batches(start, until, arguments.follow, arguments.limit)
    if _only_counts(arguments, options.where):
        for _ in batches:  # none: it counts
            pass
    elif arguments.output is None:
        records = (record for batch in batches for record in view.records(batch))
        _print(records, view, arguments)
    else:
        say(f"{counted(write_records(arguments.output, batches, view), 'record')} to {arguments.output}")
    if options.where is not None:
        _summarize(reader, arguments)
    return INTERRUPTED if reader.interrupted else OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that contradict each other."""
    if arguments.follow and arguments.until:
        raise OptionError("--until", arguments.until, "contradicts --follow", "Use one of the two")
    if _only_counts(arguments, arguments.where) and (arguments.output or arguments.csv):
        name, file = ("--csv", None) if arguments.csv else ("--output", str(arguments.output))
        raise OptionError(name, file, "contradicts --limit 0, which only counts", "Leave out one of the two")


def _only_counts(arguments: argparse.Namespace, where: str | None) -> bool:
    return arguments.limit == 0 and where is not None


def _print(
    records: Iterator[dict[str, Any]], view: RecordView | TypedRecordView, arguments: argparse.Namespace
) -> None:
    lines: Iterator[str]
    if arguments.csv:
        lines = csv_lines(records, view)
    elif arguments.json or not sys.stdout.isatty():
        lines = map(view.json_line, records)
    else:
        width = shutil.get_terminal_size().columns
        rows = map(view.row, records)
        sample = 0 if arguments.follow or arguments.where else table.SAMPLE  # the next record may take long
        lines = table.lines(view.header, rows, right=("PARTITION", "OFFSET"), width=width, sample=sample, least=WIDTHS)
    for line in lines:
        say(line, flush=arguments.follow)


def _summarize(reader: TopicReader, arguments: argparse.Namespace) -> None:
    """The result of a count on standard output; that of a search beside it, on a terminal only."""
    scan = reader.scan
    if arguments.limit != 0:
        if can_move(sys.stderr):
            say(scan.summary, file=sys.stderr)
    elif arguments.json or not sys.stdout.isatty():
        say(json_text({"matches": scan.passed, "records": scan.read}))
    else:
        say(scan.summary)


def _view(
    arguments: argparse.Namespace, options: SourceOptions
) -> tuple[RecordView | TypedRecordView, list[str] | TypedPlan]:
    """How records are shown, and the columns to read for it."""
    if not (options.formats.key.is_custom or options.formats.value.is_custom):
        without_pandas()
    if options.formats.typed:
        with argument_names():
            source = typed_source(options)
        where = source.parse_where(options.where)
        typed = typed_view(arguments.topic, source, keys=arguments.keys, headers=arguments.headers, where=where)
        counts = _only_counts(arguments, options.where)
        return typed, source.select([CHEAPEST], where=where) if counts else typed.plan
    view = RecordView(arguments.topic, arguments.keys, arguments.headers, arguments.key_format, arguments.value_format)
    if options.where is None:
        return view, view.columns
    source = raw_source()
    columns = [CHEAPEST] if _only_counts(arguments, options.where) else view.columns
    return view, source.select(columns, where=source.parse_where(options.where))


def _formats(arguments: argparse.Namespace, options: dict[str, str]) -> dict[str, str]:
    """The options, with those that have their own arguments."""
    found = options | format_options(arguments)
    names = {name.lower() for name in found}
    if names.isdisjoint({"valueschema", "schemaregistry.url", "schemainference"}) and arguments.format == "json":
        # JSON without a schema: show it like --value-format json.
        del found["valueFormat"]
        arguments.value_format = "json"
    return found


def refuse_columns(options: SourceOptions) -> None:
    if options.columns is not None:
        raise OptionError("columns", ", ".join(options.columns), "is for queries: this command has its own columns")


def record_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)
