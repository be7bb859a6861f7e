"""Extractions, and the bisection of rows that a sink refuses."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.streamer import P0, P1, batch_of
from penstock import OptionError, RowsRefused
from penstock.dead_letters.letter import DeadLetter
from penstock.streamer.backlog import Backlog, Piece
from penstock.streamer.extraction import BatchExtraction, ChosenColumns, MessageExtraction, NoExtraction, to_arrow
from penstock.streamer.sinks.sink import Limits

SCHEMA = pa.schema([("number", pa.int32()), ("text", pa.string())])


def records(*values):
    return batch_of("t", 0, 10, values)


# --- one by one -----------------------------------------------------------------------------------------------------


def test_rows_are_what_the_function_returned():
    extracted = MessageExtraction(lambda m: (m.offset, m.value), many=False, schema=None).extract(
        P0, records(b"a", None)
    )
    assert extracted.rows == [(10, b"a"), (11, None)]
    assert (extracted.skipped, extracted.failures) == (0, [])


def test_none_is_skipped_and_an_iterable_gives_all_its_rows():
    one = MessageExtraction(lambda m: m.value or None, many=False, schema=None).extract(P0, records(b"a", b"", b"c"))
    assert (one.rows, one.skipped) == ([b"a", b"c"], 1)
    many = MessageExtraction(lambda m: m.value.split(), many=True, schema=None).extract(P0, records(b"a b", b"", b"c"))
    assert (many.rows, many.skipped) == ([b"a", b"b", b"c"], 1)
    nothing = MessageExtraction(lambda m: None, many=False, schema=None).extract(P0, records(b"a"))
    assert (nothing.rows, nothing.skipped) == (None, 1)


def test_a_generator_that_fails_in_the_middle_makes_no_rows():
    def half(message):
        yield 1
        if message.value == b"bad":
            raise ValueError("half way")

    extracted = MessageExtraction(half, many=True, schema=None).extract(P0, records(b"a", b"bad", b"c"))
    assert extracted.rows == [1, 1]
    assert [(failure.at, str(failure.error)) for failure in extracted.failures] == [(1, "half way")]


@pytest.mark.parametrize(
    "make",
    [lambda m: {"text": m.value.decode(), "number": m.offset, "more": 1}, lambda m: (m.offset, m.value.decode())],
    ids=["dicts", "tuples"],
)
def test_with_a_schema_rows_become_arrow(make):
    extracted = MessageExtraction(make, many=False, schema=SCHEMA).extract(P0, records(b"a", b"b"))
    assert extracted.rows.schema == SCHEMA
    assert extracted.rows.to_pylist() == [{"number": 10, "text": "a"}, {"number": 11, "text": "b"}]


@pytest.mark.parametrize("bad", [("x", "text"), (2**40, "text"), (1,), "text", {"number": "x"}, 5])
def test_a_row_that_does_not_fit_the_schema_is_a_failure_of_its_message(bad):
    rows = [(1, "a"), bad, (3, None)]
    extracted = MessageExtraction(lambda m: rows[m.offset - 10], many=False, schema=SCHEMA).extract(
        P0, records(b"", b"", b"")
    )
    assert extracted.rows.to_pylist() == [{"number": 1, "text": "a"}, {"number": 3, "text": None}]
    assert [failure.at for failure in extracted.failures] == [1]


def test_dicts_and_tuples_may_come_together():
    rows = to_arrow([{"text": "a"}, (2, "b")], SCHEMA)
    assert rows.to_pylist() == [{"number": None, "text": "a"}, {"number": 2, "text": "b"}]


# --- batch by batch -------------------------------------------------------------------------------------------------


def doubled(batch):
    if pc.any(pc.equal(batch.column("value"), b"bad")).as_py():
        raise ValueError("a bad one")
    return pa.record_batch({"twice": pc.binary_join_element_wise(batch.column("value"), batch.column("value"), b"-")})


@given(st.lists(st.sampled_from([b"good", b"bad", b"fine"]), min_size=1, max_size=40))
def test_a_batch_that_fails_is_halved_until_it_is_known_which_messages_fail(values):
    extracted = BatchExtraction(doubled, columns=ChosenColumns(["value"]), schema=None).extract(P0, records(*values))
    found = [] if extracted.rows is None else extracted.rows.column("twice").to_pylist()
    assert found == [v + b"-" + v for v in values if v != b"bad"]
    assert [failure.at for failure in extracted.failures] == [at for at, v in enumerate(values) if v == b"bad"]


def test_a_batch_function_sees_the_columns_asked_for_and_may_drop_rows():
    seen = []

    def even(batch):
        seen.append(batch.schema.names)
        return batch.filter(pc.equal(pc.bit_wise_and(batch.column("offset"), 1), 0))

    extracted = BatchExtraction(even, columns=ChosenColumns(["offset", "value"]), schema=None).extract(
        P0, records(b"a", b"b", b"c")
    )
    assert extracted.rows.column("value").to_pylist() == [b"a", b"c"]
    assert seen == [["offset", "value"]]
    none = BatchExtraction(lambda batch: None, columns=ChosenColumns(["value"]), schema=None).extract(
        P0, records(b"a", b"b")
    )
    assert (none.rows, none.skipped) == (None, 2)
    table = BatchExtraction(lambda b: pa.Table.from_batches([b, b]), columns=ChosenColumns(["value"]), schema=None)
    assert table.extract(P0, records(b"a")).rows.num_rows == 2


def test_a_batch_function_that_returns_something_else_is_a_usage_error():
    with pytest.raises(OptionError, match=r"returned list.*leave out extracts"):
        BatchExtraction(lambda b: b.to_pylist(), columns=ChosenColumns(["value"]), schema=None).extract(
            P0, records(b"a")
        )
    schemas = iter([pa.int32(), pa.int64()])
    changing = BatchExtraction(
        lambda b: pa.record_batch({"a": pa.array([1], next(schemas))}), columns=ChosenColumns(["value"]), schema=None
    )
    changing.extract(P0, records(b"a"))
    with pytest.raises(OptionError, match="two schemas"):
        changing.extract(P0, records(b"a"))


def test_a_schema_given_is_what_batches_are_cast_to():
    schema = pa.schema([("value", pa.string())])
    made = BatchExtraction(lambda batch: batch, columns=ChosenColumns(["offset", "value"]), schema=schema).extract(
        P0, records(b"a", b"\xff")
    )
    assert made.rows.schema == schema
    assert made.rows.to_pylist() == [{"value": "a"}]
    assert [failure.at for failure in made.failures] == [1]


# --- the backlog ----------------------------------------------------------------------------------------------------


class Trouble(Exception):
    pass


PIECES = st.lists(st.lists(st.sampled_from([b"good", b"bad"]), min_size=1, max_size=12), min_size=1, max_size=6)


@given(PIECES, st.sets(st.integers(0, 30), max_size=6), st.booleans())
def test_refused_rows_are_found_and_all_others_are_written_once(pieces, troubles, one_by_one):
    """Tries that fail at any moment: what was written is not written again, what was not is."""
    if one_by_one:
        extraction = MessageExtraction(lambda m: [m.value, b"%d" % m.offset], many=False, schema=None)
    else:
        extraction = NoExtraction(ChosenColumns(["value", "offset"]))
    backlog = Backlog()
    start = 0
    for values in pieces:
        batch = batch_of("t", 0, start, values)
        backlog.add(Piece(P0, batch, extraction.extract(P0, batch).rows))
        start += len(values)
    written, refused, calls = [], [], iter(range(10_000))

    def write(rows):
        if isinstance(rows, pa.Table):
            rows = [[row["value"], b"%d" % row["offset"]] for row in rows.to_pylist()]
        if next(calls) in troubles:
            raise Trouble
        if any(value == b"bad" for value, _ in rows):
            raise RowsRefused("bad")
        written.extend(int(offset) for _, offset in rows)

    def on_refused(piece, error):
        refused.extend(piece.records.column("offset").to_pylist())

    while True:
        try:
            backlog.write(write, extraction, on_refused)
            break
        except Trouble:
            assert backlog
    everything = [value for values in pieces for value in values]
    assert sorted(written) == [at for at, value in enumerate(everything) if value != b"bad"]
    assert sorted(refused) == [at for at, value in enumerate(everything) if value == b"bad"]
    assert not backlog


def test_all_rows_of_a_message_are_refused_together():
    extraction = MessageExtraction(lambda m: m.value.split(), many=True, schema=None)
    backlog = Backlog()
    batch = records(b"a b", b"c bad d", b"e")
    backlog.add(Piece(P0, batch, extraction.extract(P0, batch).rows))
    written, refused = [], []

    def write(rows):
        if b"bad" in rows:
            raise RowsRefused("bad")
        written.extend(rows)

    how_many = backlog.write(write, extraction, lambda piece, error: refused.append(piece.records.column("offset")[0]))
    assert written == [b"a", b"b", b"e"]
    assert how_many == 3
    assert [offset.as_py() for offset in refused] == [11]


def test_an_extractor_that_fails_the_second_time_loses_no_message_in_silence():
    calls = count()
    extraction = MessageExtraction(lambda m: {0: [b"a"], 1: [b"bad"]}[next(calls)], many=True, schema=None)
    backlog = Backlog()
    batch = records(b"a", b"b")
    backlog.add(Piece(P0, batch, extraction.extract(P0, batch).rows))
    refused = []

    def write(rows):
        raise RowsRefused("bad")

    backlog.write(write, extraction, lambda piece, error: refused.append((piece.records.column("offset")[0], error)))
    assert [(offset.as_py(), str(error)) for offset, error in refused] == [(10, "KeyError: 2"), (11, "KeyError: 3")]


def test_a_backlog_is_due_by_rows_bytes_or_time_and_never_without_anything():
    limits = Limits(rows=3, bytes=10_000, seconds=5.0)
    backlog = Backlog()
    assert not backlog.is_due(limits, 1e9)
    backlog.reached(P0, 12, now=100.0)
    assert not backlog.is_due(limits, 104.0)
    assert backlog.is_due(limits, 105.0)
    backlog.add(Piece(P0, records(b"a", b"b"), [1, 2]))
    assert not backlog.is_due(limits, 100.0)
    backlog.add(Piece(P0, records(b"a"), [1]))
    assert backlog.is_due(limits, 100.0)
    assert backlog.clear() == {P0: 12}
    backlog.reached(P0, 13, now=200.0)
    backlog.add(Piece(P0, records(b"x" * 20_000), [1]))
    assert backlog.is_due(limits, 200.0)


def test_letters_count_as_bytes_that_are_held():
    limits = Limits(rows=10**6, bytes=10_000, seconds=60.0)
    backlog = Backlog()
    backlog.reached(P0, 1, now=0.0)
    letter = DeadLetter("t", 0, 0, None, b"k", b"x" * 5_000, [], "extractor", "ValueError", "no")
    backlog.add_letters([letter])
    assert not backlog.is_due(limits, 0.0)
    backlog.add_letters([letter])
    assert backlog.is_due(limits, 0.0)
    backlog.drop([P0])
    backlog.reached(P0, 1, now=0.0)
    assert not backlog.is_due(limits, 0.0)


def test_a_recreated_log_is_committed_at_its_new_position():
    backlog = Backlog()
    backlog.reached(P0, 1000, now=0.0)
    backlog.reached(P0, 3, now=0.0)  # the topic was deleted and recreated
    assert backlog.clear() == {P0: 3}


def test_dropping_a_partition_drops_its_letters_and_its_position():
    backlog = Backlog()
    for tp in (P0, P1):
        backlog.add(Piece(tp, batch_of("t", tp.partition, 0, [b"a", b"b"]), [1, 2]))
        backlog.reached(tp, 2, now=0.0)
    assert backlog.drop([P0]) == 2
    assert backlog.positions == {P1: 2}
    assert backlog.records == 2


def test_rows_that_share_the_memory_of_their_records_are_counted_once():
    batch = records(b"x" * 1000)
    shared = Piece(P0, batch, batch.select(["value"]))
    assert shared.size == batch.nbytes
    assert Piece(P0, batch, pa.record_batch({"new": [b"y" * 1000]})).size > 2000
