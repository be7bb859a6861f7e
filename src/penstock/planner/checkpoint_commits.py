"""Commits the offsets of finished batches, with their leader epochs, to the query's consumer group (F21)."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.config.source import SourceOptions
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.group_committer import Committer
from penstock.planner.stream import StreamPlanner
from penstock.wire.cluster import Cluster

log = get_logger(__name__)


class CheckpointCommits:
    """Hands the offsets of finished batches to a committer. All methods are for the trigger thread."""

    def __init__(self, planner: StreamPlanner, cluster: Cluster, stopped: threading.Event, group: str) -> None:
        """`cluster`: the committing thread's own, which waits on `stopped`."""
        stream = planner.options.stream
        self._planner = planner
        self._cluster, self._stopped, self._group = cluster, stopped, group
        self._state: Offsets = {}
        self._durable: Offsets = {}
        self._epochs: Mapping[TopicPartition, int] = {}
        """Replaced, never changed in place: the committing thread reads it."""
        self.committer = Committer(
            self._send,
            interval=stream.commit_interval if stream.commit_mode == "periodic" else None,
            name=f"penstock-commit-{group}",
            abort=self._abort,
        )

    @classmethod
    def of(cls, options: SourceOptions, planner: StreamPlanner) -> CheckpointCommits | None:
        """None if the query has no group, or must not commit."""
        group = options.rules.group
        if group is None or options.stream.commit_mode == "disabled":
            return None
        stopped = threading.Event()
        return cls(planner, Cluster(options.client, stopped.wait), stopped, group)

    def commit(self, state: Offsets) -> None:
        """Commit the end of a finished batch. Never blocks."""
        if state != self._state:  # an idle query hands in the same one at every poll
            self._state, self._durable = state, self._planner.restored(state)
            self._epochs = self._planner.truncation.epochs(self._durable)
        self.committer.durable(self._durable)

    def flush(self, timeout: float) -> None:
        """Wait until the newest offsets are committed."""
        if not self.committer.flush(timeout):
            log.warning("the last offsets were not committed within %g s; the next run commits them", timeout)

    def close(self, timeout: float) -> None:
        self.committer.close(timeout)

    def _send(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called by the committing thread."""
        self._cluster.commit(self._group, offsets, self._epochs)

    def _abort(self) -> None:
        self._stopped.set()
        self._cluster.abort()
