"""Builds the tables: ratios, targets, and whether they were reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import sail, search, speed, streamer
from benchmarks.consumer import targets as consumer_targets
from benchmarks.event_time import targets as event_time_targets
from benchmarks.figure import Figure
from benchmarks.formats import targets as format_targets
from benchmarks.measured import Measured
from benchmarks.measurement import Measurement
from benchmarks.memory import Peak
from benchmarks.scale import targets as scale_targets
from benchmarks.streaming import targets
from benchmarks.writing import targets as write_targets

MEMORY_TARGET_MB = 250.0
FLAT_MB = 30.0
"""Memory is flat if the peaks over a quarter of a partition and all of it differ by less. One batch more in flight
takes that much."""


@dataclass(frozen=True, slots=True)
class Target:
    figure: str
    dividend: str
    divisor: str
    at_least: float


TARGETS = (
    Target("Spark batch read: Penstock / JVM source", speed.SPARK_PENSTOCK, speed.SPARK_JVM, 3.3),
    Target("Spark batch read: share of the ceiling", speed.SPARK_PENSTOCK, speed.SPARK_CEILING, 0.85),
    Target("one thread: Penstock / Java's ConsumerPerformance", speed.PYTHON_PENSTOCK, speed.JAVA_CONSUMER, 3.5),
    Target("one thread: Penstock / the same in a warm JVM", speed.PYTHON_PENSTOCK, speed.JAVA_WARM, 3.5),
    Target("one thread: Penstock / confluent-kafka to Arrow", speed.PYTHON_PENSTOCK, speed.PYTHON_CONFLUENT, 25.0),
    Target("one thread: Penstock / the same, its queues tuned", speed.PYTHON_PENSTOCK, speed.CONFLUENT_TUNED, 25.0),
)


def figures(measured: Measured) -> list[Figure]:
    """All figures that were measured and have a target."""
    by_name = {(result.reader, result.codec): result.rows_per_second for result in measured.speed}
    codecs = list(dict.fromkeys(codec for _, codec in by_name))
    found = []
    for target in TARGETS:
        for codec in codecs:
            mine, theirs = by_name.get((target.dividend, codec)), by_name.get((target.divisor, codec))
            if mine is not None and theirs is not None:
                ratio = mine / theirs
                found.append(Figure(target.figure, codec, ratio, f">= {target.at_least:g}", ratio >= target.at_least))
    found += _memory_figures(measured.memory)
    found += targets.figures(measured.streams) + targets.memory_figures(measured.stream_memory)
    found += consumer_targets.figures(measured.consumers) + format_targets.figures(measured.formats)
    found += event_time_targets.figures(measured.event_time) + write_targets.figures(measured.write)
    found += search.figures(measured.search) + sail.figures(measured.sail) + streamer.figures(measured.streamer)
    return found + scale_targets.figures(measured.scale)


def _memory_figures(peaks: Sequence[Peak]) -> list[Figure]:
    found = []
    for where, codec in dict.fromkeys((peak.where, peak.codec) for peak in peaks):
        series = [peak for peak in peaks if (peak.where, peak.codec) == (where, codec)]
        largest = max(series, key=lambda peak: peak.partition_mb)
        smallest = min(series, key=lambda peak: peak.partition_mb)
        over = largest.over_idle_mb
        growth = over - smallest.over_idle_mb
        size = f"{largest.partition_mb:.0f} MB"
        found.append(
            Figure(
                f"{where} over idle, {size} partition", codec, over, f"<= {MEMORY_TARGET_MB:g} MB",
                over <= MEMORY_TARGET_MB, " MB",
            )
        )  # fmt: skip
        found.append(
            Figure(
                f"{where}: growth from {smallest.partition_mb:.0f} to {size}", codec, growth,
                f"<= {FLAT_MB:g} MB", growth <= FLAT_MB, " MB",
            )
        )  # fmt: skip
    return found


def text(measured: Measured) -> str:
    """The tables as text: speeds, memory, the figures of each part, targets."""
    parts: list[str] = []
    rows: list[tuple[str, ...]]
    if measured.speed:
        rows = [
            (
                result.reader,
                result.codec,
                f"{result.rows_per_second / 1e6:.2f}",
                " ".join(f"{result.rows / run / 1e6:.2f}" for run in result.runs),
            )
            for result in measured.speed
        ]
        parts.append(_table(("reader", "codec", "M rows/s", "all runs"), rows))
    if measured.memory:
        rows = [
            (
                peak.where,
                peak.codec,
                f"{peak.partition_mb:.0f}",
                f"{peak.idle_mb:.0f}",
                f"{peak.peak_mb:.0f}",
                f"{peak.over_idle_mb:.0f}",
            )
            for peak in measured.memory
        ]
        parts.append(_table(("memory, MB", "codec", "partition", "idle", "peak", "over idle"), rows))
    if measured.streams:
        parts.append(_measurements("stream figure", measured.streams))
    if measured.stream_memory:
        rows = [(one.what, f"{one.first_mb:.1f}", f"{one.last_mb:.1f}") for one in measured.stream_memory]
        parts.append(_table(("stream memory, MB", "first triggers", "last triggers"), rows))
    others = {
        "consumer": measured.consumers,
        "format": measured.formats,
        "event-time": measured.event_time,
        "write": measured.write,
        "search": measured.search,
        "streamer-delta": measured.streamer,
        "Sail": measured.sail,
        "scale": measured.scale,
    }
    parts += [_measurements(f"{what} figure", those) for what, those in others.items() if those]
    found = figures(measured)
    if found:
        rows = [
            (
                one.figure,
                one.codec,
                f"{one.value:.0f}{one.unit}" if one.unit else f"{one.value:.2f}",
                one.target,
                "reached" if one.reached else "falls short",
            )
            for one in found
        ]
        parts.append(_table(("figure", "codec", "measured", "target", ""), rows))
    return "\n\n".join(parts)


def _measurements(what: str, measured: Sequence[Measurement]) -> str:
    rows = [
        (one.figure, one.case, one.side, f"{one.value:.2f}", one.unit, " ".join(f"{run:.2f}" for run in one.rounds))
        for one in measured
    ]
    return _table((what, "case", "side", "median", "unit", "all rounds"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        # Text is left-aligned, numbers are right-aligned.
        cells = [
            cell.rjust(width) if cell[:1].isdigit() and " " not in cell.strip() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
