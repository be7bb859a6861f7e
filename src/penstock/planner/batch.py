"""Plans a batch read: from the user's options to the ranges that tasks read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.config.source import SourceOptions, check_batch, warn_in_batch
from penstock.errors import BrokerError, BrokerUnavailable, OpenTransaction, UnknownTopic
from penstock.masking import get_logger
from penstock.model.narrowing import EVERYTHING, Narrowing, narrow
from penstock.model.offset_range import OffsetRange
from penstock.model.offset_spec import AtTimestamp, Earliest, EndMode, Latest
from penstock.model.subscription import AssignedPartitions, TopicPattern, select_partitions, wanted_topics
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.range_splitting import split, spread
from penstock.planner.starting_offsets import resolve_end, resolve_start, within_bounds
from penstock.wire.cluster import Cluster, Metadata
from penstock.wire.transport.retry import Attempts

log = get_logger(__name__)
Answer = TypeVar("Answer")


def plan_batch(
    options: SourceOptions, narrowing: Narrowing = EVERYTHING, *, whole_partitions: bool = False
) -> list[OffsetRange]:
    """The ranges of one batch read, in the order in which tasks should take them. `whole_partitions`: one task reads
    all of a partition, because a record may end it (F4)."""
    check_batch(options)
    warn_in_batch(options)
    if whole_partitions and (options.min_partitions or options.max_records_per_partition):
        log.warning("partitions are not split: only a task that reads all of a partition knows where it ends")
        options = replace(options, min_partitions=None, max_records_per_partition=None)
    return with_retries(options, lambda: _plan(options, Cluster(options.client), narrowing))


def with_retries(options: SourceOptions, plan: Callable[[], Answer]) -> Answer:
    """Plan, and retry if no broker answers, as often as fetchOffset.numRetries says."""
    for tries_left in range(options.offset_tries - 1, -1, -1):
        try:
            return plan()
        except BrokerUnavailable as error:
            if not tries_left:
                raise
            log.warning("planning failed, %d tries left: %s", tries_left, error)
            time.sleep(options.offset_retry_interval)
    raise AssertionError("offset_tries is at least 1")


def _plan(options: SourceOptions, cluster: Cluster, narrowing: Narrowing) -> list[OffsetRange]:
    metadata = cluster.metadata(wanted_topics(options.subscription))
    partitions = partitions_of(options, metadata)
    # Filters apply only afterwards: the options must fit the whole subscription, or a filter would hide a mistake.
    starting = options.starting or Earliest()
    start = resolve_start(starting, partitions, cluster, options.rules)
    ending = options.ending or Latest()
    stop = _resolve_end(ending, partitions, cluster, narrowing, options)
    if not (isinstance(starting, Earliest) and isinstance(ending, Latest)):
        begin, end = cluster.begin(partitions), cluster.high_watermarks(partitions)
        within_bounds(start, stop, begin, end, options.fail_on_data_loss)
    start, stop = narrow(start, stop, narrowing)
    if not isinstance(ending, Latest):
        _await_transactions({tp: stop[tp] for tp in start if start[tp] < stop[tp]}, cluster, options, ending.option)
    if narrowing.min_timestamp is not None:
        start = _not_before(narrowing.min_timestamp, start, stop, cluster)
    # Do not simplify: the newest metadata. If a leader changes while ends are looked up, the epoch of the leader before
    # beside the newer end would make the reader take the log for truncated.
    known = cluster.known or metadata
    ranges = [range_of(tp, start[tp], stop[tp], known) for tp in start if start[tp] < stop[tp]]
    return spread(split(ranges, options.min_partitions, options.max_records_per_partition))


def _not_before(timestamp: int, start: Offsets, stop: Offsets, cluster: Cluster) -> Offsets:
    """Starts after the records that are certainly older. Spark applies the filter again, and drops the rest."""
    answers = cluster.by_time(dict.fromkeys(start, timestamp))
    first = {tp: offset for tp, (offset, _) in answers.found.items()}
    return {tp: max(at, first.get(tp, at if tp in answers.unknown else stop[tp])) for tp, at in start.items()}


# --- open transactions ------------------------------------------------------------------------------------------------


def _resolve_end(
    ending: EndMode, partitions: list[TopicPartition], cluster: Cluster, narrowing: Narrowing, options: SourceOptions
) -> Offsets:
    """Where to stop. If the ending time has passed, open transactions may hide the first record at that time: wait for
    them."""
    if not isinstance(ending, AtTimestamp) or not options.client.read_committed:
        return resolve_end(ending, partitions, cluster)
    readable = cluster.end(partitions)
    stop = resolve_end(ending, partitions, cluster)
    now = time.time() * 1000
    passed = [tp for tp in partitions if (at := ending.of(tp)) is not None and at <= now and narrowing.keeps(tp)]
    hidden = cluster.hidden_past({tp: readable[tp] for tp in passed if stop[tp] >= readable[tp]})
    if not hidden:
        return stop
    _await_transactions(hidden, cluster, options, ending.option)
    return resolve_end(ending, partitions, cluster)


def _await_transactions(stop: Offsets, cluster: Cluster, options: SourceOptions, option: str) -> None:
    """Under read_committed, wait until every transaction that began below these stops has ended."""
    if not options.client.read_committed or not stop:
        return
    client = options.client
    attempts = Attempts("waiting for transactions", options.poll_timeout, backoff=client.retry_backoff, backoff_max=1.0)
    while hidden := {tp: at for tp, at in cluster.end(stop).items() if at < stop[tp]}:
        if attempts.expired():
            raise _open_transactions(stop, hidden, cluster, options.poll_timeout, option)
        if attempts.count == 0:
            first = min(hidden)
            others = f" and {len(hidden) - 1} more partitions" if len(hidden) > 1 else ""
            log.warning(
                "%s is read up to offset %d (%s), past an open transaction that begins at offset %d%s: waiting for it "
                "for at most %g s",
                *(first, stop[first], option, hidden[first], others, options.poll_timeout),
            )
        attempts.failed("a transaction is open")
        attempts.back_off()


def _open_transactions(
    stop: Offsets, hidden: Offsets, cluster: Cluster, seconds: float, option: str
) -> OpenTransaction:
    try:
        owners = cluster.open_transactions(hidden)
    except BrokerError as error:
        log.info("the producers of open transactions are unknown: %s", error)
        owners = {}
    lines = [(*tp, stop[tp], hidden[tp], str(owners.get(tp, ""))) for tp in sorted(hidden)]
    return OpenTransaction(lines, seconds, option)


def partitions_of(options: SourceOptions, metadata: Metadata) -> list[TopicPartition]:
    """The partitions that a subscription selects in this cluster."""
    listing: Mapping[str, list[int]] = {name: list(topic.partitions) for name, topic in metadata.topics.items()}
    internal = frozenset(name for name, topic in metadata.topics.items() if topic.internal)
    partitions = select_partitions(options.subscription, listing, internal)
    match options.subscription:
        case AssignedPartitions():
            for tp in partitions:
                if tp.partition not in metadata.topics[tp.topic].partitions:
                    raise UnknownTopic(tp.topic, tp.partition, f"the topic has {len(listing[tp.topic])} partitions")
        case TopicPattern(pattern) if not partitions:
            log.warning("subscribePattern %r matches none of the cluster's %d topics", pattern, len(listing))
        case _:
            pass
    return partitions


def range_of(tp: TopicPartition, start: int, stop: int, metadata: Metadata) -> OffsetRange:
    """A range with the leader of its partition, so that the executor need not look it up."""
    topic = metadata.topics[tp.topic]
    leader = topic.partitions.get(tp.partition)
    if leader is None:
        return OffsetRange(tp.topic, tp.partition, start, stop, topic.topic_id)
    broker = leader.broker
    return OffsetRange(tp.topic, tp.partition, start, stop, topic.topic_id, broker.host, broker.port, leader.epoch)
