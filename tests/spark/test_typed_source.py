"""`valueFormat` and its kin, as a user writes them: typed columns in a batch and in a stream, over a real broker and a
real schema registry."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections import Counter
from decimal import Decimal

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import Schema
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)

from fixtures.produce import Rec
from fixtures.serializers import avro_messages, json_messages, message_class, protobuf_messages

ORDERS = "id BIGINT, price DECIMAL(8,2), tags ARRAY<STRING>, at TIMESTAMP, to STRUCT<city: STRING, zip: INT>"


def order(n):
    return {
        "id": n,
        "price": n + 0.25,
        "tags": [f"t{n}", None],
        "at": "2026-01-02T03:04:05Z",
        "to": {"city": "Ulm", "zip": n},
        "other": n,
    }


@pytest.fixture
def reader(spark, kafka):
    def make(topic, **options):
        chosen = spark.read.format("penstock").options(**kafka.client_options())
        return chosen.options(**({"subscribe": topic} | options))

    return make


@pytest.fixture
def orders(topic, produce):
    """Two partitions of orders, each with a value that is not a JSON document."""
    name = topic(partitions=2)
    good = [Rec(json.dumps(order(n)).encode(), b"k%d" % n, partition=n % 2) for n in range(20)]
    bad = [Rec(b'{"id": 1', partition=0), Rec(b'{"id": "x", "price": 2}', partition=1)]
    produce(name, good[:10] + bad + good[10:])
    return name


def failure(action) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def test_json_becomes_a_typed_value_beside_kafkas_columns(reader, orders):
    df = reader(orders, valueFormat="json", keyFormat="string", valueSchema=ORDERS).load()
    assert df.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,price:decimal(8,2),tags:array<string>,at:timestamp,to:struct<city:string,zip:int>>"
    )
    rows = df.where("value.to.zip is not null").orderBy("value.id").collect()
    assert len(rows) == 20
    third = rows[3]
    assert (third.key, third.partition) == ("k3", 1)
    assert third.value.asDict(recursive=True) == {
        "id": 3,
        "price": Decimal("3.25"),
        "tags": ["t3", None],
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "to": {"city": "Ulm", "zip": 3},
    }
    assert df.where("value.id is null and value.price is not null").count() == 1, "the part that could be read is kept"


def test_flatten_and_a_users_schema_pick_what_is_parsed(reader, orders):
    df = reader(orders, valueFormat="json", valueSchema=ORDERS, flatten="true").load()
    assert df.columns[:5] == ["id", "price", "tags", "at", "to"]
    assert set(df.columns[5:]) == {
        f"kafka_{name}" for name in ("key", "topic", "partition", "offset", "timestamp", "timestampType")
    }
    picked = (
        reader(orders, valueFormat="json", flatten="true").schema("to STRUCT<zip: INT>, kafka_offset BIGINT").load()
    )
    assert picked.where("to.zip = 7").select("to.zip", "kafka_offset").collect() == [(7, 3)]


def test_columns_select_what_a_schema_selects_without_its_types(reader, orders):
    options = {"valueFormat": "json", "valueSchema": ORDERS, "columns": "value.to.zip, offset, value.id"}
    df = reader(orders, **options).load()
    assert df.schema.simpleString() == "struct<value:struct<to:struct<zip:int>,id:bigint>,offset:bigint>"
    assert [row.value.id for row in df.where("value.to.zip = 7").collect()] == [7]
    flat = reader(orders, valueFormat="json", valueSchema=ORDERS, flatten="true", columns="to, kafka_offset").load()
    assert flat.where("to.zip = 7").select("kafka_offset").collect() == [(3,)]
    raw = reader(orders, columns="offset, headers").load()
    assert (raw.columns, raw.count()) == (["offset", "headers"], 22)

    schema = "value STRUCT<to: STRUCT<zip: INT>, id: BIGINT>, offset BIGINT"
    assert reader(orders, **options).schema(schema).load().count() == 22, "both agree"
    wrong = failure(reader(orders, **options).schema("offset BIGINT").load().collect)
    assert "selects value STRUCT<to: STRUCT<zip: INT>, id: BIGINT>, offset BIGINT, but .schema(...) selects" in wrong
    wrong = failure(reader(orders, columns="key").schema("offset BIGINT").load().collect)
    assert "option columns = 'key': selects key, but .schema(...) selects offset. Leave one of the two out" in wrong
    assert "Did you mean value.id?" in failure(reader(orders, **options | {"columns": "value.idd"}).load)


def test_filters_on_prefixed_columns_are_pushed_down(spark, reader, orders):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = reader(orders, valueFormat="json", valueSchema="id BIGINT", flatten="true").load()
        assert df.where("kafka_partition = 1 and kafka_offset < 3").count() == 3
        assert df.where("id < 3").count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


FILTERS = [
    "value.id = 3",
    "value.id <=> 3 and key = 'k3'",
    "value.id in (1, 2, 30)",
    "value.id >= 18 and value.id < 30",
    "value.to.zip is null",
    "value.id is not null and not value.id = 4",
    "startswith(value.to.city, 'Ul') and value.id > 15",
    "endswith(key, '7') or contains(key, '8')",
    "contains(value.to.city, '%')",
    "value.at >= timestamp'2026-01-02 03:04:05' and value.id < 2",
    "value.price = 3.25",
    "value.id not in (1, 2)",
]


@pytest.mark.parametrize("condition", FILTERS)
def test_F28_filters_on_typed_columns_give_the_same_rows_pushed_down(spark, reader, orders, condition):
    def rows(pushdown):
        df = reader(orders, valueFormat="json", keyFormat="string", valueSchema=ORDERS, filterPushdown=pushdown).load()
        found = df.where(condition).select("partition", "offset")
        return sorted(found.collect()), shipped(found)

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        (pushed, few), (plain, every) = rows("auto"), rows("false")
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert pushed == plain
    assert every == 22
    if condition not in (
        "value.price = 3.25",
        "endswith(key, '7') or contains(key, '8')",
    ):  # not translated; not passed on
        assert few < 22


def shipped(df) -> int:
    """Rows that the scan of an executed query has returned."""
    plan = df._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().apply(0)
    return plan.metrics().apply("numOutputRows").value()


def test_the_four_modes(reader, orders, topic, kafka):
    options = {"valueFormat": "json", "valueSchema": ORDERS}
    permissive = reader(orders, **options, includeErrors="true").load()
    bad = permissive.where("_error is not null").orderBy("partition").collect()
    assert [bytes(row._corrupt_record) for row in bad] == [b'{"id": 1', b'{"id": "x", "price": 2}']
    assert "id" in bad[1]._error
    assert reader(orders, **options, mode="DROPMALFORMED").load().count() == 20
    message = failure(reader(orders, **options, mode="FAILFAST").load().collect)
    assert f"{orders}-" in message
    assert "offset 5" in message
    letters = topic()
    df = reader(orders, **options, mode="DEADLETTER", deadLetterTopic=letters).load()
    assert df.count() == 20
    dead = reader(letters, includeHeaders="true").option("kafka.isolation.level", "read_committed").load()
    found = {bytes(row.value): {h.key: bytes(h.value) for h in row.headers} for row in dead.collect()}
    assert set(found) == {b'{"id": 1', b'{"id": "x", "price": 2}'}
    assert found[b'{"id": 1']["penstock.topic"] == orders.encode()
    assert found[b'{"id": 1']["penstock.offset"] == b"5"
    assert "no-such-topic" in failure(
        reader(orders, **options, mode="DEADLETTER", deadLetterTopic="no-such-topic").load
    )


def test_a_schema_can_be_found_by_looking_at_records(reader, orders):
    df = reader(orders, valueFormat="json", schemaInference="100").load()
    fields = df.schema["value"].dataType
    assert fields["price"].dataType.simpleString() == "double"
    assert fields["to"].dataType.simpleString() == "struct<city:string,zip:bigint>"
    assert df.where("value.other = 4").count() == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"valueFormat": "json"}, "schemaInference"),
        ({"valueFormat": "json", "valueSchema": "a INTT"}, "INTT"),
        ({"valueFormat": "avro", "valueSchema": '{"type": "recrd"}'}, "valueSchema"),
        ({"valueFormat": "protobuf", "valueSchema": "no.desc"}, "no.desc"),
        ({"valueFormat": "no.such.module:Name"}, "no module"),
    ],
    ids=["no-schema", "ddl", "avro", "file", "own"],
)
def test_a_wrong_option_fails_when_the_dataframe_is_created(reader, orders, options, says):
    assert says in failure(reader(orders, **options).load)


# --- the registry -----------------------------------------------------------------------------------------------------

FIRST = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
SECOND = FIRST | {"fields": [*FIRST["fields"], {"name": "name", "type": ["null", "string"], "default": None}]}
OTHER = FIRST | {"fields": [{"name": "id", "type": {"type": "array", "items": "string"}}]}


def test_avro_by_the_registry_old_and_new_versions_in_one_read(reader, topic, produce, registry):
    name = topic()
    messages = avro_messages(registry, name, json.dumps(FIRST), [{"id": 1}])
    messages += avro_messages(registry, name, json.dumps(SECOND), [{"id": 2, "name": "two"}])
    produce(name, [Rec(message) for message in [*messages, b"\0\0\0\xff\xff\x02", b"no frame"]])
    options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
    df = reader(name, **options, includeErrors="true").load()
    rows = df.orderBy("offset").collect()
    assert [row.value.asDict() for row in rows[:2]] == [{"id": 1, "name": None}, {"id": 2, "name": "two"}]
    assert "65535" in rows[2]._error
    assert "zero byte" in rows[3]._error
    old = reader(name, **options, valueSchemaVersion="1", mode="DROPMALFORMED").load()
    assert old.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    assert {row.value.id for row in old.collect()} == {1, 2}


def test_a_new_compatible_version_just_works_and_an_incompatible_one_names_both_ids(
    spark, kafka, topic, produce, registry, tmp_path
):
    name = topic()
    client = registry.client()
    produce(name, [Rec(each) for each in avro_messages(registry, name, json.dumps(FIRST), [{"id": 1}])])
    options = {"subscribe": name, "valueFormat": "avro", "schemaRegistry.url": registry.url, "flatten": "true"}
    options |= {"startingOffsets": "earliest"} | kafka.client_options()
    frame = spark.readStream.format("penstock").options(**options).load()
    query = frame.select("id").writeStream.format("memory").queryName("users").start()
    try:
        query.processAllAvailable()
        produce(
            name, [Rec(each) for each in avro_messages(registry, name, json.dumps(SECOND), [{"id": 2, "name": "x"}])]
        )
        query.processAllAvailable()
        assert {row.id for row in spark.table("users").collect()} == {1, 2}
        client.set_compatibility(subject_name=f"{name}-value", level="NONE")
        messages = avro_messages(registry, name, json.dumps(OTHER), [{"id": ["x"]}])
        written_with = int.from_bytes(messages[0][1:5])
        produce(name, [Rec(each) for each in messages])
        with pytest.raises(PySparkException) as caught:
            query.processAllAvailable()
        first = client.lookup_schema(f"{name}-value", Schema(json.dumps(FIRST), "AVRO")).schema_id
        assert f"schema {written_with}" in str(caught.value)
        assert f"schema {first}" in str(caught.value)
    finally:
        query.stop()


def test_protobuf_and_json_by_the_registry(reader, topic, produce, registry):
    from google.protobuf import descriptor_pb2

    place = descriptor_pb2.FileDescriptorProto(name="place.proto", package="shop", syntax="proto3")
    place.message_type.add(name="Place").field.add(name="city", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    file = descriptor_pb2.FileDescriptorProto(
        name="user.proto", package="shop", syntax="proto3", dependency=["place.proto"]
    )
    message = file.message_type.add(name="User")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(name="names", number=2, type="TYPE_STRING", label="LABEL_REPEATED")
    message.field.add(name="home", number=3, type="TYPE_MESSAGE", type_name=".shop.Place", label="LABEL_OPTIONAL")
    user = message_class("shop.User", place, file)
    name = topic()
    written = user(id=7, names=["a", "b"])
    written.home.city = "Ulm"
    produce(name, [Rec(each) for each in protobuf_messages(registry, name, [written])])
    options = {"schemaRegistry.url": registry.url, "flatten": "true"}
    [row] = reader(name, valueFormat="protobuf", **options).load().collect()
    assert (row.id, row.names, row.home.city) == (7, ["a", "b"], "Ulm")
    message = failure(reader(name, valueFormat="avro", **options).load)
    assert "PROTOBUF" in message

    schema = {
        "title": "Place",
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
    }
    places = topic()
    messages = json_messages(registry, places, json.dumps(schema), [{"city": "Ulm", "zip": 89073}])
    produce(places, [Rec(each) for each in messages])
    [row] = reader(places, valueFormat="json", **options).load().collect()
    assert (row.city, row.zip) == ("Ulm", 89073)


def test_schemas_from_files_need_no_registry(reader, topic, produce, tmp_path):
    user = "message User { int64 id = 1; string name = 2; }"
    (tmp_path / "user.proto").write_text(f'syntax = "proto3"; package shop; {user}')
    name = topic()
    produce(name, [Rec(b"\x08\x05\x12\x01x"), Rec(b"\x08")])
    df = reader(name, valueFormat="protobuf", valueSchema=str(tmp_path / "user.proto"), valueMessage="User").load()
    assert [row.value.asDict() for row in df.orderBy("offset").collect()] == [
        {"id": 5, "name": "x"},
        {"id": None, "name": None},
    ]
    (tmp_path / "user.avsc").write_text(json.dumps(SECOND))
    avro = topic()
    produce(avro, [Rec(b"\x06\x02\x02x"), Rec(b"\0\0\0\0\x09\x06\x00")])
    df = reader(avro, valueFormat="avro", valueSchema=str(tmp_path / "user.avsc")).load()
    assert df.orderBy("offset").first().value.asDict() == {"id": 3, "name": "x"}
    framed = reader(avro, valueFormat="avro", valueSchema=json.dumps(SECOND), valueFraming="confluent").load()
    assert framed.orderBy("offset").collect()[1].value.asDict() == {"id": 3, "name": None}


# --- streams and own classes ------------------------------------------------------------------------------------------

OWN = """
class Lines:
    columns = ("value", "offset")

    def schema(self):
        return "line STRING, at BIGINT"

    def deserialize_record(self, record):
        text = record.value.decode()
        if text == "fail":
            raise ValueError("no line")
        return None if text.startswith("#") else {"line": text, "at": record.offset}

    def is_end_of_stream(self, row):
        return row is not None and row["line"] == "the end"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """For modules that the driver can import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    return tmp_path


@pytest.fixture
def own(folder):
    (folder / "own_lines.py").write_text(OWN)
    return "own_lines:Lines"


def test_F3_F4_an_own_class_skips_and_ends_a_stream(spark, kafka, topic, produce, tmp_path, own):
    spark.sparkContext.addPyFile(str(tmp_path / "own_lines.py"))
    name = topic()
    produce(name, [Rec(line) for line in (b"one", b"# note", b"two", b"the end", b"three")])
    options = {"subscribe": name, "valueFormat": own, "startingOffsets": "earliest", "flatten": "true"}
    frame = spark.readStream.format("penstock").options(**options, **kafka.client_options()).load()
    query = frame.writeStream.format("memory").queryName("lines").trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert [(row.line, row.at) for row in spark.table("lines").orderBy("at").collect()] == [("one", 0), ("two", 2)]


PRICES = """
class Prices:
    def __init__(self, currency, trace):
        self.currency, self.trace = currency, trace

    def schema(self):
        return "price STRING"

    def note(self, text):
        with open(self.trace, "a") as file:
            file.write(text + "\\n")

    def open(self, options):
        self.note("open " + ",".join(sorted(options)))

    def deserialize_record(self, record):
        return {"price": record.value.decode() + " " + self.currency}

    def close(self):
        self.note("close")
