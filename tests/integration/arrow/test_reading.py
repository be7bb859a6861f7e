"""`penstock.read_batches`: the engine without Spark, as a user writes it."""

from __future__ import annotations

import threading

import pytest

import penstock
from fixtures.produce import Rec


@pytest.fixture
def words(topic, produce):
    name = topic(partitions=2)
    produce(name, [Rec(b"value %d" % i, b"key %d" % i, [("n", b"%d" % i)], partition=i % 2) for i in range(100)])
    return name


def test_every_record_arrives_with_the_seven_columns(kafka, words):
    batches = list(penstock.read_batches(kafka.client_options(), subscribe=words))
    assert batches[0].schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert {v for b in batches for v in b.column("value").to_pylist()} == {b"value %d" % i for i in range(100)}


def test_columns_are_those_named_in_that_order(kafka, words):
    (first, *_) = penstock.read_batches(kafka.client_options(), columns=["offset", "key"], subscribe=words)
    assert first.schema.names == ["offset", "key"]


def test_options_may_be_keywords_with_values_of_their_own_type(kafka, words):
    batches = list(
        penstock.read_batches(kafka.client_options(), subscribe=words, includeHeaders=True, maxRecordsPerPartition=20)
    )
    assert "headers" in batches[0].schema.names
    assert max(batch.num_rows for batch in batches) <= 20
    assert sum(batch.num_rows for batch in batches) == 100


def test_times_may_be_relative(kafka, topic, produce):
    name = topic(**{"retention.ms": "-1"})
    produce(name, [Rec(b"old", timestamp=1), Rec(b"new")])

    def values(**options):
        table = penstock.read_batches(kafka.client_options(), subscribe=name, columns=["value"], **options).read_all()
        return table["value"].to_pylist()

    assert values(startingTimestamp="-1h") == [b"new"]
    assert values(endingTimestamp="-1h") == [b"old"]
    assert values(startingOffsetsByTimestamp={name: "-1h"}) == [b"new"]


def test_lists_and_dicts_are_taken_as_python_has_them(kafka, words):
    offsets = {words: {"0": 40, "1": 45}}
    table = penstock.read_batches(kafka.client_options(), subscribe=[words], startingOffsets=offsets).read_all()
    assert table.num_rows == 15
    assigned = penstock.read_batches(kafka.client_options(), assign={words: [1]}).read_all()
    assert set(assigned.column("partition").to_pylist()) == {1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"startingOffset": "earliest"}, "startingOffsets"),
        ({"minPartitions": None}, "option minPartitions: must be text, .*, not None: leave it out"),
        ({"startingOffsets": [1, 2]}, "not a list of other things"),
        ({"columns": ["vallue"]}, "Did you mean value?"),
        ({"columns": ["everything"]}, "The columns are key, value"),
        ({"columns": []}, "at least one column"),
        ({"columns": " , "}, "names no column"),
        ({"columns": "key, vallue"}, "Did you mean value?"),
        ({"options": {"columns": "key"}, "columns": ["value"]}, r"contradicts the argument columns = \['value'\]"),
        ({"columns": ["key", "key"]}, "twice"),
    ],
)
def test_what_is_wrong_fails_at_the_call(kafka, words, wrong, said):
    options = kafka.client_options() | wrong.pop("options", {})
    with pytest.raises(penstock.OptionError, match=said.replace("?", r"\?")):
        penstock.read_batches(options, subscribe=words, **wrong)


def test_columns_are_selected_by_a_list_a_text_or_the_option(kafka, words):
    def names(columns, option=""):
        options = kafka.client_options() | ({"columns": option} if option else {})
        return penstock.read_batches(options, subscribe=words, columns=columns).schema.names

    assert names(["offset", "key"]) == names("offset, key") == ["offset", "key"]
    assert names(None, option="offset,key") == names("offset, key", option="offset,key") == ["offset", "key"]
    json = {"valueFormat": "json", "valueSchema": "a INT, b STRUCT<c: INT, d: INT>"}
    plan = penstock.read_batches(kafka.client_options() | json, subscribe=words, columns="value.b.d")
    assert str(plan.schema.field("value").type) == "struct<b: struct<d: int32>>"


def test_an_unknown_topic_fails_at_the_call(kafka, words):
    with pytest.raises(penstock.UnknownTopic, match=words):
        penstock.read_batches(kafka.client_options(), subscribe=words + "x")


def test_F17_stopping_early_leaves_no_thread(kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b"x" * 1000)] * 50_000)
    batches = penstock.read_batches(kafka.client_options(), subscribe=name)
    assert next(batches).num_rows > 0
    assert any(name in thread.name for thread in threading.enumerate())
    del batches
    assert not any(name in thread.name for thread in threading.enumerate())


def test_an_empty_topic_is_an_empty_table_with_its_columns(kafka, topic):
    table = penstock.read_batches(kafka.client_options(), subscribe=topic(), columns=["offset", "value"]).read_all()
    assert (table.num_rows, table.column_names) == (0, ["offset", "value"])


def test_F28_a_predicate_filters_by_columns_that_are_not_read(kafka, topic, produce):
    name = topic(2)
    values = [b'{"n": %d, "user": {"id": %d}}' % (n, n % 5) for n in range(100)]
    produce(
        name, [Rec(value, b"k%d" % n, partition=n % 2, headers=[("h", b"%d" % n)]) for n, value in enumerate(values)]
    )

    def read(where, **options):
        table = penstock.read_batches(kafka.client_options(), subscribe=name, where=where, **options).read_all()
        return table.schema.names, sorted(table.column(0).to_pylist())

    assert read("key IN ('k1', 'k98')", columns="value") == (["value"], sorted([values[1], values[98]]))
    assert read("headers['h'] = '7'", columns="key") == (["key"], [b"k7"])
    assert len(read("partition = 1 AND offset >= 10")[0]) == 7
    typed = {"valueFormat": "json", "valueSchema": "n INT, user STRUCT<id: BIGINT>"}
    assert read("value.user.id = 3 AND value.n > 90", columns="key", **typed) == (["key"], [b"k93", b"k98"])
    flat = typed | {"flatten": True}
    assert read("user.id = 3 AND n < 5", columns="kafka_offset", **flat) == (["kafka_offset"], [1])
    with pytest.raises(penstock.OptionError, match=r"where = 'value.m = 1': character 7: field m does not exist"):
        read("value.m = 1", **typed)
    with pytest.raises(penstock.PredicateFailed, match=rf"{name}-0, offset 0: where = '1 / value.n = 1'"):
        read("1 / value.n = 1", **typed)
