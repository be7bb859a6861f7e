"""`penstock groups`: the consumer groups of a cluster, how far they are, and to send one elsewhere."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.cli import group_times, table
from penstock.cli.connecting import add_connection_arguments, connection_options
from penstock.cli.event_time import add_event_time_arguments, ask_event_time, refuse_event_time, strategy_of
from penstock.cli.output import json_text, say
from penstock.cli.resets import Listed, Move, Shift, Target, moves, parse_target, parse_topic, read_offsets_file
from penstock.config.source import parse_options
from penstock.errors import BrokerError, OptionError, UnknownTopic
from penstock.model.offset_spec import AtTimestamp
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import DescribedGroup, GroupAdmin

DESCRIPTION = """\
Look at the consumer groups of a cluster: which there are, who is in them and how far behind they are. Send a group to
other offsets, or delete it. What changes something is a dry run unless --execute is given.
"""
EXIT_CODES = "exit codes: 0 done, 1 it failed (no broker, no such group, a group in use), 2 wrong usage, 130 Ctrl-C\n"

EPILOG = f"""\
examples:
  penstock groups -b localhost:9092 list
  penstock groups -b localhost:9092 describe words
  penstock groups -b localhost:9092 --event-time describe words
  penstock groups -b localhost:9092 --event-time
  penstock groups -b localhost:9092 reset words --topic clicks --to earliest
  penstock groups -b localhost:9092 reset words --topic clicks:0,1 --by -100 --execute
  penstock groups -b localhost:9092 delete words --execute

{EXIT_CODES}"""

LIST_EPILOG = f"""\
examples:
  penstock groups list -b localhost:9092
  penstock groups list -b localhost:9092 --json | jq -r 'select(.state == "Empty").group'
  penstock groups list -b localhost:9092 --event-time

{EXIT_CODES}"""

DESCRIBE_EPILOG = f"""\
examples:
  penstock groups describe words -b localhost:9092
  penstock groups describe words -b localhost:9092 --event-time --out-of-orderness 10s --max-drift 5m

COMMITTED is the next offset the group will read, END that of the next record to be written, LAG what lies between
(compaction and transactions leave gaps, so there may be fewer records). A - stands for what is not known or not there.

With --event-time: WATERMARK is how far the committed records of a partition are in time, by their timestamps. BEHIND
NEWEST is the way to the partition's newest record, BEHIND NOW that to this moment, AHEAD how far it is before the
slowest. The watermark of the group is that of the slowest; a partition that is read to its end is idle and holds
nobody back. One that is ahead by more than --max-drift is held back by a query that has this drift.

{EXIT_CODES}"""

RESET_EPILOG = f"""\
positions (--to):
  earliest, latest      where a partition begins, where it ends now
  1234                  this offset, or the nearest one the partition has
  -10                   ten offsets before the end of each partition
  2025-01-31T12:00Z     the first record at or after a time (without a zone: local time); the end if there is none
  1738324800000         the same in milliseconds (13 digits)

examples:
  penstock groups reset words -b localhost:9092 --topic clicks --to 2025-01-31T12:00Z
  penstock groups reset words -b localhost:9092 --all-topics --to latest --execute
  penstock groups reset words -b localhost:9092 --from-file offsets.csv --execute

{EXIT_CODES}"""

DELETE_EPILOG = f"""\
example:
  penstock groups delete words -b localhost:9092 --execute

