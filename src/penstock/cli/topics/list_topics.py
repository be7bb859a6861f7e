"""`penstock topics list`, and `penstock topics` without a verb."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.cli import table
from penstock.cli.output import Colour, json_text, say
from penstock.cli.topics.lookup import EXIT_CODES, client_config
from penstock.cli.verb import add_verb
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster, Topic

EPILOG = f"""\
examples:
  penstock topics list -b localhost:9092
  penstock topics list -b localhost:9092 --json | jq -r .topic

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "list", "list topics with their partitions and records", EPILOG, run)
    add_list_arguments(parser, again=True)


def add_list_arguments(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: for the verb. Its defaults must not replace arguments before it."""
    off = argparse.SUPPRESS if again else False
    parser.add_argument("--json", action="store_true", default=off, help="print one JSON object per topic and line")
    parser.add_argument("--internal", action="store_true", default=off, help="also list Kafka's internal topics")


@dataclass(frozen=True, slots=True)
class ListedTopic:
    topic: str
    partitions: int
    records: int
    internal: bool
    leaderless: list[int]


def run(arguments: argparse.Namespace) -> int:
    listing = list_topics(Cluster(client_config(arguments)), arguments.internal)
    if arguments.json:
        for each in listing:
            say(json_text(asdict(each)))
        return 0
    if not listing:
        say("The cluster has no topics.")
        return 0
    rows = [
        (each.topic, f"{each.partitions}", f"{each.records:,}", _leaderless_text(each.leaderless)) for each in listing
    ]
    header = ("TOPIC", "PARTITIONS", "RECORDS", "")
    for line in table.shown(header, rows, right=("PARTITIONS", "RECORDS"), colour=_colour):
        say(line)
    return 0


def _colour(column: str, row: Mapping[str, str]) -> Colour:
    return Colour.NONE if column else Colour.RED  # the last column names partitions without a leader


def list_topics(cluster: Cluster, internal: bool) -> list[ListedTopic]:
    topics = cluster.metadata(None).topics
    chosen = [topic for name, topic in sorted(topics.items()) if internal or not topic.internal]
    return listed(cluster, chosen)


def listed(cluster: Cluster, topics: Sequence[Topic]) -> list[ListedTopic]:
    """Topics with their numbers of records."""
    # Without partitions that have no leader: a request for their offsets would wait for one.
    led = [TopicPartition(t.name, p) for t in topics for p, leader in t.partitions.items() if leader is not None]
    begin, end = cluster.begin(led), cluster.end(led)
    return [_listed(topic, begin, end) for topic in topics]


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
