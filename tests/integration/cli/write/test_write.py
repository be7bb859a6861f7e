"""`penstock write` against a real broker."""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from fixtures.produce import Rec

pytestmark = pytest.mark.broker

BASE = 1_738_324_800_000  # 2025-01-31T12:00Z


def pairs(rows):
    return sorted((row["key"], row["value"]) for row in rows)


def test_lines_of_standard_input_are_values(command, topic, read_topic):
    name = topic(partitions=2)
    lines = "".join(f'{{"user": "u{n}", "n":  {n}}}\n' for n in range(10))
    code, out, err = command("write", name, "--key", "user", stdin=lines)
    assert (code, err) == (0, "")
    assert out.startswith("10 records (")
    assert f"to {name} in " in out
    assert pairs(read_topic(name)) == sorted((b"u%d" % n, b'{"user": "u%d", "n":  %d}' % (n, n)) for n in range(10))


def test_what_read_prints_can_be_written(command, topic, produce, read_topic):
    first, second = topic(partitions=3), topic(partitions=3)
    records = [
        Rec(b"\xff\x00 %d" % n, b"key %d" % n, [("h", b"%d" % n)], timestamp=BASE + n, partition=n % 3)
        for n in range(20)
    ]
    produce(first, records)
    how = ("--key-format", "base64", "--value-format", "base64")
    code, lines, _ = command("read", first, "--headers", *how)
    assert code == 0
    code, _, err = command("write", second, "--keep-partitions", *how, stdin=lines)
    assert (code, err) == (0, "")
    columns = ("partition", "offset", "timestamp", "key", "value", "headers")
    assert read_topic(second, *columns) == read_topic(first, *columns)


def test_files_of_several_formats_in_one_call(command, topic, read_topic, tmp_path):
    name = topic()
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "b.json").write_text('{"n": 3}')
    code, out, err = command("write", name, str(tmp_path / "a.jsonl"), str(tmp_path / "b.json"))
    assert (code, err) == (0, "")
    assert out.startswith("3 records")
    assert [row["value"] for row in read_topic(name)] == [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}']


def test_rows_of_csv_and_parquet_are_written_as_json(command, topic, read_topic, tmp_path):
    name = topic()
    (tmp_path / "a.csv").write_text("id,name,zip\n1,ann,01234\n2,,99999\n")
    pq.write_table(pa.table({"id": [3], "name": ["bob"], "zip": ["55555"]}), tmp_path / "b.parquet")
    files = (str(tmp_path / "a.csv"), str(tmp_path / "b.parquet"))
    code, _, err = command("write", name, *files, "--key", "id", "--input-schema", "id BIGINT, zip STRING")
    assert (code, err) == (0, "")
    assert read_topic(name) == [
        {"key": b"1", "value": b'{"id":1,"name":"ann","zip":"01234"}'},
        {"key": b"2", "value": b'{"id":2,"name":"","zip":"99999"}'},
        {"key": b"3", "value": b'{"id":3,"name":"bob","zip":"55555"}'},
    ]


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_typed_values_are_read_back_typed(command, kafka, topic, tmp_path, form):
    name = topic()
    schema, file = tmp_path / "order.avsc", tmp_path / f"orders.{form}"
    schema.write_text(json.dumps(AVRO))
    if form == "jsonl":
        file.write_text('{"id": 1, "price": 1.5, "note": "x"}\n{"id": 2, "price": 2}\n')
    else:
        file.write_text("id,price,note\n1,1.5,x\n2,2,\n")
    code, _, err = command("write", name, str(file), "--format", "avro", "--schema", str(schema), "--key", "id")
    assert (code, err) == (0, "")
    found = penstock.read_batches(
        kafka.client_options(), subscribe=name, valueFormat="avro", valueSchema=str(schema), columns=["key", "value"]
    )
    missing = None if form == "jsonl" else ""
    assert found.read_all().to_pylist() == [
        {"key": b"1", "value": {"id": 1, "price": 1.5, "note": "x"}},
        {"key": b"2", "value": {"id": 2, "price": 2.0, "note": missing}},
    ]


def test_fields_may_appear_late_in_typed_lines(command, kafka, topic, tmp_path):
    name = topic()
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO))
    lines = '{"id": 1}\n' * 120_000 + '{"id": 2, "price": 3}\n' + '{"id": 3, "note": null}\n' * 120_000
    code, _, err = command("write", name, "--format", "avro", "--schema", str(schema), stdin=lines)
    assert (code, err) == (0, "")
    found = penstock.read_batches(
        kafka.client_options(), subscribe=name, valueFormat="avro", valueSchema=str(schema), columns=["value"]
    )
    values = [row["value"] for batch in found for row in batch.to_pylist()]
    assert len(values) == 240_001
    assert {"id": 2, "price": 3.0, "note": None} in values


