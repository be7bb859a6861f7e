"""`penstock groups describe` of a share group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.cli import table
from penstock.cli.groups.lookup import colour_of_lag
from penstock.cli.output import counted, json_text, number_or_dash, say
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import DescribedGroup
from penstock.wire.api.share_group_admin import ShareGroupAdmin, ShareOffset, share_standings


def run(described: DescribedGroup, admin: ShareGroupAdmin, *, as_json: bool) -> int:
    standings = share_standings(described, admin.share_offsets(described.group))
    if as_json:
        partitions = [
            {**tp._asdict(), "start": offset.start, "lag": offset.lag, "members": members}
            for tp, (offset, members) in standings.items()
        ]
        say(
            json_text(
                {
                    "group": described.group,
                    "kind": described.kind,
                    "state": described.state,
                    "assignor": described.assignor,
                    "members": [
                        {
                            "member_id": member.member_id,
                            "client_id": member.client_id,
                            "host": member.host,
                            "partitions": [tp._asdict() for tp in member.partitions],
                        }
                        for member in described.members
                    ],
                    "partitions": partitions,
                    "lag": _total(standings),
                }
            )
        )
        return 0
    for line in _report(described, standings):
        say(line)
    return 0


def _report(described: DescribedGroup, standings: Mapping[TopicPartition, tuple[ShareOffset, int]]) -> Iterator[str]:
    members = described.members
    assignor = f", assignor {described.assignor}" if described.assignor else ""
    yield f"Group {described.group} (share): {described.state}{assignor}, {counted(len(members), 'member')}"
    if members:
        yield ""
        yield from table.shown(
            ("MEMBER", "CLIENT", "HOST", "PARTITIONS"),
            [
                (member.member_id, member.client_id, member.host, f"{len(member.partitions)}")
                for member in sorted(members, key=lambda member: (member.client_id, member.member_id))
            ],
            right=("PARTITIONS",),
        )
    yield ""
    if not standings:
        yield "The group has not fetched any partition."
        return
    yield from table.shown(
        ("TOPIC", "PARTITION", "START", "LAG", "MEMBERS"),
        [
            (tp.topic, f"{tp.partition}", number_or_dash(offset.start), number_or_dash(offset.lag), f"{count}")
            for tp, (offset, count) in standings.items()
        ],
        right=("PARTITION", "START", "LAG", "MEMBERS"),
        colour=colour_of_lag,
    )
    yield ""
    yield f"Total: lag {_total(standings):,} over {counted(len(standings), 'partition')}"


def _total(standings: Mapping[TopicPartition, tuple[ShareOffset, int]]) -> int:
    return sum(offset.lag or 0 for offset, _ in standings.values())
