"""Search in a topic from a shell: `penstock read --where`, compared with kcat piped into jq.

Every run is a process of its own, from its start to its end, as users run it.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.figure import Figure
from benchmarks.formats.events import FIELDS, FROM_PRICE, ddl, is_expensive
from benchmarks.formats.topics import CODEC, JSON, Topics, TypedTopic
from benchmarks.measurement import Measurement
from benchmarks.processes import Process, ReaderFailed
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.target import Target, compare

SEARCH = "search"
"""The name of the figure, and of its file of results."""

PENSTOCK = "penstock"
KCAT = "kcat"
SIDES = (PENSTOCK, KCAT)

TYPED = "with a schema"
"""Penstock decodes JSON by a schema. Otherwise it reads a path, as jq does."""

LONG_QUEUE = "with a queue of 1 M messages"
"""kcat stops fetching for a second whenever its queue is full, and jq is slower than kcat. The default queue of 100,000
messages is empty before that second has passed."""

LONG_QUEUE_SETTINGS = ("-X", "queued.min.messages=1000000", "-X", "queued.max.messages.kbytes=2000000")

RUN_SECONDS = 300.0
"""Timeout of a run: jq takes 30 s, and more on a busy machine."""


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str = ""


ENTRIES = (Entry(PENSTOCK), Entry(PENSTOCK, TYPED), Entry(KCAT), Entry(KCAT, LONG_QUEUE))

TARGETS = (
    Target(
        "search of JSON from a shell, 1 record of 1,000 matches: kcat and jq / penstock read --where",
        SEARCH, (KCAT, ""), (PENSTOCK, ""), at_least=15.0,
    ),
    Target("the same with a schema", SEARCH, (KCAT, ""), (PENSTOCK, TYPED), at_least=15.0),
    Target(f"the same, kcat {LONG_QUEUE}", SEARCH, (KCAT, LONG_QUEUE), (PENSTOCK, ""), at_least=15.0),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    return compare(TARGETS, measurements, CODEC)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    entries = [entry for entry in ENTRIES if entry.side in bench.sides]
    measured = {entry: Measurement(SEARCH, entry.case, entry.side, "s") for entry in entries}
    with Topics(bench) as topics:
        topic = topics.get(JSON)
        bench.progress("search: reading the programs' files into the page cache")
        for command in _first_commands(bench, topic):
            with Process("search, first", ["/bin/bash", "-c", command]) as run:
                while run.read_line(RUN_SECONDS) is not None:
                    pass
        for turn in range(bench.rounds):
            for entry, one in measured.items():
                seconds = _search(bench, entry, topic)
                one.rounds.append(seconds)
                bench.progress.note(
                    f"search: {entry.side}{_case(entry)}, run {turn + 1} of {bench.rounds}: {seconds:.2f} s"
                )
    return list(measured.values())


def _case(entry: Entry) -> str:
    return f", {entry.case}" if entry.case else ""


def _search(bench: BenchmarkRun, entry: Entry, topic: TypedTopic) -> float:
    """Seconds of a run that has counted the right number of records."""
    began = time.perf_counter()
    with Process(
        f"{entry.side}{_case(entry)}", ["/bin/bash", "-o", "pipefail", "-c", _command(bench, entry, topic)]
    ) as run:
        last = ""
        while (line := run.read_line(RUN_SECONDS)) is not None:
            last = line
        seconds = time.perf_counter() - began
    if not last:
        raise ReaderFailed(f"{entry.side} ended without an answer")
    found = json.loads(last)
    matches = found["matches"] if isinstance(found, dict) else found
    expected = topic.matching(is_expensive).count(1)
    if matches != expected:
        raise WrongRead(f"{entry.side}{_case(entry)} found {matches} records, not {expected}")
    return seconds


def _first_commands(bench: BenchmarkRun, topic: TypedTopic) -> list[str]:
    """One for each side."""
    commands = [_command(bench, Entry(PENSTOCK), topic)] if PENSTOCK in bench.sides else []
    if KCAT in bench.sides:
        assert bench.rivals.search is not None
        commands.append("; ".join(f"{program} --help" for program in map(shlex.quote, map(str, bench.rivals.search))))
    return commands


def _command(bench: BenchmarkRun, entry: Entry, topic: TypedTopic) -> str:
    servers, name = bench.kafka.bootstrap_servers, topic.topic.name
    if entry.side == KCAT:
        assert bench.rivals.search is not None
        kcat, jq = map(str, bench.rivals.search)
        read = [kcat, "-C", "-b", servers, "-t", name, "-o", "beginning", "-e", "-q", "-f", r"%s\n"]
        read += LONG_QUEUE_SETTINGS if entry.case == LONG_QUEUE else ()
        return f"{shlex.join(read)} | {shlex.join([jq, '-c', f'select(.price >= {FROM_PRICE})'])} | wc -l"
    where, schema = f"value:price >= {FROM_PRICE}", list[str]()
    if entry.case == TYPED:
        where, schema = f"value.price >= {FROM_PRICE}", ["--format", "json", "--schema", ddl(FIELDS)]
    read = [sys.executable, "-m", "penstock.cli", "read", name, "-b", servers, "--where", where, "--limit", "0"]
    return shlex.join([*read, *schema])
