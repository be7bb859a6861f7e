"""E1: the event time of a record, and the watermark that follows from it."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import EventTimeError, OptionError, WatermarkStrategy
from penstock.model.columns import TYPES

DAY = 86_400_000
CREATED = WatermarkStrategy.monotonous().with_timestamps("created")


def batch(numbers: list[int | None], kind: pa.DataType, name: str = "created") -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(numbers, kind)})


def every_second(records: pa.RecordBatch) -> pa.Array:
    """A record carries a watermark if its number is even."""
    number = records.column("number")
    return pc.if_else(pc.equal(pc.bit_wise_and(number, 1), 0), number, pa.scalar(None, pa.int64()))


def forgetful(records: pa.RecordBatch) -> pa.Array:
    return records.column("number").slice(1)


def failing(records: pa.RecordBatch) -> pa.Array:
    raise LookupError("no clock here")


def careless(records: pa.RecordBatch) -> list[int]:
    return [0] * records.num_rows


def as_text(records: pa.RecordBatch) -> pa.Array:
    return records.column("number").cast(pa.string())


class Shifted:
    """A function that is an object."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, records: pa.RecordBatch) -> pa.ChunkedArray:
        return pa.chunked_array([pc.add(records.column("number"), self.by)])


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"], ids=str)
@pytest.mark.parametrize(
    ("unit", "numbers", "expected"),
    [
        ("s", [7, -7, None], [7000, -7000, None]),
        ("ms", [7, -7, None], [7, -7, None]),
        ("us", [7999, 7000, -1, -1000, -1001, None], [7, 7, -1, -1, -2, None]),
        ("ns", [7_999_999, -1, -1_000_000, -1_000_001, None], [7, -1, -1, -2, None]),
    ],
    ids=["s", "ms", "us", "ns"],
)
def test_E1_timestamps_of_every_unit_and_zone_are_milliseconds_rounded_down(unit, zone, numbers, expected):
    # A zone says how to show a timestamp; the moment is the same.
    times = CREATED.event_times(batch(numbers, pa.timestamp(unit, zone)))
    assert times.type == pa.int64()
    assert times.to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_E1_a_date_is_its_midnight(kind):
    records = pa.record_batch({"created": pa.array([date(1970, 1, 3), None, date(1969, 12, 31)], kind)})
    assert CREATED.event_times(records).to_pylist() == [2 * DAY, None, -DAY]


def test_E1_whole_numbers_are_milliseconds():
    assert CREATED.event_times(batch([5, None, -5], pa.int64())).to_pylist() == [5, None, -5]


def test_E1_a_slice_of_a_batch_has_the_times_of_its_own_rows():
    records = batch([1000, None, -1, 9000], pa.timestamp("us")).slice(1, 2)
    assert CREATED.event_times(records).to_pylist() == [None, -1]


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.timestamp("s"), pa.date32(), pa.null()], ids=str)
@pytest.mark.parametrize("numbers", [[], [None, None]], ids=["empty", "nulls"])
def test_E1_records_without_times_carry_no_watermark(numbers, kind):
    records = batch(numbers, kind)
    assert CREATED.event_times(records).to_pylist() == numbers
    assert CREATED.event_times(records).type == pa.int64()
    assert CREATED.watermark_after(records) is None
    assert CREATED.times_of(records).late(2**62) == 0


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.int32(), pa.uint64(), pa.float64(), pa.bool_(), pa.time64("us"), pa.duration("ms")],
    ids=str,
)
def test_E1_a_column_that_is_not_a_time_is_refused_with_a_hint(kind):
    with pytest.raises(EventTimeError) as error:
        CREATED.event_times(batch([None], kind))
    assert f"column 'created' is of type {kind}" in str(error.value)
    assert "Use a timestamp, a date, or an int64 of milliseconds" in str(error.value)


@pytest.mark.parametrize("second", [2**60, -(2**60)])
def test_E1_a_time_whose_milliseconds_no_number_holds_is_an_error(second):
    with pytest.raises(EventTimeError, match=r"column 'created' has a time too far away .* Check its unit"):
        CREATED.watermark_after(batch([0, second], pa.timestamp("s")))


def test_E1_the_records_own_timestamp_is_the_default():
    records = pa.record_batch(
        {"offset": pa.array([0, 1]), "timestamp": pa.array([7999, 12_000], TYPES["timestamp"])},
    )
    assert WatermarkStrategy.monotonous().event_times(records).to_pylist() == [7, 12]


