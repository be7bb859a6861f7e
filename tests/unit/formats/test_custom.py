"""Users' own deserializers: their input, their results, and the errors for mistakes in them."""

from __future__ import annotations

import decimal
import json
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DeserializerFailed, PenstockError
from penstock.formats.custom import CustomFormat, load_deserializer
from penstock.formats.rows import fraction_check, misfit
from penstock.formats.schema import parse_schema
from penstock.model.columns import TYPES

MODULE = "test_custom_format_classes"
FIRST = 100
"""The offset of the first record; there are gaps after it, as in a compacted topic."""


@pytest.fixture
def load() -> Iterator[Callable[..., CustomFormat]]:
    """Puts a class into a module of its own, and loads it from there."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module

    def load(found: Any, column: str = "value", arguments: str | None = None) -> CustomFormat:
        module.Own = found
        return load_deserializer(f"{MODULE}:Own", column, arguments)

    yield load
    del sys.modules[MODULE]


def records(values: Sequence[bytes | None], columns: Sequence[str] = tuple(TYPES)) -> pa.RecordBatch:
    count = len(values)
    offsets = [FIRST + 2 * at for at in range(count)]
    every: dict[str, Any] = {
        "key": [b"k%d" % at for at in range(count)],
        "value": values,
        "topic": ["orders"] * count,
        "partition": [3] * count,
        "offset": offsets,
        "timestamp": [at * 1000 for at in offsets],
        "timestampType": [0] * count,
        "headers": [[{"key": "trace", "value": b"t%d" % at}] if at % 2 else None for at in range(count)],
    }
    return pa.RecordBatch.from_arrays([pa.array(every[name], TYPES[name]) for name in columns], list(columns))


def values(*texts: str | None) -> pa.RecordBatch:
    return records([None if text is None else text.encode() for text in texts])


class Numbers:
    """A text that is a number is a row; an empty one is none; `end` ends the stream."""

    def schema(self) -> str:
        return "n INT, text STRING"

    def deserialize_record(self, record: Any) -> dict[str, Any] | None:
        text = record.value.decode()
        if not text:
            return None
        return {"n": -1 if text == "end" else int(text), "text": text, "unknown": object()}

    def is_end_of_stream(self, row: dict[str, Any] | None) -> bool:
        return row is not None and row["n"] == -1


class VectorNumbers:
    columns = ("offset", "value")
    calls = 0

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("n", pa.int32(), nullable=False), ("text", pa.large_string())])

    def deserialize(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["offset", "value"]
        self.calls += 1
        kept = batch.filter(pc.not_equal(batch.column("value"), b""))
        text = kept.column("value").cast(pa.string())
        n = pc.replace_with_mask(text, pc.equal(text, "end"), pa.scalar("-1")).cast(pa.int64())
        return pa.RecordBatch.from_arrays([text, n, kept.column("offset")], ["text", "n", "offset"])

    def is_end_of_stream(self, made: pa.RecordBatch) -> pa.BooleanArray:
        return pc.equal(made.column("n"), -1)


# --- one rule for both kinds ------------------------------------------------------------------------------------------


@pytest.fixture(params=[Numbers, VectorNumbers], ids=["record", "batch"])
def numbers(request, load) -> CustomFormat:
    return load(request.param)


def test_rows_are_those_of_the_schema(numbers):
    decoded = numbers.decode(values("1", "2"))
    assert decoded.array.type.equals(pa.struct([("n", pa.int32()), ("text", pa.string())]))
    assert decoded.array.to_pylist() == [{"n": 1, "text": "1"}, {"n": 2, "text": "2"}]
    assert (decoded.rows, decoded.faults, decoded.end) == (None, [], None)


def test_F3_what_is_nothing_is_skipped(numbers):
    decoded = numbers.decode(values("", "1", "", "2", ""))
    assert decoded.array.field("n").to_pylist() == [1, 2]
    assert decoded.rows.type == pa.int64()
    assert decoded.rows.to_pylist() == [1, 3]
    everything = numbers.decode(values("", ""))
    assert (len(everything.array), everything.rows.to_pylist()) == (0, [])
    assert everything.array.type.equals(numbers.type)


def test_F4_the_record_that_ends_the_stream_is_not_emitted_nor_what_follows(numbers):
    decoded = numbers.decode(values("1", "", "end", "2", "bad", "end"))
    assert decoded.array.field("n").to_pylist() == [1]
    assert decoded.rows.to_pylist() == [0]
    assert (decoded.end, decoded.faults) == (2, [])
    first = numbers.decode(values("end", "1"))
    assert (len(first.array), first.rows.to_pylist(), first.end) == (0, [], 0)


def test_an_exception_costs_its_record_alone(numbers):
    decoded = numbers.decode(values("1", "bad", "", "2", "worse"))
    assert decoded.rows.to_pylist() == [0, 1, 3, 4]
    assert decoded.array.to_pylist()[1] == {"n": None, "text": None}
    assert decoded.array.null_count == 0
    assert decoded.array.field("n").to_pylist() == [1, None, 2, None]
    assert [row for row, _ in decoded.faults] == [1, 4]
    for (_, reason), text in zip(decoded.faults, ("bad", "worse"), strict=True):
        assert text in reason
        assert reason.startswith(("ValueError: ", "ArrowInvalid: "))


def test_a_fault_before_the_end_of_the_stream_stays_and_one_after_it_does_not(numbers):
    decoded = numbers.decode(values("bad", "1", "end", "worse"))
    assert [row for row, _ in decoded.faults] == [0]
    assert decoded.rows.to_pylist() == [0, 1]
    assert decoded.end == 2


def test_a_fault_that_must_not_be_survived_names_the_record(numbers):
    decoded = numbers.decode(values("1", "bad"))
    error = numbers.failed(decoded, 1, "orders", 3, 102)
    assert str(error).startswith(f"orders-3, offset 102: deserializer {MODULE}:Own failed: ")
    assert "bad" in str(error)
    assert isinstance(error.__cause__, ValueError)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.topic, copy.partition, copy.offset) == ("orders", 3, 102)
    assert "in deserialize" in copy.details


def test_no_records_are_no_rows(numbers):
    decoded = numbers.decode(values())
    assert decoded.array.type.equals(numbers.type)
    assert (len(decoded.array), decoded.rows, decoded.end) == (0, None, None)


@given(st.lists(st.sampled_from(["", "1", "2", "bad", "end"]), max_size=20))
def test_both_kinds_agree_on_any_records(texts):
    found = []
    for each in (Numbers, VectorNumbers):
        decoded = load_deserializer(f"{__name__}:{each.__name__}", "value").decode(values(*texts))
        rows = decoded.rows.to_pylist() if decoded.rows is not None else list(range(len(texts)))
        found.append((decoded.array.to_pylist(), rows, [row for row, _ in decoded.faults], decoded.end))
    assert found[0] == found[1]
    until = texts.index("end") if "end" in texts else len(texts)
    assert found[0][1] == [at for at in range(until) if texts[at]]
    assert found[0][2] == [at for at in range(until) if texts[at] == "bad"]


# --- a record at a time -----------------------------------------------------------------------------------------------


def record_wise(schema: Any, function: Callable[[Any], Any], **more: Any) -> type:
    methods = {"schema": lambda self: schema, "deserialize_record": lambda self, record: function(record)}
    return type("Own", (), methods | more)


def test_F2_a_record_is_whole(load):
    seen = []

    def look(record):
        place = (record.topic, record.partition, record.offset, record.timestamp, record.timestamp_type)
        seen.append((*place, record.headers, record.key, record.value))

    own = load(record_wise("a INT", look))
    assert own.columns == tuple(TYPES)
    own.decode(values("x", None).slice(0, 2))
    own.decode(values("x", "y").slice(1, 1))
    assert seen[0] == ("orders", 3, 100, 100, 0, [], b"k0", b"x")
    assert seen[1] == ("orders", 3, 102, 102, 0, [("trace", b"t1")], b"k1", None)
    assert seen[2] == ("orders", 3, 102, 102, 0, [("trace", b"t1")], b"k1", b"y")


def test_F2_a_record_has_what_the_class_asks_for(load):
    own = load(record_wise("a INT", lambda record: {"a": record.offset}, columns=["key"]))
    assert own.columns == ("key", "topic", "partition", "offset")
    assert own.decode(records([b"x"], own.columns)).array.to_pylist() == [{"a": 100}]
    own = load(record_wise("a BINARY, b INT", lambda r: {"a": r.value, "b": r.timestamp_type}, columns=["key"]))
    assert own.decode(records([b"x"], own.columns)).array.to_pylist() == [{"a": None, "b": -1}]


def test_end_of_stream_is_asked_of_skipped_records_too(load):
    own = load(record_wise("a INT", lambda record: None, is_end_of_stream=lambda self, row: row is None))
    assert own.decode(values("x")).end == 0


def test_an_exception_in_is_end_of_stream_is_its_records(load):
    own = load(record_wise("a INT", lambda record: {"a": 1}, is_end_of_stream=lambda self, row: row["b"]))
    decoded = own.decode(values("x"))
    assert decoded.faults == [(0, "KeyError: 'b'")]
    assert decoded.array.to_pylist() == [{"a": None}]


@pytest.mark.parametrize(
    ("ddl", "row", "said"),
    [
        ("a INT", {"a": "x"}, "field a: 'x' of type str does not fit INT"),
        ("a BIGINT", {"a": 1.5}, "field a: 1.5 of type float does not fit BIGINT (1.5 is not a whole number)"),
        ("a TINYINT", {"a": 300}, "field a: 300 of type int does not fit TINYINT"),
        ("a BIGINT", {"a": 2**70}, f"field a: {2**70} of type int does not fit BIGINT"),
        ("a STRING", {"a": 3}, "field a: 3 of type int does not fit STRING"),
        ("a STRING", {"a": "\ud800"}, "field a: '\\ud800' of type str does not fit STRING"),
        (
            "a DECIMAL(3, 1)",
            {"a": decimal.Decimal("1.25")},
            "field a: Decimal('1.25') of type Decimal does not fit DECIMAL",
        ),
        ("a STRUCT<b: ARRAY<INT>>", {"a": {"b": [1, "x"]}}, "field a.b[1]: 'x' of type str does not fit INT"),
        ("a MAP<STRING, STRUCT<b: INT>>", {"a": {"k": {"b": []}}}, "field a['k'].b: [] of type list does not fit INT"),
        ("a ARRAY<INT>", {"a": [1, 2.5]}, "field a[1]: 2.5 of type float does not fit INT"),
        ("a MAP<STRING, INT>", {"a": {"k": 2.5}}, "field a['k']: 2.5 of type float does not fit INT"),
        ("a STRUCT<b: INT>", {"a": 7}, "field a: 7 of type int does not fit STRUCT<b: INT>"),
        (
            "a TIMESTAMP",
            {"a": 1705314030.5},
            "field a: 1705314030.5 of type float does not fit TIMESTAMP (a float is not a time",
        ),
        ("a ARRAY<TIMESTAMP_NTZ>", {"a": [None, 2.0]}, "field a[1]: 2.0 of type float does not fit TIMESTAMP_NTZ"),
        ("a INT", {"a": "x" * 100}, "field a: '" + "x" * 39 + "... of type str"),
        ("a INT", [1], "deserialize_record returned list, not a dict or None"),
        ("a INT", "x", "deserialize_record returned str, not a dict or None"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_value_that_does_not_fit_names_its_field(load, ddl, row, said):
    own = load(record_wise(ddl, lambda record: row if record.value == b"bad" else {}))
    decoded = own.decode(values("good", "good", "bad", "good"))
    ((at, reason),) = decoded.faults
    assert at == 2
    assert reason.startswith(said)
    assert decoded.array.to_pylist() == [{"a": None}] * 4
    assert decoded.array.null_count == 0


def test_many_that_do_not_fit_leave_the_others_alone(load):
    own = load(record_wise("a INT", lambda record: {"a": json.loads(record.value)}))
    decoded = own.decode(values(*["1", '"x"', "2", "3.5", "4.0"] * 40))
    assert decoded.array.field("a").to_pylist() == [1, None, 2, None, 4] * 40
    assert [row for row, _ in decoded.faults] == [at for at in range(200) if at % 5 in (1, 3)]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(ANYTHING, st.sampled_from(["a INT", "a STRUCT<a: BIGINT, b: ARRAY<INT>>", "a MAP<STRING, INT>", "a DOUBLE"]))
def test_no_value_changes_on_its_way(value, ddl):
    """What does not fit is refused; what fits is there afterwards."""
    type_ = parse_schema(ddl)
    row = {"a": value}
    if misfit(row, type_):
        return
    made = pa.array([row], type_).to_pylist(maps_as_pydicts="strict")[0]["a"]
    assert subsumes(made, value)


def subsumes(made: Any, value: Any) -> bool:
    if isinstance(made, dict) and isinstance(value, dict):
        return all(subsumes(made[name], value.get(name)) for name in made)
    if isinstance(made, list) and isinstance(value, list):
        return all(map(subsumes, made, value)) and len(made) == len(value)
    if isinstance(made, list | dict) or isinstance(value, list | dict):
        return not made and not value  # an empty list is an empty map
    return made == value or (made != made and value != value)


@pytest.mark.parametrize("ddl", ["a STRING", "a DOUBLE, b ARRAY<STRUCT<c: DATE>>, d MAP<STRING, BINARY>"])
def test_schemas_without_whole_numbers_are_not_looked_at_for_fractions(ddl):
    assert fraction_check(parse_schema(ddl)) is None


# --- a batch at a time ------------------------------------------------------------------------------------------------


def batch_wise(schema: Any, function: Callable[[pa.RecordBatch], Any], **more: Any) -> type:
    methods = {"schema": lambda self: schema, "deserialize": lambda self, batch: function(batch)}
    return type("Own", (), methods | more)


@pytest.mark.parametrize("column", ["key", "value"])
def test_F2_a_batch_has_the_value_alone_or_what_the_class_asks_for(load, column):
    seen = []

    def look(batch):
        seen.append(batch.schema.names)

    own = load(batch_wise("a INT", look), column)
    assert own.columns == (column,)
    own.decode(values("x"))
    own = load(batch_wise("a INT", look, columns=["headers", "timestamp", "topic"]), column)
    assert own.columns == ("headers", "timestamp", "topic")
    own.decode(values("x"))
    assert seen == [[column], ["headers", "timestamp", "topic"]]


def test_F3_no_batch_is_no_rows(load):
    decoded = load(batch_wise("a INT", lambda batch: None)).decode(values("x", "y"))
    assert (len(decoded.array), decoded.rows.to_pylist(), decoded.faults) == (0, [], [])


def test_a_culprit_is_found_without_calling_for_each_record(load):
    own = load(VectorNumbers)
    own.decode(values(*["1"] * 1000, "bad", *["1"] * 1000))
    assert own._own.calls < 50


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("a TIMESTAMP", pa.array([1], pa.timestamp("ms", tz="Europe/Vienna"))),
        ("a ARRAY<STRING>", pa.array([["x"]], pa.large_list(pa.large_string()))),
        (
            "a STRUCT<b: INT, c: STRING>",
            pa.array([{"b": 1, "c": "x"}], pa.struct([("b", pa.int64()), ("c", pa.string())])),
        ),
        ("a MAP<STRING, INT>", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))),
        ("a STRING", pa.array(["x"]).dictionary_encode()),
    ],
    ids=str,
)
def test_arrow_types_that_hold_the_same_are_cast(load, type_, array):
    own = load(batch_wise(type_, lambda batch: pa.table({"a": array})))
    decoded = own.decode(values("x"))
    assert decoded.array.type.equals(parse_schema(type_))
    decoded.array.validate(full=True)
    assert decoded.array.field("a").to_pylist() == array.to_pylist()


def test_a_value_that_cannot_be_cast_is_the_fault_of_its_record(load):
    made = {b"x": "1", b"y": "no"}
    own = load(batch_wise("a INT", lambda batch: pa.table({"a": [made[v.as_py()] for v in batch.column("value")]})))
    decoded = own.decode(values("x", "y", "x"))
    assert decoded.array.field("a").to_pylist() == [1, None, 1]
    ((row, reason),) = decoded.faults
    assert row == 1
    assert reason.startswith("ValueError: field a: ")


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ([1, 2], "deserialize returned list, not a pyarrow.RecordBatch"),
        (table(prize=[1, 2]), "deserialize returned no column price, which schema.. names: did you mean prize?"),
        (table(b=[1, 2]), "returned no column price, which schema.. names: it has b"),
        (table(price=[1]), "1 rows for 2 records: to skip records, name offset in columns"),
        (table(price=[1, 2, 3]), "3 rows for 2 records"),
        (table(price=[[1], [2]]), "field price as list<.*>, and schema.. says int32"),
        (table(price=[1], offset=["x"]), "its column offset is string, not int64"),
        (table(price=[1], offset=[101]), "one of them with offset 101, which no record has"),
        (table(price=[1, 2], offset=[102, 100]), "not in ascending order"),
        (table(price=[1, 2], offset=[100, 100]), "not in ascending order"),
    ],
    ids=lambda value: str(value)[:40].replace("\n", " "),
)
def test_a_class_that_breaks_its_contract_is_an_error_with_its_place(load, result, said):
    own = load(batch_wise("price INT", lambda batch: result))
    with pytest.raises(DeserializerFailed, match=said) as caught:
        own.decode(values("x", "y"))
    assert str(caught.value).startswith(f"orders-3, offset 100: deserializer {MODULE}:Own failed: ")
    with pytest.raises(DeserializerFailed, match=f"^offset 100: deserializer {MODULE}:Own failed"):
        own.decode(records([b"x", b"y"], ["offset", "value"]))


@pytest.mark.parametrize("ends", [True, pa.array([True]), pa.array([1, 0])], ids=["bool", "short", "int"])
def test_an_answer_to_is_end_of_stream_must_be_one_boolean_per_row(load, ends):
    own = load(batch_wise("a INT", lambda batch: table(a=[1, 2]), is_end_of_stream=lambda self, made: ends))
    with pytest.raises(DeserializerFailed, match=r"is_end_of_stream returned .* not a boolean pyarrow.Array of 2 rows"):
        own.decode(values("x", "y"))


def test_a_field_called_offset_may_be_any_number_where_no_row_is_left_out(load):
    own = load(batch_wise("offset INT", lambda batch: table(offset=[7, 7])))
    assert own.decode(values("x", "y")).array.to_pylist() == [{"offset": 7}, {"offset": 7}]


# --- finding the class ------------------------------------------------------------------------------------------------


class SparkStruct:
    def json(self) -> str:
        return '{"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": true, "metadata": {}}]}'


@pytest.mark.parametrize(
    "schema",
    ["a INT", pa.schema([("a", pa.int32())]), pa.struct([("a", pa.int32())]), SparkStruct()],
    ids=["ddl", "schema", "struct", "pyspark"],
)
def test_ways_to_say_the_schema(load, schema):
    assert load(record_wise(schema, dict)).type.equals(pa.struct([("a", pa.int32())]))


def test_an_object_will_do_and_so_will_a_class_in_a_class(load):
    assert isinstance(load(Numbers()), CustomFormat)
    load(type("Outer", (Numbers,), {"Inner": VectorNumbers}))
    assert load_deserializer(f"{MODULE}:Own.Inner", "value").columns == ("offset", "value")
    with pytest.raises(ValueError, match=rf"{MODULE}:Outer has no Iner: did you mean Inner\?"):
        load_deserializer(f"{MODULE}:Own.Iner", "value")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda record: {}, "is a function: it must be a class with schema"),
        (type("Own", (), {"__init__": lambda self, size: None}), "creating an instance of .*created without arguments"),
        (type("Own", (), {"deserialize": dict}), r"has no schema\(\)"),
        (type("Own", (), {"schema": lambda self: "a INT"}), "has neither deserialize.batch. nor deserialize_record"),
        (record_wise("a INTT", dict), r"schema\(\) of .*:Own: column 3 of the schema: expected a type, found 'INTT'"),
        (record_wise(7, dict), r"schema\(\) of .*: expected a DDL string.*, found int"),
        (record_wise(pa.schema([("a", pa.time64("us"))]), dict), "field a has Arrow type time64"),
        (type("Own", (), {"schema": lambda self: 1 / 0}), r"schema\(\) of .* failed: ZeroDivisionError"),
        (record_wise("a INT", dict, columns=["vlaue"]), r"vlaue is not a column of Kafka's: did you mean value\?"),
        (record_wise("a INT", dict, columns="value"), "must be a list of names"),
    ],
    ids=range(10),
)
def test_what_is_wrong_with_a_class_is_said(load, own, said):
    with pytest.raises(ValueError, match=said):
        load(own)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_package.orders:Orders", "there is no module no_such_package here. .*addPyFile.*--py-files"),
        ("json.no_such_part:Orders", "there is no module json.no_such_part here"),
        ("json:JSONDecodr", r"json has no JSONDecodr: did you mean JSONDecoder\?"),
        ("json:Wholly", r"json has no Wholly \(.*__init__.py\)"),
        ("orders.py:Orders", "there is no module orders here"),
        ("dir/orders.py:Orders", "is not an import path: expected package.module:Name"),
        ("orders", "is not an import path"),
        ("orders:", "is not an import path"),
        ("__main__:Orders", "move the class to a module of its own"),
    ],
)
def test_what_is_wrong_with_a_path_is_said(path, said):
    with pytest.raises(ValueError, match=said):
        load_deserializer(path, "value")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_dependency", "it needs module no_such_dependency, which is not installed here"),
        ("1 / 0", "importing broken_orders failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_does_not_import_says_why(tmp_path, monkeypatch, source, said):
    (tmp_path / "broken_orders.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=said):
        load_deserializer("broken_orders:Orders", "value")


# --- arguments, open and close ----------------------------------------------------------------------------------------


class Prefixed:
    """Puts a prefix before each value."""

    def __init__(self, prefix: str = "-", *, times: int = 1) -> None:
        self.prefix = prefix * times

    def schema(self) -> str:
        return "text STRING"

    def deserialize_record(self, record: Any) -> dict[str, str]:
        return {"text": self.prefix + record.value.decode()}


class Opened(Prefixed):
    calls: list[Any] = []  # noqa: RUF012 # one list for all instances is the purpose

    def open(self, options: dict[str, Any]) -> None:
        self.calls.append(("open", options))

    def close(self) -> None:
        self.calls.append("close")


class OnlyOpened(Opened):
    def __init__(self) -> None:
        super().__init__()


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    Opened.calls.clear()
    yield Opened.calls
    Opened.calls.clear()


def texts(own: CustomFormat, *given: str) -> list[str]:
    return [row["text"] for row in own.decode(values(*given)).array.to_pylist()]


def test_F2_a_constructor_gets_its_arguments_by_name(load):
    assert texts(load(Prefixed), "a") == ["-a"]
    assert texts(load(Prefixed, arguments='{"prefix": "+", "times": 2}'), "a") == ["++a"]


def test_F2_a_class_is_opened_and_closed_once_with_its_arguments(load, calls):
    own = load(Opened, arguments='{"prefix": "+"}')
    assert not calls, "the driver, which only asks for the schema, does not open it"
    own.open()
    assert texts(own, "a") == ["+a"]
    own.close()
    own.close()
    assert calls == [("open", {"prefix": "+"}), "close"]


def test_F2_without_parameters_in_its_constructor_open_alone_gets_them(load, calls):
    load(OnlyOpened, arguments='{"url": "db"}').open()
    assert calls[0] == ("open", {"url": "db"})


def test_F2_a_class_that_is_dropped_without_a_close_is_closed(load, calls):
    own = load(Opened)
    own.open()
    del own
    assert calls == [("open", {}), "close"]


def test_F2_what_was_not_opened_is_not_closed(load, calls):
    load(Opened).close()
    assert not calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            '{"unknown": 1}',
            "unexpected keyword argument 'unknown'.*created with the arguments unknown",
        ),
        ('{"times": "x"}', "creating an instance of .* failed: TypeError"),
    ],
)
def test_F2_arguments_that_a_class_does_not_take_are_an_error(load, arguments, message):
    with pytest.raises(ValueError, match=message):
        load(Prefixed, arguments=arguments)


def test_F2_an_object_gets_no_arguments(load):
    with pytest.raises(ValueError, match="is an object, and has no open"):
        load(Prefixed(), arguments='{"prefix": "+"}')


def test_F2_a_failure_to_open_names_the_class(load):
    class Failing(Prefixed):
        def open(self, options: dict[str, Any]) -> None:
            raise RuntimeError("no database")

    with pytest.raises(PenstockError, match=f"open\\(options\\) of {MODULE}:Own failed: RuntimeError: no database"):
        load(Failing).open()


def test_F2_a_failure_to_close_is_logged(load, caplog):
    class Failing(Prefixed):
        def close(self) -> None:
            raise RuntimeError("too late")

    own = load(Failing)
    own.open()
    own.close()
    assert "close() of test_custom_format_classes:Own failed: RuntimeError: too late" in caplog.text