def test_a_line_that_does_not_fit_the_schema_is_named(command, topic, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO))
    how = ("--format", "avro", "--schema", str(schema))
    code, _, err = command("write", topic(), *how, stdin='{"id": 1}\n{"id": 2, "color": "red"}\n')
    assert code == 1
    assert "standard input, line 2: has a field 'color', which the schema does not have" in err
    code, _, err = command("write", topic(), *how, "--input-schema", "id BIGINT", stdin='{"id": 1}\n{"id": "two"}\n')
    assert code == 1
    assert "standard input, line 2" in err


def test_rows_that_cannot_be_encoded_are_counted(command, topic, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO))
    how = ("--format", "avro", "--schema", str(schema), "-o", "mode=DROPMALFORMED")
    code, out, err = command("write", topic(), *how, stdin='{"id": 1}\n{"id": null}\n')
    assert code == 0
    assert out.startswith("1 record (")
    assert err == "1 row could not be encoded\n"


def test_verbose_shows_partitions(command, topic):
    name = topic(partitions=2)
    lines = "".join(json.dumps({"value": "x", "partition": n % 2}) + "\n" for n in range(10))
    code, out, _ = command("write", name, "--keep-partitions", "--verbose", stdin=lines)
    assert code == 0
    table = [line.split() for line in out.splitlines()[1:]]
    assert table == [
        ["PARTITION", "FIRST", "OFFSET", "LAST", "OFFSET", "RECORDS"],
        [f"{name}-0", "0", "4", "5"],
        [f"{name}-1", "0", "4", "5"],
    ]


def test_a_bad_line_is_named_and_what_comes_before_it_is_written(command, topic, read_topic, tmp_path):
    name = topic()
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n{"n":\n{"n": 4}\n')
    code, out, err = command("write", name, str(path))
    assert (code, out) == (1, "")
    assert f"penstock write: {path}, line 3: is not JSON" in err
    assert "2 records before it are written" in err
    assert [row["value"] for row in read_topic(name)] == [b'{"n": 1}', b'{"n": 2}']


def test_an_unknown_topic_is_created_on_request(command, kafka, read_topic):
    name = f"new-{uuid.uuid4().hex[:8]}"
    code, _, err = command("write", name, stdin="1\n")
    assert code == 1
    assert f"topic '{name}' does not exist: --create N creates it" in err
    code, out, err = command("write", name, "--create", "4", stdin="1\n")
    assert (code, err) == (0, "")
    assert out.startswith(f"created topic {name} with 4 partitions\n1 record (")
    code, out, _ = command("write", name, "--create", "8", stdin="2\n")
    assert code == 0
    assert "created" not in out
    assert sorted(row["value"] for row in read_topic(name)) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing.csv"], 2, "missing.csv': cannot be read: No such file"),
        (["--input-format", "parquet"], 2, "cannot be read from a pipe"),
        (["--key", "usr"], 2, "Did you mean user?"),
        (["--create", "0"], 2, "is not a number of partitions"),
        (["--delimiter", "ab"], 2, "is not one character"),
        (["--input-schema", "a BIGINTT"], 2, "--input-schema"),
        (["-o", "compression.type=zip"], 2, "compression.type"),
        (["-o", "subscribe=x"], 2, "set option topic"),
    ],
)
def test_wrong_usage_fails_before_anything_is_written(command, topic, read_topic, arguments, code, said):
    name = topic()
    found, _, err = command("write", name, *arguments, stdin='{"user": 1}\n')
    assert found == code, err
    assert said in err
    assert "Traceback" not in err
    assert read_topic(name) == []


def test_compression_and_other_options_are_those_of_the_sink(command, topic, read_topic):
    name = topic()
    code, _, err = command("write", name, "-o", "compression.type=lz4", stdin='{"n": 1}\n' * 1000)
    assert (code, err) == (0, "")
    assert len(read_topic(name)) == 1000


def test_a_record_that_is_too_large_fails_by_name(command, topic):
    code, _, err = command("write", topic(), stdin=json.dumps({"a": "x" * (3 << 20)}) + "\n")
    assert code == 1
    assert "row 0" in err
    assert "cannot be written" in err
