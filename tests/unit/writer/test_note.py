"""Notes and intents as texts: durable, so their form is pinned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ReplayError
from penstock.writer.note import Content, Intent, Note

counts = st.integers(0, 2**63 - 1)
contents = st.builds(Content, counts, st.integers(0, 2**64 - 1))


@given(counts, contents)
def test_a_note_is_read_back(batch, content):
    assert Note.parse(str(Note(batch, content)), "g") == Note(batch, content)


@given(counts, st.integers(1, 10**6), contents)
def test_an_intent_is_read_back(batch, tasks, content):
    assert Intent.parse(str(Intent(batch, tasks, content)), "g") == Intent(batch, tasks, content)


def test_the_forms_are_pinned():
    assert str(Note(7, Content(3, 255))) == "v1 batch=7 rows=3 hash=00000000000000ff"
    assert str(Intent(7, 4, Content(3, 255))) == "v1 batch=7 tasks=4 rows=3 hash=00000000000000ff"


@pytest.mark.parametrize(
    "text", ["", "v2 batch=1 rows=1 hash=0", "v1", "v1 batch=x rows=1 hash=0", "v1 batch", "hello"]
)
@pytest.mark.parametrize("kind", [Note, Intent])
def test_a_text_that_is_no_note_is_refused_with_the_group(text, kind):
    with pytest.raises(ReplayError, match="some-group"):
        kind.parse(text, "some-group")


@given(st.lists(contents, max_size=5))
def test_contents_add_up_in_any_order(parts):
    def total(some):
        result = Content()
        for each in some:
            result = result + each
        return result

    assert total(parts) == total(reversed(parts))
