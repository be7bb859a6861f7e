"""`penstock.write_batches` and `penstock.Writer`, against a real broker."""

from __future__ import annotations

import uuid

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

import penstock
from fixtures.consumer import eventually
from penstock import TopicPartition

pytestmark = pytest.mark.broker

ROWS = [{"key": f"k{n}", "value": f"v{n}"} for n in range(100)]
TABLE = pa.Table.from_pylist(ROWS)
LARGE = pa.table({"key": ["big"], "value": ["x" * (2 << 20)]})


@pytest.fixture
def options(kafka):
    return kafka.client_options()


@pytest.fixture
def read(options):
    def read(name, *, committed=True, columns=("key", "value")):
        level = "read_committed" if committed else "read_uncommitted"
        found = penstock.read_batches(
            options | {"kafka.isolation.level": level}, subscribe=name, includeHeaders=True, columns=list(columns)
        )
        return found.read_all().to_pylist()

    return read


@pytest.fixture
def visible(read):
    """Waits for so many committed records: a coordinator answers a commit before it has marked all partitions."""

    def visible(name, count):
        return eventually(lambda: rows if len(rows := read(name)) >= count else None, f"{count} records")

    return visible


def write_and_fail(writer):
    writer.write(TABLE)
    raise ZeroDivisionError


def pairs(rows):
    return sorted((row["key"], row["value"]) for row in rows)


EXPECTED = sorted((f"k{n}".encode(), f"v{n}".encode()) for n in range(100))


@pytest.mark.parametrize(
    "data",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(max_chunksize=7),
        lambda: (TABLE.slice(at, 10) for at in range(0, 100, 10)),
        lambda: pd.DataFrame(ROWS, index=range(100, 200)),
        lambda: pd.DataFrame(ROWS).astype({"key": "category"}),
        lambda: pl.DataFrame(TABLE),
        lambda: pl.DataFrame(TABLE).with_columns(pl.col("key").cast(pl.Categorical)),
        lambda: pl.LazyFrame(ROWS),
    ],
    ids=["table", "batch", "reader", "generator", "pandas", "categories", "polars", "categorical", "lazy"],
)
def test_each_kind_of_data_is_written(options, topic, read, data):
    name = topic(partitions=3)
    result = penstock.write_batches(options, data(), topic=name)
    assert result.rows == 100
    assert pairs(read(name)) == EXPECTED


def test_duckdb_relations_are_written(options, topic, read):
    import duckdb

    name = topic(partitions=3)
    relation = duckdb.connect().sql("select 'k' || n as key, 'v' || n as value from range(100) as t(n)")
    assert penstock.write_batches(options, relation, topic=name).rows == 100
    assert pairs(read(name)) == EXPECTED


def test_every_column_is_written(options, topic, read):
    name = topic(partitions=4)
    noon = 1_738_324_800_000
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([b"a", None], pa.binary()),
            "value": pa.array([None, b""], pa.binary()),
            "partition": pa.array([3, 1], pa.int64()),  # as pandas has it
            "timestamp": pa.array([noon, noon + 1], pa.timestamp("ms", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], headers),
            "ignored": [1, 2],
        }
    )
    result = penstock.write_batches(options, table, topic=name)
    assert result.partitions == {
        TopicPartition(name, 1): penstock.PartitionResult(0, 0, 1, result.partitions[TopicPartition(name, 1)].bytes),
        TopicPartition(name, 3): penstock.PartitionResult(0, 0, 1, result.partitions[TopicPartition(name, 3)].bytes),
    }
    rows = read(name, columns=["partition", "key", "value", "timestamp", "headers"])
    first, second = sorted(rows, key=lambda row: row["partition"])
    assert (first["partition"], first["key"], first["value"], first["headers"]) == (1, None, b"", None)
    assert (second["partition"], second["key"], second["value"]) == (3, b"a", None)
    assert second["headers"] == [{"key": "h", "value": b"1"}]
    assert int(second["timestamp"].timestamp() * 1000) == noon


def test_the_result_names_offsets_per_partition(options, topic):
    name = topic(partitions=1)
    penstock.write_batches(options, TABLE, topic=name)
    result = penstock.write_batches(options, TABLE, topic=name)
    part = result.partitions[TopicPartition(name, 0)]
    assert (part.first_offset, part.last_offset, part.rows) == (100, 199, 100)
    assert (result.rows, result.bytes) == (100, part.bytes)
    assert repr(result) == (f"WriteResult(100 rows, {part.bytes:,} bytes; {name}-0: 100 rows at offsets 100 to 199)")