{EXIT_CODES}"""

MEMBERS_SHOWN = 5
SHOWN_KINDS = ("classic", "consumer")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "groups",
        help="list, describe, reset and delete consumer groups",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection_arguments(parser)
    add_event_time_arguments(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def run_without_verb(arguments: argparse.Namespace) -> int:
        if not arguments.event_time:
            parser.error("the following arguments are required: VERB")
        return run_list(arguments)

    parser.set_defaults(run=run_without_verb, json=False)

    listing = _verb(verbs, "list", "the groups of all brokers", LIST_EPILOG, run_list)
    listing.add_argument("--json", action="store_true", help="one JSON object per group and line")
    add_event_time_arguments(listing, again=True)

    describing = _verb(verbs, "describe", "state, members, offsets and lag of a group", DESCRIBE_EPILOG, run_describe)
    describing.add_argument("group", metavar="GROUP")
    describing.add_argument("--json", action="store_true", help="one JSON object")
    add_event_time_arguments(describing, again=True)

    resetting = _verb(verbs, "reset", "send a group to other offsets (a dry run first)", RESET_EPILOG, run_reset)
    resetting.add_argument("group", metavar="GROUP")
    resetting.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:0,1]",
        help="a topic, or some of its partitions; may be repeated",
    )
    resetting.add_argument("--all-topics", action="store_true", help="every partition that the group has an offset for")
    where = resetting.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="POSITION", help="where to send it: see below")
    where.add_argument("--by", type=int, metavar="N", help="so many offsets on from where it stands; below 0: back")
    where.add_argument("--from-file", metavar="FILE", help="lines of topic,partition,offset, or JSON")
    resetting.add_argument("--execute", action="store_true", help="do it; without this the offsets are only shown")
    resetting.add_argument("--json", action="store_true", help="one JSON object per partition and line")

    deleting = _verb(verbs, "delete", "delete a group and its offsets", DELETE_EPILOG, run_delete)
    deleting.add_argument("group", metavar="GROUP")
    deleting.add_argument("--execute", action="store_true", help="do it; without this it is only said what would go")


def _verb(verbs: Any, name: str, what: str, epilog: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection_arguments(parser, again=True)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)
    return parser


def _admin(arguments: argparse.Namespace) -> GroupAdmin:
    return GroupAdmin(parse_options(connection_options(arguments) | {"subscribePattern": ".*"}).client)


# --- list ---------------------------------------------------------------------------------------------------------


def run_list(arguments: argparse.Namespace) -> int:
    strategy, admin = strategy_of(arguments), _admin(arguments)
    groups = admin.groups()
    if strategy is not None:
        offsets = {
            each.group: {tp: commit.offset for tp, commit in admin.all_commits(each.group).items()}
            for each in groups
            if each.kind in SHOWN_KINDS
        }
        ends = _ends(admin, {tp for committed in offsets.values() for tp in committed})
        found = {
            group: ask_event_time(admin, committed, ends, strategy) for group, committed in offsets.items() if committed
        }
        for line in group_times.documents(found) if arguments.json else group_times.overview(found):
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


# --- describe -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a group is in one partition. What is not there or not known is None."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member_id: str | None


def standings(
    described: DescribedGroup, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[Standing]:
    """Every partition that the group has an offset for or a member reads, by name and number."""
    owners = {tp: member.member_id for member in described.members for tp in member.partitions}
    found = []
    for tp in sorted({*committed, *owners}):
        at, end = committed.get(tp), ends.get(tp)
        lag = None if at is None or end is None else max(0, end - at)
        found.append(Standing(tp.topic, tp.partition, at, end, lag, owners.get(tp)))
    return found


def run_describe(arguments: argparse.Namespace) -> int:
    strategy, admin, group = strategy_of(arguments), _admin(arguments), arguments.group
    described = _existing(admin, group)
    committed = {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
    read = {tp for member in described.members for tp in member.partitions}
    ends = _ends(admin, {*committed, *read})
    rows = standings(described, committed, ends)
    times = None
    if strategy is not None:
        times = ask_event_time(admin, {tp: committed.get(tp) for tp in {*committed, *read}}, ends, strategy)
    if arguments.json:
        more = {} if times is None else {"event_time": group_times.document(times)}
        say(json_text(_document(described, admin, rows) | more))
        return 0
    for line in _report(described, admin, rows, times):
        say(line)
    return 0


def _document(described: DescribedGroup, admin: GroupAdmin, rows: Sequence[Standing]) -> dict[str, Any]:
    coordinator = admin.coordinator(described.group)
    return {
        "group": described.group,
        "kind": described.kind,
        "state": described.state,
        "assignor": described.assignor,
        "coordinator": {"id": coordinator.node_id, "host": coordinator.host, "port": coordinator.port},
        "members": [
            asdict(member) | {"partitions": [tp._asdict() for tp in member.partitions]} for member in described.members
        ],
        "partitions": [asdict(row) for row in rows],
        "lag": sum(row.lag or 0 for row in rows),
    }


def _report(
    described: DescribedGroup,
    admin: GroupAdmin,
    rows: Sequence[Standing],
    times: group_times.GroupEventTime | None = None,
) -> Iterable[str]:
    coordinator, members = admin.coordinator(described.group), described.members
    with_assignor = f", assignor {described.assignor}" if described.assignor else ""
    yield (
        f"Group {described.group} ({described.kind}): {described.state}{with_assignor}, "
        f"{_counted(len(members), 'member')}, coordinator {coordinator.host}:{coordinator.port} "
        f"(broker {coordinator.node_id})"
    )
    if members:
        yield ""
        yield from table.lines(
            ("MEMBER", "CLIENT", "HOST", "INSTANCE", "PARTITIONS"),
            [
                (m.member_id, m.client_id, m.host, m.instance_id or "-", f"{len(m.partitions)}")
                for m in sorted(members, key=lambda member: (member.client_id, member.member_id))
            ],
            right=("PARTITIONS",),
        )
    yield ""
    if not rows:
        yield "No offsets are committed, and no member reads a partition."
        return
    if times is not None:
        yield from group_times.report(times)
        return
    yield from table.lines(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"),
        [
            (row.topic, f"{row.partition}", *map(_number, (row.committed, row.end, row.lag)), row.member_id or "-")
            for row in rows
        ],
        right=("PARTITION", "COMMITTED", "END", "LAG"),
    )
    yield ""
    unread = sum(row.member_id is None for row in rows)
    by_nobody = f", {unread} of them read by nobody" if unread and members else ""
    uncommitted = sum(row.committed is None for row in rows)
    never = f", {uncommitted} without a committed offset" if uncommitted else ""
    total = sum(row.lag or 0 for row in rows)
    yield f"Total: lag {total:,} over {_counted(len(rows), 'partition')}{by_nobody}{never}"


def _ends(admin: GroupAdmin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where partitions end; those that are gone or have no leader are left out: to ask for them would wait."""
    wanted = set(partitions)
    if not wanted:
        return {}
    metadata, _ = admin.listing(sorted({tp.topic for tp in wanted}))
    return admin.end([tp for tp in wanted if metadata.leader(tp) is not None])


