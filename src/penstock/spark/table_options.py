"""The options of a catalog table, kept in the metadata of its columns.

Spark passes the OPTIONS of `CREATE TABLE ... USING penstock` to `schema()`, and no options at all to the reads of the
table. But it keeps the columns that `schema()` returns, with their metadata, and passes them to each read.

Do not use this for writes: the columns of a write are those of its rows. `INSERT INTO b SELECT * FROM a` passes the
metadata of `a`, so the rows would go to the topic of the wrong table.
"""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

_KEY = "penstock.options"


def with_options(schema: StructType, options: dict[str, str]) -> StructType:
    """The columns of a new table. Each of them carries the options: ALTER TABLE can drop all but one."""
    return StructType(
        [StructField(field.name, field.dataType, field.nullable, {_KEY: options}) for field in schema.fields]
    )


def kept_options(schema: StructType) -> dict[str, str]:
    """The options of the table that has these columns; empty if no table has them."""
    return next((dict(field.metadata[_KEY]) for field in schema.fields if _KEY in field.metadata), {})