def test_E1_a_record_that_kafka_knows_no_timestamp_of_has_no_time():
    # -1 ms is how the oldest message format says so. In a column of the user's, it is a moment in 1969.
    times = [-1000, 3000, -1000, -2000]
    records = pa.record_batch({"timestamp": pa.array(times, TYPES["timestamp"])})
    own = WatermarkStrategy.monotonous()
    assert own.event_times(records).to_pylist() == [None, 3, None, -2]
    assert own.times_of(records).late(0) == 1
    assert own.watermark_after(records.slice(2, 1)) is None
    assert own.with_timestamps("timestamp").event_times(records).to_pylist() == [-1, 3, -1, -2]


def nested() -> pa.RecordBatch:
    meta = pa.struct([("created", pa.timestamp("ms")), ("seq.no", pa.int64())])
    kind = pa.struct([("meta", meta), ("created", pa.timestamp("us")), ("name", pa.string())])
    rows = [
        {"meta": {"created": 1, "seq.no": 10}, "created": 2000},
        {"meta": None, "created": None},
        None,
        {"meta": {"created": 4, "seq.no": 40}, "created": 5000},
    ]
    return pa.record_batch(
        {"offset": pa.array([0, 1, 2, 3]), "value": pa.array(rows, kind), "key": pa.nulls(4, pa.binary())}
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("value.created", [2, None, None, 5]),
        ("value.meta.created", [1, None, None, 4]),
        ("value.meta.seq.no", [10, None, None, 40]),
        ("offset", [0, 1, 2, 3]),
    ],
)
def test_E1_a_path_leads_into_structs(path, expected):
    assert CREATED.with_timestamps(path).event_times(nested()).to_pylist() == expected
    assert CREATED.with_timestamps(path).event_times(nested().slice(3)).to_pylist() == expected[3:]


def test_E1_a_value_in_a_null_struct_is_not_a_time():
    below = pa.array([1, 2], pa.int64())
    value = pa.StructArray.from_arrays([below], ["created"], mask=pa.array([False, True]))
    times = CREATED.with_timestamps("value.created").event_times(pa.record_batch({"value": value}))
    assert times.to_pylist() == [1, None]


def test_E1_a_column_whose_name_has_a_dot_comes_before_a_path():
    records = pa.record_batch(
        {
            "value": pa.array([{"created": 1}], pa.struct([("created", pa.int64())])),
            "value.created": pa.array([2], pa.int64()),
        }
    )
    assert CREATED.with_timestamps("value.created").event_times(records).to_pylist() == [2]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("value.creatd", "Did you mean value.created?"),
        ("value.Meta.Created", "Did you mean value.meta.created?"),
        ("ofset", "Did you mean offset?"),
        ("created", "Did you mean value.meta.created?"),
        ("zzz", "Columns with a time are offset, value.meta.created, value.meta.seq.no, value.created"),
        ("key.at", "key is of type binary and has no fields. Columns with a time are offset"),
    ],
)
def test_E1_a_wrong_column_name_comes_with_the_nearest_right_one(path, hint):
    with pytest.raises(EventTimeError) as error:
        CREATED.with_timestamps(path).event_times(nested())
    assert f"column {path!r} does not exist" in str(error.value)
    assert hint in str(error.value)


def test_E1_without_any_time_the_columns_there_are_listed():
    with pytest.raises(EventTimeError, match=r"column 'timestamp' does not exist. No column has a time; there are key"):
        WatermarkStrategy.monotonous().event_times(batch([None], pa.binary(), "key"))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (WatermarkStrategy.monotonous(), 8_999),
        (WatermarkStrategy.bounded(0), 8_999),
        (WatermarkStrategy.bounded(2), 6_999),
        (WatermarkStrategy.bounded("500ms"), 8_499),
        (WatermarkStrategy.bounded("1m"), -51_001),
        (WatermarkStrategy.none(), None),
    ],
    ids=repr,
)
def test_E1_the_watermark_is_the_highest_time_less_the_bound_less_1_ms(strategy, expected):
    records = batch([3000, None, 9000, 1000], pa.int64())
    strategy = strategy.with_timestamps("created")
    assert strategy.watermark_after(records) == expected
    assert strategy.watermark_after(records, strategy.event_times(records)) == expected
    assert strategy.watermark_after(records, strategy.times_of(records)) == expected
    assert strategy.watermark_of(9000) == expected


