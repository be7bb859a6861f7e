"""The columns a read returns: those of Spark's Kafka source, name for name and type for type."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import OptionError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def full_schema(include_headers: bool) -> StructType:
    names = TYPES if include_headers else [name for name in TYPES if name != "headers"]
    return StructType([StructField(name, TYPES[name]) for name in names])


def columns_of(schema: StructType) -> list[str]:
    """The columns a user's schema names. It may leave out and reorder; it cannot rename or retype."""
    for field in schema.fields:
        if field.name not in TYPES:
            raise OptionError("schema", field.name, "is not a column of Kafka", f"The columns are {', '.join(TYPES)}")
        wanted = TYPES[field.name]
        if field.dataType.simpleString() != wanted.simpleString():
            raise OptionError(
                "schema",
                f"{field.name} {field.dataType.simpleString()}",
                f"column {field.name} is {wanted.simpleString()}",
                "Read it as that and cast it afterwards",
            )
        if not field.nullable or field.dataType != wanted:
            raise OptionError("schema", f"{field.name} NOT NULL", "Kafka's columns may be null", "Leave NOT NULL out")
    return list(schema.fieldNames())
