"""What a stream cannot read any more (F27): an error, or a warning and a count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import DataLoss
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

DELETED = "nothing: it does not exist any more"
RECREATED = (
    "another topic of the same name, created since. To read it from its beginning, start with a new checkpoint: a "
    "query that restarts on this one cannot tell the two apart, and continues at the old offset"
)


class Loss(NamedTuple):
    """Offsets of one partition that the broker no longer has."""

    topic_partition: TopicPartition
    wanted: str
    """The offsets that the stream wanted: `from offset 5`."""
    found: str
    """What the broker has instead."""


class Losses:
    """Raises or counts the losses of one stream. For one thread."""

    def __init__(self, fail: bool) -> None:
        self._fail = fail
        self.count = 0
        """Lost ranges so far."""

    def report(self, losses: Iterable[Loss]) -> None:
        """Raise one error for all of them, or log a warning and count them."""
        lost = sorted(losses)
        if not lost:
            return
        error = DataLoss([(tp.topic, tp.partition, wanted, found) for tp, wanted, found in lost])
        if self._fail:
            raise error
        self.count += len(lost)
        log.warning("%s\nContinuing with the remaining records, because failOnDataLoss is false", error.what)
