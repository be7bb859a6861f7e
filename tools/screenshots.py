"""Take the pictures of `penstock watch` and `penstock top` in docs/figures, of a made-up shop on a real broker.

    python -m tools.screenshots [--to FOLDER]

It needs Debian's chromium and Playwright (the dependency group `browser`), and takes a minute. A shop writes orders,
clicks and payments. Of its groups one keeps up, one has stopped, and one falls behind until a second member joins it.
Two of Spark's queries read it, a third one fails.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import penstock
from penstock.cli.top.screen import drawn
from penstock.cli.top.view import View
from penstock.config.source import parse_options
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.collector import Collector
from penstock.monitor.settings import MonitorSettings
from penstock.testing import EmbeddedKafka
from penstock.wire.cluster import Cluster

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
LARGEST = 150_000
"""Bytes of a picture."""
SECONDS = 120.0
INTERVAL = 0.5
WIDTH = 1100

TOPICS = {"orders": 4, "clicks": 6, "payments": 3, "signups": 1, "shipments": 2, "returns": 1}
KEPT_HOURS = {"orders": 168, "clicks": 24, "payments": -1, "signups": 720, "shipments": 72, "returns": 720}
HISTORY = {"orders": 24_000, "clicks": 90_000, "payments": 12_000, "signups": 800, "shipments": 6_000, "returns": 0}
PER_SECOND = {"orders": 300, "clicks": 900, "payments": 120, "signups": 3, "shipments": 40, "returns": 0}
TICK = 0.1
COUNTRIES, PAGES = ("DE", "FR", "NL", "PL", "SE"), ("/", "/cart", "/search", "/item/4711", "/item/23")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=FIGURES, help="the folder to write to (default docs/figures)")
    folder = parser.parse_args().to
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with EmbeddedKafka() as kafka, Shop(kafka) as shop:
        take_pages(kafka, shop, folder)
        take_terminal(kafka, folder / "top.svg")
    for path in sorted(folder.glob("watch-*.png")):
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        if size > LARGEST:
            sys.exit(f"screenshots: {path.name} has more than {LARGEST:,} bytes")
    return 0


class Shop:
    """Topics with an hour of history, to which records are added until it ends, and groups that read them."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._options = kafka.client_options()
        self._random = random.Random(7)  # noqa: S311
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        for name, partitions in TOPICS.items():
            hours = KEPT_HOURS[name]
            kafka.create_topic(name, partitions, configs={"retention.ms": hours * 3_600_000 if hours > 0 else -1})

    def __enter__(self) -> Shop:
        began = datetime.now(UTC) - timedelta(hours=1)
        for name, count in HISTORY.items():
            times = [began + timedelta(hours=1) * at / count for at in range(count)]
            penstock.write_batches(self._options, self._records(name, times), topic=name)
        cluster = Cluster(parse_options(self._options | {"subscribePattern": ".*"}).client)
        for group, topic, share in (
            ("nightly-report", "clicks", 0.2),
            ("search-index", "signups", 0.98),
            ("billing", "orders", 0.97),
            ("fraud-alerts", "payments", 1.0),
        ):
            ends = cluster.end([TopicPartition(topic, at) for at in range(TOPICS[topic])])
            cluster.commit(group, {tp: int(end * share) for tp, end in ends.items()})
        self._start(self._produce)
        self.join("fraud-alerts", "payments", "alerts-1", 1000)
        self.join("billing", "orders", "billing-1", 150)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def join(self, group: str, topic: str, client: str, per_second: int) -> None:
        """A member that reads so many records per second."""
        self._start(lambda: self._consume(group, topic, client, per_second))

    def _start(self, work: Any) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _produce(self) -> None:
        with penstock.Writer(self._options) as writer:
            while not self._ended.wait(TICK):
                for name, rate in PER_SECOND.items():
                    count = max(1, round(rate * TICK)) if self._random.random() < rate * TICK else 0
                    writer.write(self._records(name, [datetime.now(UTC)] * count), topic=name)
                writer.flush()

    def _consume(self, group: str, topic: str, client: str, per_second: int) -> None:
        config = self._options | {
            "group.id": group,
            "client.id": client,
            "consumer.timeout.ms": 1000,
            "auto.commit.interval.ms": 2000,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        with penstock.ConsumerConnector(config) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            while not self._ended.is_set():
                with contextlib.suppress(penstock.ConsumerTimeout):
                    for at, _ in enumerate(stream):
                        if self._ended.is_set() or (at % 20 == 19 and self._ended.wait(20 / per_second)):
                            return

    def _records(self, name: str, times: list[datetime]) -> pa.Table:
        keys, values = zip(*(self._record(name) for _ in times), strict=True) if times else ((), ())
        return pa.table(
            {
                "key": pa.array(keys, pa.string()),
                "value": pa.array(values, pa.string()),
                "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )

    def _record(self, name: str) -> tuple[str, str]:
        chosen, number = self._random, next(self._numbers)
        user = f"user-{chosen.randrange(500)}"
        if name == "clicks":
            return user, json.dumps({"page": chosen.choice(PAGES), "ms": chosen.randrange(900)})
        amount = chosen.randrange(500, 25_000) / 100
        return user, json.dumps({"id": number, "country": chosen.choice(COUNTRIES), "amount": amount})


def take_pages(kafka: EmbeddedKafka, shop: Shop, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("screenshots: chromium is missing: apt-get install chromium")
    with ExitStack() as stack:
        url = stack.enter_context(watching(kafka))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack.callback(browser.close)
        page = browser.new_page(viewport={"width": WIDTH, "height": 800}, timezone_id="UTC", color_scheme="light")
        page.set_default_timeout(SECONDS * 1000)

        page.goto(url + "#/group/billing")
        rounds(page, 24)
        shop.join("billing", "orders", "billing-2", 1500)
        page.get_by_text("billing-2 joined").wait_for()
        rounds(page, 16)
        page.screenshot(path=folder / "watch-group.png")

        page.goto(url + "#/")
        page.get_by_text("Busiest topics").first.wait_for()
        rounds(page, 2)
        page.screenshot(path=folder / "watch-overview.png")

        take_queries(stack, kafka, url, page, folder)

        page.emulate_media(color_scheme="dark")
        page.goto(url + "#/topic/orders")
        page.get_by_text("50 records among").wait_for()
        page.get_by_label("Search records, in SQL").fill("value:country = 'DE' AND value:amount > 150")
        page.keyboard.press("Enter")
        page.get_by_text("50 records among").wait_for()
        page.locator(".tbody .tr").first.click()
        page.locator(".record").wait_for()
        page.set_viewport_size({"width": WIDTH, "height": 780})
        page.evaluate("document.querySelector('main').scrollTo(0, 0)")
        page.screenshot(path=folder / "watch-records.png")


def take_queries(stack: ExitStack, kafka: EmbeddedKafka, url: str, page: Any, folder: Path) -> None:
    """Spark's queries: all of them, and one of them in full."""
    from pyspark.sql import SparkSession, functions

    from penstock.spark import LagListener

    scratch = stack.enter_context(TemporaryDirectory())
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.log.level", "OFF")
    spark = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse").getOrCreate()
    stack.callback(spark.stop)
    listener = LagListener(page=url, log_interval=None)
    stack.callback(listener.close)
    spark.streams.addListener(listener)

    def start(name: str, frame: Any, every: str) -> Any:
        writer = frame.writeStream.format("noop").queryName(name).outputMode("update")
        return writer.option("checkpointLocation", f"{scratch}/{name}").trigger(processingTime=every).start()

    def read(topics: str, **options: object) -> Any:
        reader = spark.readStream.format("penstock").options(**kafka.client_options())
        return reader.options(subscribe=topics, startingOffsets="earliest", **options).load()

    by_time = read("clicks,returns", maxOffsetsPerTrigger=4000, **{"eventTime.maxDrift": "10m"})
    minute = functions.window("timestamp", "1 minute")
    by_time = by_time.withWatermark("timestamp", "10 minutes").groupBy(minute, "key").count()
    amounts = read("payments").selectExpr(
        "CAST(get_json_object(CAST(value AS STRING), '$.amount') AS DOUBLE) AS amount"
    )
    start("payments-to-lake", amounts, "1 second")
    running = start("clicks-by-minute", by_time, "0 seconds")
    broken = read("orders", maxOffsetsPerTrigger=1000).selectExpr("raise_error('order 17 has no currency')")
    start("orders-to-ledger", broken, "0 seconds")

    page.goto(url + "#/queries")
    page.get_by_text("failed", exact=True).wait_for()
    page.goto(f"{url}#/query/{running.runId}")
    page.get_by_text(re.compile("^Batches 0 to ([4-9]|[1-9][0-9]): ")).wait_for()
    page.get_by_text("idle", exact=True).first.wait_for()
    page.set_viewport_size({"width": WIDTH, "height": 1140})
    page.screenshot(path=folder / "watch-query.png")
    page.goto(url + "#/queries")
    page.set_viewport_size({"width": WIDTH, "height": 260})
    page.get_by_text("clicks-by-minute").wait_for()
    page.screenshot(path=folder / "watch-queries.png")
    page.set_viewport_size({"width": WIDTH, "height": 800})
    for query in spark.streams.active:
        query.stop()


@contextmanager
def watching(kafka: EmbeddedKafka) -> Iterator[str]:
    command = [sys.executable, "-m", "penstock.cli", "watch", "-b", kafka.bootstrap_servers, "--name", "shop"]
    process = subprocess.Popen(  # noqa: S603
        [*command, "--port", "0", "--interval", str(INTERVAL)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def rounds(page: Any, count: int) -> None:
    """Wait until the page has got so many snapshots more."""
    number = "Number(document.documentElement.dataset.number ?? 0)"
    wanted, deadline = page.evaluate(number) + count, time.monotonic() + SECONDS
    while page.evaluate(number) < wanted:
        if time.monotonic() > deadline:
            sys.exit("screenshots: the page gets no snapshots")
        page.wait_for_timeout(50)


def take_terminal(kafka: EmbeddedKafka, path: Path) -> None:
    from rich.console import Console

    client = parse_options(kafka.client_options() | {"subscribePattern": ".*"}).client
    with Collector(client, MonitorSettings(interval=INTERVAL)) as collector:
        number = 0
        for _ in range(12):  # rates need some rounds
            snapshot = collector.wait_for(number, SECONDS)
            if snapshot is None:
                sys.exit("screenshots: the cluster does not answer")
            number = snapshot.number
    console = Console(
        record=True, file=io.StringIO(), width=116, height=12, force_terminal=True, color_system="truecolor"
    )
    console.print(drawn(View(), snapshot, console, time.time()))
    text = console.export_svg(title="penstock top", code_format=SVG)
    path.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), "utf-8")


# rich's own format names fonts of another server.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" \
aria-labelledby="title">
  <title id="title">penstock top: a table of consumer groups with their lag in records and in seconds</title>
  <style>
    .{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
    .{unique_id}-title {{ font-family: -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", Arial, sans-serif; \
font-size: 18px; font-weight: bold; }}
    {styles}
  </style>
  <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
    </clipPath>
    {lines}
  </defs>
  {chrome}
  <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
  </g>
</svg>
"""


if __name__ == "__main__":
    sys.exit(main())
