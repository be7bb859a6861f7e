"""Batches of Kafka's columns become typed ones. `mode` decides about records that do not parse."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import DeserializerFailed, MalformedRecord, PenstockError
from penstock.eventtime.span import EventTimeSpan
from penstock.formats.custom import load_deserializer
from penstock.formats.decoding import Decoded, _KernelDecoder, kernel_format
from penstock.formats.plan import TypedSource
from penstock.formats.resolve import resolve_formats
from penstock.formats.spec import Avro, Custom, Json, RawBytes, Text
from penstock.formats.typed import PASSED, TypedColumns
from penstock.model.columns import TYPES, arrow_schema
from penstock.model.watermark_columns import WATERMARK_COLUMNS
from support.configs import column_options, format_options

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
GOOD = [b'{"x": 1, "y": "a"}', b'{"x": 2, "y": "b"}', None, b'{"x": 3}']
MIXED = [b'{"x": 1, "y": "a"}', b'{"x": 2,', b'{"x": "two", "y": "b"}', b'{"x": 3, "y": "c"}']


def records(values, keys=None, start=100):
    """A batch with the columns a plan fetches, out of values."""
    count = len(values)
    columns = {
        "key": pa.array(keys or [None] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["t"] * count),
        "partition": pa.array([3] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": pa.array([0] * count, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * count, pa.int32()),
        "headers": pa.nulls(count, TYPES["headers"]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in TYPES], schema=arrow_schema(list(TYPES)))


class Letters:
    def __init__(self):
        self.written = []

    def add(self, batch, faults):
        offsets = batch.column("offset").to_pylist()
        self.written += [(offsets[row], column, reason) for row, column, reason in faults]


def whole(columns, batch):
    """The one piece that is made of a batch."""
    [piece] = columns.pieces(batch)
    assert piece.next_offset is None
    return piece.rows


def typed(values, *, key=None, value=None, wanted=None, letters=None, keys=None, **options):
    spec = value or Json(POINT)
    plan = TypedSource(key or RawBytes(), spec, format_options(**options)).plan(wanted)
    columns = TypedColumns(plan, "t", 3, letters)
    return whole(columns, records(values, keys).select(plan.fetched)), columns


def test_values_become_structs_and_tombstones_null():
    batch, columns = typed(GOOD)
    assert batch.column("value").to_pylist() == [
        {"x": 1, "y": "a"},
        {"x": 2, "y": "b"},
        None,
        {"x": 3, "y": None},
    ]
    assert batch.column("offset").to_pylist() == [100, 101, 102, 103]
    assert columns.malformed == 0


def test_flattened_fields_of_a_tombstone_are_null():
    batch, _ = typed(GOOD, flatten=True)
    assert batch.column("x").to_pylist() == [1, 2, None, 3]
    assert batch.schema.names[:2] == ["x", "y"]
    assert batch.column("kafka_offset").to_pylist() == [100, 101, 102, 103]


def test_permissive_keeps_what_could_be_read_and_says_why_if_asked():
    batch, columns = typed(MIXED, include_errors=True)
    assert batch.column("value").to_pylist() == [
        {"x": 1, "y": "a"},
        {"x": None, "y": None},
        {"x": None, "y": "b"},
        {"x": 3, "y": "c"},
    ]
    assert batch.column("_corrupt_record").to_pylist() == [None, MIXED[1], MIXED[2], None]
    errors = batch.column("_error").to_pylist()
    assert errors[0] is errors[3] is None
    assert errors[1].startswith("value: ")
    assert "x" in errors[2]
    assert (columns.malformed, columns.dropped) == (2, 0)


def test_a_batch_without_faults_has_empty_error_columns():
    batch, _ = typed(GOOD, include_errors=True)
    assert batch.column("_error").null_count == batch.column("_corrupt_record").null_count == 4


def test_dropmalformed_leaves_them_out_and_counts():
    batch, columns = typed(MIXED, mode="DROPMALFORMED")
    assert batch.column("offset").to_pylist() == [100, 103]
    assert batch.column("value").to_pylist() == [{"x": 1, "y": "a"}, {"x": 3, "y": "c"}]
    assert (columns.malformed, columns.dropped) == (2, 2)


def test_failfast_names_the_place_the_reason_and_the_first_bytes():
    with pytest.raises(MalformedRecord) as caught:
        typed(MIXED, mode="FAILFAST", wanted=pa.schema([("value", POINT)]))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.topic, error.partition, error.offset, error.column) == ("t", 3, 101, "value")
    assert error.data == MIXED[1]
    assert "mode" in str(error)


def test_deadletter_hands_over_the_record_and_leaves_it_out():
    letters = Letters()
    options = {"mode": "DEADLETTER", "dead_letter_topic": "bad"}
    batch, columns = typed(MIXED, letters=letters, wanted=pa.schema([("value", POINT)]), **options)
    assert batch.column("value").to_pylist() == [{"x": 1, "y": "a"}, {"x": 3, "y": "c"}]
    assert [(offset, column) for offset, column, _ in letters.written] == [(101, "value"), (102, "value")]
    assert columns.dropped == 2


def test_key_and_value_may_both_be_wrong_and_it_counts_once():
    batch, columns = typed([b'{"x": 1', b'{"x": 1}'], key=Text(), keys=[b"\xff", b"\xfe"], include_errors=True)
    assert batch.column("key").to_pylist() == [None, None]
    key_and_value, key_alone = batch.column("_error").to_pylist()
    assert key_and_value.startswith("key: ")
    assert "; value: " in key_and_value
    assert "value" not in key_alone
    assert batch.column("_corrupt_record").to_pylist() == [b'{"x": 1', b"\xfe"]
    assert columns.malformed == 2


# --- a user's own class -----------------------------------------------------------------------------------------------


class Numbers:
    """A number per record; empty ones are skipped, `end` ends the stream, and the rest fails."""

    def schema(self):
        return "n INT, twice STRUCT<n: INT, text: STRING>"

    def deserialize_record(self, record):
        if not record.value:
            return None
        if record.value == b"end":
            return {"n": -1, "twice": None}
        n = int(record.value)
        return {"n": n, "twice": {"n": 2 * n, "text": str(2 * n)}}

    def is_end_of_stream(self, row):
        return row is not None and row["n"] == -1


def own(**options):
    path = f"{__name__}:Numbers"
    loaded = load_deserializer(path, "value")
    spec = Custom(path, loaded.type, loaded.columns, loaded.may_end)
    return options | {"value": spec}


def test_F3_skipped_records_give_no_row_and_are_counted():
    batch, columns = typed([b"1", b"", b"2", None], **own())
    assert [row["n"] for row in batch.column("value").to_pylist()] == [1, 2]
    assert batch.column("offset").to_pylist() == [100, 102]
    assert columns.skipped == 2


def test_F4_the_record_that_ends_the_stream_is_not_emitted_nor_what_follows():
    batch, columns = typed([b"1", b"", b"end", b"2"], **own())
    assert [row["n"] for row in batch.column("value").to_pylist()] == [1]
    assert (columns.ended_at, columns.skipped) == (102, 1)
    batches = columns.batches(iter([records([b"9"]).select(columns._plan.fetched)]))
    assert len(list(batches)) == 1, "it stops after the batch at hand"


def test_faults_of_an_own_class_stand_beside_the_rows_that_were_kept():
    batch, columns = typed([b"", b"x", b"2"], **own(include_errors=True))
    assert batch.column("offset").to_pylist() == [101, 102]
    errors = batch.column("_error").to_pylist()
    assert "ValueError" in errors[0]
    assert errors[1] is None
    assert (columns.malformed, columns.skipped) == (1, 1)
    dropped, _ = typed([b"", b"x", b"2"], **own(mode="DROPMALFORMED"))
    assert dropped.column("offset").to_pylist() == [102]


def test_an_own_class_that_fails_in_failfast_names_the_place_and_keeps_its_cause():
    with pytest.raises(DeserializerFailed, match="offset 101") as caught:
        typed([b"", b"x"], **own(mode="FAILFAST"))
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_part_of_what_an_own_class_makes_can_be_picked():
    twice = pa.struct([("text", pa.string())])
    batch, _ = typed([b"4", b""], wanted=pa.schema([("value", pa.struct([("twice", twice)]))]), **own())
    assert batch.column("value").to_pylist() == [{"twice": {"text": "8"}}]


def test_skipping_keys_keep_the_values_beside_them():
    path = f"{__name__}:Keys"
    loaded = load_deserializer(path, "key")
    key = Custom(path, loaded.type, loaded.columns)
    batch, _ = typed([b'{"x": 1}', b'{"x": "?"}', b'{"x": 3}'], key=key, keys=[b"", b"b", b"c"], include_errors=True)
    assert batch.column("key").to_pylist() == [{"text": "b"}, {"text": "c"}]
    assert [value["x"] for value in batch.column("value").to_pylist()] == [None, 3]
    assert [error is None for error in batch.column("_error").to_pylist()] == [False, True]


class Keys:
    columns = ("key",)

    def schema(self):
        return "text STRING"

    def deserialize_record(self, record):
        return {"text": record.key.decode()} if record.key else None


def test_batches_without_rows_are_not_passed_on():
    plan = replace(TypedSource(RawBytes(), Json(POINT), format_options()).plan(), mode="DROPMALFORMED")
    columns = TypedColumns(plan, "t", 3)
    raw = [records([b"no"]).select(plan.fetched), records([b'{"x": 1}']).select(plan.fetched)]
    assert [batch.num_rows for batch in columns.batches(iter(raw))] == [1]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_a_batch_without_a_single_good_record_warns_once(mode, caplog, monkeypatch):
    monkeypatch.setattr("penstock.formats.typed._warned", set())
    typed(MIXED, mode=mode)
    assert not caplog.records
    for _ in range(3):
        typed([b"no", None, b"neither"], mode=mode)
    [said] = caplog.messages
    assert said.startswith("every value in a batch of 2 records of t-3 is malformed: is not JSON")
    assert said.endswith("Check valueFormat and its schema, or set mode to FAILFAST")
    typed([b"1", b"2"], key=Json(POINT), keys=[b"no", b"no"], value=Text(), mode=mode)
    assert [text.split(" is malformed")[0] for text in caplog.messages[1:]] == [
        "every key in a batch of 2 records of t-3"
    ]


def test_modes_that_report_malformed_records_do_not_warn(caplog, monkeypatch):
    monkeypatch.setattr("penstock.formats.typed._warned", set())
    typed([b"no"], mode="DEADLETTER", letters=Letters())
    assert not caplog.records


def test_what_is_wrong_can_be_counted_without_looking_at_the_value():
    batch, _ = typed(MIXED, wanted=pa.schema([("offset", pa.int64()), ("_error", pa.string())]))
    assert [error is None for error in batch.column("_error").to_pylist()] == [True, False, False, True]
    dropped, _ = typed(MIXED, wanted=pa.schema([("offset", pa.int64())]), mode="DROPMALFORMED")
    assert dropped.column("offset").to_pylist() == [100, 103]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_json_without_a_schema_is_judged_also_if_none_of_it_is_picked(mode):
    columns = [("offset", pa.int64())] + ([("_error", pa.string())] if mode == "PERMISSIVE" else [])
    options = format_options(value=column_options("value", "json"), mode=mode)
    plan = resolve_formats(options, ["t"], lambda *_: [], given=pa.schema(columns)).plan(pa.schema(columns))
    batch = whole(TypedColumns(plan, "t", 3), records(MIXED).select(plan.fetched))
    if mode == "DROPMALFORMED":
        assert batch.column("offset").to_pylist() == [100, 102, 103], "nothing says what x is, so it is no fault"
    else:
        assert [error and error[:18] for error in batch.column("_error").to_pylist()] == [
            None,
            "value: is not JSON",
            None,
            None,
        ]


def test_a_batch_after_the_end_was_given_back_is_read_for_itself():
    _, columns = typed([b"1", b"end"], **own())
    assert columns.ended_at == 101
    again = whole(columns, records([b"5"]).select(columns._plan.fetched))
    assert (again.num_rows, columns.ended_at) == (1, None)


def test_an_own_class_of_another_version_is_not_taken_for_the_one_planned_with():
    spec = replace(own()["value"], type=pa.struct([("n", pa.int64())]))
    with pytest.raises(PenstockError, match="another schema here than on the driver"):
        typed([b"1"], value=spec)


# --- event time -------------------------------------------------------------------------------------------------------

TIMED = pa.struct([("at", pa.int64()), ("y", pa.string())])
TIMES = [b'{"at": 5, "y": "a"}', b'{"at": 9,', None, b'{"at": 7, "y": "b"}', b'{"y": "c"}', b'{"at": "x", "y": "d"}']


def timed(values, watermark=None, *, value=None, wanted=None, event_time="value.at", **options):
    source = TypedSource(RawBytes(), value or Json(TIMED), format_options(**options))
    plan = source.plan(wanted, source.event_time_field(event_time))
    span = EventTimeSpan(watermark)
    columns = TypedColumns(plan, "t", 3, Letters(), span=span, watermarks=(watermark, 4))
    return whole(columns, records(values).select(plan.fetched)), span


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "DEADLETTER"])
@pytest.mark.parametrize("flatten", [False, True])
def test_E5_F19_rows_that_did_not_parse_or_have_no_time_are_neither_late_nor_the_highest(mode, flatten):
    batch, span = timed(TIMES, 5, mode=mode, flatten=flatten)
    assert (span.highest, span.late) == (7, 1)
    assert batch.num_rows == (6 if mode == "PERMISSIVE" else 4)


def test_F19_rows_that_a_users_class_left_out_have_no_event_time(tmp_path, monkeypatch):
    (tmp_path / "own_times.py").write_text(
        "class Own:\n"
        "    def schema(self):\n"
        "        return 'at BIGINT'\n"
        "    def deserialize_record(self, record):\n"
        "        at = int(record.value)\n"
        "        return {'at': at} if at < 10 else None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = load_deserializer("own_times:Own", "value")
    spec = Custom("own_times:Own", own.type, own.columns)
    batch, span = timed([b"3", b"99", b"8"], value=spec, wanted=pa.schema([("offset", pa.int64())]))
    assert batch.to_pydict() == {"offset": [100, 102]}
    assert span.highest == 8


@pytest.mark.parametrize("flatten", [False, True])
def test_F19_an_event_time_that_was_not_asked_for_is_not_in_the_result(flatten):
    y = ("y", pa.string())
    wanted = pa.schema([y if flatten else ("value", pa.struct([y])), ("_watermark", WATERMARK_COLUMNS["_watermark"])])
    batch, span = timed(TIMES, 6, wanted=wanted, flatten=flatten, mode="DROPMALFORMED")
    assert batch.schema == wanted
    assert (span.highest, span.late) == (7, 1)
    texts = batch.column("y") if flatten else batch.column("value").field("y")
    assert texts.to_pylist() == ["a", None, "b", "c"]
    assert batch.column("_watermark").cast(pa.int64()).to_pylist() == [6000] * 4


def test_F19_a_time_by_the_record_stands_beside_typed_columns():
    batch, span = timed(GOOD, 0, value=Json(POINT), event_time="timestamp", wanted=pa.schema([("value", POINT)]))
    assert (batch.schema.names, span.highest, span.late) == (["value"], 0, 4)


# Batches that take too much memory become several


class Few:
    """Decodes a few rows at a time, as the kernel does when they take much memory."""

    def __init__(self, most, name):
        self.most = most
        self.name = name
        self.calls = []

    def decode(self, batch):
        values = batch.column(self.name).to_pylist()
        self.calls.append(values)
        taken = values[: self.most]
        faults = [(row, "is bad") for row, value in enumerate(taken) if value == b"bad"]
        return Decoded(pa.array([None if value == b"bad" else value.decode() for value in taken]), faults)


class Half:
    """A user's class that skips every other record, and sees each of them once."""

    def __init__(self):
        self.calls = []

    def decode(self, batch):
        self.calls.append(batch.num_rows)
        rows = list(range(0, batch.num_rows, 2))
        return Decoded(batch.column("key").take(pa.array(rows)).cast(pa.string()), rows=pa.array(rows))


