"""Which columns leave a typed source, and which of them a user's own schema selects."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import OptionError
from penstock.eventtime.field import RECORD_TIMESTAMP, EventTimeField
from penstock.formats.layout import full_layout, prune, select_columns
from penstock.formats.plan import TypedSource
from penstock.formats.spec import Custom, Json, RawBytes
from penstock.model.columns import TYPES
from penstock.model.watermark_columns import WATERMARK_COLUMNS
from support.configs import format_options

ADDRESS = pa.struct([("city", pa.string()), ("zip", pa.int32())])
TAGS = pa.list_(pa.field("element", pa.string()))
ORDER = pa.struct([("id", pa.int64()), ("to", ADDRESS), ("tags", TAGS)])


def source(**options):
    return TypedSource(RawBytes(), Json(ORDER), format_options(**options))


def names(layout):
    return [column.name for column in layout.columns]


def test_the_columns_are_kafkas_with_a_typed_value():
    layout = source().layout
    assert names(layout) == [name for name in TYPES if name != "headers"]
    assert layout.schema.field("value").type == ORDER
    assert names(source(include_errors=True).layout)[-2:] == ["_corrupt_record", "_error"]


def test_flatten_puts_the_values_fields_first_and_a_prefix_before_kafkas():
    layout = source(flatten=True).layout
    assert names(layout)[:4] == ["id", "to", "tags", "kafka_key"]
    assert "kafka_value" not in names(layout)
    assert names(full_layout(pa.binary(), pa.string(), prefix="k."))[:2] == ["k.key", "k.value"]


def test_flattened_names_that_meet_are_refused():
    with pytest.raises(OptionError, match="flattenPrefix"):
        full_layout(pa.binary(), pa.struct([("kafka_offset", pa.int64())]), prefix="kafka_")


def test_a_users_schema_picks_and_reorders_also_inside_of_structs():
    wanted = pa.schema([("offset", pa.int64()), ("value", pa.struct([("to", pa.struct([("zip", pa.int32())]))]))])
    plan = source().plan(wanted)
    assert plan.layout.schema == wanted
    assert plan.value.type == wanted.field("value").type, "only what is picked is parsed"
    assert plan.fetched == ["value", "offset"]


CREATED = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("by", pa.string())])
EVENT = pa.struct([("id", pa.int64()), ("created", CREATED), ("day", pa.date32()), ("a.b", pa.int64())])


def events(**options):
    return TypedSource(RawBytes(), Json(EVENT), format_options(**options))


@pytest.mark.parametrize(
    ("flatten", "name", "field"),
    [
        (False, "value.created.at", EventTimeField("value", ("created", "at"))),
        (False, "value.day", EventTimeField("value", ("day",))),
        (False, "value.id", EventTimeField("value", ("id",))),
        (False, "value.a.b", EventTimeField("value", ("a.b",))),
        (False, "timestamp", EventTimeField("timestamp")),
        (True, "created.at", EventTimeField("value", ("created", "at"))),
        (True, "day", EventTimeField("value", ("day",))),
        (True, "a.b", EventTimeField("value", ("a.b",))),
        (True, "value.day", EventTimeField("value", ("day",))),
        (True, "kafka_timestamp", EventTimeField("timestamp")),
    ],
)
def test_F19_an_event_time_is_a_column_or_a_way_into_one(flatten, name, field):
    assert events(flatten=flatten).event_time_field(name) == field


@pytest.mark.parametrize(
    ("flatten", "name", "said"),
    [
        (False, "created.at", r"is not a column.*Did you mean value.created.at"),
        (False, "value.created", r"is struct<.*which is not a time.*milliseconds"),
        (False, "value.created.by", "is string, which is not a time"),
        (False, "value.nothing.like.it", "There are value.id, value.created.at, value.day, value.a.b, timestamp."),
        (False, "key.at", "is not a column of this source"),
        (False, "partition", "is a column of Kafka that is not a time"),
        (False, "offset", "is a column of Kafka that is not a time.*milliseconds"),
        (False, "ofset", "There are value.id, value.created.at, value.day, value.a.b, timestamp."),
        (True, "kafka_offset", "is a column of Kafka that is not a time"),
        (True, "kafka_ofset", "is not a column of this source. (?!.*kafka_offset)"),
        (True, "created.by", "is string"),
        (True, "timestamp", "is not a column of this source.*kafka_timestamp"),
    ],
)
def test_F19_what_is_no_event_time_is_refused_when_the_source_is_made(flatten, name, said):
    with pytest.raises(OptionError, match=said) as caught:
        events(flatten=flatten).event_time_field(name)
    assert caught.value.name == "eventTime.column"


def test_F19_an_event_time_that_nobody_picked_is_fetched_and_parsed_and_not_laid_out():
    source = events()
    at = source.event_time_field("value.created.at")
    alone = source.plan(pa.schema([("offset", pa.int64())]), at)
    assert (alone.layout.names, alone.fetched) == (["offset"], ["value", "offset"])
    assert alone.value.type == pa.struct([("created", pa.struct([("at", pa.timestamp("us", tz="UTC"))]))])
    by = pa.struct([("created", pa.struct([("by", pa.string())])), ("id", pa.int64())])
    beside = source.plan(pa.schema([("value", by)]), at)
    assert beside.layout.schema.field("value").type == by
    assert beside.value.type == pa.struct(
        [("created", pa.struct([("by", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])), ("id", pa.int64())]
    )
    assert source.plan(pa.schema([("value", EVENT)]), at).value.type == EVENT
    assert pickle.loads(pickle.dumps(beside)) == beside


def test_F19_a_flattened_event_time_that_nobody_picked_is_parsed_beside_the_others():
    source = events(flatten=True)
    plan = source.plan(pa.schema([("id", pa.int64())]), source.event_time_field("day"))
    assert plan.layout.names == ["id"]
    assert plan.value.type == pa.struct([("id", pa.int64()), ("day", pa.date32())])


def test_F19_by_the_records_own_time_nothing_more_is_parsed():
    plan = events().plan(pa.schema([("offset", pa.int64())]), RECORD_TIMESTAMP)
    assert (plan.fetched, plan.specs) == (["offset", "timestamp"], {})


@pytest.mark.parametrize("flatten", [False, True])
def test_watermark_columns_are_there_on_request(flatten):
    source = events(flatten=flatten)
    ours = list(WATERMARK_COLUMNS)
    assert not {*ours} & {*source.layout.names}
    assert replace(source, include_watermarks=True).layout.names[-2:] == ours
    wanted = pa.schema([("_partition_watermark", pa.timestamp("us", tz="UTC"))])
    plan = source.plan(wanted)
    assert (plan.layout.schema, plan.specs, plan.fetched) == (wanted, {}, ["partition"])
    assert source.select(ours, has_watermarks=True).layout.names == ours
    with pytest.raises(OptionError, match="_watermark"):
        source.select(ours)


def test_what_nobody_picked_is_neither_fetched_nor_parsed():
    plan = source().plan(pa.schema([("offset", pa.int64())]))
    assert (plan.fetched, plan.specs) == (["offset"], {})


def test_flattened_fields_are_parsed_only_if_picked():
    plan = source(flatten=True).plan(pa.schema([("tags", ORDER.field("tags").type), ("kafka_partition", pa.int32())]))
    assert plan.value.type == pa.struct([ORDER.field("tags")])
    assert plan.fetched == ["value", "partition"]


def test_headers_and_errors_can_be_picked_without_their_options():
    plan = source().plan(pa.schema([("headers", TYPES["headers"]), ("_error", pa.string())]))
    assert plan.fetched == ["value", "headers"], "to know what is wrong with a value, one must parse it"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (pa.schema([("valu", ORDER)]), "Did you mean value?"),
        (pa.schema([("value", pa.struct([("price", pa.int64())]))]), "value.price"),
        (pa.schema([("value", pa.struct([("idd", pa.int64())]))]), "Did you mean id?"),
        (pa.schema([("value", pa.struct([("id", pa.string())]))]), "is int64"),
        (pa.schema([("value", pa.struct([("to", pa.struct([("zip", pa.int64())]))]))]), "value.to.zip"),
        (pa.schema([("value", pa.binary())]), "Read it as that"),
    ],
    ids=["column", "field", "near", "type", "nested", "raw"],
)
def test_a_users_schema_cannot_rename_or_retype(wanted, says):
    with pytest.raises(OptionError, match=says):
        select_columns(source().layout, wanted)


@pytest.mark.parametrize("flatten", [False, True], ids=["struct", "flat"])
def test_a_column_that_is_named_twice_is_refused(flatten):
    twice = {
        "tags": [("id", pa.int64()), ("tags", TAGS), ("tags", TAGS)],
        "offset": [("offset", pa.int64()), ("offset", pa.int64())],
    }
    fields = twice["tags" if flatten else "offset"]
    with pytest.raises(OptionError, match="twice"):
        select_columns(source(flatten=flatten).layout, pa.schema(fields))
    with pytest.raises(OptionError, match="twice"):
        source(flatten=flatten).select([name for name, _ in fields])
    with pytest.raises(OptionError, match=r"value.tags.*twice"):
        select_columns(source().layout, pa.schema([("value", pa.struct(twice["tags"]))]))


def test_F3_a_users_own_class_always_runs_because_it_may_skip():
    own = TypedSource(RawBytes(), Custom("a.b:C", ORDER, ("value", "headers")), format_options())
    plan = own.plan(pa.schema([("topic", pa.string())]))
    assert plan.fetched == ["value", "topic", "partition", "offset", "headers"]


def test_a_letter_is_the_whole_record():
    plan = source(mode="DEADLETTER", dead_letter_topic="bad").plan(pa.schema([("value", ORDER)]))
    assert plan.fetched == list(TYPES)


@pytest.mark.parametrize("mode", ["DROPMALFORMED", "FAILFAST"])
def test_modes_that_judge_records_parse_them_whatever_is_picked(mode):
    plan = source(mode=mode).plan(pa.schema([("partition", pa.int32())]))
    assert plan.specs == {"value": Json(ORDER)}


def test_fields_inside_of_an_own_classs_lists_and_maps_can_be_left_out_and_reordered():
    both = pa.struct([("a", pa.int32()), ("b", pa.string())])
    array = pa.array([[{"a": 1, "b": "x"}], None, []], pa.list_(pa.field("element", both)))
    wanted = pa.list_(pa.field("element", pa.struct([("b", pa.string()), ("a", pa.int32())])))
    assert prune(array, wanted).to_pylist() == [[{"b": "x", "a": 1}], None, []]
    maps = pa.array([[("k", {"a": 1, "b": "x"})], None], pa.map_(pa.string(), both))
    assert prune(maps, pa.map_(pa.string(), pa.struct([("b", pa.string())]))).to_pylist() == [
        [("k", {"b": "x"})],
        None,
    ]


def test_plans_pickle():
    plan = source(flatten=True).plan()
    assert pickle.loads(pickle.dumps(plan)) == plan
