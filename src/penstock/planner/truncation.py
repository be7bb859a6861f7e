"""WHAT WAS CUT: logs that are shorter than what a stream has read of them, or whose new leader never had that.

A leader elected from among replicas that lagged lacks records that were readable before, and gives their offsets to
others. Its log may be as long as the old one, so that only the leader epochs tell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from penstock.errors import BrokerError
from penstock.model.log_identity import leader_changed, truncated_at
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.wire.cluster import Cluster, Metadata

log = logging.getLogger(__name__)

RECALL_SECONDS = 5.0
"""How long a restarted query asks its group for the epochs of its state: they are good to know, and no more."""


class Truncation:
    """Keeps the leader epochs of one stream's partitions, and finds what was cut. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epochs: dict[TopicPartition, int] = {}
        self._seen: Metadata | None = None

    def epochs(self, state: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epochs behind a state: what `recall` makes use of in a later run."""
        return {tp: epoch for tp in state if (epoch := self._epochs.get(tp)) is not None}

    def recall(self, group: str, state: Offsets) -> None:
        """Learn from a group under which leaders a restored state was read.

        The group's offsets are not taken (F25): an epoch counts only where the group stands exactly at the state, for
        then this query committed it.
        """
        config = self._cluster.config
        cluster = Cluster(replace(config, api_timeout=min(config.api_timeout, RECALL_SECONDS)))
        try:
            committed = cluster.commits(group, state)
        except BrokerError as error:
            log.info("what group %r knows of the checkpoint cannot be asked: %s", group, error)
            return
        found = {tp: each.leader_epoch for tp, each in committed.items() if each.offset == state.get(tp)}
        self._epochs |= {tp: epoch for tp, epoch in found.items() if epoch >= 0}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are of another topic now, whose epochs begin anew."""
        for tp in partitions:
            self._epochs.pop(tp, None)

    def cut(self, state: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
        """Of the partitions that have answered with their ends: those that were cut below the state, and where."""
        cut = self.shorter({tp: offset for tp, offset in state.items() if ends.get(tp, offset) < offset}, ends)
        if self._cluster.known is not self._seen:
            known = self._cluster.known
            now = self._led_now(ends)
            changed = {tp: read for tp, epoch in now.items() if leader_changed(read := self._epochs.get(tp, -1), epoch)}
            found = self._cluster.epoch_ends(changed)
            ends_of = {tp: truncated_at(end, state.get(tp, 0)) for tp, (_, end) in found.items()}
            cut |= {tp: end for tp, end in ends_of.items() if end is not None}
            # Only now that all have answered: whoever asks again after an error must find the same changes.
            silent = {tp: epoch for tp, epoch in self._epochs.items() if known is None or known.lists(tp)}
            self._seen, self._epochs = known, silent | now
        return cut

    def shorter(self, past_end: Offsets, ends: Mapping[TopicPartition, int]) -> Offsets:
        """Of the offsets that lie past what a reader sees of their logs: those that are gone, and where logs end."""
        if past_end and self._cluster.config.read_committed:
            # Read with another isolation level before, a state may lie among open transactions. Nothing is lost then.
            everything = self._cluster.high_watermarks(past_end)
            past_end = {tp: offset for tp, offset in past_end.items() if everything[tp] < offset}
        return {tp: ends[tp] for tp in past_end}

    def _led_now(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epochs of partitions as the cluster last said."""
        known = self._cluster.known
        leaders = {tp: known.leader(tp) for tp in partitions} if known is not None else {}
        return {tp: leader.epoch for tp, leader in leaders.items() if leader is not None and leader.epoch >= 0}