def cut(key, value, values, **options):
    plan = TypedSource(Text(), Text(), format_options(**options)).plan()
    columns = TypedColumns(plan, "t", 3, options.get("letters"))
    columns._decoders = {"key": key, "value": value}
    keys = [f"k{at}".encode() for at in range(len(values))]
    return columns, columns.pieces(records(values, keys).select(plan.fetched))


def test_a_batch_is_cut_where_any_of_its_columns_is_and_nothing_is_lost():
    values = [b"a", b"b", b"c", b"d", b"bad", b"f", b"g"]
    columns, pieces = cut(Few(3, "key"), Few(2, "value"), values, include_errors=True)
    pieces = list(pieces)
    assert [piece.rows.num_rows for piece in pieces] == [2, 1, 2, 1, 1]
    assert [piece.next_offset for piece in pieces] == [102, 103, 105, 106, None]
    made = pa.Table.from_batches([piece.rows for piece in pieces])
    assert made["key"].to_pylist() == [f"k{at}" for at in range(7)]
    assert made["value"].to_pylist() == ["a", "b", "c", "d", None, "f", "g"]
    assert made["offset"].to_pylist() == list(range(100, 107))
    assert made["_error"].to_pylist() == [None] * 4 + ["value: is bad"] + [None] * 2
    assert columns.malformed == 1


