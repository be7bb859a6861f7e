"""A cluster at one moment, as frozen values. None stands for what is unknown."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from penstock.wire.api.group_admin import GroupMember


class Certainty(enum.StrEnum):
    """How exact a lag in seconds is."""

    EXACT = "exact"
    """The age of the next record."""
    ESTIMATED = "estimated"
    """Between the ages of the first and the latest record of the batch that holds the next record."""
    AT_MOST = "at most"
    """The age of an earlier record: the next one was not looked up yet. A bound if timestamps rise."""
    AT_LEAST = "at least"
    """The next record was deleted. This is the age of the first record that is left."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MonitoredBroker:
    node_id: int
    host: str
    port: int
    rack: str | None
    leads: int
    """The number of partitions that it leads."""


@dataclass(frozen=True, slots=True)
class MonitoredPartition:
    topic: str
    partition: int
    leader: int | None
    """The id of a broker; None while the partition has no leader."""
    begin: int | None
    end: int | None
    """The high watermark."""
    size: int | None
    """Bytes on the leader's disks."""
    rate_in: float | None
    """Records written per second, averaged over about a minute."""

    @property
    def records(self) -> int | None:
        """The distance of begin and end. Compaction and transactions leave gaps, so there may be fewer records."""
        return None if self.begin is None or self.end is None else max(0, self.end - self.begin)


@dataclass(frozen=True, slots=True)
class MonitoredTopic:
    name: str
    internal: bool
    partitions: tuple[MonitoredPartition, ...]
    retention_seconds: float | None
    """-1: without a limit."""
    retention_bytes: int | None
    """Per partition. -1: without a limit."""
    cleanup_policy: str | None
    records: int | None
    size: int | None
    """Bytes on the disks of leaders. Replicas are not counted twice."""
    rate_in: float | None
    leaderless: int
    """Partitions without a leader."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group is in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The next offset to read; None if a member owns the partition and has committed nothing."""
    end: int | None
    lag: int | None
    """Records between the committed offset and the end, as `kafka-consumer-groups` counts them."""
    seconds: float | None
    """The age of the next record; 0 at the end of the partition."""
    certainty: Certainty
    deleted: int
    """Records that were deleted before the group read them."""
    member_id: str | None

    @property
    def is_next_record_deleted(self) -> bool:
        return self.deleted > 0


@dataclass(frozen=True, slots=True)
class MonitoredGroup:
    name: str
    kind: str
    """`classic`, `consumer` (KIP-848), `share` or `streams`."""
    state: str
    protocol: str
    """`consumer`, `connect` or empty: what the members of a classic group are."""
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    positions: tuple[GroupPosition, ...]
    """Sorted by topic and partition."""
    lag: int | None
    """Over all partitions whose lag is known."""
    seconds: float | None
    """The largest lag in seconds of a partition."""
    certainty: Certainty
    """Of `seconds`."""
    deleted: int
    consumed: float | None
    """Records per second by which committed offsets rise, averaged over about a minute."""
    produced: float | None
    """Records per second that are written to the partitions of the group."""
    measured_at: float
    """When its offsets were asked for, in seconds since 1970. In a large cluster groups take turns."""

    @property
    def trend(self) -> float | None:
        """Records per second by which the lag grows; below 0 it shrinks."""
        return None if self.consumed is None or self.produced is None else self.produced - self.consumed

    @property
    def catch_up_seconds(self) -> float | None:
        """The time until the lag is 0 at the present rates. None if it is unknown, or the lag does not shrink."""
        if self.lag == 0:
            return 0.0
        trend = self.trend
        return None if self.lag is None or trend is None or trend >= 0 else self.lag / -trend


@dataclass(frozen=True, slots=True)
class Snapshot:
    number: int
    """1 for the first one of a collector."""
    taken_at: float
    """In seconds since 1970."""
    is_reachable: bool
    """False if no broker answered in the last round: everything but `problems` is older then."""
    answered_at: float | None
    """When brokers last answered, in seconds since 1970."""
    cluster_id: str | None = None
    brokers: tuple[MonitoredBroker, ...] = ()
    topics: tuple[MonitoredTopic, ...] = ()
    """Sorted by name."""
    groups: tuple[MonitoredGroup, ...] = ()
    """Sorted by name."""
    problems: tuple[str, ...] = ()
    """What could not be asked in the last round. Texts contain names from the cluster: escape them."""
    requests: int = 0
    """Requests since the collector started."""
    round_seconds: float = 0.0
    """How long the last round took."""
    lookups_left: int = field(default=0)
    """Positions whose next record was not looked up yet: their lag in seconds is a bound."""
