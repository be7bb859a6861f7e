"""`penstock stream TOPIC --to TARGET`: copies a topic to files or a database, until Ctrl-C or its end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.connection import INTERACTIVE_OPTIONS, add_connection_arguments, connection_options
from penstock.cli.exit_codes import INTERRUPTED
from penstock.cli.live_line import LiveLine, summary
from penstock.cli.output import say
from penstock.cli.positions import AtOffset, LastRecords, nearest, parse_position
from penstock.cli.targets import Target, broken_pipe, parse_target
from penstock.errors import SinkError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.consumer.subscription import TopicFilter
    from penstock.streamer.streamer import Streamer

DESCRIPTION = """\
Read topics as a member of a consumer group and write them to Parquet files, a table, a database, or the terminal. Every
record is written at least once: offsets are committed after the records are written. Tables of Delta Lake and Iceberg
hold the offsets too, and have each record exactly once. The same command continues where it stopped.
"""
EPILOG = """\
targets (--to):
  parquet:DIR                           files in a folder; ?partition_by=topic,date adds a folder per value
  delta:DIR, delta:s3://BUCKET/DIR      a Delta Lake table, created if missing (pip install 'penstock[delta]')
                                        &partition_by=A,B, &create=false; others are options of the storage
  iceberg:NAMESPACE.TABLE?catalog=C     an Iceberg table (pip install 'penstock[iceberg]'), the same parameters; others
                                        are properties of the catalog: &type=sql&uri=...&warehouse=...
  adbc:postgresql://HOST/NAME?table=T   a table of a database with an ADBC driver (pip install 'penstock[postgresql]')
  adbc:sqlite:FILE?table=T              &mode=append requires an existing table (default: it is created)
                                        &schema=S is the table's schema
                                        &duplicates=skip skips rows whose key is in the table
  stdout                                JSON lines

positions (--from), if no other member of the group runs (default: the offsets of the table or group, or earliest):
  earliest, latest      the beginning of a partition, its end now
  1234, -10             this offset, or ten before the end, in each partition
  2025-01-31T12:00Z     the first record at or after a time (without a zone: local time); 1738324800000 the same in ms
  -1h, -30m, -2d        the same, counted back from now

examples:
  penstock stream clicks -b localhost:9092 --to parquet:clicks --until-end
  penstock stream clicks,orders -b localhost:9092 --to delta:/data/events?partition_by=topic,date
  penstock stream 'shop-.*' --pattern -b localhost:9092 --to delta:/data/shop
  penstock stream orders -b localhost:9092 --to delta:/data/orders -o valueFormat=avro -o flatten=true \\
    -o schemaRegistry.url=http://localhost:8081
  penstock stream clicks -b localhost:9092 --to 'adbc:postgresql://me@localhost/shop?table=clicks' --text --threads 4
  penstock stream clicks -b localhost:9092 --to adbc:sqlite:clicks.db?table=clicks --dead-letter clicks-failed

