"""The offsets that have letters, by a note."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dead_letters.written_offsets import RUNS_ROOM, SPANS_KEPT, WrittenOffsets, parse_note

DONE = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=30)
"""At most 30 spans: few enough for none to be forgotten."""

TOP = 2**63 - 1


def made(spans, topic_ids="id", since=0):
    """A letter for every offset of the spans."""
    done = WrittenOffsets(topic_ids, since=since)
    for start, stop in spans:
        done = parse_note(str(done.with_letters(start, stop, range(start, stop))), topic_ids)
    return done


@given(DONE, st.sampled_from([0, 30, 100]))
def test_what_was_done_is_known_and_nothing_else(spans, since):
    done = made(spans, since=since)
    assert {offset for offset in range(80) if offset in done} == {o for span in spans for o in range(*span)}


@given(DONE)
def test_spans_that_touch_are_one_and_so_are_letters(spans):
    done = made(spans)
    ordered = sorted(done.spans)
    assert all(before[1] < after[0] for before, after in pairwise(ordered))
    assert list(done.runs) == ordered


@given(st.lists(st.sets(st.integers(0, 99)), max_size=5))
def test_of_a_span_only_records_with_letters_are_done(attempts):
    done = WrittenOffsets("id")
    for offsets in attempts:
        done = parse_note(str(done.with_letters(0, 100, offsets)), "id")
    assert {offset for offset in range(100) if offset in done} == set().union(*attempts)


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_letters_for_which_there_is_no_room_are_done_with_their_span(share):
    stop = int(2 * RUNS_ROOM / share)
    offsets = random.Random(4).sample(range(stop), 2 * RUNS_ROOM)
    done = parse_note(str(WrittenOffsets("id").with_letters(0, stop, offsets)), "id")
    assert 0 < done.since < max(offsets)
    assert all(offset in done for offset in offsets)
    assert done.since - 1 in done, "whatever it was"
    newest = {offset for offset in offsets if offset >= done.since}
    assert {offset for offset in range(done.since, stop) if offset in done} == newest
    assert done.with_letters(0, 10, [5]).since == done.since, "what is older comes too late to be named"


def test_the_oldest_are_forgotten_and_a_note_fits_where_notes_go():
    done = WrittenOffsets("x" * 73)
    for n in range(3 * SPANS_KEPT):
        start = TOP - 10**7 * n - 2000
        done = done.with_letters(start, start + 2000, range(start, start + 2000, 2))
    assert len(done.spans) == SPANS_KEPT
    assert TOP - 10**7 * (3 * SPANS_KEPT - 1) - 1 in done, "of the one that was done last"
    assert TOP - 10**7 * 5 - 1 not in done, "of one of the first"
    assert TOP - 2 in done, "the newest of all is named"
    assert 3500 < len(str(done)) <= 4096


@pytest.mark.parametrize(
    "note",
    [
        *("", "id", "other 0: 0-5", "id 0: 0-5 x", "id 0: 0-5-6", "id 0: -1-5", "id 0:  0-5", "0: 0-5", "id 0: ٣-٥"),
        *(
            "id 0-5",
            "id : 0-5",
            "id x: 0-5",
            "id -1:",
            "id 0:1, 0-5",
            "id 0:1.",
            "id 0:.1",
            "id 0:-1",
            "id ٣:",
            "id 0:٣",
        ),
    ],
)
def test_a_note_that_penstock_did_not_write_lists_nothing(note):
    assert parse_note(note, "id") == WrittenOffsets("id")


def test_a_topic_without_an_id_has_notes_too():
    assert 4 in made([(1, 5)], "")


def test_a_note_is_short():
    assert str(WrittenOffsets("id").with_letters(10, 40, [12, 13, 14, 30])) == "id 0:12.3,15 10-40"