def _existing(admin: GroupAdmin, group: str) -> DescribedGroup:
    described = admin.describe(group)
    if described is not None:
        return described
    others = {listed.group: listed.kind for listed in admin.groups()}
    if group in others:
        raise BrokerError(f"group {group!r} is a {others[group]} group. Only classic and consumer groups can be shown")
    close = difflib.get_close_matches(group, others, n=3)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "`penstock groups list` shows which there are"
    raise BrokerError(f"group {group!r} does not exist. {hint}")


# --- reset --------------------------------------------------------------------------------------------------------


def run_reset(arguments: argparse.Namespace) -> int:
    refuse_event_time(arguments)
    target = _target(arguments)
    topics = [parse_topic(text) for text in arguments.topic]
    admin, group = _admin(arguments), arguments.group
    described = admin.describe(group)
    if described is not None and described.members:
        raise BrokerError(_in_use(described, "its offsets can be reset"))
    committed = {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
    if isinstance(target, Listed) or arguments.all_topics:
        given = target.offsets if isinstance(target, Listed) else committed
        if not given:
            raise BrokerError(f"group {group!r} has committed no offsets. Name topics with --topic")
        partitions = _partitions(admin, [(tp.topic, (tp.partition,)) for tp in given])
    else:
        partitions = _partitions(admin, topics)
    # The ends first: a record that is produced while a time is looked up must not lie past them.
    ends = admin.end(partitions)
    begins = admin.begin(partitions)
    times = {tp: time for tp in partitions if isinstance(target, AtTimestamp) and (time := target.of(tp)) is not None}
    plan = moves(target, partitions, committed, begins, ends, admin.first_at(times, ends))
    if arguments.execute:
        admin.commit(group, {TopicPartition(move.topic, move.partition): move.new for move in plan})
    _show(plan, arguments.json, executed=arguments.execute)
    counted = _counted(len(plan), "offset")
    said = (
        f"Committed {counted} of group {group}."
        if arguments.execute
        else f"Dry run: nothing was changed. To commit {'this' if len(plan) == 1 else 'these'} {counted}"
        f"{'' if described else ', which makes the group,'} add --execute."
    )
    say(said, file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _target(arguments: argparse.Namespace) -> Target:
    named = [name for name, given in (("--topic", arguments.topic), ("--all-topics", arguments.all_topics)) if given]
    if arguments.from_file is not None:
        if named:
            raise OptionError(named[0], None, "--from-file names the partitions itself", f"Leave {named[0]} out")
        return read_offsets_file(arguments.from_file)
    if len(named) != 1:
        reason = "contradicts --all-topics" if named else "says which partitions, and is missing"
        raise OptionError("--topic", None, reason, "Give --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    return Shift(arguments.by) if arguments.by is not None else parse_target(arguments.to)


def _partitions(admin: GroupAdmin, named: Iterable[tuple[str, Iterable[int] | None]]) -> list[TopicPartition]:
    """The partitions that were named, all those of a topic for None. Each must exist."""
    named = list(named)
    listed = admin.metadata(sorted({topic for topic, _ in named})).topics
    wanted = set()
    for topic, numbers in named:
        there = listed[topic].partitions
        for partition in there if numbers is None else numbers:
            if partition not in there:
                raise UnknownTopic(topic, partition, f"the topic has {_counted(len(there), 'partition')}")
            wanted.add(TopicPartition(topic, partition))
    return sorted(wanted)


def _show(plan: Sequence[Move], as_json: bool, executed: bool) -> None:
    if as_json:
        for move in plan:
            say(json_text(asdict(move) | {"executed": executed}))
        return
    rows = [
        (
            move.topic,
            f"{move.partition}",
            _number(move.old),
            f"{move.new:,}",
            _change(move),
            move.note,
        )
        for move in plan
    ]
    header = ("TOPIC", "PARTITION", "OLD", "NEW", "CHANGE", "")
    for line in table.lines(header, rows, right=("PARTITION", "OLD", "NEW", "CHANGE")):
        say(line)
    say()


# --- delete -------------------------------------------------------------------------------------------------------


def run_delete(arguments: argparse.Namespace) -> int:
    refuse_event_time(arguments)
    admin, group = _admin(arguments), arguments.group
    described = _existing(admin, group)
    if described.members:
        raise BrokerError(_in_use(described, "it can be deleted"))
    offsets = _counted(len(admin.all_commits(group)), "committed offset")
    if arguments.execute:
        admin.delete(group)
        say(f"Deleted group {group} with {offsets}.")
    else:
        say(f"Dry run: nothing was changed. To delete group {group} with {offsets}, add --execute.")
    return 0


def _in_use(described: DescribedGroup, what: str) -> str:
    members = described.members
    shown = ", ".join(f"{m.client_id} on {m.host}" for m in members[:MEMBERS_SHOWN])
    more = f" and {len(members) - MEMBERS_SHOWN} more" if len(members) > MEMBERS_SHOWN else ""
    static = any(m.instance_id for m in members)
    wait = "; static members (group.instance.id) stay until their session times out" if static else ""
    return (
        f"group {described.group!r} is in use by {_counted(len(members), 'member')}: {shown}{more}. Stop "
        f"{'it' if len(members) == 1 else 'them'} first: {what} only when it has no members{wait}"
    )


def _change(move: Move) -> str:
    if move.old is None:
        return ""
    return f"{move.new - move.old:+,}" if move.new != move.old else "0"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
