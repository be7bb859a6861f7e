"""`penstock groups list`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.cli import table
from penstock.cli.groups import event_time_report
from penstock.cli.groups.event_time import add_event_time_arguments, ask_event_time, strategy_of
from penstock.cli.groups.lookup import EXIT_CODES, colour_of_lag, end_offsets, group_admin
from penstock.cli.output import json_text, number_or_dash, say
from penstock.cli.verb import add_verb
from penstock.errors import AuthorizationFailed
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import GroupAdmin

EPILOG = f"""\
examples:
  penstock groups list -b localhost:9092
  penstock groups list -b localhost:9092 --json | jq -r 'select(.state == "Empty").group'
  penstock groups list -b localhost:9092 --event-time

LAG is the sum over the partitions for which the group has committed an offset. A - means that there is none.

{EXIT_CODES}"""

SHOWN_KINDS = ("classic", "consumer")


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "list", "list the groups of all brokers, with their lag", EPILOG, run)
    parser.add_argument("--json", action="store_true", help="print one JSON object per group and line")
    add_event_time_arguments(parser, again=True)


def run(arguments: argparse.Namespace) -> int:
    strategy, admin = strategy_of(arguments), group_admin(arguments)
    groups = admin.groups()
    offsets = {each.group: _committed(admin, each.group) for each in groups if each.kind in SHOWN_KINDS}
    ends = end_offsets(admin, {tp for committed in offsets.values() for tp in committed})
    if strategy is not None:
        found = {
            group: ask_event_time(admin, committed, ends, strategy) for group, committed in offsets.items() if committed
        }
        for line in event_time_report.documents(found) if arguments.json else event_time_report.overview(found):
            say(line)
        return 0
    lags = {group: lag_of(committed, ends) for group, committed in offsets.items()}
    if arguments.json:
        for group in groups:
            say(json_text(asdict(group) | {"lag": lags.get(group.group)}))
        return 0
    if not groups:
        say("The cluster has no groups.")
        return 0
    rows = [(each.group, each.kind, each.state, each.protocol, number_or_dash(lags.get(each.group))) for each in groups]
    header = ("GROUP", "KIND", "STATE", "PROTOCOL", "LAG")
    for line in table.shown(header, rows, right=("LAG",), colour=colour_of_lag):
        say(line)
    return 0


def _committed(admin: GroupAdmin, group: str) -> dict[TopicPartition, int]:
    try:
        return {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
    except AuthorizationFailed:  # a list shows what this user may see
        return {}


def lag_of(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
    """The lag over all partitions whose end is known; None if there is none."""
    known = [max(0, ends[tp] - at) for tp, at in committed.items() if tp in ends]
    return sum(known) if known else None
