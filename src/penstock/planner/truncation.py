"""Finds truncated logs: logs that are shorter than what a stream has read, or whose new leader lacks those records.

A leader elected from replicas that lagged lacks records that were readable before, and gives their offsets to other
records. Its log may be as long as the old one. Then only the leader epochs show the truncation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from penstock.errors import BrokerError
from penstock.masking import get_logger
from penstock.model.log_identity import leader_changed, truncated_at
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.wire.api.offset_fetch import Committed
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Metadata

log = get_logger(__name__)

RECALL_SECONDS = 5.0
"""How long a restarted query asks its group for leader epochs. It can do without them."""

CommitLookup: TypeAlias = Callable[[str, Iterable[TopicPartition]], Mapping[TopicPartition, Committed]]
"""What a group has committed for these partitions."""


class EpochLookup(Protocol):
    """What this module asks a cluster."""

    @property
    def config(self) -> ClientConfig: ...
    @property
    def known(self) -> Metadata | None: ...
    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets: ...
    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]: ...


class Truncation:
    """Keeps the leader epochs under which a stream's partitions were read. For one thread."""

    def __init__(self, cluster: EpochLookup) -> None:
        self._cluster = cluster
        self._epochs: dict[TopicPartition, int] = {}
        self._seen: Metadata | None = None
        """The metadata whose leader epochs `find` has evaluated."""

    def epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epochs of partitions, to be committed beside their offsets. `recall` reads them in a later run."""
        return {tp: epoch for tp in partitions if (epoch := self._epochs.get(tp)) is not None}

    def recall(self, group: str, state: Offsets, commits: CommitLookup) -> None:
        """Learn from a group under which leader epochs a restored state was read.

        The group's offsets are not used (F25). An epoch counts only where the group's offset is that of the state: only
        then this query has committed it.
        """
        try:
            committed = commits(group, state)
        except BrokerError as error:
            log.info("the leader epochs that group %r has committed are unknown: %s", group, error)
            return
        found = {tp: each.leader_epoch for tp, each in committed.items() if each.offset == state.get(tp)}
        self._epochs |= {tp: epoch for tp, epoch in found.items() if epoch >= 0}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Discards the epochs of recreated partitions, whose epochs start again."""
        for tp in partitions:
            self._epochs.pop(tp, None)

    def find(self, state: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
        """The partitions whose logs were truncated below the state, and the offsets at which. `ends`: of the partitions
        that have a leader."""
        found = self.shorter({tp: offset for tp, offset in state.items() if ends.get(tp, offset) < offset}, ends)
        if self._cluster.known is not self._seen:
            known = self._cluster.known
            current = self._current_epochs(ends)
            changed = {
                tp: read for tp, epoch in current.items() if leader_changed(read := self._epochs.get(tp, -1), epoch)
            }
            for tp, (_, epoch_end) in self._cluster.epoch_ends(changed).items():
                if (offset := truncated_at(epoch_end, state.get(tp, 0))) is not None:
                    found[tp] = offset
            # Do not simplify: only after all brokers have answered. The next try after an error must find the same.
            kept = {tp: e for tp, e in self._epochs.items() if tp not in current and (known is None or known.lists(tp))}
            self._seen, self._epochs = known, kept | current
        return found

    def shorter(self, past_end: Offsets, ends: Mapping[TopicPartition, int]) -> Offsets:
        """Of offsets past the readable end of their logs those that no longer exist, and where their logs end."""
        if past_end and self._cluster.config.read_committed:
            # An earlier run with another isolation level may have read into open transactions. Then nothing is lost.
            log_ends = self._cluster.high_watermarks(past_end)
            past_end = {tp: offset for tp, offset in past_end.items() if log_ends[tp] < offset}
        return {tp: ends[tp] for tp in past_end}

    def _current_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = self._cluster.known
        return {} if known is None else known.leader_epochs(partitions)
