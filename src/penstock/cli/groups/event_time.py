"""`--event-time`: its arguments, and the lookup of event times in the cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from penstock.cli.groups.event_time_report import GroupEventTime, group_event_time
from penstock.errors import OptionError
from penstock.eventtime.strategy import WatermarkStrategy, time_span
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster


def add_event_time_arguments(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """`again`: the arguments may also stand before the verb."""
    wanted = parser.add_argument_group("event time")
    absent = argparse.SUPPRESS if again else None
    wanted.add_argument(
        "--event-time",
        action="store_true",
        default=argparse.SUPPRESS if again else False,
        help="show event-time watermarks, by record timestamps; without a verb: of all groups",
    )
    wanted.add_argument(
        "--out-of-orderness",
        metavar="TIME",
        default=absent,
        help="how far records may be out of order, such as 10s",
    )
    wanted.add_argument(
        "--max-drift",
        metavar="TIME",
        default=absent,
        help="show the partitions that a query with this drift holds back, such as 5m",
    )


def strategy_of(arguments: argparse.Namespace) -> WatermarkStrategy | None:
    """The watermark strategy of the arguments; None without --event-time."""
    given = {
        name: time_span(name, text)
        for name in ("--out-of-orderness", "--max-drift")
        if (text := getattr(arguments, name[2:].replace("-", "_"))) is not None
    }
    if arguments.event_time:
        return WatermarkStrategy.bounded(given.get("--out-of-orderness", 0)).with_alignment(given.get("--max-drift"))
    for name in given:
        raise OptionError(name, None, "has no effect without --event-time", "Add --event-time")
    return None


def refuse_event_time(arguments: argparse.Namespace) -> None:
    if strategy_of(arguments) is not None:
        raise OptionError("--event-time", None, f"cannot be used with {arguments.verb}", "It is for list and describe")


def ask_event_time(
    cluster: Cluster,
    committed: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int],
    strategy: WatermarkStrategy,
) -> GroupEventTime:
    """RecordView up the event times of a group. Only partitions in `ends` are looked up."""
    there = [tp for tp in committed if tp in ends]
    begins = cluster.begin(there)
    reached = cluster.max_timestamps({tp: at for tp in there if (at := committed[tp]) is not None})
    newest = cluster.newest_timestamps(there)
    return group_event_time(committed, begins, ends, reached, newest, strategy, int(time.time() * 1000))
