"""How the rows of an input become records.

A file of *records* has Kafka's columns: `value`, and any of key, headers, timestamp and partition. A file of *rows* has
others: each whole row becomes a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from penstock.errors import OptionError, did_you_mean

Layout: TypeAlias = Literal["records", "rows"]

WRITTEN = ("key", "value", "headers", "timestamp", "partition")
"""Columns of a record that are written. `penstock read` prints the others too."""

RECORD_FIELDS = frozenset((*WRITTEN, "topic", "offset", "timestampType"))

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class InputSettings:
    """How the user wants the input to be read."""

    layout: Layout | None = None
    """None: the first row decides."""
    key: str | None = None
    """The field that is the key of a row."""
    key_format: str = "text"
    value_format: str = "text"
    keep_partitions: bool = False
    schema: pa.StructType | None = None
    """Types of the columns. None: they are inferred."""
    delimiter: str | None = None
    """Of CSV. None: by the extension."""

    def layout_of(self, names: Iterable[str]) -> Layout:
        """The layout of an input whose first row has these fields."""
        names = list(names)
        layout: Layout = self.layout or ("records" if "value" in names and RECORD_FIELDS.issuperset(names) else "rows")
        if layout == "records" and "value" not in names:
            raise OptionError("--layout", layout, "the input has no column value", "Set --layout rows")
        if layout == "records" and self.key is not None:
            raise OptionError(
                "--key",
                self.key,
                "the input has Kafka's columns, with the key in the column key",
                "Or set --layout rows",
            )
        if self.key is not None and self.key not in names:
            raise OptionError("--key", self.key, "is not a field of the first row", did_you_mean(self.key, names))
        return layout
