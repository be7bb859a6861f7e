"""A Spark batch read of typed columns into the noop sink: decoded by the source, by a SQL function or by a Python one.

    spark_typed.py FORMAT CORES [JAR...]        FORMAT: penstock, kafka

Needs PySpark and nothing else, because the JVM source runs in an environment of its own.
"""

from __future__ import annotations

import base64
import sys
import time
from typing import Any

from answering import answer_orders
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)
from pyspark.sql.types import StructType
from spark_session import session


def run(spark: SparkSession, format_: str, order: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    frame = typed(spark, format_, order)
    load_seconds = time.perf_counter() - began
    if order["do"] == "sum":
        return {"sums": list(frame.selectExpr(*order["sums"]).collect()[0])}
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - began, "load_seconds": load_seconds}


def typed(spark: SparkSession, format_: str, order: dict[str, Any]) -> DataFrame:
    reader = spark.read.format(format_).options(**order["options"])
    if order["schema"] is not None:
        reader = reader.schema(order["schema"])
    frame = reader.load()
    match order["decoder"]:
        case None:
            return frame
        case {"sql": text}:
            value: Column = F.expr(text)
        case {"udf": "json", "type": type_, "arrow": arrow}:
            value = json_udf(type_, arrow)("value")
        case {"udf": "protobuf", "type": type_, "descriptors": descriptors, "message": message}:
            value = protobuf_udf(type_, base64.b64decode(descriptors), message)("value")
        case unknown:
            raise ValueError(unknown)
    return frame.withColumn("value", value) if order["whole"] else frame.select(value.alias("value"))


def json_udf(type_: str, arrow: bool | None) -> Any:
    from user_code import parse_json

    return F.udf(parse_json, type_, useArrow=arrow)


def protobuf_udf(type_: str, descriptors: bytes, message: str) -> Any:
    # Not there in the rivals' environments.
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type
    from user_code import parse_protobuf

    struct = to_arrow_type(StructType.fromDDL(type_))

    def parse(values: pa.Array) -> pa.Array:
        return parse_protobuf(values, descriptors, message, struct)

    # Said in so many words: as texts, which the annotations above are, Spark does not understand them.
    parse.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return F.arrow_udf(parse, type_)


def main() -> None:
    format_, cores, *jars = sys.argv[1:]
    spark = session(int(cores), jars)
    try:
        answer_orders(lambda order: run(spark, format_, order))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
