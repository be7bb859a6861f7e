"""From where each partition is read, on a lookup made of plain values."""

import logging
from datetime import UTC, datetime

import pytest

import penstock
from penstock.config.times import now_ms
from penstock.consumer.start import start_mode
from penstock.errors import DataLoss, NoGroupOffset, NoOffsetForTimestamp, OptionError
from penstock.model.offset_spec import AtOffsets, AtTimestamp, Earliest, GroupOffsets, Latest, PerPartition, StartRules
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import resolve_end, resolve_start, within_bounds

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ALL = [A0, A1, B0]
NO_RULES = StartRules()


class Lookup:
    """A cluster with offsets 10 to 100 everywhere; the end moves with each lookup of a time."""

    def __init__(self, committed=None, times=None):
        self.ends = dict.fromkeys(ALL, 100)
        self.group = committed or {}
        self.times = times or {}

    def begin(self, partitions):
        return dict.fromkeys(partitions, 10)

    def end(self, partitions):
        return {tp: self.ends[tp] for tp in partitions}

    def hidden_past(self, ends):
        return {}

    def committed(self, group, partitions):
        assert group == "g"
        return {tp: self.group.get(tp) for tp in partitions}

    def first_at(self, times, ends, since=None):
        assert ends == {tp: self.ends[tp] for tp in times}, "the ends are to be those before the look-up"
        self.ends = {tp: end + 1 for tp, end in self.ends.items()}
        return {tp: self.times.get(tp) for tp in times}


def test_F6_earliest_and_latest():
    assert resolve_start(Earliest(), ALL, Lookup(), NO_RULES) == dict.fromkeys(ALL, 10)
    assert resolve_start(Latest(), ALL, Lookup(), NO_RULES) == dict.fromkeys(ALL, 100)


def test_F6_group_offsets():
    lookup = Lookup(committed={A0: 11, A1: 12, B0: 13})
    assert resolve_start(GroupOffsets(), ALL, lookup, StartRules("g")) == {A0: 11, A1: 12, B0: 13}


def test_F7_explicit_offsets_name_the_next_record_with_words_for_the_ends():
    mode = AtOffsets(PerPartition({"b": -1}, {A0: 23, A1: -2}))
    assert resolve_start(mode, ALL, Lookup(), NO_RULES) == {A0: 23, A1: 10, B0: 100}


def test_a_partition_named_alone_wins_over_its_topic():
    mode = AtOffsets(PerPartition({"a": 50}, {A1: 60}))
    assert resolve_start(mode, [A0, A1], Lookup(), NO_RULES) == {A0: 50, A1: 60}


def test_F7_a_partition_not_named_falls_back_to_the_group_with_a_warning(caplog):
    mode = AtOffsets(PerPartition({}, {A0: 23, B0: 24}))
    with caplog.at_level(logging.WARNING):
        start = resolve_start(mode, ALL, Lookup(committed={A1: 77}), StartRules("g"))
    assert start == {A0: 23, A1: 77, B0: 24}
    assert "a-1" in caplog.text
    assert "a-0" not in caplog.text


def test_F7_a_partition_not_named_without_a_group_is_an_error():
    with pytest.raises(OptionError, match=r"names no offset for a-1, b-0") as caught:
        resolve_start(AtOffsets(PerPartition({}, {A0: 23})), ALL, Lookup(), NO_RULES)
    assert "kafka.group.id" in str(caught.value)


def test_F7_neither_named_nor_in_the_group_follows_the_reset_rule_or_fails():
    mode = AtOffsets(PerPartition({}, {A0: 23}))
    start = resolve_start(mode, [A0, A1], Lookup(), StartRules("g", "latest"))
    assert start == {A0: 23, A1: 100}
    with pytest.raises(NoGroupOffset):
        resolve_start(mode, [A0, A1], Lookup(), StartRules("g"))


def test_an_offset_for_a_partition_that_is_not_there_is_an_error():
    with pytest.raises(OptionError, match=r"names a-7, c, which the subscription does not have"):
        resolve_start(AtOffsets(PerPartition({"c": 1}, {TopicPartition("a", 7): 1})), [A0], Lookup(), NO_RULES)


def test_F8_a_timestamp_without_a_record_starts_at_the_end_read_before_the_lookup():
    start = resolve_start(AtTimestamp(5), ALL, Lookup(times={A0: 42}), NO_RULES)
    assert start == {A0: 42, A1: 100, B0: 100}


def test_F8_the_strategy_error_fails_and_names_the_partitions():
    with pytest.raises(NoOffsetForTimestamp, match=r"a-1 \(timestamp 5\), b-0 \(timestamp 5\)"):
        resolve_start(AtTimestamp(5), ALL, Lookup(times={A0: 42}), StartRules(fail_on_no_match=True))