def test_pieces_are_made_when_they_are_asked_for():
    value = Few(2, "value")
    _, pieces = cut(Few(9, "key"), value, [b"a"] * 6)
    next(pieces)
    assert len(value.calls) == 1
    assert len(list(pieces)) == 2


def test_a_users_class_sees_each_record_once_though_the_other_column_is_cut():
    key = Half()
    columns, pieces = cut(key, Few(2, "value"), [b"a", b"b", b"c", b"d", b"e", b"f"])
    pieces = list(pieces)
    assert key.calls == [6]
    assert [piece.rows.column("offset").to_pylist() for piece in pieces] == [[100, 102], [104]]
    assert [piece.next_offset for piece in pieces] == [104, None]
    assert columns.skipped == 3


def test_batches_of_an_iterator_come_in_pieces():
    plan = TypedSource(RawBytes(), Text(), format_options()).plan()
    columns = TypedColumns(plan, "t", 3)
    columns._decoders = {"value": Few(2, "value")}
    made = list(columns.batches([records([b"a"] * 3).select(plan.fetched), records([b"b"]).select(plan.fetched)]))
    assert [batch.column("value").to_pylist() for batch in made] == [["a", "a"], ["a"], ["b"]]


DEFAULT = "x" * 586_000
WITH_DEFAULT = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": DEFAULT}],
    }
)
WITHOUT = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def test_a_long_default_in_many_records_comes_in_pieces():
    spec = Avro(WITH_DEFAULT, pa.struct([("a", pa.int64()), ("b", pa.string())]), framed=True)
    decoder = _KernelDecoder("value", replace(spec, framed=False), None, drops_malformed=False)
    decoder._format = kernel_format(spec)
    decoder._format.add_schema(1, json.dumps(WITHOUT).encode())
    columns = TypedColumns(TypedSource(RawBytes(), spec, format_options()).plan(), "t", 3)
    columns._decoders = {"value": decoder}
    sizes = []
    for piece in columns.pieces(records([b"\0\0\0\0\1\2"] * 1000)):
        sizes.append(piece.rows.num_rows)
        assert piece.rows.nbytes < 2**28
        lengths = pc.binary_length(piece.rows.column("value").field("b"))
        assert (pc.min(lengths).as_py(), pc.max(lengths).as_py()) == (586_000, 586_000)
    assert sum(sizes) == 1000
    assert len(sizes) == 5


