"""The first record of a time, on logs that answer as a broker does: from the first segment that fits, and no other."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from hostile.record_batches import BASE_TIME, PARTITION, TOPIC, Batch, chunk, marker, record
from penstock.config.source import parse_options
from penstock.errors import CorruptBatch, TimeLookupTimeout
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.lookup.offsets_for_times import Scan, Step, find_offsets, look_into
from penstock.wire.lookup.time_index import TimeAnswers, look_up
from penstock.wire.transport.retry import Attempts
from support.examples import examples

TP = TopicPartition(TOPIC, PARTITION)


@dataclass(frozen=True)
class Entry:
    """What lies at an offset: a record, or something with a time that no reader gets."""

    offset: int
    time: int
    kind: str = "record"  # or marker, aborted, emptied (by compaction: its time is left)


@dataclass
class Partition:
    segments: list[list[Entry]]
    begin: int = 0
    end: int = 0
    modified: int = 0
    """The time of the files, which stands for the largest timestamp where no entry has one."""
    knows_largest: bool = True

    @property
    def entries(self):
        return [entry for segment in self.segments for entry in segment]

    def at(self, time):
        """As `UnifiedLog.fetchOffsetByTimestamp`."""
        for segment in self.segments:
            largest = max((entry.time for entry in segment), default=-1)
            if (largest if largest >= 0 else self.modified) >= time:
                there = [e for e in segment if e.time >= time and e.offset >= self.begin and e.kind != "emptied"]
                return (there[0].offset, there[0].time) if there else None
        return None

    def largest(self):
        latest = max(self.entries, key=lambda entry: entry.time, default=None)
        known = latest is not None and latest.time >= 0 and latest.kind != "emptied" and self.knows_largest
        return latest.time if known else None

    def first(self, time):
        """As a reader finds it."""
        within = [e.offset for e in self.entries if self.begin <= e.offset < self.end and e.kind == "record"]
        by_offset = {entry.offset: entry.time for entry in self.entries}
        return next((offset for offset in within if by_offset[offset] >= time), None)


@dataclass
class Brokers:
    logs: dict[TopicPartition, Partition]
    piece: int = 3
    asked: list[str] = field(default_factory=list)

    def begin(self, partitions):
        self.asked.append("begin")
        return {tp: self.logs[tp].begin for tp in partitions}

    def times_at(self, times):
        self.asked.append("times")
        return {tp: self.logs[tp].at(time) for tp, time in times.items()}

    def largest_times(self, partitions):
        self.asked.append("largest")
        return {tp: self.logs[tp].largest() for tp in partitions}

    def by_time(self, times):
        return look_up(times, self)

    def scan(self, scans, first):
        self.asked.append("fetch")
        return {tp: self._step(self.logs[tp], scan) for tp, scan in scans.items()}

    def _step(self, log, scan):
        assert scan.at < scan.stop, "nothing to look at"
        if scan.at < log.begin:
            return None  # out of range
        there = [e for e in log.entries if e.offset >= scan.at][: self.piece]
        late = [e.offset for e in there if e.kind == "record" and e.time >= scan.time and e.offset < scan.stop]
        if late:
            return Step(late[0], late[0])
        return Step(None, min(there[-1].offset + 1, scan.stop)) if there else None

    def first_at(self, time, since=None, seconds=600.0):
        ends = {tp: log.end for tp, log in self.logs.items()}
        return find_offsets(dict.fromkeys(self.logs, time), ends, self, Attempts("looking", seconds), since or {})


ENTRIES = st.tuples(st.integers(-1, 20), st.sampled_from(["record"] * 4 + ["marker", "aborted", "emptied", "gap"]))


@st.composite
def partitions(draw):
    segments, offset = [], draw(st.integers(0, 3))
    for rows in draw(st.lists(st.lists(ENTRIES, max_size=6), max_size=5)):
        segments.append([])
        for time, kind in rows:
            if kind != "gap":
                segments[-1].append(Entry(offset, time, kind))
            offset += 1
    begin = draw(st.integers(0, offset))
    end = draw(st.integers(begin, offset))  # an open transaction, or what was written since the end was read
    return Partition(segments, begin, end, draw(st.integers(0, 25)), draw(st.booleans()))


@settings(max_examples=examples(500))
@given(st.lists(partitions(), min_size=1, max_size=3), st.integers(0, 22), st.integers(1, 4))
def test_F8_it_is_what_a_scan_of_the_whole_log_finds(logs, time, piece):
    brokers = Brokers({TopicPartition("t", number): log for number, log in enumerate(logs)}, piece)
    assert brokers.first_at(time) == {tp: log.first(time) for tp, log in brokers.logs.items()}


@settings(max_examples=examples(500))
@given(partitions(), st.integers(0, 22))
def test_what_the_index_says_is_true_of_every_record(log, time):
    """No such record precedes the answered offset, and "nothing" means that there is none."""
    answers = Brokers({TP: log}).by_time({TP: time})
    late = [e.offset for e in log.entries if e.kind == "record" and e.time >= time and e.offset >= log.begin]
    if TP in answers.found:
        assert all(offset >= answers.found[TP][0] for offset in late)
    elif TP not in answers.unknown:
        assert late == []


@settings(max_examples=examples(300))
@given(partitions(), st.integers(0, 22), st.integers(0, 40))
def test_what_is_known_to_be_older_is_not_looked_at_again(log, time, since):
    first = log.first(time)
    known = min(since, log.end) if first is None else min(since, first)
    brokers = Brokers({TP: log}, piece=1)
    assert brokers.first_at(time, since={TP: known}) == {TP: first}
    assert brokers.asked.count("fetch") <= len([e for e in log.entries if e.offset >= known]) + 2


def plain(*times, **more):
    entries = [Entry(offset, time) for offset, time in enumerate(times)]
    return Partition([entries], end=len(entries), **more)


def test_a_good_answer_costs_one_request_more_whatever_the_number_of_partitions():
    found = Brokers({TopicPartition("t", p): plain(*range(100)) for p in range(200)})
    assert set(found.first_at(50).values()) == {50}
    assert found.asked == ["times", "fetch"]
    none = Brokers({TopicPartition("t", p): plain(*range(100)) for p in range(200)})
    assert set(none.first_at(100).values()) == {None}
    assert none.asked == ["times", "largest"]


def test_nothing_is_asked_about_logs_of_which_all_is_known():
    brokers = Brokers({TP: plain(1, 2, 3)})
    assert brokers.first_at(9, since={TP: 3}) == {TP: None}
    assert brokers.first_at(9, since={TP: 3}) == {TP: None}
    assert Brokers({TP: Partition([[]])}).first_at(9) == {TP: None}
    assert "fetch" not in brokers.asked
    assert brokers.by_time({}) == TimeAnswers({}, frozenset())
    assert brokers.asked == []


def test_a_record_past_the_end_that_was_read_before_is_proof_that_there_is_none():
    log = plain(1, 2, 3, 9)
    log.end = 3
    brokers = Brokers({TP: log})
    assert brokers.first_at(9) == {TP: None}
    assert brokers.asked == ["times"]


def test_records_deleted_during_the_look_up_are_left_out():
    brokers = Brokers({TP: plain(9, 1, 2, 9)})
    scan = brokers.scan

    def scan_late(scans, first):
        brokers.logs[TP].begin = 2
        return scan(scans, first)

    brokers.scan = scan_late
    assert brokers.first_at(9) == {TP: 3}


def test_a_scan_that_takes_too_long_says_where_it_stands_and_what_to_do():
    log = Partition([[Entry(offset, 5, "marker") for offset in range(100)]], end=100)
    with pytest.raises(
        TimeLookupTimeout, match=r"orders-3 was scanned up to offset 3 of 100.*raise default\.api"
    ) as told:
        Brokers({TP: log}).first_at(5, seconds=0.0)
    assert told.value.partitions == ((TOPIC, PARTITION, 5, 3, 100),)


# --- one piece of a log ---------------------------------------------------------------------------------------------


def timed(base, *deltas, header=None, **more):
    """A batch of records so many milliseconds after BASE_TIME."""
    records = [record(at, b"v", time_delta=delta) for at, delta in enumerate(deltas)]
    largest = BASE_TIME + (max(deltas, default=0) if header is None else header)
    return Batch(base, records, max_time=largest, **more)


def look(data, at=0, stop=100, late=10, log_start=0, aborted=(), isolation="read_committed", readable=100, named=False):
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.isolation.level": isolation}
    fetched = FetchedPartition(TOPIC, PARTITION, 0, 100, readable, list(aborted), -1, memoryview(data), log_start)
    return look_into(TP, fetched, Scan(at, stop, BASE_TIME + late, named), parse_options(options).client)


def test_the_first_late_record_is_found_inside_of_its_batch():
    data = chunk(timed(0, 1, 2, 3), timed(3, 1, 10, 2, 30))
    assert look(data) == Step(4, 4)
    assert look(chunk(timed(3, 1, 10, 2, 30)), at=5) == Step(6, 6)
    assert look(data, stop=4) == Step(None, 4)
    assert look(data, late=31) == Step(None, 7)


def test_what_was_deleted_or_taken_by_compaction_does_not_count():
    assert look(chunk(timed(0, 50, 50, 1, 50), timed(4, 1)), log_start=2) == Step(3, 3)
    assert look(chunk(timed(0, 50, 1, 1), timed(3, 60)), log_start=1) == Step(3, 3)
    emptied = timed(0, header=50, last_delta=9)
    assert look(chunk(emptied, timed(10, 1, 20))) == Step(11, 11)
    assert look(chunk(emptied)) == Step(None, 10)


def test_markers_and_aborted_records_do_not_count():
    def of(producer, base, *deltas):
        return timed(base, *deltas, producer=producer, attributes=0x10)

    data = chunk(of(7, 0, 50), marker(1, 7, commit=False), of(7, 2, 60), marker(3, 7, commit=True))
    assert look(data, aborted=[(7, 0)]) == Step(2, 2)
    assert look(data, isolation="read_uncommitted") == Step(0, 0)
    assert look(chunk(of(7, 0, 50), marker(1, 7, commit=False)), aborted=[(7, 0)]) == Step(None, 2)
    late_marker = Batch(1, marker(1, 7, commit=True).records, attributes=0x30, producer=7, max_time=BASE_TIME + 99)
    assert look(chunk(of(7, 0, 1), late_marker)) == Step(None, 2)


def test_the_record_that_the_index_names_is_not_decoded():
    damaged = bytearray(timed(0, 1, 50).encode())
    damaged[-1] ^= 1
    assert look(damaged, at=1, named=True) == Step(1, 1), "its header says that it is a record: that is enough"
    assert look(damaged, at=1, named=True, isolation="read_uncommitted") == Step(1, 1)


def test_what_the_index_names_and_may_be_no_record_is_looked_at():
    transactional = timed(0, 1, 50, 1, 60, producer=7, attributes=0x10)
    assert look(chunk(transactional), at=1, named=True) == Step(1, 1)
    assert look(chunk(transactional), at=1, named=True, aborted=[(7, 0)]) == Step(None, 4)
    assert look(chunk(transactional), at=1, named=True, aborted=[(7, 0)], isolation="read_uncommitted") == Step(1, 1)
    assert look(chunk(marker(0, 7, commit=True), timed(1, 20)), named=True) == Step(1, 1)
    assert look(chunk(timed(0, 50, 1, 50)), at=0, named=True, log_start=1) == Step(2, 2), "deleted a moment ago"
    assert look(chunk(timed(5, 1, 50)), at=3, named=True) == Step(6, 6), "taken by compaction a moment ago"


def test_a_batch_that_is_cut_short_is_left_to_the_next_fetch():
    first, second = timed(0, 1, 2).encode(), timed(2, 1, 50).encode()
    assert look(first + second[:-1]) == Step(None, 2)
    assert look(first + second[:30]) == Step(None, 2)
    assert look(first + second) == Step(3, 3)


def test_a_timestamp_that_no_column_can_hold_is_late():
    assert look(chunk(timed(0, 1, 2**62))) == Step(1, 1)


def test_what_cannot_be_read_yet_is_asked_for_again():
    with pytest.raises(RetriableError, match="can be read up to offset 40 only, and was up to 100"):
        look(chunk(timed(0, 1)), readable=40)


@pytest.mark.parametrize("data", [bytes(61), b"\xff" * 100, timed(0, 1).encode()[:-1], timed(0, 1).encode()[:20]])
def test_bytes_that_are_no_batch_end_the_look_up_with_an_error(data):
    with pytest.raises(CorruptBatch, match="no whole record batch begins there"):
        look(data)


def test_a_damaged_batch_that_claims_the_time_is_an_error():
    damaged = bytearray(timed(0, 1, 50).encode())
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="orders-3"):
        look(damaged)


@pytest.mark.parametrize("codec", [0, 1])
def test_old_messages_are_looked_into_and_what_follows_them_too(codec):
    builder = LegacyRecordBatchBuilder(1, codec, 1 << 20)
    for offset, delta in enumerate((1, 2, 20, 3)):
        builder.append(offset, timestamp=BASE_TIME + delta, key=None, value=b"v")
    old = bytearray(builder.build())
    if codec:
        # A set bears the offset of its last message, and the largest timestamp.
        struct.pack_into(">q", old, 0, 3)
        struct.pack_into(">q", old, 18, BASE_TIME + 20)
        struct.pack_into(">I", old, 12, zlib.crc32(old[16:]))
    assert look(old) == Step(2, 2)
    assert look(old, late=21) == Step(None, 4)
    assert look(bytes(old) + timed(4, 1, 50).encode(), late=21) == Step(5, 5)


def test_messages_without_a_timestamp_are_older_than_any_time():
    builder = LegacyRecordBatchBuilder(0, 0, 1 << 20)
    builder.append(0, timestamp=None, key=None, value=b"v")
    assert look(bytes(builder.build()), late=-BASE_TIME) == Step(None, 1)
