"""Where partitions start if the sink stores offsets: at the table's."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    OptionError,
    SinkError,
)
from penstock.masking import get_logger
from penstock.model.log_identity import is_recreated
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.sinks.table import TableWriter
from penstock.streamer.table_offsets import TableOffsets, TablePartition, log_name, went_back
from penstock.wire.api.metadata import Metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster

log = get_logger(__name__)

PAUSE = 0.5
"""Seconds between two tries to read the table or to ask the cluster."""

NOT_RETRIABLE = (SinkError, OptionError, AuthenticationFailed, AuthorizationFailed)


class _ShorterLogError(Exception):
    """A log ends before the table's offset: truncated, or its new leader does not know its end yet."""

    def __init__(self, error: SinkError) -> None:
        self.error = error
        super().__init__(str(error))


class TableStart:
    """Reads the table's offsets of newly assigned partitions, and compares them with the logs.

    For the membership thread, except `check_log`.
    """

    def __init__(
        self,
        client: ClientConfig,
        group: str,
        table: TableOffsets,
        writer: TableWriter,
        wait: Callable[[float], bool],
    ) -> None:
        """`wait` waits for some seconds; it returns True early if the Streamer stops."""
        self._client = client
        self._group = group
        self._table = table
        self._writer = writer
        self._wait = wait
        self._ids: dict[str, UUID | None] = {}

    def assigned(self, partitions: Collection[TopicPartition], seconds: float) -> Offsets:
        """The table's offsets of new partitions, which are to be sought. Partitions that the table does not have are
        left out: they start at the group's offsets.

        Retries for some seconds, because the group waits meanwhile; then raises the last error.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._read(partitions)
            except NOT_RETRIABLE:
                raise
            except Exception as error:
                cause = error.error if isinstance(error, _ShorterLogError) else error
                if time.monotonic() + PAUSE >= deadline:
                    raise cause from None
                log.warning("the offsets of %s cannot be read; the next try follows: %s", self._table.table, cause)
                if self._wait(PAUSE):
                    raise cause from None

    def check_log(self, tp: TopicPartition, offset: int) -> None:
        """Called when records below an offset come that the table has, or that are held. Raises SinkError if they are
        those of another log: the topic was created again, or its log truncated."""
        metadata = self._metadata([tp.topic])
        self._check_ids({tp.topic: metadata.topics[tp.topic].topic_id})
        end = Cluster(self._client).end([tp])[tp]
        if end < offset:
            raise went_back(self._table.table, tp, offset, end)

    def close(self) -> None:
        self._writer.close()

    def _read(self, partitions: Collection[TopicPartition]) -> Offsets:
        topics = sorted({tp.topic for tp in partitions})
        if not topics:
            return {}
        metadata = self._metadata(topics)
        ids = {topic: metadata.topics[topic].topic_id for topic in topics}
        self._check_ids(ids)
        logs = {topic: log_name(metadata.cluster_id, self._group, topic, ids[topic]) for topic in topics}
        names = {tp: TablePartition(logs[tp.topic], tp.partition) for tp in partitions}
        found = self._writer.offsets(names.values())
        offsets = {tp: found[name] for tp, name in names.items() if name in found}
        if offsets:
            ends = Cluster(self._client).end(sorted(offsets))
            for tp, offset in offsets.items():
                if ends[tp] < offset:
                    raise _ShorterLogError(went_back(self._table.table, tp, offset, ends[tp]))
        self._ids |= ids
        self._table.assigned(logs, {tp: offsets.get(tp) for tp in partitions})
        return offsets

    def _check_ids(self, ids: Mapping[str, UUID | None]) -> None:
        """Raises SinkError for a recreated topic: records of the old one may be held, and would be stored as records of
        the new one."""
        for topic, topic_id in ids.items():
            if is_recreated(self._ids.get(topic), topic_id):
                raise SinkError(
                    f"topic {topic!r} was deleted and created again. Start the Streamer again: it reads the new topic "
                    "from its beginning"
                )

    def _metadata(self, topics: Collection[str]) -> Metadata:
        return Cluster(self._client).metadata(tuple(topics))
