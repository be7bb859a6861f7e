"""The format `penstock` in SQL: temporary views, catalog tables, and what Spark does not pass on."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from fixtures.produce import Rec

pytestmark = [pytest.mark.spark, pytest.mark.broker]

SECRET = "zanzibar-4711"


@pytest.fixture
def sql(spark):
    """Runs statements. Tables and views that a test creates are dropped at its end."""
    before = {table.name for table in spark.catalog.listTables()}
    yield spark.sql
    for table in spark.catalog.listTables():
        if table.name not in before:
            spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} IF EXISTS {table.name}")


@pytest.fixture
def clicks(topic, produce):
    """Three partitions of ten records."""
    name = topic(partitions=3)
    produce(name, [Rec(b"value %d" % i, b"key %d" % i, partition=i % 3) for i in range(30)])
    return name


@pytest.fixture
def clause(kafka):
    """`clause(subscribe="t")` is the list of an OPTIONS clause, `clause(" = ", ...)` that of WITH."""

    def make(between=" ", **options):
        given = kafka.client_options() | options
        return ", ".join(f"`{name}`{between}'{value}'" for name, value in given.items())

    return make


def failure(action) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def values(rows) -> list[bytes]:
    return sorted(row.value for row in rows)


@pytest.fixture
def stored(spark, kafka):
    """The values in a topic."""

    def read(name):
        reader = spark.read.format("penstock").options(**kafka.client_options(), subscribe=name)
        return values(reader.schema("value binary").load().collect())

    return read


def run(stream, folder):
    """Runs a stream to the current end, and returns its rows."""
    rows = []
    query = stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    return rows


def test_a_table_is_read_with_its_options(spark, sql, clicks, clause, tmp_path):
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(SUBSCRIBE=clicks, StartingOffsets='earliest')}) COMMENT 'c'")
    everything = sorted(b"value %d" % i for i in range(30))
    assert values(spark.table("t").collect()) == everything
    assert sql("SELECT count(*) AS n FROM t WHERE partition = :p", args={"p": 1}).first().n == 10
    assert sql("SELECT count(*) AS n FROM t WHERE partition = {p}", p=1).first().n == 10
    assert spark.table("t").pandas_api()["partition"].max() == 2
    assert values(run(spark.readStream.table("t"), tmp_path)) == everything
    assert spark.sql("SELECT value FROM STREAM(t)").isStreaming


def test_a_query_adds_options_to_those_of_its_table(spark, sql, clicks, clause):
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)})")
    ends = f'{{"{clicks}": {{"0": 1, "1": 1, "2": 0}}}}'
    assert sql(f"SELECT * FROM t WITH (endingOffsets = '{ends}')").count() == 2
    assert spark.read.option("endingOffsets", ends).table("t").count() == 2
    assert "Did you mean endingOffsets" in failure(lambda: sql("SELECT * FROM t WITH (endingofset = 'x')").collect())
    assert spark.table("t").count() == 30


def test_a_table_reads_only_the_columns_that_are_left(spark, sql, clicks, clause):
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)})")
    sql("ALTER TABLE t DROP COLUMNS (key, topic, offset, timestamp, timestampType)")
    assert spark.table("t").columns == ["value", "partition"]
    assert {row.partition for row in spark.table("t").collect()} == {0, 1, 2}


def test_a_table_of_typed_columns(spark, sql, topic, produce, clause, tmp_path):
    name = topic()
    produce(name, [Rec(b'{"user": "u%d", "n": %d}' % (i % 2, i)) for i in range(10)])
    typed = clause(subscribe=name, valueFormat="json", valueSchema="user STRING, n INT", flatten="true")
    sql(f"CREATE TABLE t USING penstock OPTIONS ({typed}, startingOffsets 'earliest')")
    assert sql("SELECT sum(n) AS n FROM t WHERE user = 'u1'").first().n == 25
    assert sum(row.n for row in run(spark.readStream.table("t"), tmp_path)) == 45


def test_a_table_of_the_catalog_api(spark, sql, clicks, kafka):
    spark.catalog.createTable("t", source="penstock", **kafka.client_options(), subscribe=clicks)
    assert spark.table("t").count() == 30
    assert "option subscrib: is unknown. Did you mean subscribe" in failure(
        lambda: spark.catalog.createTable("u", source="penstock", **kafka.client_options(), subscrib=clicks)
    )


def test_table_properties_are_no_options(spark, sql, clicks, clause):
    create = f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)})"
    sql(f"{create} TBLPROPERTIES ('owner team' = 'web', startingOffsets = 'nonsense')")
    assert spark.table("t").count() == 30


def test_a_location_is_refused(sql, clicks, clause, tmp_path):
    create = f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)}) LOCATION '{tmp_path}'"
    assert "A topic is not a path" in failure(lambda: sql(create))


def test_a_table_with_columns_needs_the_options_with_each_read(spark, sql, clicks, clause, kafka):
    sql(f"CREATE TABLE t (value BINARY, partition INT) USING penstock OPTIONS ({clause(subscribe=clicks)})")
    said = failure(lambda: spark.table("t").collect())
    assert "Spark passes no options of a table whose CREATE TABLE lists columns" in said
    assert sql(f"SELECT * FROM t WITH ({clause(' = ', subscribe=clicks)})").count() == 30
    assert spark.read.options(**kafka.client_options(), subscribe=clicks).table("t").columns == ["value", "partition"]


def test_a_secret_is_not_kept_in_a_table_but_may_be_given_with_a_read(spark, sql, clicks, clause):
    secret = {"kafka.ssl.key.password": SECRET}
    create = f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks, **secret)})"
    said = failure(lambda: sql(create))
    assert "kafka.ssl.key.password: is a secret" in said
    assert SECRET not in said
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)})")
    # Without TLS the option is only checked, which shows that it arrives beside those of the table.
    df = spark.read.options(**secret).table("t")
    assert "kafka.ssl.key.password" in failure(df.collect)


@pytest.mark.parametrize(
    "statement", ["EXPLAIN EXTENDED SELECT * FROM v", "DESCRIBE EXTENDED v", "EXPLAIN EXTENDED INSERT INTO v SELECT ''"]
)
def test_a_secret_of_a_view_is_not_shown(sql, clicks, clause, statement):
    secrets = {"kafka.ssl.key.password": SECRET, "kafka.sasl.jaas.config": f"x required password={SECRET};"}
    create = f"CREATE TEMPORARY VIEW v (value STRING) USING penstock OPTIONS ({clause(subscribe=clicks, **secrets)})"
    shown = [str(row) for row in sql(f"EXPLAIN EXTENDED {create}").collect()]
    assert "redacted" in "".join(shown)
    sql(create)
    shown += [str(row) for row in sql(statement).collect()]
    assert SECRET not in "".join(shown)


def test_spark_redacts_the_login_to_a_registry_if_it_is_told_to(spark, sql, clause):
    login = {"schemaRegistry.basic.auth.user.info": f"me:{SECRET}"}
    create = f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW v USING penstock OPTIONS ({clause(**login)})"
    assert SECRET in sql(create).first()[0]  # else docs/sql.md asks for a setting that is not needed
    spark.conf.set("spark.sql.redaction.options.regex", "(?i)url|user[.]info")
    try:
        assert SECRET not in sql(create).first()[0]
    finally:
        spark.conf.unset("spark.sql.redaction.options.regex")


def test_a_write_to_a_table_needs_its_options(spark, sql, topic, clause, kafka, stored):
    source, target = topic(), topic()
    sql(f"CREATE TABLE a USING penstock OPTIONS ({clause(subscribe=source, topic=source)})")
    sql(f"CREATE TABLE b USING penstock OPTIONS ({clause(subscribe=target, topic=target)})")
    sql(f"INSERT INTO a WITH ({clause(' = ', topic=source)}) (value) SELECT CAST('one' AS BINARY)")
    rows, options = spark.table("a"), kafka.client_options() | {"topic": target}
    for write in (
        lambda: sql("INSERT INTO b SELECT * FROM a"),
        lambda: sql("INSERT INTO b (value) SELECT value FROM a"),
        lambda: rows.writeTo("b").append(),
        lambda: rows.write.insertInto("b"),
        lambda: rows.write.format("penstock").mode("append").saveAsTable("b"),
    ):
        said = failure(write)
        assert "Spark passes no options of a table to writes" in said
    assert (stored(source), stored(target)) == ([b"one"], [])  # above all not into the topic of table a

    sql(f"INSERT INTO b WITH ({clause(' = ', topic=target)}) SELECT * FROM a")
    rows.writeTo("b").options(**options).append()
    rows.write.format("penstock").options(**options).mode("append").saveAsTable("b")
    assert stored(target) == [b"one"] * 3


def test_a_stream_into_a_table_needs_its_options(spark, sql, topic, clicks, clause, kafka, stored, tmp_path):
    target = topic()
    sql(f"CREATE TABLE a USING penstock OPTIONS ({clause(subscribe=clicks, startingOffsets='earliest')})")
    sql(f"CREATE TABLE b USING penstock OPTIONS ({clause(subscribe=target, topic=target)})")

    def write(name, **options):
        writer = spark.readStream.table("a").select("key", "value").writeStream.options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        assert writer.toTable("b").awaitTermination(240)

    assert "Spark passes no options of a table to writes" in failure(lambda: write("first"))
    write("second", **kafka.client_options(), topic=target)
    assert len(stored(target)) == 30


def test_what_replaces_rows_is_refused(spark, sql, topic, clause):
    name = topic()
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=name)})")
    assert "a topic cannot be overwritten" in failure(lambda: sql("INSERT OVERWRITE t SELECT * FROM t"))
    for statement in ("DELETE FROM t WHERE offset = 1", "TRUNCATE TABLE t", "UPDATE t SET value = NULL"):
        assert "not support" in failure(lambda statement=statement: sql(statement))


def test_a_view_is_read_and_written_with_its_options(spark, sql, topic, clause, stored):
    name = topic(partitions=2)
    options = clause(Subscribe=name, TOPIC=name, deliveryGuarantee="exactly-once", startingOffsets="earliest")
    sql(f"CREATE TEMPORARY VIEW v (key BINARY, value BINARY) USING penstock OPTIONS ({options})")
    sql("INSERT INTO v VALUES (X'01', X'61'), (NULL, X'62')")
    assert values(sql("SELECT * FROM v").collect()) == [b"a", b"b"]
    spark.createDataFrame([(None, b"c")], "key binary, value binary").write.insertInto("v")
    assert stored(name) == [b"a", b"b", b"c"]
    wrong = f"CREATE TEMPORARY VIEW w USING penstock OPTIONS ({options}, topics 'x')"
    assert "option topics: is unknown" in failure(lambda: sql(wrong))


def test_a_view_of_strings_is_written(sql, topic, clause, stored):
    name = topic()
    sql(f"CREATE TEMPORARY VIEW v (key STRING, value STRING) USING penstock OPTIONS ({clause(topic=name)})")
    sql("INSERT INTO v (value) SELECT concat('n', id) FROM range(3)")
    assert stored(name) == [b"n0", b"n1", b"n2"]
    unread = f"CREATE TEMPORARY VIEW w USING penstock OPTIONS ({clause(topic=name)})"
    assert "A read names its topics with option subscribe" in failure(lambda: sql(unread))


def test_a_view_of_some_columns_reads_only_those(spark, sql, clicks, clause):
    sql(f"CREATE TEMPORARY VIEW v (value BINARY) USING penstock OPTIONS ({clause(subscribe=clicks)})")
    assert spark.table("v").columns == ["value"]
    assert spark.table("v").count() == 30
    wrong = f"CREATE TEMPORARY VIEW w (value STRING) USING penstock OPTIONS ({clause(subscribe=clicks)})"
    sql(wrong)
    assert "column value is binary" in failure(lambda: spark.table("w").collect())


def test_a_view_is_a_batch_and_a_stream_can_be_a_view(spark, sql, clicks, clause, kafka, tmp_path):
    sql(f"CREATE TEMPORARY VIEW v USING penstock OPTIONS ({clause(subscribe=clicks)})")
    with pytest.raises(AnalysisException, match="is not a temp view of streaming logical plan"):
        spark.readStream.table("v")
    options = kafka.client_options() | {"subscribe": clicks, "startingOffsets": "earliest"}
    spark.readStream.format("penstock").options(**options).load().createOrReplaceTempView("s")
    assert len(run(sql("SELECT value FROM s WHERE partition < 2"), tmp_path)) == 20


def test_a_table_in_a_permanent_view(sql, clicks, clause):
    sql(f"CREATE TABLE t USING penstock OPTIONS ({clause(subscribe=clicks)})")
    sql("CREATE VIEW w AS SELECT CAST(value AS STRING) AS text FROM t WITH (startingOffsets = 'earliest')")
    try:
        assert sql("SELECT * FROM w WHERE text = 'value 7'").count() == 1
    finally:
        sql("DROP VIEW w")
