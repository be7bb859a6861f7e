"""Numbers for people."""

from __future__ import annotations

import pytest

from penstock.cli.top.columns import duration, rate, retention, size, trend


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0.0s"),
        (59.9, "59.9s"),
        (59.96, "1m 0s"),
        (200, "3m 20s"),
        (3599.9, "1h 0m"),
        (18060, "5h 1m"),
        (183600, "2d 3h"),
        (1e9, "11,574d 1h"),
    ],
)
def test_durations_have_two_units(seconds, text):
    assert duration(seconds) == text


def test_rates_trends_and_sizes():
    assert [rate(each) for each in (None, 0.0, 3.14159, 12345.6)] == ["-", "0.0", "3.1", "12,346"]
    assert [trend(each) for each in (None, 0.0, 5.0, -5.0, 0.01)] == ["-", "0.0", "+5.0", "-5.0", "0.0"]
    assert [size(each) for each in (None, 0, 1023, 1536, 5 << 30, 3 << 50)] == [
        *("-", "0 B", "1,023 B", "1.5 KB", "5.0 GB", "3,072 TB")
    ]
    assert (retention(-1.0), retention(60.0)) == ("forever", "1m 0s")
