"""Writes what a run has measured into benchmarks/results: a file for each group of figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report, sail, search, streamer
from benchmarks.consumer import readers
from benchmarks.event_time import figures as event_time
from benchmarks.formats import figures as formats
from benchmarks.measured import Measured
from benchmarks.scale import figures as scale
from benchmarks.speed import READERS
from benchmarks.streaming.measurement import FIGURES as STREAM_FIGURES
from benchmarks.writing import figures as writing

RESULTS = Path(__file__).parent / "results"
MEMORY = "memory"
READS = "reads"
EARLIER = "earlier"
"""In a file: the runs in which some of its figures were measured, if not in its own."""

PARTIAL = "partial"
"""The file of figures that are not a whole group. git ignores it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that are recorded together."""

    figures: tuple[str, ...]
    """The names that `--only` takes."""
    parts: tuple[str, ...]
    """The fields of Measured that hold them."""


GROUPS = {
    READS: Group(READERS, ("speed",)),
    MEMORY: Group((MEMORY,), ("memory",)),
    "consumer": Group(readers.FIGURES, ("consumers",)),
    "formats": Group(formats.FIGURES, ("formats",)),
    "event-time": Group(event_time.FIGURES, ("event_time",)),
    "write": Group(writing.FIGURES, ("write",)),
    "search": Group((search.SEARCH,), ("search",)),
    "sail": Group((sail.FIGURE,), ("sail",)),
    "streamer-delta": Group((streamer.STREAMER_DELTA,), ("streamer",)),
    "streams": Group(STREAM_FIGURES, ("streams", "stream_memory")),
    "scale": Group(scale.FIGURES, ("scale",)),  # last: the broker is slower with 10,000 partitions
}
"""By name, which `--only` takes too, and which is the name of the file. In the order in which they are measured."""

ALL_PARTS = tuple(part for group in GROUPS.values() for part in group.parts)


def write(names: Sequence[str], measured: Measured, facts: dict[str, Any], *, whole: bool) -> list[Path]:
    """Write the file of each group that was measured completely, and `partial.json` for all else.

    `facts`: what else the files say about the run. `whole`: whether its figures are fit to be recorded.
    """
    complete = {name: group for name, group in GROUPS.items() if whole and set(group.figures) <= set(names)}
    files = {name: (list(group.figures), measured.as_json(group.parts)) for name, group in complete.items()}
    if others := [name for name in names if not any(name in group.figures for group in complete.values())]:
        recorded = {part for group in complete.values() for part in group.parts}
        files[PARTIAL] = others, measured.as_json(part for part in ALL_PARTS if part not in recorded)
    return [_write(name, figures, parts, facts) for name, (figures, parts) in files.items()]


def update(names: Sequence[str], measured: Measured, facts: dict[str, Any]) -> list[Path]:
    """Write these figures into the files of their groups, which keep their other figures."""
    paths = []
    for name, group in GROUPS.items():
        if not (new := set(names) & set(group.figures)):
            continue
        parts = measured.as_json(group.parts)
        path = RESULTS / f"{name}.json"
        before = json.loads(path.read_text("utf-8")) if path.exists() else None
        described = facts
        if before is not None:
            new |= set(before["setting"]["contestants"])
            versions = {**before["versions"], **facts["versions"]}
            described = {**facts, "versions": versions, EARLIER: _earlier_runs(before, names)}
            for part, found in parts.items():
                parts[part] = [*_kept(before.get(part, []), found, names), *found]
        paths.append(_write(name, [figure for figure in group.figures if figure in new], parts, described))
    return paths


def _earlier_runs(before: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """The runs in which the figures were measured that a file keeps. All sides of a figure are of one run."""
    runs = before.get(EARLIER, [])
    older = {figure for run in runs for figure in run["figures"]}
    facts = {name: before[name] for name in ("date", "machine", "load_before")}
    rounds = before["setting"].get("stream_rounds", before["setting"]["rounds"])
    last = [figure for figure in before["setting"]["contestants"] if figure not in older]
    every = [{**facts, "rounds": rounds, "figures": last}, *runs]
    kept = [{**run, "figures": [figure for figure in run["figures"] if figure not in names]} for run in every]
    return [run for run in kept if run["figures"]]


def _kept(before: Iterable[dict[str, Any]], found: Iterable[dict[str, Any]], names: Sequence[str]) -> Iterable[Any]:
    """What a file holds and a run has not measured again."""
    again = {_key(one) for one in found}
    return [one for one in before if _key(one)[0] not in names and _key(one) not in again]


def _key(one: dict[str, Any]) -> tuple[str, ...]:
    """What is measured, the case and the side. Parts without figures of their own are replaced as a whole."""
    figure, case = one.get("figure") or one.get("contestant"), one.get("case") or one.get("codec")
    return figure or "", case or "", one.get("side", "")


def _write(name: str, figures: Sequence[str], parts: dict[str, list[Any]], facts: dict[str, Any]) -> Path:
    content = {
        **facts,
        "setting": {**facts["setting"], "contestants": list(figures)},
        "figures": [figure.as_json() for figure in report.figures(Measured.from_json(parts))],
        **parts,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return path
