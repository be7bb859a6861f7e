"""The columns of a DataFrame: those of Spark's Kafka source, with the same names and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.config.source import SourceOptions
from penstock.errors import OptionError
from penstock.eventtime.field import RECORD_TIMESTAMP
from penstock.formats.plan import TypedPlan, TypedSource
from penstock.model.columns import TYPES as KAFKA_COLUMNS
from penstock.model.columns import checked_columns
from penstock.model.expression import Where
from penstock.model.types import ddl_of
from penstock.model.watermark_columns import WATERMARK_COLUMNS
from penstock.spark.api import arrow_schema

if TYPE_CHECKING:
    from penstock.formats.plan import EventTimeSource

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


WITH_WATERMARKS: dict[str, DataType] = TYPES | {name: TimestampType() for name in WATERMARK_COLUMNS}


def raw_schema(columns: Sequence[str] | None, include_headers: bool, include_watermarks: bool = False) -> StructType:
    """The columns of an untyped read. `columns`: the option of that name."""
    names = checked_columns(columns, include_headers, include_watermarks)
    return StructType([StructField(name, WITH_WATERMARKS[name]) for name in names])


def columns_of(schema: StructType) -> list[str]:
    """The columns of a user's schema. It may omit and reorder columns, but not rename or retype them."""
    for field in schema.fields:
        if field.name not in WITH_WATERMARKS:
            hint = f"The columns are {', '.join(WITH_WATERMARKS)}"
            raise OptionError("schema", field.name, "is not a column of Kafka", hint)
        wanted = WITH_WATERMARKS[field.name]
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


def typed_schema(source: TypedSource, columns: Sequence[str] | None = None) -> StructType:
    """The columns of a typed read. `columns`: the option of that name."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(source.select(columns, has_watermarks=True).layout.schema)


def wanted_columns(
    options: SourceOptions,
    schema: StructType,
    source: TypedSource | None,
    where: Where | None,
    *,
    is_stream: bool = False,
) -> list[str] | TypedPlan:
    """The columns to read for a schema. `source` and `where`: resolved when the DataFrame was created; None if the user
    gave the schema, then they are resolved now. `is_stream`: tasks of a stream look at event times."""
    if not options.builds_columns:
        names = columns_of(schema)
        if options.columns is not None:
            by_columns = ", ".join(checked_columns(options.columns, True, True))
            _check_agreement(options.columns, ", ".join(names), by_columns)
        return names
    wanted = arrow_of(schema)
    if source is None:
        from penstock.sampling.typed_source import (
            typed_source,  # loads all decoders: raw reads need none
        )

        source = typed_source(options, wanted)
        where = source.parse_where(options.where)
    plan = source.plan(wanted, event_time_field(options, source) if is_stream else None, where)
    if options.columns is not None:
        selected = source.select(options.columns, has_watermarks=True).layout
        _check_agreement(options.columns, ddl_of(pa.struct(plan.layout.schema)), ddl_of(pa.struct(selected.schema)))
    return plan


def _check_agreement(columns: Sequence[str], by_schema: str, by_columns: str) -> None:
    """Refuse a `.schema(...)` that selects something else than the option `columns`."""
    if by_schema != by_columns:
        what = f"selects {by_columns}, but .schema(...) selects {by_schema}"
        raise OptionError("columns", ", ".join(columns), what, "Leave one of the two out")


def event_time_field(options: SourceOptions, source: TypedSource) -> EventTimeSource | None:
    """Where records have their event time; None if the source has no event time."""
    if options.event_time is None:
        return None
    strategy, functions = options.event_time.strategy, options.event_time.functions
    if functions:
        named = {name for function in functions for name in function.columns}
        if strategy.timestamps is None:
            named.add("timestamp")
        return source.event_time_functions(strategy, tuple(name for name in KAFKA_COLUMNS if name in named))
    return source.event_time_field(strategy.timestamps) if isinstance(strategy.timestamps, str) else RECORD_TIMESTAMP


def arrow_of(schema: StructType) -> pa.Schema:
    _check_nullable(schema, "")
    try:
        return arrow_schema(schema)
    except Exception as error:  # PySpark's, for types that Arrow does not have
        raise OptionError("schema", schema.simpleString(), f"cannot be read: {error}") from error


def _check_nullable(kind: DataType, path: str) -> None:
    """Refuse NOT NULL: a record without the field would end the query."""
    match kind:
        case StructType():
            parts = [(f"{path}.{field.name}".lstrip("."), field.dataType, field.nullable) for field in kind.fields]
        case ArrayType():
            parts = [(f"{path}.element", kind.elementType, kind.containsNull)]
        case MapType():
            parts = [(f"{path}.key", kind.keyType, True), (f"{path}.value", kind.valueType, kind.valueContainsNull)]
        case _:
            parts = []
    for name, part, nullable in parts:
        if not nullable:
            raise OptionError("schema", f"{name} NOT NULL", "a record may lack any field", "Leave NOT NULL out")
        _check_nullable(part, name)
