"""Penstock writes what Spark's own Kafka sink writes: the same rows, keys, headers and partitions."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest

from chaos.processes import clean_environment
from fixtures.jvm_source import QUERY_SECONDS, SETTINGS

# The first test of all may have to fetch PySpark 4.2.0, which is large.
pytestmark = [pytest.mark.jvm, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1500)]

ROWS = """
    SELECT
        CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE concat('key ', id % 37) END AS key,
        CASE id % 7 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE concat('value ', id) END AS value,
        IF(id % 11 = 0, CAST(id % 4 AS INT), NULL) AS partition,
        CASE id % 3
            WHEN 0 THEN array(named_struct('key', 'n', 'value', CAST(id AS STRING)))
            WHEN 1 THEN array(named_struct('key', 'a', 'value', 'x'), named_struct('key', 'a', 'value', NULL))
        END AS headers
    FROM range(0, 3000, 1, 3)
"""
HEADERS = "CAST(headers AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
KEYED = "key IS NOT NULL OR partition IS NOT NULL"
"""Rows whose partition is fixed. Where other rows go is up to each producer."""

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

request = json.load(sys.stdin)
builder = SparkSession.builder.master("local[2]").config("spark.jars", request["jars"])
for name, value in request["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for topic, (rows, columns) in request["writes"].items():
    frame = spark.sql(rows).selectExpr(*columns)
    frame.write.format("kafka").options(**request["options"]).option("topic", topic).save()
spark.stop()
"""


def write_with_jvm(environment, folder, kafka, writes) -> None:
    request = {
        "jars": ",".join(str(jar) for jar in environment.jars),
        "settings": SETTINGS | {"spark.local.dir": str(folder / "local")},
        "options": kafka.client_options(),
        "writes": writes,
    }
    command = [str(environment.python), "-c", PROGRAM]
    ran = subprocess.run(
        command,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=QUERY_SECONDS,
        cwd=folder,
        env=clean_environment(),
    )
    assert ran.returncode == 0, f"Spark's own sink did not run: {ran.stderr[-3000:]}"


def test_W1_and_W3_rows_are_those_of_sparks_own_sink(spark, kafka, topic, jvm_environment, tmp_path):
    theirs, ours, exact = (topic(partitions=4) for _ in range(3))
    columns = ["key", "value", "partition", HEADERS]
    write_with_jvm(jvm_environment, tmp_path, kafka, {theirs: (ROWS, columns)})
    frame = spark.sql(ROWS).selectExpr(*columns)
    for name, guarantee in ((ours, "at-least-once"), (exact, "exactly-once")):
        writer = frame.write.format("penstock").options(**kafka.client_options(), topic=name)
        writer.option("deliveryGuarantee", guarantee).mode("append").save()

    def content(name: str) -> tuple[Counter, dict[tuple, list[int]]]:
        reader = spark.read.format("penstock").options(**kafka.client_options(), subscribe=name, includeHeaders="true")
        rows = reader.option("kafka.isolation.level", "read_committed").load().collect()
        texts = [(row.key, row.value, None if row.headers is None else tuple(map(tuple, row.headers))) for row in rows]
        places: dict[tuple, list[int]] = {}
        for text, row in zip(texts, rows, strict=True):
            places.setdefault(text, []).append(row.partition)
        return Counter(texts), {text: sorted(found) for text, found in places.items() if text[0] is not None}

    expected = content(theirs)
    assert sum(expected[0].values()) == 3000
    assert content(ours) == expected
    assert content(exact) == expected