# --- where ------------------------------------------------------------------------------------------------------------

NUMBERED = [b'{"x": %d, "y": "%s"}' % (number, b"even" if number % 2 == 0 else b"odd") for number in range(40)]


def filtered(values, where, columns=("value", "offset"), *, key=None, keys=None, **options):
    """The rows of `values` that meet a predicate, and what was counted."""
    source = TypedSource(key or RawBytes(), Json(POINT), format_options(**options))
    plan = source.select(columns, where=source.parse_where(where))
    typed_columns = TypedColumns(plan, "t", 3, Letters() if options.get("mode") == "DEADLETTER" else None)
    batch = records(values, keys).select(plan.fetched)
    return [row for part in typed_columns.batches([batch, batch]) for row in part.to_pylist()], typed_columns


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("value.x < 2", [(0, "even"), (1, "odd")]),
        ("value.x < 2 AND value.y = 'odd'", [(1, "odd")]),
        ("value.x >= 0", [(number, "odd" if number % 2 else "even") for number in range(40)]),
        ("offset = 103 OR value.x = 39", [(3, "odd"), (39, "odd")]),
        ("value.x > 40", []),
    ],
)
@pytest.mark.parametrize("columns", [("value", "offset"), ("value.x", "offset"), ("offset",), ("partition",)])
def test_F28_rows_pass_also_by_fields_that_are_not_selected(where, expected, columns):
    rows, typed_columns = filtered(NUMBERED, where, columns)
    shown = {
        ("value", "offset"): [{"value": {"x": x, "y": y}, "offset": 100 + x} for x, y in expected],
        ("value.x", "offset"): [{"value": {"x": x}, "offset": 100 + x} for x, _ in expected],
        ("offset",): [{"offset": 100 + x} for x, _ in expected],
        ("partition",): [{"partition": 3} for _ in expected],
    }
    assert rows == shown[columns] * 2
    assert typed_columns.counts == (0, 0, 0, 80, 2 * len(expected))