def test_E1_none_does_not_even_look_for_times():
    assert WatermarkStrategy.none().watermark_after(batch([1], pa.int64(), "other")) is None


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([1, 4, 2, 7], 4), ([1, 3], None), ([], None), ([-4, None], -4)],
    ids=["some", "none", "empty", "before_1970"],
)
def test_E1_punctuated_takes_the_highest_watermark_that_a_record_carries(numbers, expected):
    strategy = WatermarkStrategy.punctuated(every_second)
    assert strategy.watermark_after(batch(numbers, pa.int64(), "number")) == expected
    assert strategy.watermark_of(4) is None


def test_E1_punctuated_takes_timestamps_too_rounded_down():
    strategy = WatermarkStrategy.punctuated(lambda records: records.column("number").cast(pa.timestamp("us")))
    assert strategy.watermark_after(batch([-1001, None, -5000], pa.int64(), "number")) == -2


def test_E1_a_function_gives_event_times():
    strategy = WatermarkStrategy.bounded(1).with_timestamps(Shifted(5))
    records = batch([1, None, 3], pa.int64(), "number")
    assert strategy.event_times(records).to_pylist() == [6, None, 8]
    assert strategy.watermark_after(records) == 8 - 1000 - 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (failing, "failing (ROLE) failed: LookupError: no clock here"),
        (forgetful, "forgetful (ROLE) returned 1 values for 2 records. One per record"),
        (careless, "careless (ROLE) returned a list. It takes a pyarrow.RecordBatch and returns a pyarrow.Array"),
        (as_text, "as_text (ROLE) is of type string, which is not a time. Use a timestamp, a date, or an int64"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("role", ["timestamps", "punctuated"])
def test_E1_the_error_of_a_function_names_it(role, function, reason):
    if role == "punctuated":
        strategy = WatermarkStrategy.punctuated(function)
    else:
        strategy = WatermarkStrategy.monotonous().with_timestamps(function)
    with pytest.raises(EventTimeError) as error:
        strategy.watermark_after(batch([1, 2], pa.int64(), "number"))
    assert reason.replace("ROLE", role) in str(error.value)
    assert ("in failing" in error.value.details) == (function is failing)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


@pytest.mark.parametrize(
    ("given_time", "milliseconds"),
    [
        ("10m", 600_000),
        ("500ms", 500),
        ("1 d", DAY),
        ("1us", 1),
        (timedelta(seconds=2, microseconds=1), 2001),
        (3, 3000),
        (0.1, 100),
        (0, 0),
    ],
    ids=str,
)
def test_E1_a_bound_is_a_timedelta_a_text_or_seconds_and_a_part_of_a_millisecond_counts(given_time, milliseconds):
    assert WatermarkStrategy.bounded(given_time).out_of_orderness == milliseconds


WITH_A_TIME = {
    "out_of_orderness": WatermarkStrategy.bounded,
    "idleness": WatermarkStrategy.none().with_idleness,
    "max_drift": WatermarkStrategy.none().with_alignment,
}


@pytest.mark.parametrize("name", WITH_A_TIME)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (-1, "must not be negative"),
        (timedelta(seconds=-1), "must not be negative"),
        ("-1s", "is not a time"),
        ("soon", "is not a time"),
        ("500", "has no unit. Write 500s or 500ms"),
        (True, "is not a time"),
        ([1], "is not a time"),
        (math.inf, "is not a time"),
        (math.nan, "is not a time"),
        ("999999999999d", "is too long"),
        (10**400, "is too long"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_E1_times_that_make_no_sense_are_refused_by_name(name, wrong, reason):
    with pytest.raises(OptionError) as error:
        WITH_A_TIME[name](wrong)
    assert error.value.name == name
    assert reason in str(error.value)


def test_E3_an_idleness_of_nothing_is_refused():
    with pytest.raises(OptionError, match="idleness = '0s': must be more than 0"):
        WatermarkStrategy.monotonous().with_idleness("0s")


def test_E3_E4_idleness_is_seconds_and_drift_milliseconds_and_None_takes_them_back():
    strategy = WatermarkStrategy.monotonous().with_idleness("1500ms").with_alignment("5m")
    assert (strategy.idleness, strategy.max_drift) == (1.5, 300_000)
    assert strategy.with_idleness(None).with_alignment(None) == WatermarkStrategy.monotonous()
    assert WatermarkStrategy.monotonous().with_alignment(0).max_drift == 0


@pytest.mark.parametrize("wrong", ["", "  ", 5, ["a"]], ids=repr)
def test_E1_timestamps_are_a_name_or_a_function(wrong):
    with pytest.raises(OptionError, match="neither the name of a column nor a function"):
        WatermarkStrategy.monotonous().with_timestamps(wrong)


def test_E1_punctuated_needs_a_function():
    with pytest.raises(OptionError, match="function = 'mark': is not a function"):
        WatermarkStrategy.punctuated("mark")


@pytest.mark.parametrize(
    "fields",
    [
        {"out_of_orderness": 1, "marks": every_second},
        {"out_of_orderness": -1},
        {"idleness": 0.0},
        {"max_drift": -1},
    ],
    ids=lambda fields: "_".join(fields),
)
def test_E1_a_strategy_that_contradicts_itself_cannot_be_made(fields):
    with pytest.raises(OptionError):
        WatermarkStrategy(**fields)


SPOKEN = [
    "WatermarkStrategy.monotonous()",
    "WatermarkStrategy.none().with_idleness('1m')",
    "WatermarkStrategy.bounded('90s').with_timestamps('value.created').with_idleness('1500ms').with_alignment('2d')",
    "WatermarkStrategy.bounded('1ms').with_idleness('5us').with_alignment('0s')",
]


@pytest.mark.parametrize("spoken", SPOKEN)
def test_E1_a_strategy_shows_how_it_was_made(spoken):
    strategy = eval(spoken, {"WatermarkStrategy": WatermarkStrategy})
    assert repr(strategy) == spoken


def test_E1_a_strategy_names_its_functions():
    shown = repr(WatermarkStrategy.punctuated(every_second).with_timestamps(Shifted(3)))
    here = every_second.__module__
    assert shown == f"WatermarkStrategy.punctuated({here}.every_second).with_timestamps({here}.Shifted)"


def test_E1_a_strategy_is_a_value_that_pickles():
    strategy = WatermarkStrategy.punctuated(pc.negate).with_timestamps("a.b").with_idleness(1).with_alignment(2)
    copy = pickle.loads(pickle.dumps(strategy))
    assert copy == strategy
    assert hash(copy) == hash(strategy)
    assert strategy.with_idleness(3) != strategy
    assert strategy.idleness == 1
    with pytest.raises(AttributeError):
        strategy.idleness = 2


KINDS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")] + [pa.int64()]
PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@given(
    kind=st.sampled_from(KINDS),
    numbers=st.lists(st.none() | st.integers(-(2**50), 2**50) | st.integers(-3000, 3000), max_size=20),
    watermark=st.none() | st.integers(-(2**51), 2**51) | st.integers(-5, 5),
    bound=st.integers(0, 10**6),
)
def test_E1_E5_the_short_ways_agree_with_plain_arithmetic(kind, numbers, watermark, bound):
    per_second = 1000 if kind == pa.int64() else PER_SECOND[kind.unit]
    expected = [None if number is None else number * 1000 // per_second for number in numbers]
    known = [time for time in expected if time is not None]
    strategy = WatermarkStrategy.bounded(timedelta(milliseconds=bound)).with_timestamps("created")
    records = batch(numbers, kind)
    times = strategy.times_of(records)
    assert strategy.event_times(records).to_pylist() == times.milliseconds().to_pylist() == expected
    assert (times.earliest, times.latest) == (min(known, default=None), max(known, default=None))
    assert times.late(watermark) == (0 if watermark is None else sum(time <= watermark for time in known))
    assert strategy.watermark_after(records) == (max(known) - bound - 1 if known else None)


@pytest.mark.parametrize(
    ("kind", "numbers", "late"),
    [
        (pa.timestamp("us"), [4999, 5000, 5999, 6000, None], 3),
        (pa.timestamp("ns"), [4_999_999, 5_999_999, 6_000_000], 2),
        (pa.timestamp("ms"), [4, 5, 6], 2),
        (pa.timestamp("s"), [-1, 0, 1], 2),
        (pa.date32(), [-1, 0, 1], 2),
        (pa.int64(), [4, 5, 6], 2),
    ],
    ids=str,
)
def test_E5_late_is_what_is_not_after_the_watermark_in_whole_milliseconds(kind, numbers, late):
    times = CREATED.times_of(batch(numbers, kind))
    assert times.late(5) == late
    assert times.late(2**62) == len(numbers) - numbers.count(None)
    assert times.late(-(2**62)) == times.late(None) == 0


def test_E1_moments_are_what_they_are_called():
    moment = datetime(2026, 11, 16, 10, 0, 0, 999_999, UTC)
    records = pa.record_batch({"created": pa.array([moment], pa.timestamp("us", "UTC"))})
    assert CREATED.watermark_after(records) == int(datetime(2026, 11, 16, 10, tzinfo=UTC).timestamp()) * 1000 + 998
