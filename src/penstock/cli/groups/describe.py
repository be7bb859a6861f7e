"""`penstock groups describe GROUP`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.cli import table
from penstock.cli.groups import event_time_report, share_report
from penstock.cli.groups.event_time import add_event_time_arguments, ask_event_time, strategy_of
from penstock.cli.groups.lookup import EXIT_CODES, colour_of_lag, end_offsets, existing_group, group_admin
from penstock.cli.output import counted, json_text, number_or_dash, say
from penstock.cli.verb import add_verb
from penstock.errors import OptionError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import DescribedGroup, GroupAdmin
from penstock.wire.api.share_group_admin import SHARE

EPILOG = f"""\
examples:
  penstock groups describe words -b localhost:9092
  penstock groups describe words -b localhost:9092 --event-time --out-of-orderness 10s --max-drift 5m

COMMITTED is the next offset that the group reads, END the offset of the next record to be written, LAG the difference
(compaction and transactions leave gaps, so there may be fewer records). A - means unknown or missing.

Of a share group, START is the offset before which all records are processed, LAG the number of records that are not,
and MEMBERS how many members fetch the partition. The brokers count START and LAG.

With --event-time: WATERMARK is the event-time watermark of the committed records of a partition, by their timestamps.
BEHIND NEWEST is the distance to the partition's newest record, BEHIND NOW the distance to the present, AHEAD the
distance to the slowest partition. The group's watermark is that of the slowest partition. A partition that is read to
its end is idle and does not hold back others. A query with --max-drift holds back partitions that are further ahead.

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "describe", "show the state, members, offsets and lag of a group", EPILOG, run)
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_event_time_arguments(parser, again=True)


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of a group in one partition. None: it does not exist, or is unknown."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member_id: str | None


def standings(
    described: DescribedGroup, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[Standing]:
    """Every partition with a committed offset or an owner, sorted by topic and number."""
    owners = {tp: member.member_id for member in described.members for tp in member.partitions}
    found = []
    for tp in sorted({*committed, *owners}):
        at, end = committed.get(tp), ends.get(tp)
        lag = None if at is None or end is None else max(0, end - at)
        found.append(Standing(tp.topic, tp.partition, at, end, lag, owners.get(tp)))
    return found


def run(arguments: argparse.Namespace) -> int:
    strategy, admin, group = strategy_of(arguments), group_admin(arguments), arguments.group
    described = admin.describe(group) or admin.describe_share(group) or existing_group(admin, group)
    if described.kind == SHARE:
        if strategy is not None:
            raise OptionError("--event-time", None, "cannot be used with a share group, which has no positions")
        return share_report.run(described, admin, as_json=arguments.json)
    committed = {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
    read = {tp for member in described.members for tp in member.partitions}
    ends = end_offsets(admin, {*committed, *read})
    rows = standings(described, committed, ends)
    times = None
    if strategy is not None:
        times = ask_event_time(admin, {tp: committed.get(tp) for tp in {*committed, *read}}, ends, strategy)
    if arguments.json:
        more = {} if times is None else {"event_time": event_time_report.document(times)}
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
    times: event_time_report.GroupEventTime | None = None,
) -> Iterable[str]:
    coordinator, members = admin.coordinator(described.group), described.members
    with_assignor = f", assignor {described.assignor}" if described.assignor else ""
    yield (
        f"Group {described.group} ({described.kind}): {described.state}{with_assignor}, "
        f"{counted(len(members), 'member')}, coordinator {coordinator.host}:{coordinator.port} "
        f"(broker {coordinator.node_id})"
    )
    if members:
        yield ""
        yield from table.shown(
            ("MEMBER", "CLIENT", "HOST", "INSTANCE", "PARTITIONS"),
            [
                (m.member_id, m.client_id, m.host, m.instance_id or "-", f"{len(m.partitions)}")
                for m in sorted(members, key=lambda member: (member.client_id, member.member_id))
            ],
            right=("PARTITIONS",),
        )
    yield ""
    if not rows:
        yield "The group has no committed offsets, and no member owns a partition."
        return
    if times is not None:
        yield from event_time_report.report(times)
        return
    yield from table.shown(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"),
        [
            (
                row.topic,
                f"{row.partition}",
                *map(number_or_dash, (row.committed, row.end, row.lag)),
                row.member_id or "-",
            )
            for row in rows
        ],
        right=("PARTITION", "COMMITTED", "END", "LAG"),
        colour=colour_of_lag,
    )
    yield ""
    unread = sum(row.member_id is None for row in rows)
    without_owner = f", {unread} without an owner" if unread and members else ""
    uncommitted = sum(row.committed is None for row in rows)
    never = f", {uncommitted} without a committed offset" if uncommitted else ""
    total = sum(row.lag or 0 for row in rows)
    yield f"Total: lag {total:,} over {counted(len(rows), 'partition')}{without_owner}{never}"
