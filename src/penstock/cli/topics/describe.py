"""`penstock topics describe TOPIC`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.cli import table
from penstock.cli.output import Colour, counted, json_text, number_or_dash, say
from penstock.cli.topics.lookup import EXIT_CODES, client_config, topic_admin
from penstock.cli.verb import add_verb
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster

EPILOG = f"""\
examples:
  penstock topics describe clicks -b localhost:9092
  penstock topics describe clicks -b localhost:9092 --json

FIRST is the first offset that the log still has, END the offset of the next record to be written, RECORDS the
difference (compaction and transactions leave gaps, so there may be fewer records). LEADER, REPLICAS and IN SYNC are ids
of brokers. A - means that the partition has no leader.

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "describe", "show the partitions, replicas and settings of a topic", EPILOG, run)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it is shown. None: it has no leader."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first: int | None
    end: int | None
    records: int | None


def run(arguments: argparse.Namespace) -> int:
    client, name = client_config(arguments), arguments.topic
    cluster = Cluster(client)
    topic = cluster.metadata((name,)).topics[name]
    described = topic_admin(client).describe_topic(name)
    # Without partitions that have no leader: a request for their offsets would wait for one.
    led = [TopicPartition(name, number) for number, leader in topic.partitions.items() if leader is not None]
    first, end = cluster.begin(led), cluster.end(led)
    partitions = []
    for each in described.partitions:
        tp = TopicPartition(name, each.partition)
        records = end[tp] - first[tp] if tp in first else None
        offsets = (first.get(tp), end.get(tp), records)
        partitions.append(Partition(each.partition, each.leader, each.replicas, each.in_sync, *offsets))
    if arguments.json:
        shown = [asdict(each) for each in partitions]
        say(json_text({"topic": name, "settings": described.settings, "partitions": shown}))
        return 0
    total = sum(each.records or 0 for each in partitions)
    say(f"Topic {name}: {counted(len(partitions), 'partition')}, {counted(total, 'record')}")
    for setting, value in described.settings.items():
        say(f"  {setting} = {value}")
    say()
    rows = [
        (
            f"{each.partition}",
            number_or_dash(each.leader),
            ", ".join(map(str, each.replicas)),
            ", ".join(map(str, each.in_sync)),
            *map(number_or_dash, (each.first, each.end, each.records)),
        )
        for each in partitions
    ]
    header = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST", "END", "RECORDS")
    right = ("PARTITION", "LEADER", "FIRST", "END", "RECORDS")
    for line in table.shown(header, rows, right=right, colour=_colour):
        say(line)
    return 0


def _colour(column: str, row: Mapping[str, str]) -> Colour:
    """Red: a partition that cannot be read. Yellow: one with a replica that lags behind."""
    if column == "LEADER" and row["LEADER"] == "-":
        return Colour.RED
    lags = column == "IN SYNC" and row["IN SYNC"].count(",") < row["REPLICAS"].count(",")
    return Colour.YELLOW if lags else Colour.NONE
