"""F26: a running query of a real Spark on the page of `penstock watch`, in a real browser: see fixtures/page.py."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from fixtures.page import cells, tile, until
from fixtures.produce import Rec
from penstock.spark import LagListener
from support.group_tool import described

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(600)]

PARTITIONS, FIRST, MORE, PER_TRIGGER = 3, 150, 750, 30
DEADLINE = 120.0


def until_tile(page, title: str, wanted: str) -> list[str]:
    """All values that a tile had until it had the one that is waited for."""
    seen, deadline = [tile(page, title)], time.monotonic() + DEADLINE
    while seen[-1] != wanted:
        assert time.monotonic() < deadline, seen
        page.wait_for_timeout(20)
        value = tile(page, title)
        if value != seen[-1]:
            seen.append(value)
    return seen


def partitions_of(page) -> list[list[str]]:
    """Topic, partition, committed, end and lag, as Kafka's own tool prints them."""
    rows = cells(page, "Lag by partition")
    return sorted([row[0], row[1], *(text.replace(",", "") for text in row[2:5])] for row in rows)


@pytest.fixture
def listened(spark) -> Callable[[str], LagListener]:
    """`listened(url)`: a listener that reports to this page."""
    added: list[LagListener] = []

    def add(url: str) -> LagListener:
        made = LagListener(page=url, log_interval=None)
        spark.streams.addListener(made)
        added.append(made)
        return made

    yield add
    for each in added:
        spark.streams.removeListener(each)
        each.close()


@pytest.fixture
def start(spark, kafka, tmp_path):
    """`start(topic, group)`: the query, which goes on where it was stopped."""
    started = []

    def run(topic: str, group: str):
        options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.group.id": group}
        reader = spark.readStream.format("penstock").options(**kafka.client_options() | options)
        stream = reader.option("maxOffsetsPerTrigger", PER_TRIGGER).load()
        writer = stream.writeStream.format("noop").queryName("orders").option("checkpointLocation", str(tmp_path))
        started.append(writer.trigger(processingTime="0 seconds").start())
        return started[-1]

    yield run
    for each in started:
        each.stop()


def test_F26_lag_rises_while_a_query_is_stopped_and_falls_when_it_runs_again(
    kafka, topic, produce, page, watch, listened, start
):
    name = topic(partitions=PARTITIONS)
    group = f"{name}-group"
    produce(name, [Rec(b"v", b"k%d" % at, partition=at % PARTITIONS) for at in range(FIRST)])
    url = watch(kafka, "--include-topics", name, "--include-groups", group)
    listened(url)
    page.goto(f"{url}#/group/{group}")

    query = start(name, group)
    until_tile(page, "Lag", "0")
    query.stop()
    produce(name, [Rec(b"v", b"k%d" % (FIRST + at), partition=at % PARTITIONS) for at in range(MORE)])
    until_tile(page, "Lag", f"{MORE:,}")
    assert partitions_of(page) == described(kafka, group)

    page.goto(f"{url}#/queries")
    page.get_by_text("finished", exact=True).wait_for()

    page.goto(f"{url}#/group/{group}")
    until_tile(page, "Lag", f"{MORE:,}")
    again = start(name, group)
    falling = [int(each.replace(",", "")) for each in until_tile(page, "Lag", "0")]
    assert falling == sorted(falling, reverse=True)
    assert len(falling) > 2, "the page is renewed while the query catches up"
    until(page, f"document.querySelector('figcaption').textContent.includes('at most {MORE:,}.')")
    assert partitions_of(page) == described(kafka, group)

    page.goto(f"{url}#/query/{again.runId}")
    page.get_by_text("triggerExecution").wait_for()
    until_tile(page, "Lag", "0")
    assert tile(page, "State") == "running"
    whole = (FIRST + MORE) // PARTITIONS
    shown = sorted((row[0], row[1], row[2], row[3]) for row in cells(page, "Lag by partition"))
    assert shown == [(name, str(partition), "0", str(whole)) for partition in range(PARTITIONS)]

    page.goto(f"{url}#/topic/{name}")
    page.get_by_text("50 records among").wait_for()
    page.get_by_label("Search records, in SQL").fill("key = 'k777'")
    page.keyboard.press("Enter")
    page.get_by_text(f"1 record among {FIRST + MORE}").wait_for()
    assert cells(page, "Newest records")[0][3] == "k777"
    assert page.errors == []
