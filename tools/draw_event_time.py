"""Draw docs/event-time.svg from a run: a skewed topic through Spark's own Kafka source and through Penstock.

    python -m tools.draw_event_time

It starts a broker and both sources like the benchmark (benchmarks/event_time/replay.py), with fewer records. Offsets
show which records each trigger read, and the final counts show how many were lost. Spark's watermarks show which ones
were lost. The two numbers of lost records must agree.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.event_time.figures import HOUR
from benchmarks.event_time.replay import DRIFT, PARTITIONS, SETTINGS, replay, skewed
from benchmarks.progress import Progress
from benchmarks.run import BenchmarkRun
from benchmarks.speed import Rivals
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

from penstock.testing import EmbeddedKafka, get_distribution

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "event-time.svg"
RECORDS = 96_000
WINDOW = 10 * 60_000
HOURS = 48

WIDTH, HEIGHT = 860, 400
LEFT, TOP, PANEL, BOTTOM, GAP = 64, 76, 360, 340, 54
"""Position of the first panel, size of each panel, and the gap between them."""

STYLE = """
    .page { fill: #ffffff; stroke: #d0d7de; }
    .grid { stroke: #d8dee4; fill: none; }
    .kept { stroke: #0969da; fill: none; stroke-width: 2; stroke-linecap: round; }
    .lost { stroke: #cf222e; fill: none; stroke-width: 2; stroke-linecap: round; stroke-dasharray: 1 4; }
    .mark { stroke: #9a6700; fill: none; stroke-width: 2.5; }
    text { fill: #1f2328; font: 13px -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", Arial, sans-serif; }
    .name { font-weight: 600; }
    .small { font-size: 12px; fill: #57606a; }
    .bad { fill: #cf222e; }
    .end { text-anchor: end; }
    .middle { text-anchor: middle; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #30363d; }
      .grid { stroke: #262c36; }
      .kept { stroke: #58a6ff; }
      .lost { stroke: #ff7b72; }
      .mark { stroke: #d29922; }
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .bad { fill: #ff7b72; }
    }"""


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a partition that one trigger read, in ms since the topic's first record; late up to `lost`."""

    trigger: int
    start: float
    lost: float
    stop: float


@dataclass(frozen=True, slots=True)
class Run:
    title: str
    triggers: int
    pieces: list[Piece]
    watermarks: list[float | None]
    """For each trigger, the watermark that decides which records are late."""
    lost: int


def main() -> None:
    progress = Progress()
    with tempfile.TemporaryDirectory() as scratch, EmbeddedKafka(settings={"log.retention.ms": -1}) as kafka:
        rivals = Rivals(get_distribution(), environments.jvm_source(progress), None, None, None, None, None)
        bench = BenchmarkRun(kafka, rivals, [JVM, PENSTOCK], 1, True, Path(scratch), progress)
        times = skewed(time.time())
        topic = load(
            kafka, rivals.distribution, "skewed", "none", RECORDS,
            partitions=PARTITIONS, batch_size=BATCH_SIZE, say=progress, times=times,
        )  # fmt: skip
        runs = []
        for side, name in ((JVM, "Spark's own source"), (PENSTOCK, f"Penstock, eventTime.maxDrift={DRIFT}")):
            progress(f"reading: {name}")
            with Stream(side, bench, SETTINGS) as stream:
                runs.append(run_of(name, replay(stream, topic), topic, times))
            progress.note(f"{name}: {runs[-1].lost:,} of {RECORDS:,} records lost, {runs[-1].triggers} triggers")
    PICTURE.write_text(picture(runs), "utf-8")
    progress.note(f"{PICTURE.relative_to(ROOT)}: written")


def run_of(title: str, answer: dict[str, Any], topic: Topic, times: Times) -> Run:
    triggers = answer["triggers"]
    each = topic.rows // topic.partitions
    marks = [_since(trigger["watermark"], times) for trigger in triggers]
    ends = [{int(p): offset for p, offset in trigger["ends"][topic.name].items()} for trigger in triggers]
    # Spark drops late records by the watermark that the trigger before has set.
    late_by = [None, *marks[:-1]]
    lost, pieces = 0, []
    for number, mark in enumerate(late_by):
        for partition, stop in ends[number].items():
            start = ends[number - 1].get(partition, 0) if number else 0
            offsets = range(start, stop)
            late = sum(_is_late(times.at(partition, n, each) - times.first, mark, times) for n in offsets)
            lost += late
            if start < stop:
                a, b, c = (times.at(partition, n, each) - times.first for n in (start, start + late, stop))
                pieces.append(Piece(number, a, b, c))
    really = answer["rows"] - answer["counted"]
    if lost != really:
        raise SystemExit(f"{title}: {really} records are lost, but its watermarks account for {lost}")
    return Run(title, len(triggers), pieces, late_by, lost)


def _since(text: str | None, times: Times) -> float | None:
    """Convert Spark's watermark; 1970 means that there is none yet."""
    if text is None:
        return None
    milliseconds = datetime.fromisoformat(text).timestamp() * 1000
    return None if milliseconds == 0 else milliseconds - times.first


def _is_late(at: float, mark: float | None, times: Times) -> bool:
    """Return whether the window of a record has ended at the watermark."""
    end = ((times.first + at) // WINDOW + 1) * WINDOW - times.first
    return mark is not None and end <= mark


def picture(runs: list[Run]) -> str:
    summary = "; ".join(f"{run.title}: {run.lost:,} of {RECORDS:,} records lost" for run in runs)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title">',
        f'  <title id="title">A replay of eight partitions that begin up to 24 hours apart. {summary}</title>',
        "  <!-- drawn by tools/draw_event_time.py from a run -->",
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
    ]
    for number, run in enumerate(runs):
        parts += panel(run, LEFT + number * (PANEL + GAP) - (0 if number == 0 else 24), axis=number == 0)
    parts += legend()
    return "\n".join([*parts, "</svg>", ""])


def panel(run: Run, left: float, *, axis: bool) -> list[str]:
    def x(trigger: float) -> str:
        return f"{left + trigger * PANEL / run.triggers:.1f}"

    def y(milliseconds: float) -> str:
        hours = min(max(milliseconds / HOUR, 0), HOURS)
        return f"{BOTTOM - hours * (BOTTOM - TOP) / HOURS:.1f}"

    right = left + PANEL
    share = "nothing" if run.lost == 0 else f"{run.lost * 100 / RECORDS:.0f}% of the records"
    parts = [
        f'  <text class="name" x="{left}" y="30">{run.title}</text>',
        f'  <text class="{"small" if run.lost == 0 else "small bad"}" x="{left}" y="50">{run.triggers} triggers, '
        f"{share} lost</text>",
    ]
    for hours in range(0, HOURS + 1, 12):
        parts.append(f'  <path class="grid" d="M{left} {y(hours * HOUR)} H{right}"/>')
        if axis:
            parts.append(f'  <text class="small end" x="{left - 8}" y="{float(y(hours * HOUR)) + 4}">{hours} h</text>')
    if axis:
        where = f"18 {(TOP + BOTTOM) / 2:g}"
        parts.append(f'  <text class="small middle" transform="translate({where}) rotate(-90)">event time</text>')
    kept, lost = [], []
    for piece in run.pieces:
        # A trigger spans from its left edge to its right edge.
        turn = piece.trigger + (piece.lost - piece.start) / (piece.stop - piece.start)
        if piece.lost > piece.start:
            lost.append(f"M{x(piece.trigger)} {y(piece.start)} L{x(turn)} {y(piece.lost)}")
        if piece.stop > piece.lost:
            kept.append(f"M{x(turn)} {y(piece.lost)} L{x(piece.trigger + 1)} {y(piece.stop)}")
    parts += [
        f'  <path class="{name}" d="{" ".join(paths)}"/>' for name, paths in (("kept", kept), ("lost", lost)) if paths
    ]
    steps = [(number, mark) for number, mark in enumerate(run.watermarks) if mark is not None and mark >= 0]
    if steps:
        line = f"M{x(steps[0][0])} {y(0)}" + "".join(f" V{y(mark)} H{x(number + 1)}" for number, mark in steps)
        parts.append(f'  <path class="mark" d="{line}"/>')
    parts.append(f'  <text class="small middle" x="{left + PANEL / 2}" y="{BOTTOM + 20}">triggers, in order</text>')
    return parts


def legend() -> list[str]:
    y = HEIGHT - 20
    entries = (
        ("kept", "event times read, one line per partition"),
        ("lost", "read and dropped"),
        ("mark", "Spark's watermark: highest event time - 2 h"),
    )
    parts, at = [], LEFT
    for name, text in entries:
        parts.append(f'  <path class="{name}" d="M{at} {y - 4} h26"/>')
        parts.append(f'  <text class="small" x="{at + 34}" y="{y}">{text}</text>')
        at += 34 + len(text) * 6.4 + 28
    return parts


if __name__ == "__main__":
    main()
