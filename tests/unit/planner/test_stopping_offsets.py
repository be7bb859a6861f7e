"""Until where a stream goes."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import OptionError
from penstock.model.offset_spec import AtOffsets, AtTimestamp, Latest, PerPartition
from penstock.model.topic_partition import TopicPartition
from penstock.planner.stopping_offsets import LATE_MS, StreamEnd

NOW = 500  # before any end by time below
A, B, NEW = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Log:
    """Ends that grow, and the offset of the first record at a time."""

    def __init__(self, ends, young=None, hidden=None):
        self.ends, self.young, self.asked, self.since = ends, young or {}, [], None
        self.hidden = hidden or {}

    def begin(self, partitions):
        return dict.fromkeys(partitions, 0)

    def end(self, partitions):
        return {tp: self.ends[tp] for tp in partitions}

    def hidden_past(self, ends):
        return {tp: mark for tp, mark in self.hidden.items() if tp in ends and mark > ends[tp]}

    def first_at(self, times, ends, since=None):
        self.asked.append(dict(times))
        self.since = since
        return {tp: self.young.get(tp) for tp in times}

    def committed(self, group, partitions):
        raise AssertionError("an end asks no group")


def offsets(**partitions):
    return AtOffsets(PerPartition(partitions={A: partitions["a"], B: partitions["b"]}), "endingOffsets")


def test_a_stream_without_an_end_goes_on():
    end = StreamEnd(None)
    assert end.limit({A: 5}, {A: 5}, Log({}), NOW) == {A: 5}
    assert end.reached({A: 5}) is None


def test_named_offsets_are_the_end():
    end = StreamEnd(offsets(a=10, b=20))
    assert end.limit({A: 7, B: 30}, {A: 7, B: 30}, Log({}), NOW) == {A: 7, B: 20}
    assert not end.reached({A: 7, B: 20})
    assert end.limit({A: 11, B: 31}, {A: 11, B: 31}, Log({}), NOW) == {A: 10, B: 20}
    assert end.reached({A: 10, B: 20})


def test_an_unnamed_partition_is_refused():
    with pytest.raises(OptionError, match="names nothing for t-1"):
        StreamEnd(AtOffsets(PerPartition(partitions={A: 3}), "endingOffsets")).limit(
            {A: 1, B: 1}, {A: 1, B: 1}, Log({}), NOW
        )


@pytest.mark.parametrize("mode", [Latest(), AtOffsets(PerPartition(topics={"t": -1}), "endingOffsets")])
def test_latest_is_what_there_is_at_the_start(mode):
    end = StreamEnd(mode)
    log = Log({A: 5, B: 6})
    assert end.limit(log.ends, log.ends, log, NOW) == {A: 5, B: 6}
    assert end.limit({A: 50, B: 60}, {A: 50, B: 60}, log, NOW) == {A: 5, B: 6}
    assert end.reached({A: 5, B: 6})


def test_a_partition_that_appears_later_is_left_out_once_and_for_all(caplog):
    end, log = StreamEnd(Latest()), Log({A: 5})
    end.limit({A: 5}, {A: 5}, log, NOW)
    with caplog.at_level(logging.WARNING):
        assert end.limit({A: 5, NEW: 9}, {A: 5, NEW: 9}, log, NOW) == {A: 5}
        assert end.limit({A: 5, NEW: 10}, {A: 5, NEW: 10}, log, NOW) == {A: 5}
    assert caplog.text.count("u-0 appeared after the end of the stream was set") == 1


def test_a_later_partition_joins_if_its_topic_is_named():
    end = StreamEnd(AtOffsets(PerPartition(topics={"t": 10}), "endingOffsets"))
    end.limit({A: 5}, {A: 5}, Log({}), NOW)
    assert end.limit({A: 15, B: 15}, {A: 15, B: 15}, Log({}), NOW) == {A: 10, B: 10}


def test_a_time_is_the_end_once_a_record_of_that_time_is_there():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({})
    assert end.limit({A: 5, B: 6}, {A: 5, B: 6}, log, NOW) == {A: 5, B: 6}
    assert not end.reached({A: 5, B: 6})
    log.young = {A: 7}
    assert end.limit({A: 9, B: 9}, {A: 9, B: 9}, log, NOW) == {A: 7, B: 9}
    assert not end.reached({A: 7, B: 9})
    log.young = {A: 7, B: 12}
    assert end.limit({A: 9, B: 20}, {A: 9, B: 20}, log, NOW) == {A: 7, B: 12}
    assert end.reached({A: 7, B: 12})


def test_an_idle_stream_asks_for_no_times():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({})
    for _ in range(3):
        end.limit({A: 5}, {A: 5}, log, NOW)
    assert [asked for asked in log.asked if asked] == [{A: 1000}]


def test_a_partition_without_a_record_of_that_time_ends_when_the_time_has_passed():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({}, {A: 3})
    both = {A: 5, B: 0}
    assert end.limit(both, both, log, 1000 + LATE_MS - 1) == {A: 3, B: 0}
    assert not end.reached({A: 3, B: 0})
    assert end.limit(both, both, log, 1000 + LATE_MS) == {A: 3, B: 0}
    assert end.reached({A: 3, B: 0})
    assert end.limit({A: 5, B: 9}, both, log, 9000) == {A: 3, B: 0}


def test_F8_a_time_that_has_passed_waits_for_the_transactions_that_were_open_then():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({}, hidden={A: 9})
    assert end.limit({A: 5, B: 5}, [A, B], log, 9000) == {A: 5, B: 5}
    assert not end.reached({A: 5, B: 5})
    log.hidden = {A: 90}  # transactions that were begun later do not count
    assert end.limit({A: 8, B: 8}, [A, B], log, 9000) == {A: 8, B: 5}
    assert end.limit({A: 10, B: 8}, [A, B], log, 9000) == {A: 10, B: 5}
    assert end.reached({A: 10, B: 5})
    assert end.limit({A: 20, B: 8}, [A, B], log, 9000) == {A: 10, B: 5}


def test_F8_a_transaction_that_was_open_may_bring_the_first_record_of_the_time():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({}, hidden={A: 9})
    assert end.limit({A: 5}, [A], log, 9000) == {A: 5}
    log.young = {A: 7}
    assert end.limit({A: 9}, [A], log, 9000) == {A: 7}
    assert end.reached({A: 7})


def test_F8_a_log_that_was_cut_does_not_wait_for_transactions_that_went_with_it():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({}, hidden={A: 90})
    assert end.limit({A: 5}, [A], log, 9000) == {A: 5}
    assert not end.reached({A: 5}), "a transaction is open up to offset 90"
    log.hidden = {}
    end.forget_truncated({A: 3})
    assert end.limit({A: 3}, [A], log, 9000) == {A: 3}
    assert end.reached({A: 3})


@pytest.mark.parametrize("mode", [Latest(), AtOffsets(PerPartition(topics={"t": -1}), "endingOffsets")])
def test_a_partition_that_does_not_answer_at_first_is_waited_for(mode):
    end = StreamEnd(mode)
    assert end.limit({A: 5}, [A, B], Log({}), NOW) == {A: 5}
    assert not end.reached({A: 5})
    assert end.limit({A: 50, B: 60}, [A, B], Log({}), NOW) == {A: 5, B: 60}
    assert end.reached({A: 5, B: 60})


def test_a_named_partition_that_does_not_answer_at_first_is_not_an_error():
    end = StreamEnd(offsets(a=10, b=20))
    assert end.limit({A: 7}, [A, B], Log({}), NOW) == {A: 7}
    assert not end.reached({A: 7, B: 0})
    assert end.limit({A: 10, B: 30}, [A, B], Log({}), NOW) == {A: 10, B: 20}


def test_a_partition_that_vanishes_before_it_answers_is_not_waited_for():
    end = StreamEnd(Latest())
    end.limit({A: 5}, [A, B], Log({}), NOW)
    assert end.limit({A: 5}, [A], Log({}), NOW) == {A: 5}
    assert end.reached({A: 5})


def test_times_must_name_every_partition_and_those_that_come_later_are_not_read(caplog):
    times = AtTimestamp(PerPartition(partitions={A: 1000}), "endingOffsetsByTimestamp")
    with pytest.raises(OptionError, match="names nothing for t-1"):
        StreamEnd(times).limit({A: 1, B: 1}, [A, B], Log({}), NOW)
    end = StreamEnd(times)
    end.limit({A: 1}, [A], Log({}), NOW)
    assert end.limit({A: 1, B: 1}, [A, B], Log({}), NOW) == {A: 1}


def test_an_end_by_time_without_partitions_is_reached_when_the_time_has_passed():
    end = StreamEnd(AtTimestamp(1000, "endingTimestamp"))
    end.limit({}, [], Log({}), NOW)
    assert end.reached({}) is False
    end.limit({}, [], Log({}), 1000 + LATE_MS)
    assert end.reached({}) is True


def test_a_recreated_topic_ends_at_its_own_end():
    end = StreamEnd(Latest())
    end.limit({A: 10}, [A], Log({}), NOW)
    end.forget([A])
    assert end.reached({A: 0}) is False
    assert end.limit({A: 2}, [A], Log({}), NOW) == {A: 2}
    assert end.reached({A: 2})


# --- F4: a deserializer ends a partition ------------------------------------------------------------------------------


def test_F4_a_stream_whose_deserializer_may_end_it_ends_when_every_partition_has():
    end = StreamEnd(None, deserializer_may_end=True)
    assert end.reached({A: 5, B: 6}) is False
    end.note_ended({A: 3})
    assert end.without_ended({A: 5, B: 6}) == {A: 3, B: 6}
    assert end.without_ended({A: 2}) == {A: 2}
    assert end.reached({A: 3, B: 6}) is False
    end.note_ended({B: 6})
    assert end.reached({A: 3, B: 6}) is True
    assert end.reached({A: 3, B: 6, NEW: 0}) is False, "one that appears is read, and has an end of its own"


def test_F4_a_stream_that_reads_nothing_yet_has_not_ended():
    assert StreamEnd(None, deserializer_may_end=True).reached({}) is False


@pytest.mark.parametrize("mode", [Latest(), AtTimestamp(1000, "endingTimestamp"), offsets(a=10, b=20)], ids=repr)
def test_F4_an_end_by_option_and_one_by_record_go_together(mode):
    end, log = StreamEnd(mode, deserializer_may_end=True), Log({}, {A: 10, B: 20})
    end.limit({A: 10, B: 20}, [A, B], log, NOW)
    end.note_ended({A: 3})
    assert end.reached({A: 3, B: 19}) is False
    assert end.reached({A: 3, B: 20}) is True


def test_F4_a_partition_that_has_ended_is_not_waited_for():
    end = StreamEnd(Latest(), deserializer_may_end=True)
    end.limit({A: 5}, [A, B], Log({}), NOW)  # B has no leader
    end.note_ended({B: 3})
    assert end.reached({A: 5, B: 3}) is True


def test_F4_a_topic_recreated_or_truncated_before_its_end_has_not_ended():
    for forget, gone in (("forget", [A]), ("forget_truncated", {A: 2})):
        end = StreamEnd(None, deserializer_may_end=True)
        end.note_ended({A: 3, B: 3})
        getattr(end, forget)(gone)
        assert end.without_ended({A: 5, B: 5}) == {A: 5, B: 3}
        assert end.reached({A: 5, B: 3}) is False


def test_an_end_by_time_is_looked_for_where_nothing_was_looked_at_yet():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({})
    end.limit({A: 7}, {A}, log, NOW)
    end.limit({A: 9}, {A}, log, NOW)
    assert log.since == {A: 7}
    end.limit({A: 4}, {A}, log, NOW)
    assert log.since == {}, "the log is shorter than it was: what is there now may be something else"
    end.limit({A: 9}, {A}, log, NOW)
    assert log.since == {A: 4}


def test_an_end_by_time_that_was_cut_off_is_looked_for_again():
    end, log = StreamEnd(AtTimestamp(1000, "endingTimestamp")), Log({}, {A: 7})
    assert end.limit({A: 9}, {A}, log, NOW) == {A: 7}
    end.forget_truncated({A: 7})
    assert end.limit({A: 9}, {A}, log, NOW) == {A: 7}
    assert len(log.asked[-1]) == 0, "it was not cut off"
    end.forget_truncated({A: 5})
    log.young = {A: 6}
    assert end.limit({A: 9}, {A}, log, NOW) == {A: 6}


def test_F4_any_ended_partition_stops_a_stream_that_ends_at_the_first():
    end = StreamEnd(None, deserializer_may_end=True, ends_at_first=True)
    assert not end.stopped
    end.note_ended({A: 3})
    assert end.stopped
    assert end.without_ended({A: 5, B: 6}) == {A: 3, B: 6}


def test_F4_one_ended_partition_stops_no_other_stream():
    end = StreamEnd(None, deserializer_may_end=True)
    end.note_ended({A: 3})
    assert not end.stopped