def test_F28_the_fields_of_the_predicate_are_decoded_first_and_the_others_of_rows_that_pass():
    source = TypedSource(RawBytes(), Json(POINT), format_options())
    plan = source.select(["value"], where=source.parse_where("value.x = 1"))
    first, later = plan.steps
    assert first["value"].type == pa.struct([("x", pa.int32())])
    assert later["value"].type == POINT
    assert plan.fetched == ["value"]
    assert source.select(["value.x"], where=source.parse_where("value.x = 1")).steps is None, "nothing is left"
    for mode in ({"mode": "FAILFAST"}, {"mode": "DROPMALFORMED"}, {"mode": "DEADLETTER", "dead_letter_topic": "d"}):
        strict = TypedSource(RawBytes(), Json(POINT), format_options(**mode))
        assert strict.select(["value"], where=strict.parse_where("value.x = 1")).steps is None, "all are looked at"


def test_F28_malformed_records_are_handled_before_the_predicate():
    rows, counted = filtered(MIXED, "value.x IS NULL")
    assert [row["value"] for row in rows[:2]] == [{"x": None, "y": None}, {"x": None, "y": "b"}], "nulls are null"
    assert counted.counts == (4, 0, 0, 8, 4)
    rows, counted = filtered(MIXED, "value.x = 3", mode="DROPMALFORMED")
    assert [row["value"]["x"] for row in rows] == [3, 3]
    assert counted.counts == (4, 4, 0, 4, 2)
    with pytest.raises(MalformedRecord):
        filtered(MIXED, "value.x = 3", mode="FAILFAST")
    _, counted = filtered(MIXED, "value.x = 3", mode="DEADLETTER", dead_letter_topic="d")
    assert [offset for offset, _, _ in counted._letters.written] == [101, 102] * 2, "the predicate keeps none back"


