"""Records that are held, and those that a table has already."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.streamer import P0, P1, batch_of
from penstock.streamer.backlog import Backlog, Piece
from penstock.streamer.extraction import ChosenColumns, MessageExtraction, NoExtraction

ROWS = NoExtraction(ChosenColumns(["offset"]))


def held(*pieces, extraction=ROWS):
    backlog = Backlog()
    for partition, start, count in pieces:
        tp = (P0, P1)[partition]
        records = batch_of("t", partition, start, [b"v"] * count)
        rows = extraction.extract(tp, records).rows
        if rows is not None:
            backlog.add(Piece(tp, records, rows))
        backlog.reached(tp, start + count, 0.0)
    return backlog


def refuse(piece, error):
    pytest.fail(f"{error}")


@given(st.integers(0, 40), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_I5_records_below_the_tables_offset_are_dropped_and_no_others(floor, counts):
    starts = [sum(counts[:at]) for at in range(len(counts))]
    backlog = held(*((0, start, count) for start, count in zip(starts, counts, strict=True)), (1, 0, 3))
    dropped = backlog.drop_below({P0: floor}, ROWS, refuse)
    end = sum(counts)
    assert dropped == min(floor, end)
    rows = backlog.rows()
    assert isinstance(rows, pa.Table)
    assert rows.column("offset").to_pylist() == [*range(floor, end), 0, 1, 2]
    assert backlog.positions == {P1: 3} | ({P0: end} if floor <= end else {})
    assert backlog.first_offsets() == {P1: 0} | ({P0: floor} if floor < end else {})


def test_I5_rows_of_dropped_records_go_whatever_the_extractor_makes_of_them():
    twice = MessageExtraction(lambda m: [m.offset] * (m.offset % 3), many=True, schema=None)
    backlog = held((0, 0, 6), extraction=twice)
    assert backlog.rows() == [1, 2, 2, 4, 5, 5]
    assert backlog.drop_below({P0: 2}, twice, refuse) == 2
    assert backlog.rows() == [2, 2, 4, 5, 5]
    assert backlog.drop_below({P0: 6}, twice, refuse) == 4
    assert backlog.rows() is None


def test_a_check_keeps_the_rows():
    backlog = held((0, 0, 4))
    seen = []
    assert backlog.write(seen.append, ROWS, refuse, keeps=True) == 4
    assert [len(rows) for rows in seen] == [4]
    assert len(backlog.rows()) == 4
