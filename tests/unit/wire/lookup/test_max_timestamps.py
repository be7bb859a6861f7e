"""The search for the largest timestamp below an offset, against logs that are lists."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.topic_partition import TopicPartition
from penstock.wire.lookup.max_timestamps import LATEST, ROUNDS, find_max_timestamps
from support.examples import examples


class ListedLogs:
    """Logs as lists of (offset, timestamp, whether a reader gets it), and batches of some records each."""

    def __init__(self, logs, batch=3):
        self.logs = logs
        self.batch = batch
        self.requests = []

    def begin(self, partitions):
        self.requests.append("begin")
        return {tp: self.logs[tp][0][0] if self.logs[tp] else 0 for tp in partitions}

    def end(self, partitions):
        self.requests.append("end")
        return {tp: self.logs[tp][-1][0] + 1 if self.logs[tp] else 0 for tp in partitions}

    def times_at(self, times):
        assert times
        assert max(times.values()) <= LATEST
        self.requests.append("times")
        return {
            tp: next(((o, t) for o, t, _ in self.logs[tp] if t >= time and t >= 0), None) for tp, time in times.items()
        }

    def timestamps_in(self, windows):
        assert windows
        self.requests.append("windows")
        return {tp: self._window(self.logs[tp], *window) for tp, window in windows.items()}

    def _window(self, log, at, first, stop):
        index = next((i for i, (offset, _, _) in enumerate(log) if offset >= at), None)
        if index is None:
            return None
        index -= index % self.batch  # a broker sends whole batches
        seen = [t for o, t, real in log[index : index + self.batch] if real and t >= 0 and first <= o < stop]
        return max(seen, default=None)


def brute_force(log, before):
    return max((t for o, t, real in log if o < before and real and t >= 0), default=None)


def plain(timestamps, begin=0):
    return [(begin + i, t, True) for i, t in enumerate(timestamps)]


TP = TopicPartition("t", 0)
TIMESTAMPS = st.one_of(
    st.lists(st.integers(-1, 30), max_size=40),
    st.lists(st.integers(0, 2**62), max_size=40),
    st.lists(st.integers(1_700_000_000_000, 1_700_086_400_000), max_size=40).map(sorted),
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(TIMESTAMPS, st.integers(0, 50), st.randoms(use_true_random=False)), min_size=1, max_size=4))
def test_F19_it_is_what_reading_all_of_it_says(given_logs):
    """Any order, gaps as compaction leaves them, a beginning that was deleted, records without a timestamp."""
    logs, before = {}, {}
    for number, (timestamps, begin, chance) in enumerate(given_logs):
        log = plain(timestamps, begin)
        tp = TopicPartition("t", number)
        logs[tp] = [record for record in log if chance.random() < 0.7] if number % 2 else log
        before[tp] = chance.randint(0, begin + len(timestamps) + 3)
    asked = ListedLogs(logs)
    assert find_max_timestamps(before, asked) == {tp: brute_force(logs[tp], before[tp]) for tp in logs}
    assert asked.requests.count("times") < 75 < ROUNDS


def test_F19_records_in_order_cost_two_requests_whatever_the_number_of_partitions():
    logs = {TopicPartition("t", p): plain(range(1000 + p, 2000 + p)) for p in range(200)}
    before = {tp: 1 + 5 * tp.partition for tp in logs}
    asked = ListedLogs(logs)
    assert find_max_timestamps(before, asked) == {tp: brute_force(logs[tp], before[tp]) for tp in logs}
    assert asked.requests == ["windows", "times"]


def test_F19_a_record_may_have_the_last_of_all_timestamps():
    """One more is more than a request can hold: `times_at` below refuses it, as the encoder does."""
    for log in ([LATEST], [1, LATEST, 2], [LATEST - 1, 5, 6, 7, 8]):
        asked = ListedLogs({TP: plain(log)})
        assert find_max_timestamps({TP: len(log)}, asked) == {TP: max(log)}


def test_F19_a_day_out_of_order_costs_few_requests():
    day, chance = 86_400_000, random.Random(7)
    logs = {TopicPartition("t", p): plain(i * 1000 + chance.randint(0, day) for i in range(5000)) for p in range(8)}
    before = {tp: 500 + 500 * tp.partition for tp in logs}
    asked = ListedLogs(logs)
    assert find_max_timestamps(before, asked) == {tp: brute_force(logs[tp], before[tp]) for tp in logs}
    assert len(asked.requests) < 40


def test_F19_a_hole_before_the_offset_is_searched_over():
    log = [*plain(range(5000, 6000)), *plain(range(7000, 7100), begin=9000)]
    asked = ListedLogs({TP: log})
    assert find_max_timestamps({TP: 9000}, asked) == {TP: 5999}
    assert len(asked.requests) < 40


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=60), st.integers(0, 63))
def test_F19_what_no_reader_gets_never_makes_it_larger(rows, before):
    """With markers and aborted records it may be less, but no more; and exact where the last one is the latest."""
    log = [(offset, t, real) for offset, (t, real) in enumerate(rows)]
    found = find_max_timestamps({TP: before}, ListedLogs({TP: log}))[TP]
    truth = brute_force(log, before)
    assert found is None or found <= truth
    if 0 < before <= len(log) and log[before - 1][2]:
        assert found >= log[before - 1][1]


@pytest.mark.parametrize("markers", ["live", "replay"])
def test_F19_markers_do_not_count(markers):
    """Transactions of three records. In a replay the markers bear the time of the replay, not that of the records."""
    log = []
    for number in range(300):
        time = 1_000_000 + number * 10
        log += [(len(log) + i, time + i, True) for i in range(3)]
        log.append((len(log), time + 5 if markers == "live" else 10**12 + number, False))
    for before in (1, 3, 4, 7, 8, 600, 1199, 1200, 5000):
        asked = ListedLogs({TP: log})
        assert find_max_timestamps({TP: before}, asked) == {TP: brute_force(log, before)}, before
        assert len(asked.requests) < 15, before


def test_F19_nothing_is_asked_about_nothing():
    asked = ListedLogs({TP: plain([1])})
    assert find_max_timestamps({}, asked) == {}
    assert find_max_timestamps({TP: 0}, asked) == {TP: None}
    assert asked.requests == []
