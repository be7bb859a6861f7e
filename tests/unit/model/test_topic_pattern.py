"""Patterns over topic names (F1, H3): what they mean is what `re` says, and no name makes them slow."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumer.subscription import AllowTopics, DenyTopics, FilteredTopics
from penstock.model import topic_pattern
from penstock.model.subscription import TopicPattern, select_partitions
from penstock.model.topic_pattern import matching

LONGEST_NAME = 249

EXPLODING = [
    ("([a-z]+-?)+$", "a" * (LONGEST_NAME - 1) + "_"),
    ("^(a+)+$", "a" * (LONGEST_NAME - 1) + "b"),
    ("^(a|a)*$", "a" * (LONGEST_NAME - 1) + "b"),
    (r"^([\w.]+)*-events$", "a" * LONGEST_NAME),
    (".*-.*-.*-.*-.*-.*-events", "-" * LONGEST_NAME),
    ("(?i)^([A-Z]+-?)+$", "a" * (LONGEST_NAME - 1) + "_"),
    ("^(?!test)([a-z]+-?)+$", "a" * (LONGEST_NAME - 1) + "_"),
    ("^(?!([a-z]+-?)+$)x", "a" * (LONGEST_NAME - 1) + "_"),
]
"""Python's `re` takes from minutes to longer than the universe for each."""


@pytest.mark.parametrize(("pattern", "name"), EXPLODING)
def test_F1_a_topic_name_cannot_hang_a_pattern(pattern, name):
    assert matching(pattern, [name]) == set()
    listing = {name: [0], "a": [0]}
    assert name not in {tp.topic for tp in select_partitions(TopicPattern(pattern), listing)}


def test_H3_a_topic_name_cannot_hang_a_filter():
    name = "a" * (LONGEST_NAME - 1) + "_"
    listing = {name: 1, "orders": 1}
    assert FilteredTopics(AllowTopics("([a-z]+-?)+, payments"), 2).threads(listing, ()) == {"orders": 2}
    assert FilteredTopics(DenyTopics("([a-z]+-?)+"), 2).threads(listing, ()) == {name: 2}


NAMES = [
    "orders",
    "orders-eu",
    "ORDERS",
    "orders.v2",
    "test-orders",
    "x",
    "a{,2}",
    "aa",
    "[:",
    "a-b_c.d9",
    "-",
    "_",
    "1",
]


@pytest.mark.parametrize(
    ("pattern", "linear"),
    [
        ("orders.*", True),
        (r"^orders\.v\d+$", True),
        ("^(?:orders|payments)(-(eu|us))?$", True),
        ("(?i)^orders$", True),
        ("[^a-z]", True),
        (r"[\w.-]{2,9}?$", True),
        ("^(?!test-).*", True),
        ("^(?!test-|x)orders", True),
        ("^(?!(test|x)-)(orders|x)", True),
        # Not the same in RE2, or not there at all.
        ("a{,2}$", False),
        ("a{0,1001}", False),
        ("^(?!test-)orders|x", False),
        ("(?=orders)o", False),
        (r"(a)\1", False),
        ("(?<=-)eu", False),
        ("(?:o++)r", False),
        (r"orders\Z", False),
        (r"(?P<name>o)r", False),
        ("[]a]", False),
        ("ördres", False),
    ],
)
def test_F1_patterns_mean_what_re_says(pattern, linear):
    assert matching(pattern, NAMES) == {name for name in NAMES if re.search(pattern, name)}
    assert (topic_pattern._for_re2(pattern) is not None) is linear


atoms = st.sampled_from(["a", "b", "-", ".", r"\.", r"\w", r"\d", "[a-c]", "[^a]", r"[\d.-]", "^", "$", r"\b", "A"])
repeated = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?"])


def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups: Callable[[tuple[str, str, str]], str] = "".join
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(st.sampled_from(["(", "(?:"]), inner, st.just(")")).map(groups),
        st.tuples(st.just("(?:"), inner, st.just(")"), repeated).map("".join),
        st.tuples(st.just("^(?!"), inner, st.just(")"), inner).map("".join),
    )


patterns = st.recursive(st.tuples(atoms, repeated).map("".join), extend, max_leaves=6)


@given(pattern=patterns, names=st.lists(st.text("abA-._1", max_size=6), max_size=8))
def test_F1_patterns_mean_what_re_says_whatever_they_are(pattern, names):
    try:
        found = re.compile(pattern)
    except re.error:
        return
    assert matching(pattern, names) == {name for name in names if found.search(name)}


@pytest.mark.parametrize("pattern", ["(?i)ORDERS, x", "(?i)(?:ORDERS|x)", "(?x) orders | x # the best of them"])
def test_H3_a_filters_flags_count_for_the_whole_of_it(pattern):
    allowed = AllowTopics(pattern).allowed(NAMES)
    assert allowed >= {"orders", "x"}
    assert DenyTopics(pattern).allowed(NAMES) == set(NAMES) - allowed
