"""Offsets that a table holds: what a commit may do, and what happens to records that another process has stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import SinkError, TopicPartition
from penstock.streamer.table_offsets import OffsetMoves, OffsetsMoved, TableOffsets, TablePartition, log_name

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = log_name("c", "g", "t", "id")
N0, N1 = TablePartition(LOG, 0), TablePartition(LOG, 1)


def table(offset0=None, offset1=None):
    offsets = TableOffsets("DeltaSink('x')")
    offsets.assigned({"t": LOG}, {P0: offset0, P1: offset1})
    return offsets


def moves_of(offsets, positions):
    return offsets.moves(positions, offsets.known(positions))


def test_I5_names_are_durable():
    """Tables have them: do not change what is expected here."""
    assert log_name("Zk-1", "my group/x", "a.b", "7c5d-1") == "penstock/1/Zk-1/my%20group%2Fx/a.b/7c5d-1"
    assert log_name(None, "g", "t", None) == "penstock/1/-/g/t/-"


@given(*[st.text(min_size=1)] * 3)
def test_I5_different_logs_have_different_names(cluster, group, topic):
    name = log_name(cluster, group, topic, "id")
    assert name.count("/") == 5
    assert name != log_name(cluster, group + "x", topic, "id")


def test_I5_a_commit_is_made_only_if_the_table_has_what_it_expects():
    moves = OffsetMoves({N0: None, N1: 5}, {N0: 3, N1: 9})
    moves.check({N1: 5})
    for newest, moved in (({N0: 1, N1: 5}, {N0: 1}), ({}, {N1: None}), ({N1: 9, N0: 3}, {N0: 3, N1: 9})):
        with pytest.raises(OffsetsMoved) as caught:
            moves.check(newest)
        assert caught.value.offsets == moved


def test_I5_only_positions_past_the_tables_are_moved():
    offsets = table(offset0=10)
    positions, moves = moves_of(offsets, {P0: 10, P1: 0})
    assert (positions, moves) == ({P1: 0}, OffsetMoves({N1: None}, {N1: 0}))
    offsets.stored(positions)
    assert moves_of(offsets, {P0: 9, P1: 0})[0] == {}
    assert moves_of(offsets, {P0: 12})[1] == OffsetMoves({N0: 10}, {N0: 12})
    assert moves_of(offsets, {TopicPartition("other", 0): 3})[0] == {}, "an unassigned partition has no name"


def test_I5_a_commit_expects_the_offsets_that_the_held_records_were_compared_with():
    """A rebalance may read newer ones in between. A commit that expects those would have the rows, and no offset."""
    offsets = table(offset0=10)
    known = offsets.known([P0])
    offsets.assigned({"t": LOG}, {P0: 30})
    assert offsets.moves({P0: 20}, known) == ({P0: 20}, OffsetMoves({N0: 10}, {N0: 20}))


def test_I5_what_another_process_has_stored_is_taken_over():
    offsets = table(offset0=10)
    assert offsets.moved({N0: 15, N1: 4}, {N0: 10, N1: None}, {P0: 10, P1: 2}) == {P0: 15, P1: 4}
    assert (offsets.offset(P0), offsets.offset(P1)) == (15, 4)


def test_I5_what_a_rebalance_has_read_since_is_kept():
    """The commit found 15. Before it says so, another process stores more, and a rebalance reads that."""
    offsets = table(offset0=10)
    offsets.assigned({"t": LOG}, {P0: 20})
    assert offsets.moved({N0: 15}, {N0: 10}, {P0: 10}) == {P0: 15}
    assert offsets.offset(P0) == 20


@pytest.mark.parametrize("newest", [None, 9])
def test_I5_offsets_that_went_back_end_the_streamer(newest):
    with pytest.raises(SinkError, match=r"went back from 10 to (none|9).* Start the Streamer again"):
        table(offset0=10).moved({N0: newest}, {N0: 10}, {})


def test_I5_a_gap_between_two_members_ends_the_streamer():
    """Without an offset in the table each begins at its own place; they must not leave out what is between."""
    with pytest.raises(SinkError, match=r"stored t-1 up to offset 4, and this one began at 7"):
        table().moved({N1: 4}, {N1: None}, {P1: 7})


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=60))
def test_I5_processes_that_hold_the_same_records_store_each_once(steps):
    """Three processes read one log, each from the offset that it last knew, and commit when they like."""
    stored: list[int] = []
    newest: dict[TablePartition, int] = {}
    processes = [table() for _ in range(3)]
    for process, length in steps:
        offsets = processes[process]
        first = offsets.offset(P0) or 0
        held = list(range(first, first + length))
        positions, moves = moves_of(offsets, {P0: first + length})
        try:
            moves.check(newest)
        except OffsetsMoved as moved:
            floor = offsets.moved(moved.offsets, moves.before, {P0: first})[P0]
            held = [offset for offset in held if offset >= floor]
            positions, moves = moves_of(offsets, {P0: first + length})
            moves.check(newest)
        stored += held if positions else []
        newest |= moves.after
        offsets.stored(positions)
    assert stored == list(range(newest.get(N0, 0)))