def test_timestamps_per_partition_must_name_all_of_them():
    with pytest.raises(OptionError, match="names nothing for a-1, b-0"):
        resolve_start(AtTimestamp(PerPartition({}, {A0: 5})), ALL, Lookup(), NO_RULES)


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 10), ("latest", 100)])
def test_F9_group_offsets_with_none_committed_follow_the_reset_rule(reset, offset):
    start = resolve_start(GroupOffsets(), [A0, A1], Lookup(committed={A0: 55}), StartRules("g", reset))
    assert start == {A0: 55, A1: offset}


@pytest.mark.parametrize("reset", [None, "none"])
def test_F9_group_offsets_with_none_committed_and_no_rule_fail(reset):
    with pytest.raises(NoGroupOffset, match="'g' has no committed offset for a-1"):
        resolve_start(GroupOffsets(), [A0, A1], Lookup(committed={A0: 55}), StartRules("g", reset))


def test_the_end_is_latest_explicit_or_at_a_time():
    assert resolve_end(Latest(), ALL, Lookup()) == dict.fromkeys(ALL, 100)
    assert resolve_end(AtOffsets(PerPartition({"a": 20, "b": -1})), ALL, Lookup()) == {A0: 20, A1: 20, B0: 100}
    assert resolve_end(AtTimestamp(5), [A0, A1], Lookup(times={A0: 42})) == {A0: 42, A1: 100}


def test_F27_offsets_the_broker_does_not_have_are_one_error_that_names_them_all():
    start, stop = {A0: 5, A1: 20, B0: 200}, {A0: 50, A1: 150, B0: 300}
    with pytest.raises(DataLoss) as caught:
        within_bounds(start, stop, dict.fromkeys(ALL, 10), dict.fromkeys(ALL, 100), fail_on_data_loss=True)
    assert [(t, p, wanted) for t, p, wanted, _ in caught.value.ranges] == [
        ("a", 0, "from offset 5"),
        ("a", 1, "up to offset 150"),
        ("b", 0, "from offset 200"),
        ("b", 0, "up to offset 300"),
    ]
    assert "offsets 10 to 100" in str(caught.value)
    assert "failOnDataLoss" in str(caught.value)


def test_F27_without_failing_it_warns_and_reads_what_is_left(caplog):
    start, stop = {A0: 5, A1: 20, B0: 200}, {A0: 50, A1: 150, B0: 300}
    within_bounds(start, stop, dict.fromkeys(ALL, 10), dict.fromkeys(ALL, 100), fail_on_data_loss=False)
    assert start == {A0: 10, A1: 20, B0: 100}
    assert stop == {A0: 50, A1: 100, B0: 100}
    assert "wanted from offset 5" in caplog.text


def test_what_lies_within_bounds_is_left_alone():
    start, stop = {A0: 10}, {A0: 100}
    within_bounds(start, stop, {A0: 10}, {A0: 100}, fail_on_data_loss=True)
    assert (start, stop) == ({A0: 10}, {A0: 100})


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [
        (datetime(1987, 1, 8, 7, 36, 37, 27_000, UTC), 537_089_797_027),  # as a float of seconds it is a little less
        (datetime(2025, 1, 31, 12, 0, 0, 1, UTC), 1_738_324_800_001),  # what came before it is not meant
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), 0),  # not -1, which is the end to Kafka
        (datetime(1, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_F6_a_moment_to_start_at_is_the_first_millisecond_that_is_not_before_it(moment, milliseconds):
    assert start_mode(moment) == AtTimestamp(milliseconds, "start")


def test_F6_a_start_may_be_relative_to_this_moment():
    before = now_ms()
    mode = start_mode("-1h")
    assert isinstance(mode, AtTimestamp)
    assert before <= mode.timestamp + 3_600_000 <= now_ms()
    assert start_mode("2025-01-31T12:00Z") == AtTimestamp(1_738_324_800_000, "start")


@pytest.mark.parametrize(
    "start", ["42", "-5", {A0: -1}, {A0: 2**63}, {A0: "1"}, {"a": 1}, {}, "first", datetime(2025, 1, 31)]
)
def test_F6_an_invalid_start_is_refused(start):
    with pytest.raises(OptionError, match="is not a place to start from"):
        start_mode(start)


def test_F7_a_start_that_names_a_topic_which_is_not_read_is_refused():
    """Otherwise all partitions would begin at the group's offsets, with only a line in the log."""
    config = {"bootstrap.servers": "localhost:1", "group.id": "g"}
    with penstock.ConsumerConnector(config, start={("clikcs", 0): 42}) as connector:
        for create in (
            lambda: connector.create_message_streams({"clicks": 1}),
            lambda: connector.create_message_streams_by_filter("clicks.*"),
        ):
            with pytest.raises(OptionError, match="'clikcs': is not a topic of these streams"):
                create()
