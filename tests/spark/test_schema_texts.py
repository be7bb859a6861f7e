"""Schemas read from texts and inferred from documents, held against what Spark makes of the same."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.formats.inference import infer_json
from penstock.formats.schema import ddl_of, parse_schema

DDL = [
    "a BOOLEAN, b TINYINT, c BYTE, d SMALLINT, e SHORT, f INT, g INTEGER, h BIGINT, i LONG, j FLOAT, k REAL, l DOUBLE",
    "a DATE, b BINARY, c STRING, d TIMESTAMP, e TIMESTAMP_LTZ, f TIMESTAMP_NTZ, g TIMESTAMP WITHOUT TIME ZONE",
    "a timestamp with local time zone, b timestamp(6), c timestamp_ntz(6), d string collate utf8_binary",
    "a DECIMAL, b DEC(5), c NUMERIC(38, 38), d decimal ( 10 , 2 )",
    "a ARRAY<STRUCT<x: STRING, y INT COMMENT 'y'>> COMMENT 'c', b MAP<STRING, ARRAY<INT>>, c struct<d:struct<e:int>>",
    "struct<a:int,b:array<array<string>>>",
    "`a``-b` INT NOT NULL, struct INT, map INT, timestamp TIMESTAMP, select INT, `größe` INT, 1a INT",
    "a INT, -- one\n /* two */ b INT COMMENT 'it''s' 'more', c INT COMMENT \"x\"",
]

INVALID = ["a strng", "a int b int", "a int,", "a array", "a map<int>", "a-b int", "a decimal(39)", "a decimal(4,5)"]

DOCUMENTS: list[list[str]] = [
    ['{"b": 1, "a": true}', '{"c": [1, 2.5, null]}', '{"d": {"x": {}, "y": [{}], "z": ""}}'],
    ['{"a": 9223372036854775808}', '{"b": -9223372036854775809}', '{"b": 1}', '{"c": 1e400}', '{"d": 123e-2}'],
    [f'{{"a": {"9" * 38}, "b": {"9" * 39}, "c": {"9" * 25}}}', '{"a": 1, "b": 1, "c": 1.5}'],
    ['{"a": "2024-01-01T00:00:00Z", "b": "2024-01-01", "c": "1"}', '{"a": null, "b": "", "c": 1}'],
    ['{"a": []}', '{"a": [[], [1]]}', '{"b": [{"x": 1}, {"y": []}]}', '{"c": [1, "x"], "d": [true, 1]}'],
    ['{"a": {"x": 1}}', '{"a": 1}', '{"b": {"x": 1}}', '{"b": [1]}', '{"c": {}}', '{"c": {"x": null}}'],
    ['{"a": NaN, "b": -Infinity, "": 1}', '{"\uffee": 1, "😀": 1, "é": 1}', '{"a": 1} {"z": 2}', '{"y": 1} rubbish'],
    ["{", "", "nonsense", "1", "null", '"x"', '{"a": 1,}', '{"a": tru', '{"b": 01}', '{"c": 1}'],
]


def arrow(schema: StructType) -> pa.StructType:
    return pa.struct(list(to_arrow_schema(schema, timezone="UTC")))


def nullable(document: Any) -> Any:
    """A schema's JSON with every field nullable and without comments, as ours are."""
    if isinstance(document, dict):
        plain = {name: nullable(value) for name, value in document.items()}
        return plain | {"nullable": True, "metadata": {}} if "nullable" in plain else plain
    return [nullable(each) for each in document] if isinstance(document, list) else document


def test_ddl_says_what_it_says_in_spark(spark):
    for text in DDL:
        theirs = StructType.fromDDL(text)
        assert parse_schema(text).equals(arrow(StructType.fromJson(nullable(theirs.jsonValue())))), text
        assert parse_schema(theirs.json()).equals(parse_schema(text)), text
        assert arrow(StructType.fromDDL(ddl_of(parse_schema(text)))).equals(parse_schema(text)), text


def test_what_spark_does_not_parse_neither_do_we(spark):
    for text in INVALID:
        with pytest.raises(Exception, match=r"PARSE_SYNTAX|UNSUPPORTED|DATATYPE|INVALID|DECIMAL|INCOMPLETE"):
            StructType.fromDDL(text)
        with pytest.raises(ValueError, match="of the schema"):
            parse_schema(text)


def random_documents(chance: random.Random) -> list[str]:
    def value(depth: int) -> Any:
        kind = chance.randrange(9 if depth else 7)
        if kind == 7:
            return [value(depth - 1) for _ in range(chance.randrange(3))]
        if kind == 8:
            return {chance.choice("abc"): value(depth - 1) for _ in range(chance.randrange(3))}
        leaves = [None, True, 1, chance.randrange(10**25), 1.5, "", "x"]
        return leaves[kind]

    return [
        json.dumps({chance.choice("abcdef"): value(2) for _ in range(3)}) for _ in range(chance.randrange(1, 4))
    ] + ['{"z": 1}']


def test_json_is_inferred_as_spark_infers_it(spark):
    # All in one query: each list of documents is an array in an object of its own, and arrays are merged by the rules
    # that documents are. Roots, which have rules of their own, get a query each.
    chance = random.Random(7)
    lists = [random_documents(chance) for _ in range(300)]
    text = json.dumps({f"n{number:03}": [json.loads(each) for each in list_] for number, list_ in enumerate(lists)})
    theirs = arrow(spark.read.json(spark.createDataFrame([(text,)], "value string")).schema)
    assert infer_json([text.encode()]).equals(theirs)
    for number, list_ in enumerate(lists):
        ours = infer_json([each.encode() for each in list_])
        assert ours.equals(theirs.field(f"n{number:03}").type.value_type), list_


@pytest.mark.parametrize("number", range(len(DOCUMENTS)))
def test_roots_are_inferred_as_spark_infers_them(spark, number):
    documents = DOCUMENTS[number]
    values = spark.createDataFrame([(each,) for each in documents], "value string").coalesce(1)
    theirs = spark.read.option("mode", "DROPMALFORMED").json(values).schema
    assert infer_json([each.encode() for each in documents]).equals(arrow(theirs))
