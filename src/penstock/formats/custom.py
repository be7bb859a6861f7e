"""Loads a user's own deserializer by its import path, `package.module:Name`.

    class Orders:
        def schema(self):                       # DDL, a pyarrow.Schema or struct type, or PySpark's StructType
            return "id BIGINT, price DECIMAL(10, 2)"

        def deserialize_record(self, record):   # a dict; None skips the record
            return parse(record.value)

or, much faster, on whole Arrow batches: `deserialize(batch)` gets the columns that `columns` names (by default only
value, or key for keyFormat), and returns a batch with the schema's columns. Either class may have
`is_end_of_stream(...)`, which gets what the other method returned. `open(options)` and `close()` are called before
the first and after the last record of a task, or of a partition in the consumer.

Every error of a path or a class is a ValueError that says how to fix it.
"""

from __future__ import annotations

import difflib
import inspect
import json
from typing import Any

import pyarrow as pa

from penstock.config.import_path import imported
from penstock.formats.deserializers import BatchWise, CustomDecoded, CustomFormat, RecordWise
from penstock.formats.schema import parse_schema
from penstock.model.columns import TYPES
from penstock.model.types import spark_type

__all__ = ["CustomDecoded", "CustomFormat", "load_deserializer"]

PLACE = ("topic", "partition", "offset")
"""Columns that a record always has, because errors name its place."""


def load_deserializer(path: str, column: str, arguments: str | None = None) -> CustomFormat:
    """Load a new instance of the class at `path`, for `column` (key or value). `arguments`: a JSON object."""
    options = None if arguments is None else json.loads(arguments)
    own = _instance(path, imported(path), options)
    type_ = _type_of(path, own)
    if callable(getattr(own, "deserialize", None)):
        return BatchWise(path, own, type_, _columns(path, own) or (column,), options)
    if callable(getattr(own, "deserialize_record", None)):
        named = _columns(path, own)
        # A record reads its attributes lazily, so all of them cost little.
        columns = [name for name in TYPES if not named or name in named or name in PLACE]
        return RecordWise(path, own, type_, columns, options)
    raise ValueError(f"{path} has neither deserialize(batch) nor deserialize_record(record): it needs one of them")


def _instance(path: str, found: Any, options: dict[str, Any] | None) -> Any:
    if inspect.isfunction(found) or inspect.ismodule(found):
        raise ValueError(f"{path} is a {type(found).__name__}: it must be a class with schema() and deserialize(batch)")
    if not isinstance(found, type):
        if options and not callable(getattr(found, "open", None)):
            raise ValueError(f"{path} is an object, and has no open(options): so it gets no arguments. Name its class")
        return found
    given = dict(options or {})
    if given and callable(getattr(found, "open", None)) and not _takes_arguments(found):
        given = {}  # they are for `open` alone
    try:
        return found(**given)
    except Exception as error:
        reason = f"creating an instance of {path} failed: {type(error).__name__}: {error}"
        names = ", ".join(given)
        how = f"with the arguments {names}, which an option has given" if given else "without arguments"
        raise ValueError(f"{reason}. It is created {how}") from error


def _takes_arguments(found: type) -> bool:
    """Whether the constructor of a class has parameters."""
    try:
        return bool(inspect.signature(found).parameters)
    except (TypeError, ValueError):  # a class in C without a signature
        return True


def _type_of(path: str, own: Any) -> pa.StructType:
    if not callable(getattr(own, "schema", None)):
        raise ValueError(f'{path} has no schema(): it must return the columns, as in "id BIGINT, name STRING"')
    try:
        schema = own.schema()
    except Exception as error:
        raise ValueError(f"schema() of {path} failed: {type(error).__name__}: {error}") from error
    try:
        return spark_type(_struct(schema))
    except ValueError as error:
        raise ValueError(f"schema() of {path}: {error}") from error


def _struct(schema: Any) -> pa.StructType:
    if isinstance(schema, str):
        return parse_schema(schema)
    if isinstance(schema, pa.Schema):
        return pa.struct(list(schema))
    if isinstance(schema, pa.StructType):
        return schema
    if callable(getattr(schema, "json", None)):
        return parse_schema(str(schema.json()))
    wanted = "a DDL string, a pyarrow.Schema, a pyarrow struct type or PySpark's StructType"
    raise ValueError(f"expected {wanted}, found {type(schema).__name__}")


def _columns(path: str, own: Any) -> tuple[str, ...]:
    """The columns that the class names; () if it names none."""
    named = getattr(own, "columns", ())
    if isinstance(named, str) or not all(isinstance(name, str) for name in named):
        raise ValueError(f'columns of {path} must be a list of names, as in ("key", "value")')
    for name in named:
        if name not in TYPES:
            near = difflib.get_close_matches(name, TYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TYPES)}"
            raise ValueError(f"columns of {path}: {name} is not a column of Kafka's: {hint}")
    return tuple(named)
