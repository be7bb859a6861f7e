"""The state of a stream in Spark's offset log: the next offset of every partition, as JSON. Pure.

The JSON is that of Spark's own Kafka source, `{"topic": {"0": 123}}`, so that a checkpoint moves both ways (F20).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.config.stream import StreamOptions
from penstock.errors import PenstockError, UnrelatedCheckpoint
from penstock.masking import get_logger
from penstock.model.subscription import AssignedPartitions, Subscription, TopicNames, TopicPattern, reads
from penstock.model.topic_partition import Offsets, TopicPartition, listed

log = get_logger(__name__)


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The offsets as JSON values, sorted: Spark compares texts, and the same state must be the same text."""
    topics: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        if topic in topics:
            topics[topic][partition] = offset
        else:
            topics[topic] = {partition: offset}
    # Numbers are sorted within their topic: 10,000 partitions take half as long as sorted pairs.
    return {topic: {str(n): numbers[n] for n in sorted(numbers)} for topic, numbers in sorted(topics.items())}


def from_json(document: object) -> Offsets:
    """Parse an entry of the offset log. Raises PenstockError if another source has written the checkpoint."""
    if not isinstance(document, dict):
        raise _unreadable(document)
    offsets: Offsets = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise _unreadable(document)
        for partition, offset in partitions.items():
            if not partition.isdecimal() or isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise _unreadable(document)
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def _unreadable(document: Any) -> PenstockError:
    shown = repr(document)
    return PenstockError(
        f"the checkpoint's offset {shown[:200]}{'...' if len(shown) > 200 else ''} is not one of a Kafka source. "
        'Expected {"topic": {"0": 123}}. Does the checkpoint belong to another query?'
    )


def check_related(state: Offsets, subscription: Subscription) -> None:
    """Refuse a restored state if the subscription includes none of its topics (F12): the state is another query's, or
    one of the two is mistyped. An empty state fits every subscription."""
    topics = sorted({tp.topic for tp in state})
    if topics and not any(reads(subscription, topic) for topic in topics):
        raise UnrelatedCheckpoint(topics, str(subscription))


def returned_error(offsets: Offsets) -> PenstockError:
    """For partitions that the offset log has dropped at these offsets, and that exist again in the same topics."""
    return PenstockError(
        f"{listed(sorted(offsets))} did not exist for a while, according to the brokers, and left the checkpoint "
        "(failOnDataLoss is false). They exist again, in the same topics, and would be read again from their "
        "beginning. To continue where they were, start a query with a new checkpoint and startingOffsets "
        f"{json.dumps(to_json(offsets))}. To read them from their beginning, restart this query"
    )


def split_restored(state: Offsets, subscription: Subscription) -> tuple[Offsets, Offsets]:
    """Split a restored state into the partitions that the subscription includes and the others (F12).

    Only the subscription decides. A topic that brokers do not list does not lose its state: they may be down.
    """
    topics = {tp.topic for tp in state}
    match subscription:
        case TopicNames(names):
            included = _of_topics(state, topics, topics.intersection(names))
        case TopicPattern() as pattern:
            included = _of_topics(state, topics, pattern.matching(topics))
        case AssignedPartitions(partitions):
            assigned = frozenset(partitions)
            included = {tp: offset for tp, offset in state.items() if tp in assigned}
    if len(included) == len(state):
        return included, {}
    return included, {tp: offset for tp, offset in state.items() if tp not in included}


def _of_topics(state: Offsets, topics: set[str], included: set[str]) -> Offsets:
    if included == topics:
        return dict(state)
    return {tp: offset for tp, offset in state.items() if tp.topic in included}


class Checkpoint:
    """The partitions of restored offsets that a stream reads, and those that it leaves as they are (F12). For one
    thread."""

    def __init__(self, subscription: Subscription, options: StreamOptions) -> None:
        self.unread: Offsets = {}
        """Partitions that the subscription does not include. Their offsets stay in the offset log, so that a later run
        continues there; the stream does not read, commit or report them."""
        self._subscription = subscription
        self._filters = options.filter_restored
        self._is_checked = options.allow_unrelated or not options.filter_restored

    def check(self, state: Offsets) -> None:
        """Refuse a checkpoint of another query. Only the first state is checked: topics that change later are not the
        user's mistake."""
        if not self._is_checked:
            check_related(state, self._subscription)
            self._is_checked = True

    def split(self, state: Offsets) -> tuple[Offsets, Offsets]:
        """The partitions of a state that the stream reads, and the others."""
        return split_restored(state, self._subscription) if self._filters else (dict(state), {})

    def restore(self, state: Offsets) -> Offsets:
        """The partitions of a state that the stream reads. Notes the others in `unread`."""
        self.check(state)
        state, unread = self.split(state)
        if added := sorted(unread.keys() - self.unread):
            log.warning(
                "the checkpoint holds %s, which the subscription does not include: not read. The offsets stay in the "
                "checkpoint, and a run that subscribes to them continues there. To read them now, set "
                "filterRestoredPartitions to false",
                listed(added),
            )
        self.unread = unread
        return state


class OffsetTexts:
    """Converts offsets to JSON and back, and keeps the last two pairs: the start and the end of a batch.

    At every poll Spark passes back what it was given. Converting 2,000 partitions takes milliseconds.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[dict[str, Any], Offsets]] = []
        """Documents and their offsets, the newest first."""

    def read(self, document: dict[str, Any]) -> Offsets:
        for known, offsets in self._pairs:
            if document == known:
                return dict(offsets)
        offsets = from_json(document)
        self._keep(document, offsets)
        return dict(offsets)

    def write(self, offsets: Offsets) -> dict[str, Any]:
        for document, known in self._pairs:
            if offsets == known:
                return document
        document = to_json(offsets)
        self._keep(document, dict(offsets))
        return document

    def _keep(self, document: dict[str, Any], offsets: Offsets) -> None:
        self._pairs = [(document, offsets), *self._pairs[:1]]