def test_topics_may_come_from_the_rows_or_from_the_call(options, topic, read):
    first, second = topic(), topic()
    table = TABLE.append_column("topic", pa.array([first, second] * 50))
    with penstock.Writer(options) as writer:
        writer.write(table, topic=second)
        writer.write(table)
        writer.write(TABLE, topic=second)
    assert len(read(first)) == 50
    assert len(read(second)) == 250
    assert writer.result.rows == 300


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (TABLE.rename_columns(["key", "valeu"]), "value"),
        (TABLE.append_column("partition", pa.array(["x"] * 100)), "partition"),
        (pa.table({"value": [1]}), "value"),
        (pa.table({"value": ["a"], "headers": ["h"]}), "headers"),
    ],
)
def test_W1_a_wrong_column_fails_by_name_before_the_first_record(options, topic, read, data, said):
    name = topic()
    with pytest.raises(penstock.ColumnError, match=f"column {said}|{said!r}"):
        penstock.write_batches(options, data, topic=name)
    assert read(name) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topik": "x"}, "Did you mean topic?"),
        ({"subscribe": "x"}, "set option topic"),
        ({"deliveryGuarantee": "exactly-once"}, "kafka.transactional.id and use Writer.transaction"),
        ({"queryId": "q", "batchId": 1}, "foreachBatch"),
        ({"kafka.transactional.id": "x", "kafka.acks": "1"}, "needs kafka.acks=all"),
    ],
)
def test_a_wrong_option_fails_before_the_first_record(options, topic, wrong, said):
    with pytest.raises(penstock.OptionError, match=said.replace("?", r"\?").replace(".", r"\.")):
        penstock.Writer({**options, "topic": topic(), **wrong})


def test_an_unknown_topic_fails_when_the_writer_is_made(options):
    with pytest.raises(penstock.UnknownTopic, match="no-such-topic"):
        penstock.Writer(options, topic="no-such-topic")


def test_data_that_is_not_arrow_is_refused_and_the_writer_continues(options, topic):
    with penstock.Writer(options, topic=topic()) as writer:
        with pytest.raises(TypeError, match="cannot write str"):
            writer.write("text")
        with pytest.raises(penstock.ColumnError):
            writer.write(pa.table({"a": [1]}))
        writer.write(TABLE)
    assert writer.result.rows == 100


def test_W8_a_record_that_is_too_large_is_named_by_its_row(options, topic):
    writer = penstock.Writer(options, topic=topic())
    writer.write(TABLE)
    with pytest.raises(penstock.UnwritableRecord) as refused:
        writer.write(LARGE)
    assert (refused.value.row, refused.value.key) == (100, b"big")
    for call in (writer.flush, lambda: writer.write(TABLE)):  # rows are missing, so it cannot continue
        with pytest.raises(penstock.UnwritableRecord):
            call()
    writer.close()


def test_flush_returns_what_the_brokers_have(options, topic, read):
    name = topic()
    with penstock.Writer({**options, "kafka.linger.ms": 60_000}, topic=name) as writer:
        for _ in range(3):
            writer.write(TABLE)
        assert writer.flush().rows == 300
        assert len(read(name)) == 300
        assert writer.metrics.requests < 3
        writer.write(TABLE)
    assert len(read(name)) == 400


def test_what_is_not_sent_is_discarded_if_the_block_raises(options, topic, read):
    name = topic()
    writer = penstock.Writer({**options, "kafka.linger.ms": 60_000}, topic=name)
    with pytest.raises(ZeroDivisionError), writer:
        write_and_fail(writer)
    assert read(name) == []
    with pytest.raises(RuntimeError, match="closed"):
        writer.write(TABLE)
    writer.close()


def test_an_empty_table_writes_nothing(options, topic):
    assert penstock.write_batches(options, TABLE.slice(0, 0), topic=topic()).rows == 0
    assert penstock.write_batches(options, [], topic=topic()).rows == 0
    with penstock.Writer(options, topic=topic()) as writer:
        assert writer.flush().rows == 0