"""


def test_F2_an_own_class_gets_its_arguments_and_is_opened_and_closed_in_each_task(
    spark, reader, topic, produce, folder
):
    (folder / "own_prices.py").write_text(PRICES)
    spark.sparkContext.addPyFile(str(folder / "own_prices.py"))
    name = topic(partitions=2)
    produce(name, [Rec(b"%d" % number, partition=number % 2) for number in range(4)])
    trace = folder / "trace"
    arguments = json.dumps({"currency": "EUR", "trace": str(trace)})
    options = {"valueFormat": "own_prices:Prices", "valueFormatArguments": arguments, "flatten": "true"}
    frame = reader(name, **options).load()
    assert sorted(row.price for row in frame.select("price").collect()) == [f"{number} EUR" for number in range(4)]
    assert sorted(trace.read_text().splitlines()) == ["close"] * 2 + ["open currency,trace"] * 2
    assert "EUR" not in frame._jdf.queryExecution().toString(), "arguments may be secrets"
    message = failure(reader(name, **options | {"valueFormatArguments": '{"curency": "EUR"}'}).load)
    assert "creating an instance of own_prices:Prices failed" in message
    assert "curency" in message


def test_an_error_of_an_own_class_names_the_record(spark, reader, topic, produce, tmp_path, own):
    spark.sparkContext.addPyFile(str(tmp_path / "own_lines.py"))
    name = topic()
    produce(name, [Rec(b"one"), Rec(b"fail")])
    message = failure(reader(name, valueFormat=own, mode="FAILFAST").load().collect)
    assert f"{name}-0" in message
    assert "offset 1" in message
    assert "no line" in message
    assert reader(name, valueFormat=own, mode="DROPMALFORMED").load().count() == 1


def test_counts_of_a_stream_are_in_its_progress_and_letters_come_once(spark, kafka, orders, topic):
    letters = topic()
    options = {"subscribe": orders, "valueFormat": "json", "valueSchema": ORDERS, "startingOffsets": "earliest"}
    options |= {"mode": "DEADLETTER", "deadLetterTopic": letters, "maxOffsetsPerTrigger": "12"} | kafka.client_options()
    frame = spark.readStream.format("penstock").options(**options).load()
    query = frame.writeStream.format("memory").queryName("counted").trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert spark.table("counted").count() == 20
    last = json.loads(query.lastProgress.sources[0].latestOffset)["#penstock"]
    assert last["deadLetters"] <= last["malformedRecords"] <= 2
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": letters, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([letters])
    seen: Counter[bytes] = Counter()
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen[message.value()] += 1
            if sum(seen.values()) >= 2 and message is None:
                break
    finally:
        consumer.close()
    assert seen == {b'{"id": 1': 1, b'{"id": "x", "price": 2}': 1}


def test_the_same_rows_as_from_json(spark, reader, orders):
    decoded = F.from_json(F.col("value").cast("string"), ORDERS)
    raw = reader(orders).load().select("partition", "offset", decoded.alias("value"))
    typed = reader(orders, valueFormat="json", valueSchema=ORDERS).load().select("partition", "offset", "value")
    assert typed.exceptAll(raw).count() == raw.exceptAll(typed).count() == 0
