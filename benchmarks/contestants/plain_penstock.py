"""Penstock without Spark: all partitions, one after the other, into Arrow batches.

One thread, or with the handover thread beside it (`ahead`), which is what a Spark worker runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from answering import answer_orders
from process_figures import peak_mb, resident_mb

from penstock.config.source import SourceOptions, parse_options
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from penstock.reader.range_reader import RangeReader

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
TEMPLATES = 4
"""Batches kept for the ceiling. More than one, so that it streams through memory as real batches do, not through the
processor's cache."""


def plan(order: dict[str, Any]) -> tuple[SourceOptions, list[OffsetRange]]:
    options = parse_options({"kafka.bootstrap.servers": order["bootstrap"], **order["options"]})
    return options, plan_batch(options)


def read(options: SourceOptions, range_: OffsetRange, ahead: bool) -> Iterator[pa.RecordBatch]:
    reader = RangeReader(range_, COLUMNS, options.client)
    return reader.prefetched() if ahead else iter(reader)


def time_read(order: dict[str, Any]) -> dict[str, Any]:
    """Timed without the planning, as the others are without joining a group or listing partitions."""
    ahead = order.get("ahead", False)
    options, ranges = plan(order)
    began = time.perf_counter()
    rows = 0
    for range_ in ranges:
        for batch in read(options, range_, ahead):
            rows += batch.num_rows
    seconds = time.perf_counter() - began
    size = 0
    if order.get("verify"):
        for range_ in ranges:
            for batch in read(options, range_, ahead):
                size += sum(pc.sum(pc.binary_length(batch[name])).as_py() for name in ("key", "value"))
    return {"seconds": seconds, "rows": rows, "bytes": size}


def keep_templates(order: dict[str, Any]) -> dict[str, Any]:
    """The largest batches into a file, and how many rows each batch of each partition has: what the ceiling repeats."""
    options, ranges = plan(order)
    shapes: list[list[int]] = []
    kept: list[pa.RecordBatch] = []
    for range_ in ranges:
        shape = []
        for batch in read(options, range_, ahead=False):
            shape.append(batch.num_rows)
            kept = sorted([*kept, batch], key=lambda one: -one.num_rows)[:TEMPLATES]
        shapes.append(shape)
    with pa.OSFile(order["file"], "wb") as file, pa.ipc.new_file(file, kept[0].schema) as writer:
        for batch in kept:
            writer.write_batch(batch)
    return {"shapes": shapes}


def memory(order: dict[str, Any]) -> dict[str, Any]:
    """Peak of this process over what it had before. To be asked once: a peak never falls."""
    idle = resident_mb()
    answer = time_read(order)
    return {**answer, "idle_mb": idle, "peak_mb": peak_mb()}


def run(order: dict[str, Any]) -> dict[str, Any]:
    match order["do"]:
        case "read":
            return time_read(order)
        case "templates":
            return keep_templates(order)
        case "memory":
            return memory(order)
        case unknown:
            raise ValueError(unknown)


if __name__ == "__main__":
    answer_orders(run)
