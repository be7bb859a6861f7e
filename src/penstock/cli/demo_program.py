"""What `penstock demo` does: a million shop events go into a real Kafka. PySpark aggregates them by windows, and writes
the windows back into Kafka, from where they are shown."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.reading import read_batches
from penstock.cli import table
from penstock.cli.steps import Step, step
from penstock.config.sink import parse_sink_options
from penstock.errors import PenstockError
from penstock.testing import KAFKA_VERSION, EmbeddedKafka
from penstock.wire.producer.producer import Producer
from penstock.writer.columns import KEY, TIMESTAMP, VALUE
from penstock.writer.record_writer import RecordWriter

TOPIC, WINDOWS = "shop-events", "shop-windows"
WINDOW_SCHEMA = "start TIMESTAMP, end TIMESTAMP, views INT, carts INT, orders INT, revenue DOUBLE, buyers INT"
HOUR = 3_600_000
PARTS, KINDS = 20, 4
"""The hour consists of 20 parts of 4 kinds, which alternate."""

PRODUCTS = [
    (name, category, cents / 100)
    for category, things in {
        "coffee": {"espresso beans 1 kg": 2190, "filter beans 500 g": 1190, "decaf 250 g": 790},
        "gear": {"hand grinder": 8900, "gooseneck kettle": 6450, "scale": 3990, "paper filters": 450},
        "cups": {"espresso cup": 950, "travel mug": 2400, "glass carafe": 3150},
        "books": {"The Long Brew": 1800, "Water, Heat, Time": 2650},
    }.items()
    for name, cents in things.items()
]


def run_demo(events: int, partitions: int, *, keep: bool = False) -> None:
    """Broker, events, Spark, table. Whatever happens, nothing is left behind."""
    if importlib.util.find_spec("pyspark") is None:
        raise PenstockError("the demo needs PySpark. Get it: pip install 'penstock[spark]'")
    from penstock.spark.demo import SparkStart, seconds_to_read, shop_events, windows, write

    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(_sigterm_as_interrupt())
        scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
        # Spark takes some seconds to start, in a process of its own: long done when the events are written.
        spark_start = cleanup.enter_context(SparkStart(scratch))

        print("Penstock demo: Kafka -> PySpark -> Kafka, no JAR\n", flush=True)
        with step(f"Apache Kafka {KAFKA_VERSION}, a real one"):
            kafka = cleanup.enter_context(EmbeddedKafka())
            kafka.create_topic(TOPIC, partitions)
            kafka.create_topic(WINDOWS, 1)
        with step(f"{events:,} shop events into {partitions} partitions", "events") as progress:
            produce(kafka, events, progress)
        with step("Spark"):
            spark = spark_start.session()
        frame = shop_events(spark, kafka.client_options(), TOPIC)
        with step(f"Windows of ten minutes into topic {WINDOWS}, exactly once"):
            write(windows(frame), kafka.client_options(), WINDOWS)
        with step("All columns again, three times, into nothing") as reading:
            seconds = statistics.median(seconds_to_read(frame) for _ in range(3))
            reading.note = f"{events / seconds:,.0f} rows per second"
        print(f"\n  Topic {WINDOWS}, as readers of committed records see it:\n")
        header = ("WINDOW (UTC)", "VIEWS", "CARTS", "ORDERS", "REVENUE", "BUYERS")
        cells = [
            (
                f"{row['start']:%H:%M} - {row['end']:%H:%M}",
                *(f"{row[name]:,}" for name in ("views", "carts", "orders")),
                f"{row['revenue']:,.2f}",
                f"{row['buyers']:,}",
            )
            for row in written_windows(kafka)
        ]
        for line in table.shown(header, cells, right=header[1:]):
            print(f"  {line}")
        print(f"\n  {events:,} rows read in {seconds:.2f} s (median of 3): {events / seconds:,.0f} rows per second\n")
        if keep:
            _keep(kafka)
        else:
            print(NEXT)


def written_windows(kafka: EmbeddedKafka) -> list[dict[str, Any]]:
    """The windows in Kafka, in order of time."""
    reader = read_batches(
        {**kafka.client_options(), "kafka.isolation.level": "read_committed"},
        subscribe=WINDOWS,
        valueFormat="json",
        valueSchema=WINDOW_SCHEMA,
        flatten=True,
        columns=[field.split()[0] for field in WINDOW_SCHEMA.split(", ")],
    )
    windows: list[dict[str, Any]] = reader.read_all().sort_by("start").to_pylist()
    return windows


NEXT = """\
Where next:
  penstock demo --keep     the same, and the broker stays: look into it with `penstock read shop-events`
  README.md                your own topics, in PySpark, in plain Python, in tests
  docs/batch.md            where to start and stop, filters, security
  docs/streaming.md        readStream: limits, groups and lag, data loss
  docs/writing.md          write.format("penstock") and writeStream: columns, topics, errors
  docs/exactly-once.md     each row once, whatever fails
  docs/formats.md          typed columns: JSON, Avro, Protobuf, a schema registry, bad records
  docs/event-time.md       windows that lose no slow partition
  docs/consumer.md         Kafka without Spark: groups, streams, sinks
  docs/options.md          every option
  make bench               beside Spark's own Kafka source, on this machine"""


