"""The kernel's JSON against Spark's `from_json`: the same documents, the same schemas, the same columns.

Where the two differ, they do so on purpose: DIFFERENCES is the whole list, and the documentation shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock._kernel import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORRUPT = "_corrupt_record"

# JSON values, each for every type. Two spaces or a new line stand between them.
VALUES = r"""
null  true  false  0  1  -1  -0  127  128  255  256  -128  -129  32767  32768  -32768  -32769  2147483647  2147483648
-2147483648  -2147483649  9223372036854775807  9223372036854775808  -9223372036854775808  -9223372036854775809
18446744073709551615  18446744073709551616  123456789012345678901234567890  1.0  1.5  -0.0  0.0  1e3  1E3  1e+3  1e-3
1.10  1e400  -1e400  1e-400  0e5  0.000e5  3.4028235e38  3.5e38  1.7976931348623157e308  5e-324  0.30000000000000004
16777217  16777217.0  9007199254740993  9007199254740993.0  99999999.994  99999999.995  0.005  0.0049  -0.005  1.005
12345678901234567890.123456789012345678  99999999999999999999.999999999999999999  1e19  1e20  1e21  1234567.0  1e6  1e7
0.001  0.0001  0.00012345  9999999.5  1705314030  1705314030.5  1705314030123  9223372036854
""  " "  "abc"  "1"  "-1"  "1.5"  "1,234.5"  "1e3"  "+5"  "5."  ".5"  "."  "0x10"  "1 "  " 1"  "1f"  "true"  "null"
"NaN"  "nan"  "Infinity"  "-Infinity"  "+Infinity"  "INF"  "+INF"  "-INF"  "inf"
"aGVsbG8="  "aGVsbG8"  "aGVs bG8="  "aGVs\nbG8="  "aGV sbG8="  "===="  "abc="  "ab=="  "YW=="  "YQ==YQ=="
"-_-_"  "+/+/"
"2024-01-15"  "2024-1-5"  "2024-01"  "2024"  "24-01-15"  "2024-02-30"  "2024-02-29"  "2023-02-29"  "2024-13-01"
"2024-00-01"  "2024-01-00"  "2024-01-15T"  "2024-01-15 "  " 2024-01-15"  "\u001f2024-01-15"  "2024-01-15\u007f"
"2024-01-15T10"  "2024-01-15T10:20"  "2024-01-15T10:20:30"  "2024-01-15 10:20:30"  "2024-01-15T10:20:30.1"
"2024-01-15T10:20:30.123456"  "2024-01-15T10:20:30.123456789"  "2024-01-15T10:20:30Z"  "2024-01-15T10:20:30 Z"
"2024-01-15T10:20:30z"  "2024-01-15T10:20:30.5Z"  "2024-01-15T10:20:30.Z"  "2024-01-15T10:20:30."
"2024-01-15T10:20:30+01:00"  "2024-01-15T10:20:30+0100"  "2024-01-15T10:20:30+01"  "2024-01-15T10:20:30+1"
"2024-01-15T10:20:30+1:00"  "2024-01-15T10:20:30+01:3"  "2024-01-15T10:20:30-18:00"  "2024-01-15T10:20:30+18:01"
"2024-01-15T10:20:30+01:00:30"  "2024-01-15T10:20:30+010030"  "2024-01-15T10:20:30 UTC"  "2024-01-15T10:20:30UTC+1"
"2024-01-15T10:20:30 GMT+01:00"  "2024-01-15T10:20:30GMT+01:00GMT"  "2024-01-15T10:20:30UT-2"
"2024-07-15T10:20:30 Europe/Berlin"
"2024-07-15T10:20:30 europe/berlin"  "2024-07-15T10:20:30 PST"  "2024-07-15T10:20:30 EST"  "2024-07-15T10:20:30 CET"
"2024-07-15T10:20:30 Nowhere/Land"  "2024-01-15T10:20GMT+01:00"  "2024-01-15T10:20Z"  "2024-01-15T24:00:00"
"2024-01-15T23:60:00"  "2024-01-15T23:59:60"  "2024-01-15T23:59:59.9999999"  "2024-1-5 1:2:3"  "2024-01-15X10:20:30"
"2024-01-15t10:20:30"  "2024-01-15T10:20:30.1.2"  "2024/01/15"  "15-01-2024"  "20240115"  "2024-01-15T10:20:30[UTC]"
"+2024-01-15"  "-2024-01-15"  "0000-01-01"  "0001-01-01"  "1582-10-10"  "9999-12-31"  "10000-01-01"  "123456-01-01"
"294247-01-10T04:00:54.775807"  "294247-01-10T04:00:54.775808"  "300000-01-01"  "1234567-01-01"  "5881580-07-11"
"5881580-07-12"  "-290308-12-21"  "1800-06-01 12:00:00"  "2024-03-31T02:30:00"  "2024-10-27T02:30:00"
"2100-07-01T00:00:00"  "12345-07-01T00:00:00"  "-12345-07-01T00:00:00"  "2024-01-15T10:20:30é"  "12a"  "18262"  "-5"
"99999999"  "-141427"  "-141428"  "-719165"  "99999999999"  "GMT2024-01-15"  "2024-01-15GMT"
"now"  "epoch"  "２０２４-01-15"
[]  [1]  [1,null]  [1,"2"]  ["a",1,true,null,1.50,{"x":1.0},[2]]  [[1]]  [[],[1],[]]  [1.5]  [{}]  [{"a":"x"}]
[{"a":1},{"a":2,"b":"z"}]  [{"a":1},5]  [5,{"a":1}]
{}  {"a":1}  {"a":"1"}  {"a":1,"b":"x"}  {"b":{"k":[1, 2]}}  {"a":null}  {"a":1,"a":2}  {"a":1,"a":null}
{"a":1,"a":"x"}  {"x":{"a":1}}  {"a":1.0}  {"a":{}}  {"k\"q":1}  {"":1}  {"n":-0}  {"n":-0.0}  {"n":1e400}
{ "a" : 1 , "b" : [ 1 , 2.50 , "x\ty" , "\u00e9" , "\/" , "\u0001" , "\u007f" ] }
"é"  "\u00e9"  "\ud83d\ude00"  "😀"  "\ud83d"  "\ude00"  "\ud83dx"  "\ud83d\u0041"  "\ud83d\ud83d\ude00"  "\u0000"
"\b\f\n\r\t\"\\\/"  "\u2028"  "\uFFFF"  "\uFEFF"
{"😀":"😀","\ud83d\ude00":["\ud83d\ude00","\uDBFF\uDFFF"]}  {"\ud83dx":"\ude00","é":["\ud83d\u0041"]}
["\ud83d\ud83d\ude00"]
["\b\f\n\r\t\"\\\/\u0022\u005c\u000a\u0000\u001f\u007F\u0080\u2028\uFFFF"]
"""
SCALARS = (
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(10,2) DECIMAL(38,18) DECIMAL(38,0) DECIMAL(3,3) STRING"
)
TIMES = ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"]
NESTED = ["ARRAY<INT>", "ARRAY<STRING>", "ARRAY<ARRAY<INT>>", "ARRAY<STRUCT<a: INT, b: STRING>>", "MAP<STRING, INT>"]
NESTED += ["MAP<STRING, STRING>", "STRUCT<a: INT, b: STRING>", "STRUCT<a: STRUCT<a: INT>>"]
TYPES = [*SCALARS.split(), *TIMES, *NESTED]

DOCUMENTS = [
    *[
        "",
        " ",
        "\n\t\r ",
        "{}",
        " {} ",
        "[]",
        "[{}]",
        '[{"a":1}]',
        '[{"a":1},{"a":2}]',
        "[1,2]",
        "null",
        "true",
        "1",
        '"x"',
    ],
    *["x", "{", "}", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{,}", '{"a":1,,"b":"x"}', '{"a" 1}', "{a:1}"],
    *['{"a":1}{"a":2}', '{"a":1} {"a":2}', '{"a":1}\n{"a":2}', '{"a":1}x', '{"a":1}]', '{"a":1},', '{"a":1} // c'],
    *['{"a":1,"b":"x"}', '{"b":"x","a":1}', '{"z":{"a":9},"a":1}', '{"A":1}', '{"a ":1}', '{"\\u0061":1}'],
    *[
        '{"a":1,"\\u0061":2}',
        '{"a":1,"a":2}',
        '{"a":1,"a":null}',
        '{"a":1,"a":"x"}',
        '{"a":"x","a":1}',
        '{"a":"x","b":"y"}',
    ],
    *[
        '{"c":{"x":1,"y":"q"}}',
        '{"c":{"x":"bad","y":"q"},"a":1}',
        '{"c":null}',
        '{"c":{}}',
        '{"c":[]}',
        '{"c":1,"a":2}',
    ],
    *['{"c":{"x":1},"c":{"y":"q"}}', '{"c":{"x":1},"c":{"x":"bad"}}', '{"c":{"x":1},"c":5}', '{"d":{"x":1},"a":1}'],
    *['{"d":[{"x":1},{"x":"bad"},{"x":3}],"a":1}', '{"d":[{"x":1},5,{"x":3}],"a":1}', '{"d":[null,{}],"a":1}'],
    *['{"d":[[1]],"a":1,"b":"k"}', '{"d":["s",{"a":5}],"a":1}', '{"m":{"k":1,"l":2}}', '{"m":{"k":1,"k":2}}'],
    *['{"m":{"k":null}}', '{"m":{"k":"bad"},"b":"after"}', '{"m":{"k":"bad","a":7},"b":"after"}', '{"m":[],"a":1}'],
    *['{"n":[[1,2],[3]],"a":1}', '{"n":[[1,"x"],[3]],"a":1}', '{"n":[[1],2],"a":1}', '{"c":{"x":tru},"a":1}'],
    # Damage in a field that no schema has, and in one that has a type.
    *[
        f'{{"a":1,"z":{part}}}'
        for part in ("tru", "01", "+1", ".5", "1.", "1e", "-", "0x1", "1abc", "truex", '"x"y', "[1,]")
    ],
    *[
        f'{{"a":1,"z":{part}}}'
        for part in ('"\\x"', '"\\u12"', '"\\u12G4"', '"a\nb"', '"\x00"', "[1 2]", '{"q":1]', '"open')
    ],
    *[f'{{"a":{part},"b":"x"}}' for part in ("tru", "01", "+1", "1.", "1x", "", "/**/1")],
    *[f'{{"b":{part},"a":1}}' for part in ("tru", '"a\nb"', '"\\x"', '"\\u12G4"', "[1,]", '{"q":tru}')],
    *[b'\xef\xbb\xbf{"a":1}', b'{"b":"\xff"}', b'{"b":"caf\xc3"}', b'{"b":"\xf0\x9f\x98"}', b'{"b":"\xc0\x80"}'],
    *[
        b'{"b":"\xf8\x88\x80\x80\x80"}',
        b'{"b":"\xe2\x82","a":1}',
        b'{"b\xff":"x","a":1}',
        b'{"a":1,\xff"b":"x"}',
        b"\xff",
    ],
    *[
        b'{"a":1}\xff',
        b"\x00",
        b'{"a":1\x00}',
        b'\x00{"a":1}',
        b'{"a":\xc2\xa01}',
        b'\xc2\xa0{"a":1}',
        b'{\x0c"a":1}',
        b"\x1f",
    ],
    *['{"a":1,"z":' + "[" * depth + "]" * depth + "}" for depth in (999, 1000)],
    *['{"a":1,"z":' + '{"q":' * depth + "1" + "}" * depth + "}" for depth in (999, 1000)],
    *['{"b":' + "[" * 999 + "]" * 999 + ',"a":1}', "[" * 100_000, '{"a":1,"z":' + "[" * 100_000],
    *['{"a":1,"z":' + "9" * digits + "}" for digits in (1000, 1001)],
    *['{"a":1,"z":-' + "9" * 1000 + "}", '{"a":1,"z":0.' + "9" * 1000 + "}", '{"b":' + "9" * 1001 + ',"a":1}'],
    *['{"b":"' + "x" * 100_000 + '"}', '{"a":1,"' + "n" * 50_000 + '":1}'],
]
SCHEMAS = [
    "STRUCT<a: INT, b: STRING, c: STRUCT<x: INT, y: STRING>, d: ARRAY<STRUCT<x: INT>>, m: MAP<STRING, INT>, "
    "n: ARRAY<ARRAY<INT>>>",
    "STRUCT<a: INT>",
    "ARRAY<STRUCT<a: INT>>",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "MAP<STRING, STRING>",
]


@dataclass(frozen=True)
class Difference:
    """A document that Spark reads differently."""

    what: str
    document: bytes
    schema: str
    ours: object
    reason: str


STRICT = "the kernel reads JSON as its standard has it"
DIFFERENCES = [
    Difference("single quotes", b"{'a':1}", "STRUCT<a: INT>", {"a": None}, STRICT),
    Difference("a number that is none, without quotes", b'{"a":1,"b":NaN}', "STRUCT<a: INT>", {"a": None}, STRICT),
    Difference("an infinity without quotes", b'{"a":-Infinity}', "STRUCT<a: DOUBLE>", {"a": None}, STRICT),
    Difference(
        "half a surrogate pair in UTF-8",
        b'{"a":"\xed\xa0\x80"}',
        "STRUCT<a: STRING>",
        {"a": "\ufffd" * 3},
        "each byte that is no UTF-8 is replaced; Java replaces these three together",
    ),
    Difference(
        "base64 that stops short",
        b'{"a":"Y","b":1}',
        "STRUCT<a: BINARY, b: INT>",
        {"a": None, "b": 1},
        "it costs its field; Spark loses the record",
    ),
    Difference(
        "an object where nothing is wanted",
        b'{"a":{"x":1},"b":1}',
        "STRUCT<a: VOID, b: INT>",
        {"a": None, "b": 1},
        "it is skipped; Spark takes its end for the end of the document",
    ),
    Difference(
        "nesting beyond 1000 in a field that is wanted",
        b'{"a":' + b"[" * 1000 + b"]" * 1000 + b',"b":1}',
        "STRUCT<a: STRING, b: INT>",
        {"a": None, "b": None},
        "it costs the document wherever it is; Spark keeps what it read by then",
    ),
    Difference(
        "an end inside of a nested field",
        b'{"a":1,"b":{"x":1,"y":',
        "STRUCT<a: INT, b: STRUCT<x: INT, y: INT>>",
        {"a": None, "b": None},
        "a document is JSON as a whole or not at all; Spark keeps what it read by then",
    ),
    Difference(
        "damage inside of a nested field",
        b'{"a":1,"b":{"x":tru},"c":2}',
        "STRUCT<a: INT, b: STRUCT<x: INT>, c: INT>",
        {"a": None, "b": None, "c": None},
        "a document is JSON as a whole or not at all; Spark keeps what it read by then",
    ),
    Difference(
        "digits of another script",
        '{"a":"１２","b":1}'.encode(),
        "STRUCT<a: DECIMAL(4,0), b: INT>",
        {"a": None, "b": 1},
        "numbers are written with 0 to 9; Java takes the digits of all scripts",
    ),
    Difference(
        "a name of more than 50000 characters",
        b'{"' + b"n" * 50_001 + b'":1,"a":1}',
        "STRUCT<a: INT>",
        {"a": 1},
        "it is a name like others; Spark's parser refuses it",
    ),
]


def split_values() -> list[str]:
    return [value for line in VALUES.strip().splitlines() for value in line.split("  ")]


def documents_of(values: list[str]) -> list[bytes]:
    return [f'{{"v":{value},"w":1}}'.encode() for value in values]


def with_corrupt(schema: str) -> str:
    """Spark says which records are bad in a column of its own, in a struct."""
    return f"{schema[:-1]}, {CORRUPT}: STRING>" if schema.startswith("STRUCT") else schema


def plain(column: pa.Array) -> list[Any]:
    """Rows that can be compared: Python has no dates beyond the year 9999, and no equal NaN."""
    if pa.types.is_struct(column.type):
        fields = [column.type.field(at).name for at in range(column.type.num_fields)]
        columns = {name: plain(column.field(name)) for name in fields if name != CORRUPT}
        missing = column.is_null().to_pylist()
        return [None if missing[row] else {name: columns[name][row] for name in columns} for row in range(len(column))]
    if pa.types.is_timestamp(column.type):
        return plain(column.view(pa.int64()))
    if pa.types.is_date32(column.type):
        return plain(column.view(pa.int32()))
    rows: list[Any] = column.to_pylist()
    return rows


def without_corrupt(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([kind.field(at) for at in range(kind.num_fields) if kind.field(at).name != CORRUPT])


def from_json(spark: SparkSession, documents: list[bytes], schemas: list[str], zone: str = "UTC") -> list[pa.Array]:
    """One query for all schemas."""
    from pyspark.sql import functions

    rows = spark.createDataFrame(pa.table({"row": range(len(documents)), "value": pa.array(documents, pa.binary())}))
    columns = [
        functions.from_json(functions.col("value").cast("string"), with_corrupt(schema), {"timeZone": zone}).alias(
            str(at)
        )
        for at, schema in enumerate(schemas)
    ]
    found = rows.select("row", *columns).toArrow().sort_by("row")
    return [found.column(str(at)).combine_chunks() for at in range(len(schemas))]


def differing(documents: list[bytes], expected: pa.Array, zone: str = "UTC") -> list[str]:
    """The documents that the kernel and Spark read differently."""
    result = Format.json(pa.field("", without_corrupt(expected.type)), time_zone=zone).decode(
        pa.array(documents, pa.binary())
    )
    faults = dict(result.faults)
    corrupt: list[bool] | None = None
    if pa.types.is_struct(expected.type):
        corrupt = expected.field(CORRUPT).is_valid().to_pylist()
    ours, theirs = plain(pa.array(result)), plain(expected)
    found = []
    for row, document in enumerate(documents):
        bad = corrupt is not None and corrupt[row] != (row in faults)
        if repr(ours[row]) != repr(theirs[row]) or bad:
            found.append(f"{document[:80]!r}: {ours[row]!r:.200} ({faults.get(row)}), Spark {theirs[row]!r:.200}")
    return found


def test_every_value_of_every_type_is_as_spark_reads_it(spark: SparkSession) -> None:
    documents = documents_of(split_values())
    columns = from_json(spark, documents, [f"STRUCT<v: {kind}, w: INT>" for kind in TYPES])
    assert {
        kind: found for kind, column in zip(TYPES, columns, strict=True) if (found := differing(documents, column))
    } == {}


def test_binaries_are_as_spark_reads_them(spark: SparkSession) -> None:
    # Not all values: for one that stops short see the differences.
    documents = documents_of([value for value in split_values() if value[0] != '"' or "=" in value or "/" in value])
    [column] = from_json(spark, documents, ["STRUCT<v: BINARY, w: INT>"])
    assert differing(documents, column) == []


def test_times_without_zone_are_as_spark_reads_them(spark: SparkSession) -> None:
    documents = documents_of([value for value in split_values() if value.startswith('"')])
    for zone in ["Europe/Berlin", "-03:30"]:
        columns = from_json(spark, documents, [f"STRUCT<v: {kind}, w: INT>" for kind in TIMES], zone)
        assert [found for column in columns for found in differing(documents, column, zone)] == []


def test_every_document_is_as_spark_reads_it(spark: SparkSession) -> None:
    documents = [text if isinstance(text, bytes) else text.encode() for text in DOCUMENTS]
    columns = from_json(spark, documents, SCHEMAS)
    found = {schema: differing(documents, column) for schema, column in zip(SCHEMAS, columns, strict=True)}
    assert {schema: rows for schema, rows in found.items() if rows} == {}


def test_differences_are_those_that_are_listed(spark: SparkSession) -> None:
    for difference in DIFFERENCES:
        [theirs] = from_json(spark, [difference.document], [difference.schema])
        assert differing([difference.document], theirs), difference.what
        wanted = pa.field("", without_corrupt(theirs.type))
        ours = pa.array(Format.json(wanted).decode(pa.array([difference.document], pa.binary())))
        assert ours.to_pylist() == [difference.ours], difference.what


@pytest.mark.parametrize("schema", [pa.struct([pa.field("a", pa.int32())]), pa.map_(pa.string(), pa.string())], ids=str)
def test_python_agrees_on_what_is_json(schema: pa.DataType) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    decoder = json.JSONDecoder(parse_constant=refuse)
    documents = [text if isinstance(text, bytes) else text.encode() for text in DOCUMENTS]
    # Depth and digits are limited here, as in Spark, and in Python in other ways.
    documents = [document for document in documents if b"[" * 900 not in document and b"9" * 900 not in document]
    documents = [document for document in documents if b'{"q":' * 900 not in document]
    faults = dict(Format.json(pa.field("", schema)).decode(pa.array(documents, pa.binary())).faults)
    for row, document in enumerate(documents):
        text = document.decode(errors="replace").lstrip(" \t\r\n")
        try:
            decoder.raw_decode(text)
            is_json = True
        except ValueError:
            is_json = not text  # a blank text is neither a document nor an error
        assert is_json == (not faults.get(row, "").startswith("is not JSON")), document
