"""What is known of a cluster: takes answers, and makes snapshots of them. The caller asks, and has the clocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.monitor.rate import RateMeter
from penstock.monitor.record_times import RecordTimes
from penstock.monitor.selection import Selection
from penstock.monitor.snapshot import (
    Certainty,
    GroupPosition,
    MonitoredBroker,
    MonitoredGroup,
    MonitoredPartition,
    MonitoredTopic,
    Snapshot,
)
from penstock.wire.api.group_admin import DescribedGroup, GroupMember, ListedGroup
from penstock.wire.api.metadata import Broker, Metadata

RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY = "retention.ms", "retention.bytes", "cleanup.policy"
SETTINGS = (RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY)

Number = TypeVar("Number", int, float)
Committed = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(slots=True)
class _Group:
    """What is known of one group."""

    listed: ListedGroup
    coordinator: Broker
    described: DescribedGroup | None = None
    committed: dict[TopicPartition, int] | None = None
    consumed: RateMeter = field(default_factory=RateMeter)
    view: MonitoredGroup | None = None


class Picture:
    """For the thread of one collector."""

    def __init__(self, topics: Selection, groups: Selection) -> None:
        self._selected_topics = topics
        self._selected_groups = groups
        self.metadata = Metadata({}, {})
        self.partitions: frozenset[TopicPartition] = frozenset()
        """Of the selected topics."""
        self.times = RecordTimes()
        self._topics: list[str] = []
        self._begins: Offsets = {}
        self._ends: Offsets = {}
        self._rates: dict[TopicPartition, RateMeter] = {}
        self._sizes: Offsets = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self._groups: dict[str, _Group] = {}
        self._snapshots = 0

    # --- answers ------------------------------------------------------------------------------------------------------

    def learn_topics(self, metadata: Metadata) -> None:
        """Internal topics are monitored only if `include` names them."""
        self.metadata = metadata
        candidates = (
            name for name, topic in metadata.topics.items() if self._selected_topics.include or not topic.internal
        )
        self._topics = sorted(self._selected_topics.of(candidates))
        self.partitions = frozenset(
            TopicPartition(name, number) for name in self._topics for number in metadata.topics[name].partitions
        )
        for known in (self._begins, self._ends, self._rates, self._sizes):
            for tp in known.keys() - self.partitions:
                del known[tp]
        self._settings = {name: found for name, found in self._settings.items() if name in metadata.topics}

    def learn_ends(self, ends: Offsets, at: float) -> None:
        """`at`: the monotonic time at which they were asked for."""
        for tp, end in ends.items():
            meter = self._rates.get(tp)
            if meter is None:
                meter = self._rates[tp] = RateMeter()
            meter.add(max(0, end - self._ends.get(tp, end)), at)
        self._ends |= ends

    def learn_begins(self, begins: Offsets) -> None:
        self._begins |= begins

    def learn_sizes(self, by_broker: Mapping[int, Offsets]) -> None:
        for tp in self.partitions:
            leader = self.metadata.leader(tp)
            sizes = None if leader is None else by_broker.get(leader.broker.node_id)
            if sizes is not None and tp in sizes:
                self._sizes[tp] = sizes[tp]

    def learn_settings(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        self._settings |= settings

    @property
    def topics(self) -> Sequence[str]:
        return self._topics

    def learn_groups(self, by_broker: Mapping[Broker, Sequence[ListedGroup]]) -> None:
        """A group that its coordinator no longer lists is gone, unless that broker did not answer."""
        listed = {group.group: (group, broker) for broker, groups in by_broker.items() for group in groups}
        selected = self._selected_groups.of(listed)
        answered = {broker.node_id for broker in by_broker}
        for name in [name for name, group in self._groups.items() if name not in selected]:
            if name in listed or self._groups[name].coordinator.node_id in answered:
                del self._groups[name]
        for name in selected:
            found, broker = listed[name]
            known = self._groups.get(name)
            if known is None:
                self._groups[name] = _Group(found, broker)
                continue
            if found.state != known.listed.state:
                known.described = None if found.state == "Empty" else known.described
                known.view = None if known.view is None else replace(known.view, state=found.state)
            known.listed, known.coordinator = found, broker

    def learn_descriptions(self, described: Iterable[DescribedGroup]) -> None:
        """A group whose offsets are not asked for in this round shows its new members nevertheless."""
        for each in described:
            group = self._groups.get(each.group)
            if group is None:
                continue
            group.described = each
            if group.view is not None:
                group.view = replace(group.view, members=each.members, assignor=each.assignor)

    def learn_committed(self, committed: Committed, at: float) -> None:
        for name, offsets in committed.items():
            group = self._groups.get(name)
            if group is None:
                continue
            before = group.committed or {}
            # A reset to an earlier offset is not counted, nor are partitions that were not committed before.
            group.consumed.add(sum(max(0, to - before.get(tp, to)) for tp, to in offsets.items()), at)
            group.committed = {tp: offset for tp, offset in offsets.items() if tp in self.partitions}

    # --- what to ask --------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Mapping[str, ListedGroup]:
        return {name: group.listed for name, group in self._groups.items()}

    def coordinator(self, group: str) -> Broker:
        return self._groups[group].coordinator

    def is_description_old(self, group: str) -> bool:
        """Whether a group was not described since its state changed."""
        known = self._groups[group]
        described = known.described
        return described is None or (known.listed.state not in ("unknown", described.state))

    def positions_of(self, group: str) -> int:
        """About how many rows an answer about the offsets of a group has."""
        return 1 + len(self._groups[group].committed or ())

    def next_offsets(self) -> dict[TopicPartition, set[int]]:
        """The offsets whose next record matters: of all groups that are not at the end."""
        wanted: dict[TopicPartition, set[int]] = {}
        for group in self._groups.values():
            for tp, committed in (group.committed or {}).items():
                offset = max(committed, self._begins.get(tp, 0))
                if offset < self._ends.get(tp, -1):
                    wanted.setdefault(tp, set()).add(offset)
        return wanted

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        return self._ends

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        last: Snapshot | None,
        *,
        wall: float,
        is_reachable: bool,
        renewed: Collection[str],
        problems: Sequence[str],
        requests: int,
        round_seconds: float,
        lookups_left: int,
    ) -> Snapshot:
        """`renewed`: the groups whose offsets were asked for in this round. Others keep their values."""
        self._snapshots += 1
        known = last or Snapshot(0, wall, False, None)
        if is_reachable:
            for name in renewed:
                if name in self._groups:
                    self._groups[name].view = self._group(name, wall)
            known = replace(
                known,
                answered_at=wall,
                cluster_id=self.metadata.cluster_id,
                brokers=tuple(self._brokers()),
                topics=tuple(self._topic(name) for name in self._topics),
                groups=tuple(group.view or self._group(name, wall) for name, group in sorted(self._groups.items())),
            )
        return replace(
            known,
            number=self._snapshots,
            taken_at=wall,
            is_reachable=is_reachable,
            problems=tuple(problems),
            requests=requests,
            round_seconds=round_seconds,
            lookups_left=lookups_left,
        )

    def _brokers(self) -> Iterator[MonitoredBroker]:
        leads: dict[int, int] = {}
        for topic in self.metadata.topics.values():
            for leader in topic.partitions.values():
                if leader is not None:
                    leads[leader.broker.node_id] = leads.get(leader.broker.node_id, 0) + 1
        for number, broker in sorted(self.metadata.brokers.items()):
            yield MonitoredBroker(number, broker.host, broker.port, broker.rack, leads.get(number, 0))

    def _topic(self, name: str) -> MonitoredTopic:
        topic = self.metadata.topics[name]
        partitions = tuple(
            self._partition(TopicPartition(name, number), None if leader is None else leader.broker.node_id)
            for number, leader in sorted(topic.partitions.items())
        )
        settings = self._settings.get(name, {})
        retention = _number(settings.get(RETENTION_MS))
        return MonitoredTopic(
            name,
            topic.internal,
            partitions,
            None if retention is None else -1.0 if retention < 0 else retention / 1000,
            _number(settings.get(RETENTION_BYTES)),
            settings.get(CLEANUP_POLICY),
            _sum(each.records for each in partitions),
            _sum(each.size for each in partitions),
            _sum(each.rate_in for each in partitions),
            sum(each.leader is None for each in partitions),
        )

    def _partition(self, tp: TopicPartition, leader: int | None) -> MonitoredPartition:
        meter = self._rates.get(tp)
        return MonitoredPartition(
            tp.topic,
            tp.partition,
            leader,
            self._begins.get(tp),
            self._ends.get(tp),
            self._sizes.get(tp),
            None if meter is None else meter.rate,
        )

    def _group(self, name: str, wall: float) -> MonitoredGroup:
        group = self._groups[name]
        described, committed = group.described, group.committed or {}
        members: tuple[GroupMember, ...] = () if described is None else described.members
        owners = {tp: member.member_id for member in members for tp in member.partitions if tp in self.partitions}
        positions = tuple(
            self._position(tp, committed.get(tp), owners.get(tp), wall) for tp in sorted({*committed, *owners})
        )
        slowest = max(
            (each for each in positions if each.seconds is not None), key=lambda each: each.seconds or 0.0, default=None
        )
        state = group.listed.state
        if described is not None and state == "unknown":  # brokers before Kafka 2.6 do not list states
            state = described.state
        return MonitoredGroup(
            name,
            group.listed.kind,
            state,
            group.listed.protocol,
            "" if described is None else described.assignor,
            group.coordinator.node_id,
            members,
            positions,
            _sum(each.lag for each in positions) if positions else 0 if group.committed is not None else None,
            None if slowest is None else slowest.seconds,
            Certainty.UNKNOWN if slowest is None else slowest.certainty,
            sum(each.deleted for each in positions),
            group.consumed.rate,
            _sum(self._rates[tp].rate for tp in committed if tp in self._rates),
            wall,
        )

    def _position(self, tp: TopicPartition, at: int | None, member: str | None, wall: float) -> GroupPosition:
        end = self._ends.get(tp)
        if at is None or end is None:
            return GroupPosition(tp.topic, tp.partition, at, end, None, None, Certainty.UNKNOWN, 0, member)
        deleted = max(0, min(self._begins.get(tp, 0), end) - at)
        seconds, certainty = self._seconds(tp, at, end, deleted > 0, wall)
        return GroupPosition(tp.topic, tp.partition, at, end, max(0, end - at), seconds, certainty, deleted, member)

    def _seconds(
        self, tp: TopicPartition, committed: int, end: int, is_deleted: bool, wall: float
    ) -> tuple[float | None, Certainty]:
        offset = max(committed, self._begins.get(tp, 0))
        if offset >= end:
            # All records were deleted unread: no record says for how long the group has been behind.
            return (None, Certainty.UNKNOWN) if is_deleted else (0.0, Certainty.EXACT)
        record = self.times.record_at(tp, offset, end)
        if record is None:
            earlier = self.times.earlier(tp, offset)
            return (None, Certainty.UNKNOWN) if earlier is None else (_age(earlier, wall), Certainty.AT_MOST)
        if not record.exists:
            return 0.0, Certainty.EXACT
        if record.timestamp is None:
            return None, Certainty.UNKNOWN
        certainty = Certainty.EXACT if record.is_exact else Certainty.ESTIMATED
        return _age(record.timestamp, wall), Certainty.AT_LEAST if is_deleted else certainty


def _age(timestamp: int, wall: float) -> float:
    """Never below 0: the clock of a producer may be ahead of this one."""
    return max(0.0, wall - timestamp / 1000)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _sum(values: Iterable[Number | None]) -> Number | None:
    """The sum of the known values; None if none is known."""
    total: Number | None = None
    for value in values:
        if value is not None:
            total = value if total is None else total + value
    return total
