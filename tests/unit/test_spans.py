"""Which offsets are done, as a note tells it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spans import SPANS_KEPT, Spans, parse_spans

DONE = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=30)
"""At most 30 spans: few enough for none to be forgotten."""


def made(spans, about="id"):
    done = Spans(about)
    for start, stop in spans:
        done = done.with_span(start, stop)
    return done


@given(DONE)
def test_what_was_done_is_known_and_nothing_else(spans):
    done = parse_spans(str(made(spans)), "id")
    assert {offset for offset in range(80) if done.has(offset)} == {o for span in spans for o in range(*span)}


@given(DONE)
def test_spans_that_touch_are_one(spans):
    ordered = sorted(made(spans).spans)
    assert all(before[1] < after[0] for before, after in pairwise(ordered))


def test_the_oldest_are_forgotten_and_a_note_fits_where_notes_go():
    top = 2**63 - 1
    done = made([(top - 4 * n - 2, top - 4 * n) for n in range(3 * SPANS_KEPT)], "x" * 73)
    assert len(done.spans) == SPANS_KEPT
    assert done.has(top - 4 * (3 * SPANS_KEPT - 1) - 1), "the one that was done last"
    assert not done.has(top - 1), "the one that was done first"
    assert len(str(done)) <= 4096


@pytest.mark.parametrize("note", ["", "id", "other 0-5", "id 0-5 x", "id 0-5-6", "id -1-5", "id  0-5", "0-5", "id ٣-٥"])
def test_a_note_that_is_not_ours_says_nothing(note):
    assert parse_spans(note, "id") == Spans("id")


def test_a_topic_without_an_id_has_notes_too():
    assert parse_spans(str(made([(1, 5)], "")), "").has(4)
