"""Event times and watermarks of a user's functions (E6)."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.config.event_time import ImportedFunction
from penstock.config.source import parse_options
from penstock.errors import EventTimeError, OptionError
from penstock.eventtime.functions import EventTimeFunctions
from penstock.eventtime.span import EventTimeSpan
from penstock.eventtime.strategy import WatermarkStrategy

READ = {"bootstrap.servers": "broker:9092", "subscribe": "clicks"}
OWN = """
import pyarrow as pa
import pyarrow.compute as pc

def numbers(batch):
    return pc.cast(batch.column("value").cast(pa.string()), pa.int64())

numbers.columns = ("value",)

def marks(batch):
    times = numbers(batch)
    return pc.if_else(pc.greater(times, 10), times, pa.scalar(None, pa.int64()))

class Shifted:
    def __call__(self, batch):
        return pc.add(numbers(batch), 5)

class NeedsArguments:
    def __init__(self, what):
        pass

def texts(batch):
    return batch.column("value").cast(pa.string())

def fails(batch):
    raise LookupError("no such thing")

def wrong_columns(batch):
    return None

wrong_columns.columns = ("valeu",)
NUMBER = 5
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_times_of_e6.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


def functions(**options):
    """The functions that options name, over the column `value`."""
    given = {f"eventTime.{name}": f"own_times_of_e6:{path}" for name, path in options.items()}
    times = parse_options(READ | given).event_time
    columns = dict.fromkeys(name for each in times.functions for name in each.columns)
    return EventTimeFunctions(times.strategy, (*columns,))


def column_of(*texts):
    columns = {
        "key": pa.nulls(len(texts), pa.binary()),
        "value": pa.array(texts, pa.binary()),
        "timestamp": pa.array(range(100, 100 + len(texts)), pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    return columns.__getitem__


def span_of(own, *texts, watermark=None):
    span = EventTimeSpan(watermark)
    span.add(*own.times(column_of(*texts)))
    return span


def test_E6_a_function_of_a_batch_has_the_event_times():
    span = span_of(functions(function="numbers"), b"3", b"9", None, watermark=4)
    assert (span.lowest, span.highest, span.late) == (3, 9, 1)


def test_E6_a_class_is_created_and_called():
    assert span_of(functions(function="Shifted"), b"3").highest == 8


def test_E6_watermarks_that_records_carry_count_in_place_of_times():
    span = span_of(functions(function="numbers", watermarks="marks"), b"30", b"9", b"20", watermark=9)
    assert (span.lowest, span.highest, span.late) == (20, 30, 1)


def test_E6_a_batch_without_a_watermark_moves_none():
    assert span_of(functions(function="numbers", watermarks="marks"), b"3").highest is None


def test_E6_functions_travel_by_name():
    function = ImportedFunction("own_times_of_e6:numbers", "eventTime.function")
    data = pickle.dumps(WatermarkStrategy.bounded("1s").with_timestamps(function))
    assert b"extract" not in data
    assert pickle.loads(data).timestamps == function
    assert "with_timestamps(own_times_of_e6:numbers)" in repr(pickle.loads(data))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("own_times_of_e6:nubmers", "own_times_of_e6 has no nubmers: did you mean numbers?"),
        ("no_such_module_e6:f", "there is no module no_such_module_e6 here"),
        ("own_times_of_e6:NUMBER", "is a int, not a function"),
        ("own_times_of_e6:NeedsArguments", "creating an instance failed"),
        ("own_times_of_e6:wrong_columns", "has an attribute columns with others than Kafka's"),
    ],
)
def test_E6_an_error_of_a_path_names_option_path_and_reason(path, words):
    with pytest.raises(OptionError) as caught:
        ImportedFunction(path, "eventTime.function").columns  # noqa: B018 (imports it)
    assert f"option eventTime.function = '{path}': " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [("texts", "is of type string, which is not a time"), ("fails", "failed: LookupError: no such thing")],
)
def test_E6_the_check_calls_the_function_with_an_empty_batch(path, words):
    with pytest.raises(EventTimeError) as caught:
        functions(function=path).check(
            {"key": pa.binary(), "value": pa.binary(), "timestamp": pa.timestamp("us", "UTC")}
        )
    assert f"own_times_of_e6:{path}" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"eventTime.function": "m:f", "eventTime.column": "timestamp"},
        {"eventTime.watermarks": "m:f", "eventTime.outOfOrderness": "5s"},
        {"eventTime.watermarks": "m:f", "eventTime.column": "timestamp"},
    ],
)
def test_E6_what_a_function_replaces_is_refused_beside_it(options):
    with pytest.raises(OptionError, match="is not supported together with"):
        parse_options(READ | options)


@pytest.mark.parametrize("text", ["", "f", "a/b:c", "a.py:", "1a:b"])
def test_E6_what_is_no_import_path_is_refused_at_once(text):
    with pytest.raises(OptionError, match=r"eventTime\.function"):
        parse_options(READ | {"eventTime.function": text})
