"""A Spark batch read of typed columns into the noop sink: decoded by the source, a SQL function or a Python UDF.

    spark_typed.py FORMAT CORES [JAR...]        FORMAT: penstock, kafka

Needs only PySpark, because the JVM source runs in its own environment.
"""

from __future__ import annotations

import base64
import sys
import time
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as in PySpark's documentation)
from pyspark.sql.types import StructType
from serving import serve_requests
from spark_session import session


def run(spark: SparkSession, format_: str, request: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    frame = query(typed(spark, format_, request), request)
    load_seconds = time.perf_counter() - began
    if request["do"] == "sum":
        return {"sums": list(frame.selectExpr(*request["sums"]).collect()[0])}
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - began, "load_seconds": load_seconds}


def query(frame: DataFrame, request: dict[str, Any]) -> DataFrame:
    if request["filter"] is not None:
        frame = frame.filter(request["filter"])
    return frame.selectExpr(*request["select"]) if request["select"] else frame


def typed(spark: SparkSession, format_: str, request: dict[str, Any]) -> DataFrame:
    reader = spark.read.format(format_).options(**request["options"])
    if request["schema"] is not None:
        reader = reader.schema(request["schema"])
    frame = reader.load()
    match request["decoder"]:
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
    return frame.withColumn("value", value) if request["whole"] else frame.select(value.alias("value"))


def json_udf(type_: str, arrow: bool | None) -> Any:
    from user_code import parse_json

    return F.udf(parse_json, type_, useArrow=arrow)


def protobuf_udf(type_: str, descriptors: bytes, message: str) -> Any:
    # The rivals' environments do not have these.
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type
    from user_code import parse_protobuf

    struct = to_arrow_type(StructType.fromDDL(type_))

    def parse(values: pa.Array) -> pa.Array:
        return parse_protobuf(values, descriptors, message, struct)

    # Set as types: the annotations above are strings, which Spark does not resolve.
    parse.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return F.arrow_udf(parse, type_)


def main() -> None:
    format_, cores, *jars = sys.argv[1:]
    spark = session(int(cores), jars)
    try:
        serve_requests(lambda request: run(spark, format_, request))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