exit codes: 0 done (also after SIGTERM), 1 failed (no broker, no table), 2 wrong usage, 130 Ctrl-C
"""

TICK = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("topic", metavar="TOPIC", help="a topic, or several: A,B")
    parser.add_argument("--pattern", action="store_true", help="TOPIC is a regular expression of whole topic names")
    parser.add_argument("--to", required=True, metavar="TARGET", help="the destination: see below")
    parser.add_argument("--group", metavar="NAME", help="the consumer group (default: derived from topic and target)")
    parser.add_argument(
        "--threads", type=_positive, default=1, metavar="N", help="number of threads that read and write (default 1)"
    )
    parser.add_argument("--from", dest="start", metavar="POSITION", help="where to start: see below")
    parser.add_argument("--until-end", action="store_true", help="stop at the present end of the topic")
    parser.add_argument("--limit", type=_positive, metavar="N", help="stop after N records")
    parser.add_argument("--columns", type=_names, metavar="A,B", help="columns to write (default: all but headers)")
    parser.add_argument(
        "--text", action="store_true", help="write keys and values as text; a record that is not UTF-8 fails"
    )
    parser.add_argument(
        "--dead-letter", metavar="TOPIC", help="topic for records that fail (default: they are skipped)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no status and no summary")
    writing = parser.add_argument_group("limits at which a thread writes its rows (defaults: those of the target)")
    writing.add_argument("--flush-rows", type=_positive, metavar="N", help="after N rows")
    writing.add_argument("--flush-bytes", type=_positive, metavar="N", help="after N bytes, as Arrow in memory")
    writing.add_argument("--flush-interval", type=_seconds, metavar="SECONDS", help="after this time")
    writing.add_argument("--retry-timeout", type=_seconds, metavar="SECONDS", help="pause after an error (default 5)")
    writing.add_argument(
        "--max-retries", type=_number, metavar="N", help="fail after N consecutive retries (default: never)"
    )
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    target = parse_target(arguments.to, arguments.topic, arguments.columns)
    streamer = make_streamer(arguments, target)
    # Stops the stream like Ctrl-C, with exit code 0: it is the signal that ends a service.
    terminated: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: terminated.append(number))
    try:
        return _watch(streamer, target, terminated, quiet=arguments.quiet)
    finally:
        signal.signal(signal.SIGTERM, previous)


def make_streamer(arguments: argparse.Namespace, target: Target) -> Streamer:
    from penstock.config.consumer import parse_config
    from penstock.config.option import merged
    from penstock.consumer.subscription import AllowTopics
    from penstock.model.columns import checked_columns
    from penstock.streamer.config import checked_topics
    from penstock.streamer.streamer import Streamer

    given = merged(
        {"auto.offset.reset": "earliest", "group.id": target.group(arguments.topic)},
        connection_options(arguments),
        {"group.id": arguments.group} if arguments.group else {},
    )
    # A short time-out here, because the user waits. The running stream uses the default.
    topics: str | list[str] | AllowTopics = arguments.topic.split(",")
    if arguments.pattern:
        topics = AllowTopics(arguments.topic)
    start = starting_point(Cluster(parse_config(given).client), checked_topics(topics), arguments.start)
    given = {name: value for name, value in given.items() if INTERACTIVE_OPTIONS.get(name) != value}
    columns = arguments.columns if target.columns is None else target.columns
    as_text = arguments.text and not target.is_stdout
    settings = ("limit", "flush_rows", "flush_bytes", "flush_interval", "retry_timeout", "max_retries")
    given_settings: Any = {name: value for name in settings if (value := getattr(arguments, name)) is not None}
    return Streamer(
        topics,
        arguments.threads,
        with_text if as_text else None,
        target.sink,
        config=given,
        extracts="batch" if as_text else None,
        columns=columns or (checked_columns(None, include_headers=False) if as_text else None),
        dead_letter=arguments.dead_letter,
        start=start,
        until_end=arguments.until_end,
        **given_settings,
    )


def starting_point(cluster: Cluster, topics: tuple[str, ...] | TopicFilter, position: str | None) -> Any:
    """The start that `--from` means for a Streamer. Raises UnknownTopic: a Streamer would wait for the topic."""
    listed = cluster.metadata(topics if isinstance(topics, tuple) else None).topics
    names = topics if isinstance(topics, tuple) else sorted(topics.allowed(list(listed)))
    if position is None:
        return None
    start = parse_position("--from", position)
    if not isinstance(start, AtOffset | LastRecords):
        return start
    found: dict[TopicPartition, int] = {}
    for topic in names:
        partitions = [TopicPartition(topic, partition) for partition in listed[topic].partitions]
        begin = {tp.partition: offset for tp, offset in cluster.begin(partitions).items()}
        end = {tp.partition: offset for tp, offset in cluster.end(partitions).items()}
        found |= {TopicPartition(topic, partition): at for partition, at in nearest(start, begin, end).items()}
    return found


def with_text(records: pa.RecordBatch) -> pa.RecordBatch:
    """Keys and values as text. Raises if they are not UTF-8."""
    import pyarrow as pa

    for at, name in enumerate(records.schema.names):
        if name in ("key", "value"):
            records = records.set_column(at, name, records.column(at).cast(pa.string()))
    return records


def _watch(streamer: Streamer, target: Target, terminated: list[int], *, quiet: bool) -> int:
    out = sys.stderr if target.is_stdout else sys.stdout
    quiet = quiet or (target.is_stdout and not out.isatty())
    began = time.monotonic()
    code = 0
    streamer.start()
    try:
        # No status line between records that are printed on the terminal.
        with LiveLine(out, streamer.group, quiet=quiet or (target.is_stdout and sys.stdout.isatty())) as line:
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
            # The second Ctrl-C: end at once. Unwritten records are read again by the next run.
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(number)


def _positive(text: str) -> int:
    return _number(text, 1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
