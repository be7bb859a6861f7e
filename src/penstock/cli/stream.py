"""`penstock stream TOPIC --to TARGET`: a topic into files or a database, until Ctrl-C or its end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.connecting import PATIENCE, add_connection_arguments, connection_options
from penstock.cli.live import LiveLine, summary
from penstock.cli.output import say
from penstock.cli.positions import AtOffset, LastRecords, nearest, parse_position
from penstock.cli.targets import Target, broken_pipe, parse_target
from penstock.errors import SinkError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.streamer.streamer import Streamer

DESCRIPTION = """\
Read a topic as a member of a consumer group and write it elsewhere: to Parquet files, a database, or the terminal.
Every record at least once: offsets are committed after the records are written. The same command goes on where it
stopped.
"""
EPILOG = """\
targets (--to):
  parquet:DIR                           files in a folder; ?partition_by=topic,date makes folders of them
  adbc:postgresql://HOST/NAME?table=T   a table of a database with an ADBC driver (pip install 'penstock[postgresql]');
  adbc:sqlite:FILE?table=T              made if it is not there, unless &mode=append is added; &schema=S says where;
                                        &duplicates=skip leaves out rows whose key the table has
  stdout                                JSON lines

positions (--from), for a group that starts as a whole; without it, it goes on from its offsets, or begins at earliest:
  earliest, latest      where a partition begins, where it ends now
  1234, -10             this offset, or ten before the end, in each partition
  2025-01-31T12:00Z     the first record at or after a time (without a zone: local time); 1738324800000 the same in ms

examples:
  penstock stream clicks -b localhost:9092 --to parquet:clicks --until-end
  penstock stream clicks -b localhost:9092 --to 'adbc:postgresql://me@localhost/shop?table=clicks' --text --threads 4
  penstock stream clicks -b localhost:9092 --to adbc:sqlite:clicks.db?table=clicks --dead-letter clicks-failed