def produce(kafka: EmbeddedKafka, count: int, progress: Step) -> None:
    """Write the events. A fifth of them is made up, and written five times at different times of the hour: to make up a
    million records in Python would take longer than everything else in the demo."""
    given = {**kafka.client_options(), "topic": TOPIC, "kafka.compression.type": "zstd"}
    options = parse_sink_options(given)
    progress.total = count
    start = (int(time.time() * 1000) // HOUR - 1) * HOUR
    kinds = [make_events(count // PARTS, HOUR // PARTS, seed) for seed in range(KINDS)]
    rest = make_events(count % PARTS, HOUR // PARTS, KINDS)
    with RecordWriter(options, Producer(options.client, options.producer)) as writer:
        writer.begin()
        for number, events in enumerate([*kinds * (PARTS // KINDS), rest]):
            times = pc.add(events.column(TIMESTAMP), start + part_start(number))
            writer.write(events.set_column(0, TIMESTAMP, times.cast(pa.timestamp("ms"))))
            progress.done = writer.metrics.rows
        writer.flush()
        progress.done = writer.metrics.rows
    progress.note = f"{count / progress.seconds:,.0f} per second"


def part_start(number: int) -> int:
    """Milliseconds after the start of the hour. Parts overlap in its middle, which is busier."""
    share = number / PARTS
    return int((HOUR - HOUR // PARTS) * (share + 0.09 * math.sin(2 * math.pi * share)))


def make_events(count: int, span: int, seed: int) -> pa.RecordBatch:
    """Events in order of time, in milliseconds from 0 to `span`: views, some carts, few orders."""
    chance = random.Random(seed)  # noqa: S311
    endings = [
        f'"product":{json.dumps(name)},"category":"{category}","price":{price}}}'.encode()
        for name, category, price in PRODUCTS
    ]
    actions = [b"view"] * 78 + [b"cart"] * 15 + [b"order"] * 7
    draw = chance.random
    users, values = [], []
    for _ in range(count):
        user = b"user-%05d" % int(20_000 * draw() * draw())  # few users come often
        luck = draw()
        users.append(user)
        values.append(
            b'{"user":"%b","action":"%b",%b' % (user, actions[int(luck * 100)], endings[int(luck * 1e6) % len(endings)])
        )
    times = [span * number // count for number in range(count)]
    return pa.record_batch(
        {
            TIMESTAMP: pa.array(times, pa.int64()),
            KEY: pa.array(users, pa.binary()),
            VALUE: pa.array(values, pa.binary()),
        }
    )


def _keep(kafka: EmbeddedKafka) -> None:
    print(
        f"The broker stays at {kafka.bootstrap_servers} until Ctrl-C. In another window:\n\n"
        f"  penstock topics -b {kafka.bootstrap_servers}\n"
        f"  penstock read {TOPIC} -b {kafka.bootstrap_servers} --from -5\n"
        f"  penstock read {WINDOWS} -b {kafka.bootstrap_servers}\n",
        flush=True,
    )
    kafka.wait()


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM tidies up like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
