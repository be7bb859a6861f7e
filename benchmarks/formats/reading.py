"""Rows per second into the noop sink.

All sides of a figure are started and warmed before the first timed run, and the timed runs take turns. Before that each
shows by the sums of all its fields that it reads what was loaded, malformed records among them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.arena import Arena
from benchmarks.formats.figures import FIGURES, FROM_AVRO, JVM, POISON, POISON_ROUNDS, Entry, entries
from benchmarks.formats.topics import Topics, TypedTopic
from benchmarks.measurement import Measurement
from benchmarks.processes import Contestant
from benchmarks.speed import HERE, SPARK_CORES, WrongRead

ORDER_SECONDS = 240.0
"""The slowest order here takes 20 s, and more on a busy machine."""


def measure(arena: Arena, names: Sequence[str]) -> list[Measurement]:
    """Those of the figures that are asked for."""
    chosen = [figure for figure in FIGURES if figure in names]
    with Topics(arena) as topics:
        return [one for figure in chosen for one in _measure(arena, figure, topics)]


def _measure(arena: Arena, figure: str, topics: Topics) -> list[Measurement]:
    taking_part = [entry for entry in entries(figure, topics) if entry.side in arena.sides]
    measured = [Measurement(figure, entry.case, entry.side, "M rows/s") for entry in taking_part]
    rounds = arena.rounds + (POISON_ROUNDS if figure == POISON and not arena.quick else 0)
    for entry in taking_part:
        topics.get(entry.topic)  # nothing is loaded beside a reader that is warm
    with ExitStack() as stack:
        running: dict[str, Contestant] = {}
        for entry in taking_part:
            said, topic = _said(figure, entry), topics.get(entry.topic)
            if entry.side not in running:
                arena.progress(f"{said}: starting")
                running[entry.side] = stack.enter_context(_start(figure, entry.side, arena))
            arena.progress(f"{said}: looking at what it reads")
            _check(running[entry.side], arena, said, entry, topic)
        # Apart from the checks: Spark ends Python workers that were idle for a minute, and a rival may take that long.
        for entry in taking_part:
            arena.progress(f"{_said(figure, entry)}: warming")
            _read(running[entry.side], arena, entry, topics.get(entry.topic))
        for turn in range(rounds):
            # Forth and back: what gets better or worse all the while does so for all.
            order = list(zip(taking_part, measured, strict=True))
            for entry, one in order if turn % 2 == 0 else reversed(order):
                said, topic = _said(figure, entry), topics.get(entry.topic)
                arena.progress(f"{said}: run {turn + 1} of {rounds}")
                answer = _read(running[entry.side], arena, entry, topic)
                speed = sum(topic.ends(entry.share)) / answer["seconds"] / 1e6
                one.rounds.append(speed)
                one.extra.append({key: round(value, 4) for key, value in answer.items()})
                arena.progress.note(f"{said}: run {turn + 1} of {rounds}: {speed:.2f} M rows/s")
    return measured


def _said(figure: str, entry: Entry) -> str:
    return f"{figure}: {entry.side}{f', {entry.case}' if entry.case else ''}"


def _start(figure: str, side: str, arena: Arena) -> Contestant:
    program, cores = HERE / "spark_typed.py", str(SPARK_CORES)
    if side != JVM:
        return Contestant(f"{figure}-{side}", [sys.executable, program, "penstock", cores])
    rival = arena.rivals.avro_source if figure == FROM_AVRO else arena.rivals.jvm_source
    assert rival is not None
    return Contestant(f"{figure}-{side}", [rival.python, program, "kafka", cores, *rival.jars])


def _read(contestant: Contestant, arena: Arena, entry: Entry, topic: TypedTopic) -> dict[str, Any]:
    return contestant.ask({"do": "read", **_order(arena, entry, topic)}, ORDER_SECONDS)


def _check(contestant: Contestant, arena: Arena, said: str, entry: Entry, topic: TypedTopic) -> None:
    prefix = "" if entry.flat else "value."
    sums = [field.sum_of(prefix + field.name) for field in entry.fields]
    order = {"do": "sum", "sums": ["count(1)", *sums], **_order(arena, entry, topic)}
    rows, *found = contestant.ask(order, ORDER_SECONDS)["sums"]
    if rows != sum(topic.ends(entry.share)):
        raise WrongRead(f"{said}: {rows} rows of {sum(topic.ends(entry.share))} records")
    totals = topic.sums(entry.share)
    for field, total in zip(entry.fields, found, strict=True):
        if total != totals[field.name]:
            raise WrongRead(f"{said}: field {field.name} adds up to {total}, not to {totals[field.name]}")


def _order(arena: Arena, entry: Entry, topic: TypedTopic) -> dict[str, Any]:
    name = topic.topic.name
    ends = {str(number): end for number, end in enumerate(topic.ends(entry.share))}
    options = {
        "kafka.bootstrap.servers": arena.kafka.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({name: ends}) if entry.share > 1 else "latest",
        **entry.options,
    }
    return {"options": options, "schema": entry.schema, "decoder": entry.decoder, "whole": entry.whole}
