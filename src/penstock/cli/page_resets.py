"""Resets offsets of groups for the page of `penstock watch --allow-writes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cli.groups.moves import parse_target
from penstock.cli.groups.reset_plan import plan_reset, unused_group
from penstock.config.source import parse_options
from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition
from penstock.watch.resets import PlannedMove, PlanRequest
from penstock.wire.api.group_admin import GroupAdmin
from penstock.wire.client_config import ClientConfig


class PageResets:
    """Called by threads of the page's server, several at the same time."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._client: ClientConfig = parse_options({**options, "subscribePattern": ".*"}).client

    def plan(self, request: PlanRequest) -> list[PlannedMove]:
        admin = GroupAdmin(self._client)
        target = parse_target(request.to)
        unused_group(admin, request.group)
        topics = None if request.topic is None else [(request.topic, None)]
        found = plan_reset(admin, request.group, target, topics)
        return [PlannedMove(each.topic, each.partition, each.old, each.new, each.note) for each in found]

    def commit(self, group: str, moves: Sequence[PlannedMove]) -> None:
        admin = GroupAdmin(self._client)
        unused_group(admin, group)
        committed = {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
        wanted = {TopicPartition(move.topic, move.partition): move for move in moves}
        for tp, move in wanted.items():
            if committed.get(tp) != move.old:
                now, shown = committed.get(tp), move.old
                raise BrokerError(
                    f"group {group!r} was committed meanwhile: {tp} is at {now}, and {shown} was shown. Nothing was "
                    "changed. Look at the moves again"
                )
        ends = admin.end(list(wanted))
        for tp, move in wanted.items():
            if move.new > ends[tp]:  # no plan has this: the log was truncated since, or the request is made up
                raise BrokerError(f"{tp} ends at {ends[tp]}: group {group!r} cannot be reset to {move.new}")
        admin.commit(group, {tp: move.new for tp, move in wanted.items()})
