"""The columns that a source adds on request: what its event-time watermarks were when a batch was planned."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

WATERMARK, PARTITION_WATERMARK = "_watermark", "_partition_watermark"

WATERMARK_COLUMNS = {name: pa.timestamp("us", tz="UTC") for name in (WATERMARK, PARTITION_WATERMARK)}

Watermarks: TypeAlias = tuple[int | None, int | None]
"""The combined event-time watermark and that of one partition, in milliseconds; None: not known."""

UNKNOWN: Watermarks = (None, None)

LARGEST = 2**63 - 1


class WatermarkColumns:
    """Makes the columns of one range's batches: the same value in every row. For one thread."""

    def __init__(self, watermarks: Watermarks = UNKNOWN) -> None:
        self._values = dict(zip(WATERMARK_COLUMNS, map(_microseconds, watermarks), strict=True))
        self._made: dict[str, pa.Array] = {}

    def column(self, name: str, rows: int) -> pa.Array:
        made = self._made.get(name)
        if made is None or len(made) < rows:
            # Kept, and the batches after it are handed parts of it: most are of one size.
            kind = WATERMARK_COLUMNS[name]
            made = self._made[name] = pa.repeat(pa.scalar(self._values[name], kind), rows)
        return made.slice(0, rows)


def _microseconds(watermark: int | None) -> int | None:
    """Timestamps of broken records reach further than Arrow's and Spark's times do."""
    return None if watermark is None else max(-LARGEST, min(watermark * 1000, LARGEST))
