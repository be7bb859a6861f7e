"""`penstock topics`: the topics of a cluster."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from penstock.cli import table
from penstock.cli.connection import add_connection_arguments, connection_options
from penstock.cli.output import json_text, say
from penstock.config.source import parse_options
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster, Topic

DESCRIPTION = """\
List topics with their partitions and records. The number of records is the end offset minus the first offset.
Compaction and transactions leave gaps, so there may be fewer records.
"""
EPILOG = """\
examples:
  penstock topics -b localhost:9092
  penstock topics -b broker:9093 --options-file client.properties --json

exit codes: 0 done, 1 the cluster did not answer, 2 wrong usage, 130 Ctrl-C
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "topics",
        help="list a cluster's topics",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per topic and line")
    parser.add_argument("--internal", action="store_true", help="also list Kafka's internal topics")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class ListedTopic:
    topic: str
    partitions: int
    records: int
    internal: bool
    leaderless: list[int]


def run(arguments: argparse.Namespace) -> int:
    options = parse_options(connection_options(arguments) | {"subscribePattern": ".*"})
    listing = list_topics(Cluster(options.client), arguments.internal)
    if arguments.json:
        for listed in listing:
            say(json_text(asdict(listed)))
        return 0
    if not listing:
        say("The cluster has no topics.")
        return 0
    rows = [
        (listed.topic, f"{listed.partitions}", f"{listed.records:,}", _leaderless_text(listed.leaderless))
        for listed in listing
    ]
    for line in table.lines(("TOPIC", "PARTITIONS", "RECORDS", ""), rows, right=("PARTITIONS", "RECORDS")):
        say(line)
    return 0


def list_topics(cluster: Cluster, internal: bool) -> list[ListedTopic]:
    topics = cluster.metadata(None).topics
    chosen = [topic for name, topic in sorted(topics.items()) if internal or not topic.internal]
    # Without partitions that have no leader: a request for their offsets would wait for one.
    led = [TopicPartition(t.name, p) for t in chosen for p, leader in t.partitions.items() if leader is not None]
    begin, end = cluster.begin(led), cluster.end(led)
    return [_listed(topic, begin, end) for topic in chosen]


def _listed(topic: Topic, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> ListedTopic:
    mine = [tp for p in topic.partitions if (tp := TopicPartition(topic.name, p)) in begin]
    return ListedTopic(
        topic.name,
        len(topic.partitions),
        sum(end[tp] - begin[tp] for tp in mine),
        topic.internal,
        [p for p, leader in topic.partitions.items() if leader is None],
    )


def _leaderless_text(leaderless: list[int]) -> str:
    if not leaderless:
        return ""
    shown = ", ".join(map(str, leaderless[:5])) + (" ..." if len(leaderless) > 5 else "")
    return f"no leader: partition{'s' * (len(leaderless) > 1)} {shown} (not counted)"
