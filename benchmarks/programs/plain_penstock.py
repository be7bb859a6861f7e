"""Penstock without Spark: reads all partitions, one after another, into Arrow batches.

With one thread, or with a prefetching thread beside it (`ahead`), as in a Spark worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from process_figures import peak_mb, resident_mb
from serving import serve_requests

from penstock.config.source import SourceOptions, parse_options
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from penstock.reader.range_reader import RangeReader

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
TEMPLATES = 4
"""Batches kept for the ceiling. More than one, so that the ceiling reads from memory as real batches do, and not from
the CPU cache."""


def plan(request: dict[str, Any]) -> tuple[SourceOptions, list[OffsetRange]]:
    options = parse_options({"kafka.bootstrap.servers": request["bootstrap"], **request["options"]})
    return options, plan_batch(options)


def read(options: SourceOptions, range_: OffsetRange, ahead: bool) -> Iterator[pa.RecordBatch]:
    reader = RangeReader(range_, COLUMNS, options.client, poll_timeout=options.poll_timeout)
    return reader.prefetched() if ahead else iter(reader)


def time_read(request: dict[str, Any]) -> dict[str, Any]:
    """Timed without planning; the other readers are timed without joining a group or listing partitions."""
    ahead = request.get("ahead", False)
    options, ranges = plan(request)
    began = time.perf_counter()
    rows = 0
    for range_ in ranges:
        for batch in read(options, range_, ahead):
            rows += batch.num_rows
    seconds = time.perf_counter() - began
    size = 0
    if request.get("verify"):
        for range_ in ranges:
            for batch in read(options, range_, ahead):
                size += sum(pc.sum(pc.binary_length(batch[name]), min_count=0).as_py() for name in ("key", "value"))
    return {"seconds": seconds, "rows": rows, "bytes": size}


def keep_templates(request: dict[str, Any]) -> dict[str, Any]:
    """Write the largest batches to a file. Returns the rows of each batch of each partition, for the ceiling."""
    options, ranges = plan(request)
    shapes: list[list[int]] = []
    kept: list[pa.RecordBatch] = []
    for range_ in ranges:
        shape = []
        for batch in read(options, range_, ahead=False):
            shape.append(batch.num_rows)
            kept = sorted([*kept, batch], key=lambda one: -one.num_rows)[:TEMPLATES]
        shapes.append(shape)
    with pa.OSFile(request["file"], "wb") as file, pa.ipc.new_file(file, kept[0].schema) as writer:
        for batch in kept:
            writer.write_batch(batch)
    return {"shapes": shapes}


def memory(request: dict[str, Any]) -> dict[str, Any]:
    """Peak memory of this process above its idle memory. Works once per process, because a peak never falls."""
    idle = resident_mb()
    answer = time_read(request)
    return {**answer, "idle_mb": idle, "peak_mb": peak_mb()}


def run(request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "read":
            return time_read(request)
        case "templates":
            return keep_templates(request)
        case "memory":
            return memory(request)
        case unknown:
            raise ValueError(unknown)


if __name__ == "__main__":
    serve_requests(run)
