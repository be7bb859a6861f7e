"""Which generated parts each page has.

A part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. The rest of a page is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs import benchmark_tables, options, scale_tables, write_tables

ROOT = Path(__file__).resolve().parents[2]

PARTS: dict[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"figures": benchmark_tables.headline},
    "docs/options.md": options.OPTIONS_PAGE,
    "docs/streaming.md": options.STREAMING_PAGE,
    "docs/writer.md": options.WRITER_PAGE,
    "docs/consumer-operations.md": options.CONSUMER_OPERATIONS_PAGE,
    "docs/consumer-settings.md": options.CONSUMER_SETTINGS_PAGE,
    "docs/performance.md": {
        "machine": benchmark_tables.machine,
        "spark batch": benchmark_tables.spark_batch,
        "one thread": benchmark_tables.one_thread,
        "streams": benchmark_tables.streams,
        "consumer groups": benchmark_tables.consumer_groups,
        "group protocols": benchmark_tables.group_protocols,
        "share groups": benchmark_tables.share_groups,
        "typed columns": benchmark_tables.formats,
        "columns and filters": benchmark_tables.columns_and_filters,
        "search": benchmark_tables.search,
        "sail": benchmark_tables.sail,
        "event time": benchmark_tables.event_time,
        "event time cost": benchmark_tables.event_time_cost,
        "write batch": write_tables.batches,
        "write streams": write_tables.streams,
        "write producers": write_tables.producers,
        "streamer": benchmark_tables.streamer,
        "memory": benchmark_tables.memory,
        "stream memory": benchmark_tables.stream_memory,
        "write memory": write_tables.memory,
    },
    "docs/scale.md": {
        "chart": scale_tables.chart,
        "planning": scale_tables.planning,
        "broker": scale_tables.broker,
        "ranges": scale_tables.ranges,
        "group": scale_tables.group,
    },
    "benchmarks/README.md": {"targets": benchmark_tables.targets},
}


def generated(file: str, text: str) -> str:
    """The text of a page with its generated parts replaced."""
    for name, make in PARTS[file].items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{file}: the lines {begin} and {end} are missing")
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text
