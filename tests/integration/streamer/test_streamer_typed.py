"""The streamer with typed columns: every format, into every kind of sink."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import uuid

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from fixtures.consumer import QUICK, WAIT
from fixtures.lake import DELTA_FIRST
from fixtures.produce import Rec
from penstock import AdbcSink, MalformedRecord, ParquetSink, SinkError, Streamer, TopicPartition

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "item", "type": "string"}],
}
PROTO = 'syntax = "proto3";\nmessage Order { int32 id = 1; string item = 2; }\n'


class Lines:
    """A user's own format: `id;item`."""

    def schema(self):
        return "id INT, item STRING"

    def deserialize_record(self, record):
        number, item = record.value.decode().split(";")
        return {"id": int(number), "item": item}


def avro(number):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, AVRO, {"id": number, "item": f"i{number}"})
    return buffer.getvalue()


VALUES = {
    "json": lambda n: json.dumps({"id": n, "item": f"i{n}"}).encode(),
    "avro": avro,
    "protobuf": lambda n: bytes([8, n, 18, len(f"i{n}")]) + f"i{n}".encode(),
    f"{__name__}:Lines": lambda n: b"%d;i%d" % (n, n),
}


@pytest.fixture
def config(kafka, tmp_path):
    (tmp_path / "order.proto").write_text(PROTO)
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": f"g-{uuid.uuid4().hex[:8]}",
        "flatten": "true",
        "keyFormat": "string",
        **QUICK,
    }


def schema_of(format_, folder):
    schemas = {"json": "id INT, item STRING", "avro": json.dumps(AVRO), "protobuf": str(folder / "order.proto")}
    return {"valueFormat": format_} | ({"valueSchema": schemas[format_]} if format_ in schemas else {})


def to_the_end(topic, sink, config, **more):
    with Streamer(topic, 2, sink=sink, config=config, until_end=True, **more) as streamer:
        assert streamer.wait(WAIT)
        return streamer.metrics()


@DELTA_FIRST
@pytest.mark.parametrize("format_", VALUES, ids=lambda name: name.rpartition(":")[2])
def test_a_format_gives_the_columns_of_every_sink(topic, produce, config, lake, tmp_path, format_):
    name = topic(2)
    produce(name, [Rec(VALUES[format_](n), b"k%d" % n, partition=n % 2) for n in range(1, 41)])
    config |= schema_of(format_, tmp_path)
    columns = ["kafka_key", "id", "item"]
    expected = [{"kafka_key": f"k{n}", "id": n, "item": f"i{n}"} for n in range(1, 41)]

    given, database = [], tmp_path / "orders.db"
    sinks = {
        "function": lambda table: given.append(table),
        "files": ParquetSink(tmp_path / "files"),
        "database": AdbcSink(f"sqlite:{database}", "orders", mode="create_append"),
        "table": lake.sink(),
    }
    for sink, target in sinks.items():
        own = config | {"group.id": f"{config['group.id']}-{sink}"}
        assert to_the_end(name, target, own, columns=columns).rows == 40
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT kafka_key, id, item FROM orders").fetchall()
    for found in (
        pa.concat_tables(given).to_pylist(),
        ds.dataset(tmp_path / "files").to_table().to_pylist(),
        [dict(zip(columns, row, strict=True)) for row in rows],
        lake.rows().select(columns).to_pylist(),
    ):
        assert sorted(found, key=lambda row: row["id"]) == expected
    assert lake.rows().schema.field("id").type == pa.int32()


def test_F9_malformed_records_follow_the_mode(topic, produce, config, lake, cluster, tmp_path):
    name, dead = topic(1), topic(1)
    produce(name, [Rec(VALUES["json"](1)), Rec(b"{"), Rec(VALUES["json"](3))])
    config |= schema_of("json", tmp_path)

    def ids(**more):
        given = []
        own = config | {"group.id": f"g-{uuid.uuid4().hex[:8]}", **more}
        to_the_end(name, lambda table: given.extend(table.column("id").to_pylist()), own)
        return given

    assert ids() == [1, None, 3]
    assert ids(mode="DROPMALFORMED") == [1, 3]
    assert ids(mode="DEADLETTER", deadLetterTopic=dead) == [1, 3]
    assert cluster.end([TopicPartition(dead, 0)]) == {TopicPartition(dead, 0): 1}
    with pytest.raises(MalformedRecord, match="offset 1"):
        ids(mode="FAILFAST")


def test_where_names_typed_columns_and_batches_reach_an_extractor(topic, produce, config, tmp_path):
    name = topic(1)
    produce(name, [Rec(VALUES["json"](n)) for n in range(20)])
    config |= schema_of("json", tmp_path)
    given = []
    more = {"where": "id >= 15", "columns": ["id"], "extracts": "batch"}

    def doubled(batch):
        assert batch.schema.names == ["id"]
        return pa.record_batch({"twice": pc.multiply(batch.column("id"), 2)})

    with Streamer(
        name, 1, doubled, lambda table: given.extend(table.to_pylist()), config=config, until_end=True, **more
    ) as streamer:
        assert streamer.wait(WAIT)
    assert given == [{"twice": 2 * n} for n in range(15, 20)]


def test_a_wrong_column_ends_the_streamer_with_its_name(topic, produce, config, tmp_path):
    name = topic(1)
    produce(name, [Rec(VALUES["json"](1))])
    config |= schema_of("json", tmp_path)
    with pytest.raises((SinkError, ValueError), match="itme"):
        to_the_end(name, print, config, columns=["itme"])
