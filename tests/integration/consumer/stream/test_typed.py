"""Formats in plain Python: `read_batches`, and `Stream.batches` of a connector."""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pytest

import penstock
from fixtures.produce import Rec

SCHEMA = "n INT, text STRING"


@pytest.fixture
def numbers(topic, produce):
    name = topic()
    produce(name, [Rec(json.dumps({"n": n, "text": f"t{n}"}).encode()) for n in range(100)])
    produce(name, [Rec(b'{"n": 100'), Rec(b'{"n": 101, "text": "last"}')])
    return name


def formats(**more):
    return {"valueFormat": "json", "valueSchema": SCHEMA} | more


def rows(batches, count, column="value"):
    found = []
    for batch in batches:
        found += batch.column(column).to_pylist()
        if len(found) >= count:
            return found
    return found


def test_read_batches_gives_typed_columns(kafka, numbers):
    reader = penstock.read_batches(kafka.client_options() | formats(), subscribe=numbers)
    assert reader.schema.field("value").type == pa.struct([("n", pa.int32()), ("text", pa.string())])
    table = reader.read_all()
    assert table.column("value").to_pylist()[7] == {"n": 7, "text": "t7"}
    selected = penstock.read_batches(
        kafka.client_options() | formats(flatten=True), subscribe=numbers, columns=["text", "kafka_offset"]
    )
    assert selected.read_all().to_pylist()[101] == {"text": "last", "kafka_offset": 101}
    with pytest.raises(penstock.OptionError, match="Did you mean text"):
        penstock.read_batches(kafka.client_options() | formats(flatten=True), subscribe=numbers, columns=["texts"])


def test_a_stream_of_a_group_gives_typed_batches(consumers, numbers):
    connector = consumers.connector(**formats(mode="DROPMALFORMED"))
    stream = connector.create_message_streams({numbers: 1})[numbers][0]
    found = rows(stream.batches(["value"]), 101)
    assert [row["n"] for row in found] == [*range(100), 101]
    assert list(connector.position().values()) == [102], "what was left out counts as read"


def test_asyncio_gives_typed_batches_too(consumers, numbers):
    connector = consumers.connector(**formats())
    stream = connector.create_message_streams({numbers: 1})[numbers][0]

    async def read():
        found = 0
        async for batch in penstock.AsyncStream(stream).batches(["value"]):
            found += batch.column("value").field("n").null_count
            if batch.column("value")[-1].as_py()["n"] == 101:
                return found
        return found

    assert asyncio.run(asyncio.wait_for(read(), 60)) == 1


def test_a_malformed_record_in_failfast_raises_again_until_it_is_skipped(consumers, numbers):
    connector = consumers.connector(**formats(mode="FAILFAST"))
    stream = connector.create_message_streams({numbers: 1})[numbers][0]
    for _ in range(2):
        with pytest.raises(penstock.MalformedRecord) as caught:
            rows(stream.batches(), 103)
    assert caught.value.offset == 100
    connector.seek({penstock.TopicPartition(numbers, 0): 101})
    assert rows(stream.batches(), 1) == [{"n": 101, "text": "last"}]


def test_dead_letters_of_a_group_are_written_before_their_batch_is_handed_out(kafka, consumers, numbers, topic):
    letters = topic()
    connector = consumers.connector(**formats(mode="DEADLETTER", deadLetterTopic=letters))
    stream = connector.create_message_streams({numbers: 1})[numbers][0]
    assert len(rows(stream.batches(), 101)) == 101
    table = penstock.read_batches(kafka.client_options(), subscribe=letters, includeHeaders=True).read_all()
    assert table.column("value").to_pylist() == [b'{"n": 100']
    [headers] = [{h["key"]: h["value"] for h in each} for each in table.column("headers").to_pylist()]
    assert (headers["penstock.offset"], headers["penstock.group"]) == (b"100", consumers.group.encode())


class UpToTen:
    def schema(self):
        return "n INT"

    def deserialize_record(self, record):
        return json.loads(record.value)

    def is_end_of_stream(self, row):
        return row["n"] == 10


def test_F4_a_deserializer_ends_the_iteration_and_the_position_is_after_that_record(consumers, numbers):
    connector = consumers.connector(valueFormat=f"{__name__}:UpToTen")
    stream = connector.create_message_streams({numbers: 1})[numbers][0]
    assert [row["n"] for batch in stream.batches() for row in batch.column("value").to_pylist()] == list(range(10))
    assert connector.position() == {penstock.TopicPartition(numbers, 0): 11}
    assert rows(stream.batches(), 1)[0] == {"n": 11}, "another read gets the following records"


def test_formats_are_refused_where_they_have_no_effect(consumers, numbers):
    with pytest.raises(penstock.OptionError, match="Did you mean valueFormat"):
        consumers.connector(valueFormt="json")
    with pytest.raises(penstock.OptionError, match="extractor"):
        penstock.Streamer(
            numbers, 1, lambda message: None, print, config={"bootstrap.servers": "x:1", "group.id": "g"} | formats()
        )


def test_F4_partitions_that_may_end_are_read_whole(kafka, numbers, caplog):
    options = kafka.client_options() | {"valueFormat": f"{__name__}:UpToTen", "maxRecordsPerPartition": 5}
    rows = penstock.read_batches(options, subscribe=numbers).read_all().column("value").to_pylist()
    assert [row["n"] for row in rows] == list(range(10))
    assert "not split" in caplog.text


def test_dead_letters_about_dead_letters_are_refused(kafka, consumers, numbers, topic):
    mine = consumers.group
    kafka.create_topic(f"{mine}-dead", 1)
    settings = formats(mode="DEADLETTER", deadLetterTopic=f"{mine}-dead")
    with pytest.raises(penstock.OptionError, match="forever"):
        consumers.connector(**settings).create_message_streams_by_filter(f"{mine}-.*, other")
    with pytest.raises(penstock.OptionError, match="forever"):
        consumers.connector(**settings).create_message_streams_by_filter(penstock.DenyTopics("other"))
    with pytest.raises(penstock.OptionError, match="forever"):
        penstock.read_batches(kafka.client_options() | settings, subscribePattern=f"{mine}.*")


def test_each_read_of_the_same_records_writes_its_own_dead_letters(kafka, numbers, topic):
    letters = topic()
    options = kafka.client_options() | formats(mode="DEADLETTER", deadLetterTopic=letters)
    for schema in (SCHEMA, "n STRING, text INT"):
        penstock.read_batches(options | {"valueSchema": schema}, subscribe=numbers).read_all()
    found = penstock.read_batches(kafka.client_options(), subscribe=letters).read_all()
    assert found.num_rows == 1 + 102


def test_a_groups_metrics_count_malformed_records(consumers, numbers):
    connector = consumers.connector(**formats(mode="DROPMALFORMED"))
    stream = connector.create_message_streams({numbers: 1})[numbers][0]
    rows(stream.batches(["offset"]), 101, "offset")
    found = connector.metrics()
    assert (found.malformed_records, found.dropped_records, found.skipped_records) == (1, 1, 0)


def test_inference_sees_behind_the_framing(kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b"\0\0\0\0\7" + b'{"a": 1}')])
    options = kafka.client_options() | {"valueFormat": "json", "valueFraming": "confluent", "schemaInference": 10}
    assert penstock.read_batches(options, subscribe=name).read_all().column("value").to_pylist() == [{"a": 1}]
