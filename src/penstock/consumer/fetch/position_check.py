"""Checks a cursor's position against its leader: recreated topics, truncated logs, and offsets that are gone (H12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.config.times import now_ms
from penstock.consumer.fetch.cursor import Cursor
from penstock.errors import NoGroupOffset, OffsetOutOfRange
from penstock.masking import get_logger
from penstock.model.log_identity import is_recreated, leader_changed, truncated_at
from penstock.model.offset_spec import AtTimestamp, ByDuration, Earliest, EarliestLocal, Latest, Reset, StartMode
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Metadata
from penstock.wire.cluster import Cluster

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ResetRule:
    """`auto.offset.reset` of a group."""

    group: str
    reset: Reset


class PositionCheck:
    """For the leader finder's thread."""

    def __init__(self, cluster: Cluster, rule: ResetRule, on_reset: Callable[[Cursor], None]) -> None:
        self._cluster = cluster
        self._rule = rule
        self._on_reset = on_reset

    @staticmethod
    def needs_leader(cursor: Cursor, metadata: Metadata) -> bool:
        """Whether the leader must be asked for offsets before the cursor is fetched."""
        leader = metadata.leader(cursor.tp)
        if cursor.lost or cursor.consumed is None:
            return True
        return leader is not None and leader_changed(cursor.epoch, leader.epoch)

    def check_topic_ids(self, cursors: Collection[Cursor], metadata: Metadata) -> None:
        """Drop the position of a recreated topic: it has another id, and the old offsets mean nothing in it."""
        for cursor in cursors:
            topic_id = metadata.topics[cursor.tp.topic].topic_id
            if is_recreated(cursor.topic_id, topic_id):
                log.warning("%s: the topic was recreated, so its position is reset", cursor.tp)
                cursor.reader.move(cursor, None)
                cursor.epoch = -1
                cursor.committed = None  # the group's offset was deleted with the old topic
            cursor.topic_id = topic_id

    def check_truncation(self, cursors: Collection[Cursor], metadata: Metadata) -> set[Cursor]:
        """Reset cursors past the end of a truncated log. Returns those whose leaders did not answer.

        A leader elected from replicas that lagged lacks records that were read before, and gives their offsets to other
        records. Reading continues where its log differs from the old one.
        """
        checked = {}
        for cursor in cursors:
            leader = metadata.leader(cursor.tp)
            if leader is not None and leader_changed(cursor.epoch, leader.epoch) and not cursor.lost:
                checked[cursor.tp] = cursor, cursor.epoch, leader.epoch
        if not checked:
            return set()
        ends = self._cluster.epoch_ends({tp: epoch for tp, (_, epoch, _) in checked.items()}, wait_for=())
        for tp, (_, end) in ends.items():
            cursor, old, new = checked[tp]
            with cursor.reader.lock:
                if cursor.epoch != old or cursor.revoked:
                    continue  # a seek has come meanwhile
                position, fetched, version = cursor.reader.position(cursor), cursor.fetched, cursor.version
                if position is None or truncated_at(end, position if fetched is None else fetched) is None:
                    cursor.epoch = new
                    continue
                if position <= end:
                    cursor.reader.move(cursor, position)  # records fetched after it may be others now
                    cursor.epoch = new
                    continue
            has = f"another log from offset {end} on: an unclean leader election has truncated it"
            self._reset_or_fail(cursor, version, position, end, has)
        return {cursor for tp, (cursor, _, _) in checked.items() if tp not in ends}

    def reset(self, cursors: Collection[Cursor]) -> set[Cursor]:
        """Apply `auto.offset.reset` to cursors without a position, or whose position is gone (H12). Returns those whose
        leaders did not answer."""
        if not cursors:
            return set()
        tps = [cursor.tp for cursor in cursors]
        versions = {cursor: cursor.version for cursor in cursors}
        end = self._cluster.reachable_ends(tps, wait_for=())
        begin = self._cluster.begin(end, wait_for=()) if end else {}
        gone: dict[Cursor, int | None] = {}
        for cursor in [cursor for cursor in cursors if cursor.tp in begin]:
            tp, wanted = cursor.tp, cursor.consumed if cursor.fetched is None else cursor.fetched
            if wanted is not None and begin[tp] <= wanted <= end[tp]:
                cursor.lost = False  # a leader that was just elected did not know its end yet
                continue
            gone[cursor] = wanted
        targets = self._targets(gone, begin, end)
        for cursor, wanted in gone.items():
            tp = cursor.tp
            self._reset_or_fail(cursor, versions[cursor], wanted, targets[tp], f"offsets {begin[tp]} to {end[tp]}")
        return {cursor for cursor in cursors if cursor.tp not in begin}

    def _targets(
        self, gone: Mapping[Cursor, int | None], begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Where cursors without a position, or whose position is gone, continue. `end` was read before (F8)."""
        targets: dict[TopicPartition, int] = {}
        times: dict[TopicPartition, int] = {}
        local: list[TopicPartition] = []
        for cursor, wanted in gone.items():
            tp = cursor.tp
            match self._place(cursor, wanted):
                case Earliest():
                    targets[tp] = begin[tp]
                case EarliestLocal():
                    local.append(tp)
                case AtTimestamp(int() as time):
                    times[tp] = time
                case _:
                    targets[tp] = end[tp]
        if local:
            targets |= self._cluster.local_begins(local)
        if times:
            found = self._cluster.first_at(times, {tp: end[tp] for tp in times})
            targets |= {tp: end[tp] if offset is None else offset for tp, offset in found.items()}
        return targets

    def _place(self, cursor: Cursor, wanted: int | None) -> StartMode:
        if wanted is None and cursor.start is not None:
            return cursor.start
        match self._rule.reset:
            case ByDuration() as reset:
                return AtTimestamp(reset.time(now_ms()))
            case "earliest":
                return Earliest()
        return Latest()

    def _reset_or_fail(self, cursor: Cursor, version: int, lost: int | None, target: int, has: str) -> None:
        """Move a cursor, or raise an error to its stream's thread if `auto.offset.reset` is none."""
        tp = cursor.tp
        with cursor.reader.lock:
            if cursor.version != version:
                return  # a seek has come meanwhile
            if self._rule.reset == "none" and (lost is not None or cursor.start is None):
                error = (
                    NoGroupOffset(self._rule.group, [tp])
                    if lost is None
                    else OffsetOutOfRange(tp.topic, tp.partition, lost, has)
                )
                cursor.reader.fail(cursor, error, version)
                return
            cursor.reader.reset(cursor, target)
        if lost is not None:
            log.warning("%s: offset %d is gone, the broker has %s; continuing from %d", tp, lost, has, target)
            self._on_reset(cursor)