def test_W10_prometheus_has_the_counters_of_a_writer_until_it_is_closed(options, topic):
    name, registry = topic(), CollectorRegistry()

    def value(metric, **labels):
        return registry.get_sample_value(metric, {"writer": name, **labels})

    with penstock.Writer(options, topic=name) as writer:
        writer.register_prometheus(registry)
        with pytest.raises(ValueError, match=r"already has a writer .*another name"):
            writer.register_prometheus(registry)
        writer.register_prometheus(registry, name="again")
        assert value("penstock_writer_records_out_total") == 0
        writer.write(TABLE)
        writer.flush()
        assert value("penstock_writer_records_out_total") == 100
        assert value("penstock_writer_bytes_out_total") == writer.metrics.bytes
        assert value("penstock_writer_last_offset", topic=name, partition="0") == 99
        assert registry.get_sample_value("penstock_writer_requests_total", {"writer": "again"}) >= 1
    assert value("penstock_writer_records_out_total") is None


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def transactional(options):
    return options | {"kafka.transactional.id": f"id-{uuid.uuid4().hex}"}


def test_a_transaction_is_visible_as_a_whole(transactional, topic, visible):
    name = topic(partitions=2)
    with penstock.Writer(transactional, topic=name) as writer:
        with writer.transaction() as transaction:
            writer.write(TABLE)
            transaction.write(TABLE)
            assert writer.result.rows == 0
        assert writer.result.rows == 200
        assert len(visible(name, 200)) == 200
        with writer.transaction():
            writer.write(TABLE)
        assert writer.result.rows == 300
    assert len(visible(name, 300)) == 300


def test_an_exception_aborts_the_transaction_and_the_writer_continues(transactional, topic, visible):
    name = topic(partitions=2)
    with penstock.Writer(transactional, topic=name) as writer:
        with writer.transaction():
            writer.write(TABLE.slice(0, 10))
        with pytest.raises(ZeroDivisionError), writer.transaction():
            write_and_fail(writer)
        with writer.transaction():
            writer.write(TABLE.slice(10, 10))
    assert writer.result.rows == 20
    assert pairs(visible(name, 20)) == sorted(EXPECTED_FIRST_20)


EXPECTED_FIRST_20 = [(f"k{n}".encode(), f"v{n}".encode()) for n in range(20)]


def test_a_refused_record_aborts_the_transaction(transactional, topic, visible):
    name = topic()
    with penstock.Writer(transactional, topic=name) as writer:
        with pytest.raises(penstock.UnwritableRecord), writer.transaction():
            writer.write([TABLE, LARGE])
        with writer.transaction():
            writer.write(TABLE)
    assert len(visible(name, 100)) == 100


def test_write_batches_with_a_transactional_id_is_all_or_nothing(transactional, topic, read, visible):
    name = topic()

    def parts(fails):
        for _ in range(5):
            yield TABLE
        if fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        penstock.write_batches(transactional, parts(True), topic=name)
    assert read(name) == []
    assert penstock.write_batches(transactional, parts(False), topic=name).rows == 500
    assert len(visible(name, 500)) == 500


def test_a_newer_writer_fences_an_older_one(transactional, topic, visible):
    name = topic()
    with penstock.Writer(transactional, topic=name) as old:
        transaction = old.transaction()
        old.write(TABLE)
        old._records.flush()  # so that there is something to abort
        with penstock.Writer(transactional, topic=name) as new, new.transaction():
            new.write(TABLE.slice(0, 10))
        with pytest.raises(penstock.TransactionLost), transaction:
            old.write(TABLE)
    assert len(visible(name, 10)) == 10


def test_transactions_are_used_correctly(options, transactional, topic):
    with penstock.Writer(options, topic=topic()) as writer, pytest.raises(penstock.OptionError, match="is missing"):
        writer.transaction()
    with penstock.Writer(transactional, topic=topic()) as writer:
        with pytest.raises(RuntimeError, match=r"inside of `with writer.transaction\(\):`"):
            writer.write(TABLE)
        with writer.transaction() as transaction:
            with pytest.raises(RuntimeError, match="only one at a time"):
                writer.transaction()
            with pytest.raises(TypeError, match="neither a ConsumerConnector"):
                transaction.commit_offsets(TABLE)
        with pytest.raises(RuntimeError, match="is over"):
            transaction.write(TABLE)
    with pytest.raises(RuntimeError, match="closed"):
        writer.transaction()
