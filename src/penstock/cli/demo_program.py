"""What `penstock demo` does: a million shop events go into a real Kafka and come back as a table of windows."""

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
import zlib
from collections.abc import Iterator
from pathlib import Path

from penstock.cli import table
from penstock.cli.steps import Step, step
from penstock.config.source import parse_options
from penstock.errors import PenstockError
from penstock.testing import KAFKA_VERSION, EmbeddedKafka
from penstock.wire.api.produce import PackedRecords, Producer, Record, pack

TOPIC = "shop-events"
BATCH = 2500
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
    from penstock.spark.demo import SparkStart, seconds_to_read, shop_events, windows

    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(_sigterm_as_interrupt())
        scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
        # Spark takes some seconds to start, in a process of its own: long done when the events are written.
        spark_start = cleanup.enter_context(SparkStart(scratch))

        print("Penstock demo: Kafka -> PySpark, no JAR\n", flush=True)
        with step(f"Apache Kafka {KAFKA_VERSION}, a real one"):
            kafka = cleanup.enter_context(EmbeddedKafka())
            kafka.create_topic(TOPIC, partitions)
        with step(f"{events:,} shop events into {partitions} partitions", "events") as progress:
            produce(kafka, events, progress)
        with step("Spark"):
            spark = spark_start.result()
        frame = shop_events(spark, kafka.client_options(), TOPIC)
        with step("Windows of ten minutes: read, parse JSON, aggregate"):
            rows = windows(frame).collect()
        with step("All columns again, three times, into nothing") as reading:
            seconds = statistics.median(seconds_to_read(frame) for _ in range(3))
            reading.note = f"{events / seconds:,.0f} rows per second"
        print()
        header = ("WINDOW (UTC)", "VIEWS", "CARTS", "ORDERS", "REVENUE", "BUYERS")
        cells = [
            (
                f"{row.start:%H:%M} - {row.end:%H:%M}",
                *(f"{number:,}" for number in (row.views, row.carts, row.orders)),
                f"{row.revenue:,.2f}",
                f"{row.buyers:,}",
            )
            for row in rows
        ]
        for line in table.lines(header, cells, right=header[1:]):
            print(f"  {line}")
        print(f"\n  {events:,} rows read in {seconds:.2f} s (median of 3): {events / seconds:,.0f} rows per second\n")
        if keep:
            _keep(kafka)
        else:
            print(NEXT)


NEXT = """\
Where next:
  penstock demo --keep     the same, and the broker stays: look into it with `penstock read shop-events`
  README.md                your own topics, in PySpark, in plain Python, in tests
  docs/batch.md            where to start and stop, filters, security
  docs/streaming.md        readStream: limits, groups and lag, data loss
  docs/formats.md          typed columns: JSON, Avro, Protobuf, a schema registry, bad records
  docs/event-time.md       windows that lose no slow partition
  docs/consumer.md         Kafka without Spark: groups, streams, sinks
  docs/options.md          every option
  make bench               beside Spark's own Kafka source, on this machine"""


def produce(kafka: EmbeddedKafka, count: int, progress: Step) -> None:
    """Write the events. A fifth of them is encoded, and written five times at different times of the hour: to encode a
    million records in Python would take longer than everything else in the demo."""
    client = parse_options({**kafka.client_options(), "subscribe": TOPIC}).client
    progress.total = count
    with Producer(client, TOPIC) as producer:
        start = (int(time.time() * 1000) // HOUR - 1) * HOUR
        kinds = [packed_events(count // PARTS, producer.partitions, start, seed) for seed in range(KINDS)]
        rest = packed_events(count % PARTS, producer.partitions, start, KINDS)
        for number, batches in enumerate([*kinds * (PARTS // KINDS), rest]):
            for partition, records in batches:
                producer.append_packed(partition, records._replace(first=records.first + part_start(number)))
                progress.done += records.size
    progress.note = f"{count / progress.seconds:,.0f} per second"


def part_start(number: int) -> int:
    """Milliseconds after the start of the hour. Parts overlap in its middle, which is busier."""
    share = number / PARTS
    return int((HOUR - HOUR // PARTS) * (share + 0.09 * math.sin(2 * math.pi * share)))


def packed_events(count: int, partitions: int, start: int, seed: int) -> list[tuple[int, PackedRecords]]:
    """Batches of events with the partition of each, in order of time; all events of a user are in one partition."""
    waiting: list[list[Record]] = [[] for _ in range(partitions)]
    packed: list[tuple[int, PackedRecords]] = []
    for record in make_events(count, start, HOUR // PARTS, seed):
        assert record.key is not None
        partition = zlib.crc32(record.key) % partitions
        waiting[partition].append(record)
        if len(waiting[partition]) == BATCH:
            packed.append((partition, pack(waiting[partition])))
            waiting[partition] = []
    return packed + [(partition, pack(batch)) for partition, batch in enumerate(waiting) if batch]


def make_events(count: int, start: int, span: int, seed: int) -> Iterator[Record]:
    """Events in order of time: views, some carts, few orders."""
    chance = random.Random(seed)  # noqa: S311
    endings = [
        f'"product":{json.dumps(name)},"category":"{category}","price":{price}}}'.encode()
        for name, category, price in PRODUCTS
    ]
    actions = [b"view"] * 78 + [b"cart"] * 15 + [b"order"] * 7
    draw = chance.random
    for number in range(count):
        user = b"user-%05d" % int(20_000 * draw() * draw())  # few users come often
        luck = draw()
        yield Record(
            user,
            b'{"user":"%b","action":"%b",%b'
            % (user, actions[int(luck * 100)], endings[int(luck * 1e6) % len(endings)]),
            start + span * number // count,
        )


def _keep(kafka: EmbeddedKafka) -> None:
    print(
        f"The broker stays at {kafka.bootstrap_servers} until Ctrl-C. In another window:\n\n"
        f"  penstock topics -b {kafka.bootstrap_servers}\n"
        f"  penstock read {TOPIC} -b {kafka.bootstrap_servers} --from -5\n",
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
