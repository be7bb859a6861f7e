"""Rows per second into the noop sink.

All sides of a figure are started and warmed up before the first timed run, and the timed runs alternate. Before that,
each side proves by the sums of all fields that it reads all loaded records, malformed ones included.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.formats.figures import FIGURES, FROM_AVRO, JVM, POISON, POISON_ROUNDS, VALUE, Entry, entries
from benchmarks.formats.topics import Topics, TypedTopic
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, SPARK_CORES, WrongRead
from benchmarks.topics import KEY_BYTES

REQUEST_SECONDS = 240.0
"""Timeout of a request: the slowest takes 20 s, and more on a busy machine."""


def measure(bench: BenchmarkRun, names: Sequence[str]) -> list[Measurement]:
    """Measure the selected figures."""
    chosen = [figure for figure in FIGURES if figure in names]
    with Topics(bench) as topics:
        return [one for figure in chosen for one in _measure(bench, figure, topics)]


def _measure(bench: BenchmarkRun, figure: str, topics: Topics) -> list[Measurement]:
    taking_part = [entry for entry in entries(figure, topics) if entry.side in bench.sides]
    measured = [Measurement(figure, entry.case, entry.side, "M rows/s") for entry in taking_part]
    rounds = bench.rounds + (POISON_ROUNDS if figure == POISON and not bench.quick else 0)
    for entry in taking_part:
        topics.get(entry.topic)  # load all topics before a reader is warm
    with ExitStack() as stack:
        running: dict[str, ReaderProcess] = {}
        for entry in taking_part:
            label, topic = _label(figure, entry), topics.get(entry.topic)
            if entry.side not in running:
                bench.progress(f"{label}: starting")
                running[entry.side] = stack.enter_context(_start(figure, entry.side, bench))
            bench.progress(f"{label}: checking the records it reads")
            _check(running[entry.side], bench, label, entry, topic)
        # Apart from the checks: Spark ends Python workers that are idle for a minute, and a rival may take that long.
        for entry in taking_part:
            reader, topic = running[entry.side], topics.get(entry.topic)
            bench.warm(_label(figure, entry), partial(_seconds, reader, bench, entry, topic))
        for turn in range(rounds):
            # The order alternates, so that a trend affects all sides equally.
            order = list(zip(taking_part, measured, strict=True))
            for entry, one in order if turn % 2 == 0 else reversed(order):
                label, topic = _label(figure, entry), topics.get(entry.topic)
                bench.progress(f"{label}: run {turn + 1} of {rounds}")
                answer = _read(running[entry.side], bench, entry, topic)
                speed = sum(topic.ends(entry.share)) / answer["seconds"] / 1e6
                one.rounds.append(speed)
                one.extra.append({key: round(value, 4) for key, value in answer.items()})
                bench.progress.note(f"{label}: run {turn + 1} of {rounds}: {speed:.2f} M rows/s")
    return measured


def _label(figure: str, entry: Entry) -> str:
    return f"{figure}: {entry.side}{f', {entry.case}' if entry.case else ''}"


def _start(figure: str, side: str, bench: BenchmarkRun) -> ReaderProcess:
    program, cores = PROGRAMS / "spark_typed.py", str(SPARK_CORES)
    if side != JVM:
        return ReaderProcess(f"{figure}-{side}", [sys.executable, program, "penstock", cores])
    rival = bench.rivals.avro_source if figure == FROM_AVRO else bench.rivals.jvm_source
    assert rival is not None
    return ReaderProcess(f"{figure}-{side}", [rival.python, program, "kafka", cores, *rival.jars])


def _read(reader: ReaderProcess, bench: BenchmarkRun, entry: Entry, topic: TypedTopic) -> dict[str, Any]:
    return reader.ask({"do": "read", **_request(bench, entry, topic)}, REQUEST_SECONDS)


def _seconds(reader: ReaderProcess, bench: BenchmarkRun, entry: Entry, topic: TypedTopic) -> float:
    seconds: float = _read(reader, bench, entry, topic)["seconds"]
    return seconds


def _check(reader: ReaderProcess, bench: BenchmarkRun, label: str, entry: Entry, topic: TypedTopic) -> None:
    prefix = "" if entry.flat else "value."
    sums = [field.sum_of(prefix + field.name) for field in entry.fields]
    request = {"do": "sum", "sums": ["count(1)", *sums], **_request(bench, entry, topic)}
    rows, *found = reader.ask(request, REQUEST_SECONDS)["sums"]
    seen = topic if entry.matches is None else topic.matching(entry.matches)
    expected = sum(topic.ends(entry.share)) if entry.matches is None else seen.count(entry.share)
    if rows != expected:
        raise WrongRead(f"{label}: {rows} rows of {expected} records")
    totals = {VALUE.name: topic.topic.bytes - KEY_BYTES * rows} if entry.raw else seen.sums(entry.share)
    for field, total in zip(entry.fields, found, strict=True):
        if total != totals[field.name]:
            raise WrongRead(f"{label}: field {field.name} has the sum {total}, not {totals[field.name]}")


def _request(bench: BenchmarkRun, entry: Entry, topic: TypedTopic) -> dict[str, Any]:
    name = topic.topic.name
    ends = {str(number): end for number, end in enumerate(topic.ends(entry.share))}
    options = {
        "kafka.bootstrap.servers": bench.kafka.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({name: ends}) if entry.share > 1 else "latest",
        **entry.options,
    }
    return {
        "options": options,
        "schema": entry.schema,
        "decoder": entry.decoder,
        "whole": entry.whole,
        "filter": entry.filter,
        "select": entry.select,
    }
