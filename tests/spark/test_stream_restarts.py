"""What a streaming query does after records were skipped (F3), and when discovery fails or is interrupted (F14)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from chaos.sink import logged_files
from fixtures.cluster import cluster_of
from fixtures.produce import Rec
from fixtures.stream import EVERY_TRIGGER, records, tp

SOON = 180.0
"""A deadline, not a measurement."""


def eventually(check, what, seconds=SOON):
    deadline = time.monotonic() + seconds
    while not (seen := check()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return seen


class Table:
    """A stream into a parquet table, with a checkpoint."""

    def __init__(self, spark, kafka, folder):
        self._spark, self._kafka = spark, kafka
        self.path, self.checkpoint = folder / "table", folder / "checkpoint"
        self.queries = []

    def start(self, trigger=None, **options):
        reader = self._spark.readStream.format("penstock").options(**(self._kafka.client_options() | options))
        writer = reader.load().writeStream.format("parquet").option("path", str(self.path))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.queries.append(writer.trigger(**(trigger or {"availableNow": True})).start())
        return self.queries[-1]

    def run(self, **options):
        """One run over what is there. Returns the column `line` of all rows so far."""
        assert self.start(**options).awaitTermination(SOON), "the query did not end"
        return sorted(
            line for path in logged_files(self.path) for line in pq.ParquetFile(path).read(["line"])[0].to_pylist()
        )

    def offsets(self):
        """The newest entry of the offset log."""
        newest = max((path for path in self._entries("offsets")), key=lambda path: int(path.name))
        return json.loads(newest.read_text().splitlines()[-1])

    def forget_last_batch(self):
        """As if the driver had died before its last batch was finished: a restart replays it."""
        for log in (self.checkpoint / "commits", self.path / "_spark_metadata"):
            newest = max((path for path in log.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
            for path in (newest, newest.with_name(f".{newest.name}.crc")):
                path.unlink(missing_ok=True)

    def _entries(self, log):
        return [path for path in (self.checkpoint / log).iterdir() if path.name.isdecimal()]


@pytest.fixture
def table(spark, kafka, tmp_path):
    made = Table(spark, kafka, tmp_path)
    yield made
    for query in made.queries:
        query.stop()


# --- F3 ---------------------------------------------------------------------------------------------------------------

LINES = """
class Lines:
    columns = ("value", "offset")

    def schema(self):
        return "line STRING"

    def deserialize_record(self, record):
        with open({seen!r}, "a") as seen:
            print(record.offset, file=seen)
        line = record.value.decode()
        return None if line.startswith("#") else {{"line": line}}
"""


@pytest.fixture
def lines(spark, tmp_path, monkeypatch):
    """`valueFormat` of a class that skips comments, and the offsets that it was given, read when called."""
    seen, module = tmp_path / "seen", tmp_path / "skipping_lines.py"
    module.write_text(LINES.format(seen=str(seen)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    spark.sparkContext.addPyFile(str(module))

    def offsets():
        return [int(line) for line in Path(seen).read_text().splitlines()] if seen.exists() else []

    return "skipping_lines:Lines", offsets


def test_F3_skipped_records_do_not_come_back_when_a_query_restarts(kafka, table, topic, produce, lines):
    name, (value_format, seen) = topic(), lines
    group = f"g-{name}"
    options = {"subscribe": name, "valueFormat": value_format, "flatten": "true", "startingOffsets": "earliest"}
    options |= {"kafka.group.id": group}

    def write(*values):
        produce(name, [Rec(value.encode()) for value in values])

    write("a", "# skipped", "b", "# skipped", "# the last one, too")
    assert table.run(**options) == ["a", "b"]
    assert table.offsets() == {name: {"0": 5}}
    assert table.run(**options) == ["a", "b"]
    assert seen() == [0, 1, 2, 3, 4], "a restart reads none of them again"

    write("# nothing", "# but comments")
    assert table.run(**options) == ["a", "b"]
    assert table.offsets() == {name: {"0": 7}}, "the offset advances also where all records are skipped"

    write("c", "# end")
    assert table.run(**options) == ["a", "b", "c"]
    assert seen() == list(range(9)), "each record was read once"
    table.forget_last_batch()
    assert table.run(**options) == ["a", "b", "c"], "a replayed batch skips the same records"
    assert seen() == [*range(9), 7, 8]
    assert table.offsets() == {name: {"0": 9}}
    assert cluster_of(kafka).committed(group, [tp(name)]) == {tp(name): 9}, "the group's offset is past them"


# --- F14 --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def planners(spark):
    """`planners()`: the processes in which queries of this session plan."""
    jvm = spark.sparkContext._gateway.proc.pid

    def find():
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
        ).stdout
        rows = {
            int(pid): (int(parent), args)
            for pid, parent, args in (line.split(None, 2) for line in listed.splitlines()[1:])
        }

        def under_jvm(pid):
            return pid == jvm or (pid in rows and under_jvm(rows[pid][0]))

        return [pid for pid, (_, args) in rows.items() if "streaming_source_runner" in args and under_jvm(pid)]

    return find


def test_F14_a_discovery_error_ends_the_query(kafka, table, topic, produce):
    name = topic()
    produce(name, records(5))
    limits = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "4000"}
    # The first try may have got past discovery when the broker is paused. The second one begins with it.
    limits |= {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "100"}
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, **EVERY_TRIGGER, **limits)
    eventually(lambda: query.lastProgress is not None, "the query runs")
    kafka.pause_node(1)
    try:
        with pytest.raises(StreamingQueryException, match=r"asking \S+ for topics: not done within 4 s"):
            query.awaitTermination(SOON)
    finally:
        kafka.resume_node(1)
    assert not query.isActive


def test_F14_a_query_that_is_stopped_ends_its_discovery_quietly(kafka, table, topic, produce, planners):
    name = topic()
    produce(name, records(5))
    options = {"subscribe": name, "kafka.group.id": f"g-{name}"}  # with a group, the planner handles SIGTERM itself
    options |= {"kafka.default.api.timeout.ms": "600000"}
    query = table.start({"processingTime": "0 seconds"}, **options, **EVERY_TRIGGER)
    eventually(lambda: query.lastProgress is not None, "the query runs")
    assert planners()
    kafka.pause_node(1)
    try:
        # Discovery waits for an answer from now on.
        eventually(lambda: query.status["message"].startswith("Getting offsets"), "a trigger that plans")
        # In a thread of its own: Spark waits without a limit for a planner that does not end.
        stopping = threading.Thread(target=query.stop, daemon=True)
        stopping.start()
        eventually(lambda: not planners(), "the end of the planner's process")
        stopping.join(SOON)
        assert not stopping.is_alive()
    finally:
        kafka.resume_node(1)
    assert query.exception() is None
    assert not query.isActive