exit codes: 0 done (also after SIGTERM), 1 it failed (no broker, no table), 2 wrong usage, 130 Ctrl-C
"""

TICK = 0.2
INTERRUPTED = 130


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "stream",
        help="write a topic to Parquet files or a database, continuously",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--to", required=True, metavar="TARGET", help="where to: see below")
    parser.add_argument("--group", metavar="NAME", help="the consumer group (default: made from topic and target)")
    parser.add_argument("--threads", type=_from_one, default=1, metavar="N", help="how many read and write (default 1)")
    parser.add_argument("--from", dest="start", metavar="POSITION", help="where to begin: see below")
    parser.add_argument("--until-end", action="store_true", help="stop where the topic ends now")
    parser.add_argument("--limit", type=_from_one, metavar="N", help="stop after so many records")
    parser.add_argument("--columns", type=_names, metavar="A,B", help="which to write (default all but headers)")
    parser.add_argument("--text", action="store_true", help="keys and values as text, not as bytes; others fail")
    parser.add_argument("--dead-letter", metavar="TOPIC", help="where records go that fail (default: skipped)")
    writing = parser.add_argument_group("writing: each thread, and whatever comes first (defaults: the target's own)")
    writing.add_argument("--flush-rows", type=_from_one, metavar="N", help="after so many rows")
    writing.add_argument("--flush-bytes", type=_from_one, metavar="N", help="after so many bytes, as Arrow in memory")
    writing.add_argument("--flush-interval", type=_seconds, metavar="SECONDS", help="after so long")
    writing.add_argument(
        "--retry-timeout", type=_seconds, default=5.0, metavar="SECONDS", help="pause after an error (default 5)"
    )
    writing.add_argument("--max-retries", type=_number, metavar="N", help="fail after so many (default: never)")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    target = parse_target(arguments.to, arguments.topic, arguments.columns)
    streamer = make_streamer(arguments, target)
    # Like Ctrl-C, and no error: it is how services are told to end.
    terminated: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: terminated.append(number))
    try:
        return _watch(streamer, target, terminated)
    finally:
        signal.signal(signal.SIGTERM, previous)


def make_streamer(arguments: argparse.Namespace, target: Target) -> Streamer:
    from penstock.config.consumer import parse_config
    from penstock.model.columns import checked_columns
    from penstock.streamer.streamer import Streamer

    given = {name.removeprefix("kafka."): value for name, value in connection_options(arguments).items()}
    given.setdefault("auto.offset.reset", "earliest")
    given.setdefault("group.id", target.group(arguments.topic))
    if arguments.group:
        given["group.id"] = arguments.group
    # Asked now, with little patience, because somebody waits. A stream that runs has more of it.
    start = starting_point(Cluster(parse_config(given).client), arguments.topic, arguments.start)
    for name, value in PATIENCE.items():
        if given.get(name.removeprefix("kafka.")) == value:
            del given[name.removeprefix("kafka.")]
    columns = arguments.columns if target.columns is None else target.columns
    as_text = arguments.text and not target.is_stdout
    return Streamer(
        arguments.topic,
        arguments.threads,
        with_text if as_text else None,
        target.sink,
        config=given,
        extracts="batch" if as_text else None,
        columns=columns or (checked_columns(None, include_headers=False) if as_text else None),
        dead_letter=arguments.dead_letter,
        start=start,
        until_end=arguments.until_end,
        limit=arguments.limit,
        flush_rows=arguments.flush_rows,
        flush_bytes=arguments.flush_bytes,
        flush_interval=arguments.flush_interval,
        retry_timeout=arguments.retry_timeout,
        max_retries=arguments.max_retries,
    )


def starting_point(cluster: Cluster, topic: str, position: str | None) -> Any:
    """What `--from` means to a Streamer. Raises UnknownTopic, too: a Streamer would wait for the topic."""
    partitions = [TopicPartition(topic, partition) for partition in cluster.metadata((topic,)).topics[topic].partitions]
    if position is None:
        return None
    start = parse_position("--from", position)
    if not isinstance(start, AtOffset | LastRecords):
        return start
    begin = {tp.partition: offset for tp, offset in cluster.begin(partitions).items()}
    end = {tp.partition: offset for tp, offset in cluster.end(partitions).items()}
    return {TopicPartition(topic, partition): offset for partition, offset in nearest(start, begin, end).items()}


def with_text(records: pa.RecordBatch) -> pa.RecordBatch:
    """Keys and values as text; raises where they are none."""
    import pyarrow as pa

    for at, name in enumerate(records.schema.names):
        if name in ("key", "value"):
            records = records.set_column(at, name, records.column(at).cast(pa.string()))
    return records


def _watch(streamer: Streamer, target: Target, terminated: list[int]) -> int:
    out = sys.stderr if target.is_stdout else sys.stdout
    quiet = target.is_stdout and not out.isatty()
    began = time.monotonic()
    code = 0
    streamer.start()
    try:
        # Where the records themselves go to the terminal, the line would stand in their midst.
        with LiveLine(out, quiet=quiet or (target.is_stdout and sys.stdout.isatty())) as line:
            while not streamer.wait(TICK):
                line.show(streamer.metrics())
                if terminated:
                    break
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SinkError as error:
        pipe = broken_pipe(error)
        raise pipe or error from None
    finally:
        try:
            streamer.stop()
        except KeyboardInterrupt:
            # Twice: what is not written comes again, and nobody wants to wait for it.
            os._exit(INTERRUPTED)
        if not quiet:
            say(summary(streamer.metrics(), streamer.topic, target.shown, time.monotonic() - began), file=out)
    if streamer.error is not None:
        raise streamer.error
    return code


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _number(text: str, least: int = 0) -> int:
    number = text.replace(",", "").replace("_", "")
    if not number.isdecimal() or int(number) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} on")
    return int(number)


def _from_one(text: str) -> int:
    return _number(text, 1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
