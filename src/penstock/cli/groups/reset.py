"""`penstock groups reset GROUP`: a dry run unless --execute is given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from penstock.cli import table
from penstock.cli.groups.event_time import refuse_event_time
from penstock.cli.groups.lookup import EXIT_CODES, group_admin
from penstock.cli.groups.moves import Move, Shift, Target, parse_target, parse_topic, read_offsets_file
from penstock.cli.groups.reset_plan import plan_reset, unused_group
from penstock.cli.output import counted, json_text, number_or_dash, say
from penstock.cli.verb import add_verb
from penstock.errors import OptionError
from penstock.model.topic_partition import TopicPartition

EPILOG = f"""\
positions (--to):
  earliest, latest      the beginning of a partition, its end now
  1234                  this offset, or the nearest one that exists
  -10                   ten offsets before the end of each partition
  2025-01-31T12:00Z     the first record at or after a time (without a zone: local time); the end if there is none
  1738324800000         the same in milliseconds (13 digits)
  -1h, -30m, -2d        the same, counted back from now

examples:
  penstock groups reset words -b localhost:9092 --topic clicks --to 2025-01-31T12:00Z
  penstock groups reset words -b localhost:9092 --all-topics --to latest --execute
  penstock groups reset words -b localhost:9092 --from-file offsets.csv --execute

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "reset", "set the committed offsets of a group (dry run by default)", EPILOG, run)
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:0,1]",
        help="a topic, or some of its partitions; may be repeated",
    )
    parser.add_argument("--all-topics", action="store_true", help="every partition with a committed offset")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="POSITION", help="the new position: see below")
    where.add_argument("--by", type=int, metavar="N", help="move the committed offsets by N, backwards if negative")
    where.add_argument("--from-file", metavar="FILE", help="read lines of topic,partition,offset, or JSON")
    parser.add_argument("--execute", action="store_true", help="commit the offsets; without it they are only shown")
    parser.add_argument("--json", action="store_true", help="print one JSON object per partition and line")


def run(arguments: argparse.Namespace) -> int:
    refuse_event_time(arguments)
    target = _target(arguments)
    topics = [parse_topic(text) for text in arguments.topic]
    admin, group = group_admin(arguments), arguments.group
    described = unused_group(admin, group)
    plan = plan_reset(admin, group, target, None if arguments.all_topics else topics)
    if arguments.execute:
        admin.commit(group, {TopicPartition(move.topic, move.partition): move.new for move in plan})
    _show(plan, arguments.json, executed=arguments.execute)
    offsets = counted(len(plan), "offset")
    summary = (
        f"Committed {offsets} of group {group}."
        if arguments.execute
        else f"Dry run: nothing was changed. To commit {'this' if len(plan) == 1 else 'these'} {offsets}"
        f"{'' if described else ', which creates the group,'} add --execute."
    )
    say(summary, file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _target(arguments: argparse.Namespace) -> Target:
    named = [name for name, given in (("--topic", arguments.topic), ("--all-topics", arguments.all_topics)) if given]
    if arguments.from_file is not None:
        if named:
            raise OptionError(named[0], None, "contradicts --from-file", f"Leave {named[0]} out")
        return read_offsets_file(arguments.from_file)
    if len(named) != 1:
        reason = "contradicts --all-topics" if named else "is missing"
        raise OptionError("--topic", None, reason, "Use --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    return Shift(arguments.by) if arguments.by is not None else parse_target(arguments.to)


def _show(plan: Sequence[Move], as_json: bool, executed: bool) -> None:
    if as_json:
        for move in plan:
            say(json_text(asdict(move) | {"executed": executed}))
        return
    rows = [
        (
            move.topic,
            f"{move.partition}",
            number_or_dash(move.old),
            f"{move.new:,}",
            _change(move),
            move.note,
        )
        for move in plan
    ]
    header = ("TOPIC", "PARTITION", "OLD", "NEW", "CHANGE", "")
    for line in table.shown(header, rows, right=("PARTITION", "OLD", "NEW", "CHANGE")):
        say(line)
    say()


def _change(move: Move) -> str:
    if move.old is None:
        return ""
    return f"{move.new - move.old:+,}" if move.new != move.old else "0"
