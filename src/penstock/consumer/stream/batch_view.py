"""A record batch with more than its columns: what batches of event time and of share groups have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


class BatchView:
    """Wraps a RecordBatch. It supports Arrow's PyCapsule interface, and has the attributes of its RecordBatch."""

    __slots__ = ("records",)

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        """The records, with the selected columns."""

    @property
    def num_rows(self) -> int:
        return int(self.records.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self.records.schema

    @property
    def columns(self) -> list[pa.Array]:
        return list(self.records.columns)

    def column(self, name: str | int) -> pa.Array:
        return self.records.column(name)

    def select(self, columns: Sequence[str | int]) -> pa.RecordBatch:
        return self.records.select(list(columns))

    def to_pandas(self, **options: Any) -> Any:
        return self.records.to_pandas(**options)

    def to_pylist(self) -> list[dict[str, Any]]:
        return list(self.records.to_pylist())

    def to_pydict(self) -> dict[str, list[Any]]:
        return dict(self.records.to_pydict())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "records":  # not set yet: an object that is being copied
            raise AttributeError(name)
        return getattr(self.records, name)

    def __getitem__(self, name: str | int) -> pa.Array:
        return self.records.column(name)

    def __len__(self) -> int:
        return self.num_rows

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self.records.__arrow_c_array__(requested_schema)
        return capsules

    def __arrow_c_schema__(self) -> object:
        return self.records.schema.__arrow_c_schema__()
