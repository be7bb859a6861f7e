"""`penstock groups list`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from penstock.cli import table
from penstock.cli.groups import event_time_report
from penstock.cli.groups.event_time import add_event_time_arguments, ask_event_time, strategy_of
from penstock.cli.groups.lookup import EXIT_CODES, end_offsets, group_admin
from penstock.cli.groups.verb import add_verb
from penstock.cli.output import json_text, say

EPILOG = f"""\
examples:
  penstock groups list -b localhost:9092
  penstock groups list -b localhost:9092 --json | jq -r 'select(.state == "Empty").group'
  penstock groups list -b localhost:9092 --event-time

{EXIT_CODES}"""

SHOWN_KINDS = ("classic", "consumer")


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "list", "list the groups of all brokers", EPILOG, run)
    parser.add_argument("--json", action="store_true", help="print one JSON object per group and line")
    add_event_time_arguments(parser, again=True)


def run(arguments: argparse.Namespace) -> int:
    strategy, admin = strategy_of(arguments), group_admin(arguments)
    groups = admin.groups()
    if strategy is not None:
        offsets = {
            each.group: {tp: commit.offset for tp, commit in admin.all_commits(each.group).items()}
            for each in groups
            if each.kind in SHOWN_KINDS
        }
        ends = end_offsets(admin, {tp for committed in offsets.values() for tp in committed})
        found = {
            group: ask_event_time(admin, committed, ends, strategy) for group, committed in offsets.items() if committed
        }
        for line in event_time_report.documents(found) if arguments.json else event_time_report.overview(found):
            say(line)
        return 0
    if arguments.json:
        for group in groups:
            say(json_text(asdict(group)))
        return 0
    if not groups:
        say("The cluster has no groups.")
        return 0
    rows = [(each.group, each.kind, each.state, each.protocol) for each in groups]
    for line in table.lines(("GROUP", "KIND", "STATE", "PROTOCOL"), rows):
        say(line)
    return 0
