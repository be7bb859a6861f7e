"""Event time in Spark, on the side of the tasks: watermark columns on request, late records counted (E5, F19)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from chaos.sink import logged_files
from fixtures.produce import Rec
from penstock.errors import OptionError
from penstock.spark import PenstockDataSource
from penstock.spark.listener import source_metrics
from penstock.spark.schema import arrow_of

START = 1_700_000_000_000
COUNT, STEP = 12, 4
"""Records of each of two partitions, and how many of them a batch reads."""

LATE = 5
"""The number of a record in the second partition that belongs to the beginning of the first batch."""

OURS = ["_watermark", "_partition_watermark"]
WISH = "_watermark TIMESTAMP, _partition_watermark TIMESTAMP"


def event_time(partition, number):
    return START if (partition, number) == (1, LATE) else START + 1000 * number + 100 * partition


def watermark(partition, number):
    """That of a partition when the batch of its record `number` was planned: a millisecond before the newest."""
    read = number // STEP * STEP
    return event_time(partition, read - 1) - 1 if read else None


def skewed(by_record):
    """Records whose time is their own, or only in the value."""
    for partition in range(2):
        for number in range(COUNT):
            time = event_time(partition, number)
            created = datetime.fromtimestamp(time / 1000, UTC).isoformat()
            value = json.dumps({"number": number, "created": created}).encode()
            yield Rec(value, timestamp=time if by_record else START, partition=partition)


@pytest.fixture
def table(spark, kafka, tmp_path):
    """`table(schema, **options)`: a stream to its end, STEP records of each partition at a time; its rows and query."""
    started = []

    def run(schema, **options):
        path = tmp_path / "table"
        given = kafka.client_options() | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 2 * STEP} | options
        reader = spark.readStream.format("penstock").options(**given)
        frame = (reader.schema(schema) if schema else reader).load()
        writer = frame.writeStream.format("parquet").option("path", str(path)).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        started.append(query)
        assert query.awaitTermination(180)
        return pa.concat_tables(pq.ParquetFile(file).read() for file in logged_files(path)), query

    yield run
    for query in started:
        query.stop()


TYPED = {"valueFormat": "json", "valueSchema": "number BIGINT, created TIMESTAMP"}
SHAPES = {
    "raw": (True, None, {"includeWatermarks": "true"}),
    "typed": (
        False,
        f"value STRUCT<number: BIGINT>, partition INT, {WISH}",
        TYPED | {"eventTime.column": "value.created"},
    ),
    "flattened": (
        False,
        f"number BIGINT, {WISH}, kafka_partition INT",
        TYPED | {"eventTime.column": "created", "flatten": "true"},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_E2_E5_F19_every_row_has_the_watermarks_of_its_batch_and_late_ones_are_counted(table, topic, produce, shape):
    by_record, schema, options = SHAPES[shape]
    name = topic(partitions=2)
    produce(name, skewed(by_record))
    rows, query = table(schema, subscribe=name, **options)
    if schema is None:
        assert rows.schema.names[-2:] == OURS
    else:
        assert rows.schema.names == [
            field.split()[0] for field in schema.replace("STRUCT<number: BIGINT>", "S").split(", ")
        ]
    match shape:
        case "raw":
            numbers, partitions = rows["offset"].to_pylist(), rows["partition"].to_pylist()
        case "typed":
            numbers = [value["number"] for value in rows["value"].to_pylist()]
            partitions = rows["partition"].to_pylist()
            assert rows.schema.field("value").type == pa.struct([("number", pa.int64())])
        case _:
            numbers, partitions = rows["number"].to_pylist(), rows["kafka_partition"].to_pylist()
    assert sorted(zip(partitions, numbers, strict=True)) == [(p, n) for p in range(2) for n in range(COUNT)]
    seen = [[time and round(time.timestamp() * 1000) for time in rows[column].to_pylist()] for column in OURS]
    for partition, number, combined, own in zip(partitions, numbers, *seen, strict=True):
        assert (combined, own) == (watermark(0, number), watermark(partition, number)), (partition, number)

    first, second, third = (source_metrics(each)[0] for each in query.recentProgress if each.numInputRows)
    assert (first.watermark, first.late_records) == (None, 0)
    assert (second.watermark, second.late_records) == (watermark(0, STEP), 0)
    assert (third.watermark, third.late_records) == (watermark(0, 2 * STEP), 1)
    assert [each.watermark for each in third.partitions] == [watermark(p, 2 * STEP) for p in range(2)]
    assert third.event_time_lag > 0
    assert (first.malformed_records is None) == (shape == "raw"), "nothing was parsed, so nothing is reported"


def test_a_batch_read_has_the_columns_and_nothing_in_them(spark, kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b"1")])
    options = kafka.client_options() | {"subscribe": name}
    frame = spark.read.format("penstock").options(**options).schema(f"{WISH}, value BINARY").load()
    assert [tuple(row) for row in frame.collect()] == [(None, None, b"1")]


# --- without Spark: the reader is called as Spark does, and its tasks run here ----------------------------------------


@pytest.fixture
def reading(spark, kafka):
    """`reading(schema, **options)`: a stream's reader; `spark` only reads the schema's text."""
    made = []

    def make(schema, **options):
        from pyspark.sql.types import StructType

        source = PenstockDataSource(kafka.client_options() | {"startingOffsets": "earliest"} | options)
        made.append(source.streamReader(StructType.fromDDL(schema)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def trigger(reader, state, attempts=1):
    """Plan a batch and run its tasks; where it has read up to, and what the last attempts have read."""
    end = reader.latestOffset(state, reader.getDefaultReadLimit())
    batches = []
    for partition in reader.partitions(state, end):
        for _ in range(attempts):
            read = list(reader.read(partition))
        batches += read
    return end, pa.Table.from_batches(batches)


def test_E5_F19_records_that_are_read_twice_are_late_once_and_the_columns_alone_switch_event_time_on(
    reading, topic, produce
):
    name = topic(partitions=2)
    produce(name, [Rec(b"x", timestamp=START + 10 * partition, partition=partition) for partition in range(2)])
    reader = reading("_watermark TIMESTAMP", subscribe=name)
    state, rows = trigger(reader, reader.initialOffset(), attempts=2)
    assert rows.to_pydict() == {"_watermark": [None, None]}
    produce(name, [Rec(b"x", timestamp=START + late, partition=1) for late in (-1, 0, -5)])
    state, rows = trigger(reader, state, attempts=2)
    assert rows["_watermark"].cast(pa.int64()).to_pylist() == [(START - 1) * 1000] * 3
    assert rows.schema == arrow_of_text("_watermark TIMESTAMP")
    reader.latestOffset(state, reader.getDefaultReadLimit())
    report = reader.reportLatestOffset()["#penstock"]
    assert (report["lateRecords"], report["watermark"]) == (2, START - 1)
    assert report["watermarks"] == {name: {"0": START - 1, "1": START + 9}}
    assert "malformedRecords" not in report


def test_E2_F19_a_stream_that_is_started_again_looks_up_to_which_time_of_the_payload_it_had_read(
    reading, topic, produce, caplog
):
    name = topic(partitions=3)
    late = [Rec(b'{"at": 5}', partition=1), Rec(b'{"at"', partition=1), Rec(None, partition=1)]
    produce(name, [Rec(b'{"at": 90}'), Rec(b'{"at": 70}'), Rec(b'{"at": 60}', partition=1), *late])
    options = {"valueFormat": "json", "valueSchema": "at BIGINT", "eventTime.column": "value.at", "mode": "FAILFAST"}
    reader = reading("offset LONG, _watermark TIMESTAMP", subscribe=name, **options)
    state = reader.initialOffset() | {name: {"0": 2, "1": 4, "2": 0}}
    produce(name, [Rec(b'{"at": 59}'), Rec(b'{"at": 60}', partition=1), Rec(b'{"at": 8}', partition=2)])
    end = reader.latestOffset(state, reader.getDefaultReadLimit())
    assert {each.value.partition: each.watermarks for each in reader.partitions(state, end)} == {
        0: (None, 89),
        1: (None, 59),
        2: (None, None),
    }
    for partition in reader.partitions(state, end):
        list(reader.read(partition))
    reader.latestOffset(end, reader.getDefaultReadLimit())
    report = reader.reportLatestOffset()["#penstock"]
    assert (report["watermark"], report["watermarks"]) == (7, {name: {"0": 89, "1": 59, "2": 7}})
    assert not [each for each in caplog.records if "event-time watermarks start again" in each.message]


def arrow_of_text(schema):
    from pyspark.sql.types import StructType

    return arrow_of(StructType.fromDDL(schema))


def test_F19_without_event_time_a_task_that_reads_bytes_reports_no_times(reading, topic, produce):
    name = topic()
    produce(name, [Rec(b"x")])
    reader = reading("value BINARY", subscribe=name)
    state = reader.initialOffset()
    end = reader.latestOffset(state, reader.getDefaultReadLimit())
    assert [each.reports.wants_figures for each in reader.partitions(state, end)] == [True], "what its worker does"
    assert not {"lateRecords", "watermark", "watermarks"} & reader.reportLatestOffset()["#penstock"].keys()
    reader = reading("value BINARY", subscribe=name, reportMetrics="false")
    state = reader.initialOffset()
    end = reader.latestOffset(state, reader.getDefaultReadLimit())
    assert [each.reports for each in reader.partitions(state, end)] == [None]


@pytest.mark.parametrize("column", ["value.number.x", "value.text", "value.creatd"])
def test_F19_a_column_that_is_not_a_time_fails_when_the_dataframe_is_created(spark, kafka, column):
    options = kafka.client_options() | {
        "subscribe": "any",
        "valueFormat": "json",
        "valueSchema": "number BIGINT, text STRING, created TIMESTAMP",
        "eventTime.column": column,
    }
    with pytest.raises(OptionError, match=r"eventTime\.column"):
        PenstockDataSource(options).schema()


def test_plain_python_has_the_columns_and_nothing_in_them(kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b'{"number": 1}')])
    raw = penstock.read_batches(kafka.client_options(), subscribe=name, columns=["offset", "_watermark"]).read_all()
    assert raw.to_pydict() == {"offset": [0], "_watermark": [None]}
    typed = penstock.read_batches(
        kafka.client_options(), subscribe=name, valueFormat="json", valueSchema="number BIGINT", includeWatermarks=True
    ).read_all()
    assert typed.schema.names[-2:] == OURS
    assert typed["_partition_watermark"].null_count == 1
