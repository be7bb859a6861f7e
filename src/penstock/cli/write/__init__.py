"""`penstock write TOPIC [FILE...]`: writes JSON lines, CSV or Parquet to a topic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.cli.argument_names import argument_names, format_options
from penstock.cli.connection import add_connection_arguments, connection_options
from penstock.cli.output import counted, say
from penstock.cli.records import FORMATS
from penstock.cli.target_topic import add_create_argument, target_topic
from penstock.cli.transfer import Transfer, partition_lines, summary
from penstock.cli.write import input_file
from penstock.cli.write.input_file import BadInput, InputFile, input_files
from penstock.cli.write.layout import InputSettings
from penstock.cli.write.source import open_source
from penstock.cli.write.typed_lines import type_to_write
from penstock.errors import OptionError

DESCRIPTION = """\
Write the rows of files, or of standard input, to a topic: JSON lines, CSV or Parquet, by the extension of a file.
A file whose columns are those of records (value; key, headers, timestamp, partition) is written as such, and so is
what `penstock read --json` prints. Each row of any other file becomes a JSON object; --key names the field for the key.
"""
EPILOG = """\
examples:
  penstock read clicks -b localhost:9092 --headers | penstock write clicks-again -b localhost:9092 --create 4
  penstock write clicks clicks.jsonl -b localhost:9092 --key user
  penstock write orders orders.csv more-orders.csv.gz -b localhost:9092 --key id --create 4
  penstock write orders orders.parquet -b localhost:9092 -o compression.type=zstd
  penstock write orders orders.csv -b localhost:9092 --input-schema 'id BIGINT, zip STRING'
  penstock write orders orders.jsonl -b localhost:9092 --format avro --schema order.avsc
  penstock write orders orders.jsonl -b localhost:9092 --format avro --registry http://localhost:8081

exit codes: 0 done, 1 failed (no broker, unknown topic, a bad line), 2 wrong usage, 130 Ctrl-C
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("file", metavar="FILE", nargs="*", help="what to write; - is standard input (default)")
    parser.add_argument("--key", metavar="FIELD", help="the field of a row that is its key (default: no key)")
    add_create_argument(parser)
    parser.add_argument("--keep-partitions", action="store_true", help="write records to the partitions that they name")
    parser.add_argument("--verbose", action="store_true", help="also print what was written to each partition")
    _add_input_arguments(parser)
    _add_format_arguments(parser)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def _add_input_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input")
    group.add_argument(
        "--input-format",
        choices=input_file.FORMATS,
        help="the format of the files (default: by extension; jsonl for standard input)",
    )
    group.add_argument(
        "--layout",
        choices=("records", "rows"),
        help="whether columns are those of records, or rows are values (default: by the first row)",
    )
    group.add_argument(
        "--input-schema", metavar="DDL", help="types of the columns, as 'id BIGINT, zip STRING' (default: inferred)"
    )
    group.add_argument(
        "--delimiter", metavar="CHAR", help="between the columns of CSV (default: a comma; a tab for .tsv)"
    )
    group.add_argument(
        "--key-format", choices=FORMATS, default="text", help="how keys of JSON records are written (default text)"
    )
    group.add_argument(
        "--value-format", choices=FORMATS, default="text", help="how values of JSON records are written (default text)"
    )


def _add_format_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("typed values", "-o accepts every option of docs/formats.md")
    group.add_argument("--format", metavar="FORMAT", help="encode values: json, avro or protobuf")
    group.add_argument("--schema", metavar="TEXT|FILE", help="DDL for json, JSON or .avsc for avro, .proto or .desc")
    group.add_argument("--message", metavar="NAME", help="the message of a Protobuf schema (default: the first)")
    group.add_argument(
        "--registry", metavar="URL", help="the schema registry; for a login use -o schemaRegistry....=..."
    )
    group.add_argument("--framing", choices=("none", "confluent"), help="the prefix of a value (see the docs)")


def run(arguments: argparse.Namespace) -> int:
    from penstock.arrow.writing import Writer
    from penstock.config.sink import parse_sink_options

    if arguments.format == "json" and arguments.registry is None:
        arguments.format = None  # lines are JSON already, and rows become JSON by default
    settings = input_settings(arguments)
    files = input_files(arguments.file, arguments.input_format)
    options = connection_options(arguments) | format_options(arguments) | {"topic": arguments.topic}
    with argument_names():
        client = parse_sink_options(options).client
    if arguments.format is not None and settings.schema is None and any(file.format == "jsonl" for file in files):
        settings = replace(settings, schema=type_to_write(options, arguments.topic))
    inputs = Inputs(files, settings, typed=arguments.format is not None)
    if inputs.needs_format:
        options.setdefault("valueFormat", "json")
    target_topic(client, arguments.topic, arguments.create)
    transfer = Transfer()
    with argument_names(), transfer, Writer(options) as writer:
        try:
            for batch in inputs.batches():
                writer.write(batch)
                transfer.count(batch.num_rows, inputs.share())
        except BadInput as error:
            # What comes before it is written, so that the user can continue there.
            writer.flush()
            raise error.after(writer.result.rows) from error
    say(summary(writer.result, arguments.topic, transfer.seconds))
    if writer.dropped:
        say(f"{counted(writer.dropped, 'row')} could not be encoded", file=sys.stderr)
    if arguments.verbose:
        for line in partition_lines(writer.result):
            say(line)
    return 0


def input_settings(arguments: argparse.Namespace) -> InputSettings:
    schema = None
    if arguments.input_schema is not None:
        from penstock.formats.schema import parse_schema

        try:
            schema = parse_schema(arguments.input_schema)
        except ValueError as error:
            raise OptionError("--input-schema", arguments.input_schema, str(error)) from None
    if arguments.delimiter is not None and len(arguments.delimiter) != 1:
        raise OptionError("--delimiter", arguments.delimiter, "is not one character")
    return InputSettings(
        layout=arguments.layout,
        key=arguments.key,
        key_format=arguments.key_format,
        value_format=arguments.value_format,
        keep_partitions=arguments.keep_partitions,
        schema=schema,
        delimiter=arguments.delimiter,
    )


class Inputs:
    """All files, one after the other. The first is opened at once, because it decides how values are written."""

    def __init__(self, files: list[InputFile], settings: InputSettings, *, typed: bool) -> None:
        self._files = files
        self._settings = settings
        self._typed = typed
        self._source = open_source(files[0], settings, typed=typed)
        self._at = 0
        sizes = [file.size for file in files]
        self._sizes = [size or 0 for size in sizes] if None not in sizes else None
        self.needs_format = self._source.needs_format

    def batches(self) -> Iterator[pa.RecordBatch]:
        for at, file in enumerate(self._files):
            self._at = at
            if at:
                self._source = open_source(file, self._settings, typed=self._typed)
                if self._source.needs_format != self.needs_format:
                    raise BadInput(
                        file, "", f"has other columns than {self._files[0]}. Write it with a command of its own"
                    )
            yield from self._source.batches()

    def share(self) -> float | None:
        """How much of all files was read, from 0 to 1; None if that is unknown."""
        part = self._source.share()
        if part is None or self._sizes is None or not sum(self._sizes):
            return None
        return (sum(self._sizes[: self._at]) + part * self._sizes[self._at]) / sum(self._sizes)
