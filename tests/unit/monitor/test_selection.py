"""Names by regular expressions."""

from __future__ import annotations

import time

import pytest

from penstock.errors import OptionError
from penstock.monitor.selection import Selection

NAMES = ["clicks", "clicks-dead", "orders", "évènements"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (None, None, NAMES),
        ("click", None, ["clicks", "clicks-dead"]),
        ("^clicks$", None, ["clicks"]),
        (None, "dead$|^o", ["clicks", "évènements"]),
        ("click", "dead", ["clicks"]),
        ("none", None, []),
    ],
)
def test_a_name_is_selected_by_a_match_anywhere(include, exclude, expected):
    assert sorted(Selection(include, exclude).of(NAMES)) == sorted(expected)


def test_a_broken_expression_is_refused():
    with pytest.raises(OptionError, match="include = '\\(': is not a regular expression"):
        Selection("(")


def test_names_of_strangers_do_not_take_exponential_time():
    began = time.monotonic()
    Selection(".*-.*-.*-.*-events").of(["-" * 249] * 100)
    assert time.monotonic() - began < 5
