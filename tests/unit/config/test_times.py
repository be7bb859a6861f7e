"""Times as users write them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.parsers import offset_mode
from penstock.config.times import Ago, TimesOption, parse_time, resolved
from penstock.errors import OptionError
from penstock.model.offset_spec import AtTimestamp, PerPartition
from penstock.model.topic_partition import TopicPartition

NOON = 1_738_324_800_000  # 2025-01-31T12:00Z
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (f" {NOON} ", NOON),
        ("2025-01-31T12:00Z", NOON),
        ("2025-01-31 12:00:00+00:00", NOON),
        ("2025-01-31T13:00:00.000+01:00", NOON),
        ("2025-01-31T12:00:00.000001Z", NOON + 1),  # the first millisecond that is not before it
        ("-1h", Ago(HOUR)),
        ("-30m", Ago(HOUR // 2)),
        ("-2d", Ago(48 * HOUR)),
        ("-90s", Ago(90_000)),
        ("-500ms", Ago(500)),
        ("-1 hour", Ago(HOUR)),
        ("-0s", Ago(0)),
    ],
)
def test_milliseconds_iso_texts_and_relative_times(text, expected):
    assert parse_time("startingTimestamp", text) == expected


@pytest.fixture
def in_tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_text_without_a_zone_is_in_the_local_zone():
    assert parse_time("startingTimestamp", "2025-01-31T21:00") == NOON
    assert parse_time("startingTimestamp", "2025-01-31") == NOON - 21 * HOUR


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a time. Use 2025-01-31T12:00Z"),
        ("yesterday", "is not a time"),
        ("1h", "is not a time"),
        ("+1h", "is not a time"),
        ("-1", "Add a unit: -1s, -1m, -1h or -1d"),
        ("-1w", "'-1w': is not a time. Write a whole number and one of"),
        ("-1.5h", "is not a time"),
        ("1969-12-31T23:00Z", "is before 1970"),
        ("9" * 19, "must be at most"),
        ("0001-01-01", "before 1970|not a time"),
    ],
)
def test_other_texts_are_refused_with_a_correct_one(text, words):
    with pytest.raises(OptionError, match=words) as caught:
        parse_time("startingTimestamp", text)
    assert "startingTimestamp" in str(caught.value)


def test_a_relative_time_counts_from_the_given_now_and_ends_at_1970():
    assert resolved(Ago(HOUR), NOON) == NOON - HOUR
    assert resolved(Ago(HOUR), 5) == 0
    assert resolved(7, NOON) == 7


def test_times_per_partition_count_from_one_now():
    times = TimesOption("x", topics=(("a", Ago(HOUR)),), partitions=((TopicPartition("b", 0), 7),))
    assert times.at(NOON) == AtTimestamp(PerPartition({"a": NOON - HOUR}, {TopicPartition("b", 0): 7}), "x")


UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR, "d": 24 * HOUR}


@given(st.integers(0, 10_000), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_F6_a_relative_time_is_its_number_of_units_before_now(count, unit, blank):
    text = f"-{blank}{count}{blank}{unit}"
    assert parse_time("startingTimestamp", text) == Ago(count * UNITS[unit])
    assert offset_mode("startingOffsets", text) == TimesOption("startingOffsets", Ago(count * UNITS[unit]))


@given(st.text(alphabet=st.sampled_from('abw{}[]":, '), max_size=20))
def test_F6_any_other_text_of_offsets_is_refused_by_the_name_of_its_option(text):
    with pytest.raises(OptionError, match="option startingOffsets"):
        offset_mode("startingOffsets", text)
