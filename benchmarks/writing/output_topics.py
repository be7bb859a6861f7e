"""The topics that the write figures write: a new one for each run, read back where a side is checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, WrongRead
from penstock.config.source import parse_options
from penstock.planner.batch import plan_batch

_numbers = count()


@contextmanager
def output_topic(bench: BenchmarkRun, partitions: int) -> Iterator[str]:
    """A new topic, deleted at the end of the run so that its pages leave the cache."""
    name = f"bench-write-{next(_numbers)}"
    bench.kafka.create_topic(name, partitions)
    # Leaders of a new topic refuse requests for some milliseconds, and producers would back off. This waits for them.
    plan_batch(parse_options({"kafka.bootstrap.servers": bench.kafka.bootstrap_servers, "subscribe": name}))
    try:
        yield name
    finally:
        bench.kafka.delete_topic(name)


def check(bench: BenchmarkRun, side: str, topic: str, rows: int, size: int | None = None) -> None:
    """Read the topic as a reader of committed records. Raises WrongRead if rows or bytes are missing or repeated."""
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    request = {"do": "read", "bootstrap": bench.kafka.bootstrap_servers, "options": options, "verify": True}
    with ReaderProcess("checker", [sys.executable, PROGRAMS / "plain_penstock.py"]) as reader:
        answer = reader.ask(request)
    if answer["rows"] != rows:
        raise WrongRead(f"{side} wrote {answer['rows']} of {rows} records")
    if size is not None and answer["bytes"] != size:
        raise WrongRead(f"{side} wrote {answer['bytes']} bytes of keys and values instead of {size}")
