"""Logs that are lists of timestamps, and a stream over them with the planner's splits, without a broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock import TopicPartition
from penstock.config.event_time import EventTimeOptions
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.planner.alignment.alignment import Alignment, PartitionRead
from penstock.planner.alignment.lookup import NextRecords
from penstock.planner.rate_limit import share

A, B, C = (TopicPartition("t", number) for number in range(3))
HOUR = 3_600_000
MINUTE = 60_000
BASE = 1_767_225_600_000


class Marker(int):
    """The end of a transaction: the index has its time, but a reader never sees it."""


UNTIMED = Marker(-1)
"""A record without a timestamp: it is not in the index."""


@dataclass
class Logs:
    """Partitions as lists of timestamps, and a broker's answers about them."""

    logs: dict[TopicPartition, list[int]]
    asked: list[str] = field(default_factory=list)
    hiding: set[TopicPartition] = field(default_factory=set)
    """Partitions for which brokers answer that no record is so late, although one is."""

    def max_timestamps(self, before):
        self.asked.append("max")
        return {tp: max(records(self.logs[tp][:offset]), default=None) for tp, offset in before.items()}

    def by_time(self, times):
        self.asked.append("times")
        assert all(time < 2**63 for time in times.values()), "no request can hold it"
        found = {
            tp: next(((at, stamp) for at, stamp in enumerate(self.logs[tp]) if stamp >= time), None)
            for tp, time in times.items()
        }
        hidden = {tp for tp in times if tp in self.hiding and found[tp] is not None}
        return {tp: answer for tp, answer in found.items() if answer is not None and tp not in hidden}, hidden

    def timestamps_of(self, offsets):
        self.asked.append("records")
        return {tp: next(iter(records(self.logs[tp][at : at + 1])), None) for tp, at in offsets.items()}

    def before(self, offsets):
        return self.max_timestamps(offsets)

    def after(self, offsets, ends):
        looked = {tp: records(self.logs[tp][at : at + 100]) for tp, at in offsets.items()}
        return {tp: NextRecords(min(log), max(log), len(log)) if log else None for tp, log in looked.items()}

    def ends(self):
        return {tp: len(log) for tp, log in self.logs.items()}


def records(log):
    return [stamp for stamp in log if not isinstance(stamp, Marker)]


class Stream:
    """A stream over such logs, batch by batch, with Spark's rule for late records."""

    def __init__(self, logs, *, drift, out_of_order=0, idleness=60.0, by_record=True, delay=None):
        strategy = WatermarkStrategy.bounded(out_of_order / 1000).with_idleness(idleness).with_alignment(drift / 1000)
        if not by_record:
            strategy = strategy.with_timestamps("value.at")
        self.logs = Logs(logs)
        self.now = 0.0
        self.wall = BASE / 1000
        self.options = EventTimeOptions(strategy, include_columns=False)
        self.position = dict.fromkeys(logs, 0)
        self.delay = drift + out_of_order if delay is None else delay
        self.highest, self.dropped = None, 0
        self.start()

    def start(self):
        """Start a new planner on the same offsets."""
        self.alignment = Alignment(self.options, self.logs, self.logs, lambda: self.now, lambda: self.wall)

    def mark(self, tp):
        """The event-time watermark of a partition."""
        return self.alignment.status().partitions[tp].watermark

    def plan(self, limit=None, bounded=False, silent=(), joining=()):
        ends = {tp: end for tp, end in self.logs.ends().items() if tp not in silent}
        backlog = sum(ends[tp] - self.position[tp] for tp in ends)
        finished = [tp for tp in ends if ends[tp] == self.position[tp]] if bounded else ()
        limited = bool(joining) or (limit is not None and backlog > limit)
        return self.alignment.align(dict(self.position), ends, limited=limited, finished=finished)

    def step(self, limit=None, bounded=False, silent=(), joining=()):
        """One trigger. Returns the number of records read. `joining`: new partitions, of which nothing is read in
        it."""
        cut = self.plan(limit, bounded, silent, joining)
        allowed = {
            tp: stop - self.position[tp] for tp, stop in cut.items() if stop > self.position[tp] and tp not in joining
        }
        if limit is not None:
            allowed, _ = share(limit, allowed, {})
        batch = {tp: self.logs.logs[tp][self.position[tp] : self.position[tp] + n] for tp, n in allowed.items() if n}
        stamps = [stamp for read in batch.values() for stamp in records(read)]
        if self.highest is not None:
            self.dropped += sum(stamp < self.highest - self.delay for stamp in stamps)
        self.highest = max([*stamps, *([] if self.highest is None else [self.highest])], default=None)
        for tp, read in batch.items():
            self.position[tp] += len(read)
        self.alignment.learn(
            {tp: PartitionRead(self.position[tp], max(records(read), default=None)) for tp, read in batch.items()}
        )
        return sum(map(len, batch.values()))
