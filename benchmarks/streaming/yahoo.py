"""The job of the Yahoo streaming benchmark: views of ads, counted per campaign in windows of 10 seconds.

AvailableNow reads events as JSON, keeps the views, finds the campaign of each ad in a table, and counts. The result of
every side is checked against counts of the events that were loaded.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.formats.encodings import write_values
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import SPARK_CORES, WrongRead
from benchmarks.streaming.measurement import YAHOO
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream
from benchmarks.topics import BATCH_SIZE, Topic, load

ROWS = 3_000_000
QUICK_ROWS = 150_000
PARTITIONS = 4
CAMPAIGNS = 100
ADS = 1_000
DISTINCT = 50_021
"""Number of events that the topic repeats, as in the format figures."""

WINDOW_MS = 10_000
SPAN_MS = 600_000
"""The events lie in ten minutes: 60 windows."""

FIRST_TIME = 1_767_323_040_000
TYPES = ("view", "click", "purchase")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
SCHEMA = "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time BIGINT, ip STRING"
VIEWS = "value.event_type = 'view'"

COLUMNS = "columns"
WHERE = "columns and where"

SETTINGS = {
    # The default of 200 would measure the commits of 200 small states, on both sides.
    "spark.sql.shuffle.partitions": str(2 * SPARK_CORES),
}


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str = ""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


_TYPED = {"valueFormat": "json", "valueSchema": SCHEMA}
ENTRIES = (
    Entry(PENSTOCK, "", _TYPED),
    Entry(PENSTOCK, COLUMNS, {**_TYPED, "columns": "value.ad_id, value.event_type, value.event_time"}),
    Entry(PENSTOCK, WHERE, {**_TYPED, "columns": "value.ad_id, value.event_time", "where": VIEWS}),
    Entry(JVM),
)


@dataclass(frozen=True, slots=True)
class Advertising:
    """The ads with their campaigns, and the events."""

    ads: Sequence[tuple[str, str]]
    events: Sequence[Mapping[str, Any]]

    def views(self, rows: int) -> Counter[tuple[str, int]]:
        """How often each campaign is seen in each window, among the first events of the topic."""
        campaigns = dict(self.ads)
        whole, rest = divmod(rows, len(self.events))
        counted: Counter[tuple[str, int]] = Counter()
        for number, event in enumerate(self.events):
            if event["event_type"] == "view":
                window = event["event_time"] // WINDOW_MS * WINDOW_MS
                counted[campaigns[event["ad_id"]], window] += whole + (number < rest)
        return +counted


def advertising() -> Advertising:
    """The same in every call."""
    chance = random.Random(7_003)
    campaigns = [_id(chance) for _ in range(CAMPAIGNS)]
    ads = [(_id(chance), campaigns[number % CAMPAIGNS]) for number in range(ADS)]
    events = [
        {
            "user_id": _id(chance),
            "page_id": _id(chance),
            "ad_id": chance.choice(ads)[0],
            "ad_type": chance.choice(AD_TYPES),
            "event_type": chance.choice(TYPES),
            "event_time": FIRST_TIME + number * SPAN_MS // DISTINCT,
            "ip": ".".join(str(chance.randrange(256)) for _ in range(4)),
        }
        for number in range(DISTINCT)
    ]
    return Advertising(ads, events)


def _id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def measure(bench: BenchmarkRun) -> list[Measurement]:
    data = advertising()
    values = [json.dumps(event, separators=(",", ":")).encode() for event in data.events]
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-yahoo",
        "none",
        bench.sized(ROWS, QUICK_ROWS),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
        values=[write_values(bench.scratch / "yahoo.values", values)],
    )
    entries = [entry for entry in ENTRIES if entry.side in bench.sides]
    measured = {entry: Measurement(YAHOO, entry.case, entry.side, "s") for entry in entries}
    with ExitStack() as stack:
        running: dict[str, Stream] = {}
        for entry in entries:
            if entry.side not in running:
                running[entry.side] = stack.enter_context(Stream(entry.side, bench, SETTINGS))
            bench.progress(f"ads: {entry.side} {entry.case}: checking its counts")
            _count(running[entry.side], entry, topic, data, verify=True)
            bench.warm(f"ads: {entry.side} {entry.case}", partial(_seconds, running[entry.side], entry, topic, data))
        for turn in range(bench.rounds):
            for entry in entries:
                answer = _count(running[entry.side], entry, topic, data, verify=False)
                seconds = answer.pop("seconds")
                measured[entry].rounds.append(seconds)
                measured[entry].extra.append(answer)
                case = f", {entry.case}" if entry.case else ""
                bench.progress.note(f"ads: {entry.side}{case}, run {turn + 1} of {bench.rounds}: {seconds:.2f} s")
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())


def _seconds(stream: Stream, entry: Entry, topic: Topic, data: Advertising) -> float:
    seconds: float = _count(stream, entry, topic, data, verify=False)["seconds"]
    return seconds


def _count(stream: Stream, entry: Entry, topic: Topic, data: Advertising, *, verify: bool) -> dict[str, Any]:
    answer = stream.count_views(
        {"subscribe": topic.name, **entry.options},
        from_json=SCHEMA if entry.side == JVM else None,
        views=None if entry.case == WHERE else VIEWS,
        ads=data.ads,
        verify=verify,
    )
    expected = data.views(topic.rows)
    rows = expected.total() if entry.case == WHERE else topic.rows
    if answer["rows"] != rows:
        raise WrongRead(f"{stream.name} read {answer['rows']} of {rows} records of {topic.name}")
    if verify and {(campaign, window): count for campaign, window, count in answer.pop("counts")} != expected:
        raise WrongRead(f"{stream.name}, {entry.case}: wrong counts of views")
    return answer
