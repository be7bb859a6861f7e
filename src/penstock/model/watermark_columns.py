"""The columns `_watermark` and `_partition_watermark`: event-time watermarks when the batch was planned."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

WATERMARK, PARTITION_WATERMARK = "_watermark", "_partition_watermark"

WATERMARK_COLUMNS = {name: pa.timestamp("us", tz="UTC") for name in (WATERMARK, PARTITION_WATERMARK)}

Watermarks: TypeAlias = tuple[int | None, int | None]
"""The combined event-time watermark and that of one partition, in milliseconds; None if unknown."""

UNKNOWN: Watermarks = (None, None)

LARGEST = 2**63 - 1


class WatermarkColumns:
    """Builds these columns for the batches of one range: the same value in every row. For one thread."""

    def __init__(self, watermarks: Watermarks = UNKNOWN) -> None:
        self._values = dict(zip(WATERMARK_COLUMNS, map(_microseconds, watermarks), strict=True))
        self._made: dict[str, pa.Array] = {}

    def column(self, name: str, rows: int) -> pa.Array:
        made = self._made.get(name)
        if made is None or len(made) < rows:
            # Kept: the next batches get slices of it, because most have the same size.
            kind = WATERMARK_COLUMNS[name]
            made = self._made[name] = pa.repeat(pa.scalar(self._values[name], kind), rows)
        return made.slice(0, rows)


def _microseconds(watermark: int | None) -> int | None:
    """Limited to the times of Arrow and Spark: timestamps of broken records can lie beyond."""
    return None if watermark is None else max(-LARGEST, min(watermark * 1000, LARGEST))
