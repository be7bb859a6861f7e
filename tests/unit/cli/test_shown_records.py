"""Records as the page gets them: text of a bounded size."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.cli.shown_records import SHOWN_BYTES, _cuts, cut
from penstock.watch.search import Cut


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, Cut(None, None)),
        (b"", Cut("", 0)),
        (b"<b>\x1b[2J\x00", Cut("<b>\x1b[2J\x00", 8)),
        (b"\xff\xfe", Cut("\\xff\\xfe", 2)),
        ("é".encode()[:1], Cut("\\xc3", 1)),
        (b"x" * SHOWN_BYTES, Cut("x" * SHOWN_BYTES, SHOWN_BYTES)),
        (b"x" * 10_000_000, Cut("x" * SHOWN_BYTES, 10_000_000, True)),
    ],
    ids=["none", "empty", "controls", "not utf-8", "half a character", "just as large", "10 MB"],
)
def test_a_value_is_text_and_cut_with_its_size(data, shown):
    assert cut(data) == shown
    assert _cuts(pa.array([data], pa.binary())) == [shown]
    assert _cuts(pa.array([data], pa.large_binary())) == [shown]


def test_a_character_at_the_cut_is_left_out():
    found = cut(b"x" * (SHOWN_BYTES - 1) + "é".encode() + b"y")
    assert found == Cut("x" * (SHOWN_BYTES - 1), SHOWN_BYTES + 2, True)
