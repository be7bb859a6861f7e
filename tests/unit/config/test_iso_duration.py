"""Durations as Java's `Duration.parse` reads them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.consumer import parse_config
from penstock.config.iso_duration import nanoseconds
from penstock.errors import OptionError
from penstock.model.offset_spec import ByDuration

SECOND = 10**9

JAVA = {
    "PT20.345S": 20.345 * SECOND,
    "PT15M": 900 * SECOND,
    "PT10H": 36_000 * SECOND,
    "P2D": 172_800 * SECOND,
    "P2DT3H4M": 183_840 * SECOND,
    "PT-6H3M": -21_420 * SECOND,
    "-PT6H3M": -21_780 * SECOND,
    "-PT-6H+3M": 21_420 * SECOND,
    "pt1h": 3600 * SECOND,
    "PT1,5S": 1.5 * SECOND,
    "PT-0.5S": -0.5 * SECOND,
    "PT1.S": SECOND,
    "PT0S": 0,
}
"""The examples of Java's documentation, and the corners of its syntax."""

REFUSED = [
    *("", "P", "PT", "P1DT", "1H", "PT1", "P1H", "PT1D", "P1Y", "P1M", "P1W", "PT1H1H", "PT1S1M", "PT.5S", "T1H"),
    *(" PT1H", "PT1H ", "PT1.5H", "PT1.0000000001S", "PT\u0661H", "P9223372036854775807D", "--PT1H"),
]


@pytest.mark.parametrize("text", JAVA)
def test_it_is_what_java_reads(text):
    assert nanoseconds(text) == JAVA[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_java_refuses_is_refused(text):
    assert nanoseconds(text) is None


NUMBERS = st.integers(-(10**6), 10**6)


@given(
    st.sampled_from(["", "-", "+"]),
    *[st.none() | NUMBERS] * 3,
    st.none() | st.tuples(NUMBERS, st.text("0123456789", max_size=9)),
)
def test_the_parts_add_up(sign, days, hours, minutes, seconds):
    text, total = f"{sign}P", 0
    if days is not None:
        text, total = f"{text}{days}D", days * 86_400 * SECOND
    if any(part is not None for part in (hours, minutes, seconds)):
        text += "T"
    for number, unit, size in ((hours, "H", 3600), (minutes, "M", 60)):
        if number is not None:
            text, total = f"{text}{number:+d}{unit}", total + number * size * SECOND
    if seconds is not None:
        whole, fraction = seconds
        text += f"{whole}.{fraction}S"
        total += whole * SECOND + (-1 if whole < 0 else 1) * int(fraction.ljust(9, "0"))
    expected = None if text[len(sign) :] == "P" else -total if sign == "-" else total
    assert nanoseconds(text) == expected


def reset(value):
    return parse_config({"bootstrap.servers": "h:1", "group.id": "g", "auto.offset.reset": value}).reset


@given(st.text())
def test_any_other_text_is_an_error_that_shows_the_format(text):
    try:
        found = reset(f"by_duration:{text}")
    except OptionError as error:
        assert "by_duration:PT30M" in str(error)  # noqa: PT017 (most texts end here)
    else:
        assert isinstance(found, ByDuration)


@given(st.timedeltas(timedelta(0), timedelta(days=4000)))
def test_a_reset_counts_milliseconds_back_from_now(length):
    seconds = length // timedelta(microseconds=1)
    found = reset(f"by_duration:PT{seconds // 10**6}.{seconds % 10**6:06d}S")
    assert found == ByDuration(-(-length // timedelta(milliseconds=1)))
    assert found.time(now=1000) >= 0
