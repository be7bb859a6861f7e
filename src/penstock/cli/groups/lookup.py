"""The parts of `penstock groups` that several verbs share: the client, a group that must exist, and end offsets."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping

from penstock.cli.connection import connection_options
from penstock.cli.output import Colour, counted
from penstock.config.source import parse_options
from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import DescribedGroup, GroupAdmin
from penstock.wire.api.share_group_admin import SHARE, ShareGroupAdmin

EXIT_CODES = "exit codes: 0 done, 1 failed (no broker, no such group, a group in use), 2 wrong usage, 130 Ctrl-C\n"

MEMBERS_SHOWN = 5


def group_admin(arguments: argparse.Namespace) -> ShareGroupAdmin:
    return ShareGroupAdmin(parse_options(connection_options(arguments) | {"subscribePattern": ".*"}).client)


def colour_of_lag(column: str, row: Mapping[str, str]) -> Colour:
    """Yellow: a lag. Of a group's state, green: members that read."""
    if column == "LAG" and row["LAG"] not in ("0", "-"):
        return Colour.YELLOW
    return Colour.GREEN if column == "STATE" and row["STATE"] == "Stable" else Colour.NONE


def end_offsets(admin: GroupAdmin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of partitions. Those that do not exist or have no leader are skipped: a request for them would wait."""
    wanted = set(partitions)
    if not wanted:
        return {}
    metadata, _ = admin.listing(sorted({tp.topic for tp in wanted}))
    return admin.end([tp for tp in wanted if metadata.leader(tp) is not None])


def existing_group(admin: GroupAdmin, group: str) -> DescribedGroup:
    described = admin.describe(group)
    if described is not None:
        return described
    others = {listed.group: listed.kind for listed in admin.groups()}
    if group in others:
        tool = ". kafka-share-groups.sh resets and deletes it" if others[group] == SHARE else ""
        raise BrokerError(
            f"group {group!r} is a {others[group]} group. Only classic and consumer groups are supported{tool}"
        )
    close = difflib.get_close_matches(group, others, n=3)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "`penstock groups list` shows all groups"
    raise BrokerError(f"group {group!r} does not exist. {hint}")


def in_use_text(described: DescribedGroup, what: str) -> str:
    members = described.members
    shown = ", ".join(f"{m.client_id} on {m.host}" for m in members[:MEMBERS_SHOWN])
    more = f" and {len(members) - MEMBERS_SHOWN} more" if len(members) > MEMBERS_SHOWN else ""
    static = any(m.instance_id for m in members)
    wait = "; static members (group.instance.id) stay until their session times out" if static else ""
    return (
        f"group {described.group!r} is in use by {counted(len(members), 'member')}: {shown}{more}. Stop "
        f"{'it' if len(members) == 1 else 'them'} first: {what} only while it has no members{wait}"
    )