def test_F28_the_columns_of_errors_belong_to_the_rows_that_pass():
    rows, _ = filtered(MIXED, "value.x IS NULL OR value.x = 1", ["offset", "_error", "_corrupt_record"])
    assert [(row["offset"], row["_error"] is None, row["_corrupt_record"]) for row in rows[:3]] == [
        (100, True, None),
        (101, False, MIXED[1]),
        (102, False, MIXED[2]),
    ]


def test_F28_an_error_of_the_predicate_names_the_record():
    with pytest.raises(PenstockError, match=r"t-3, offset 102: where = '10 / value.x > 1': 10 / value.x: division by"):
        filtered([b'{"x": 1}', None, b'{"x": 0}'], "10 / value.x > 1")


def test_E2_F28_event_times_of_rows_that_do_not_pass_are_observed():
    source = TypedSource(RawBytes(), Json(EVENT), format_options())
    field = source.event_time_field("value.at")
    for where in ("value.n = 99", "value.n = 0", "value.n >= 0", "offset < 0"):
        plan = source.plan(pa.schema([("offset", pa.int64())]), field, source.parse_where(where))
        span = EventTimeSpan()
        columns = TypedColumns(plan, "t", 3, span=span)
        values = [b'{"at": "2025-01-01T00:00:0%dZ", "n": %d}' % (second, second) for second in range(5)]
        list(columns.batches([records(values).select(plan.fetched)]))
        assert span.highest == 1_735_689_604_000, where


EVENT = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("n", pa.int32())])


def test_F28_marked_rows_are_not_dropped():
    source = TypedSource(RawBytes(), Json(POINT), format_options())
    for where, marks in (("value.x < 2", [True, True, False, False]), ("value.x >= 0", [True] * 4)):
        plan = source.select(["offset"], where=source.parse_where(where))
        columns = TypedColumns(plan, "t", 3, marks_rows=True)
        rows = whole(columns, records(NUMBERED[:4]).select(plan.fetched))
        assert rows.column(PASSED).to_pylist() == marks


def test_F28_a_key_can_be_filtered_typed_or_raw():
    keys = [b"k%d" % number for number in range(4)]
    assert [row["offset"] for row in filtered(NUMBERED[:4], "key = 'k2'", keys=keys)[0]] == [102, 102]
    assert [row["offset"] for row in filtered(NUMBERED[:4], "key LIKE '%3'", key=Text(), keys=keys)[0]] == [103, 103]
