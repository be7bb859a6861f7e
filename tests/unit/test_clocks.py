"""The wall clock jumps: set by hand, by NTP, by a suspended machine. Deadlines, time-outs and intervals go by
time.monotonic, which does not."""

from __future__ import annotations

import ast
from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent

WALL = {"time", "time_ns", "now", "utcnow", "today"}

ALLOWED = {
    "cli/groups/event_time.py": "how old an event-time watermark is, as shown",
    "cli/top/__init__.py": "since when brokers have not answered, as shown",
    "spark/query_history.py": "when a query ended, as shown",
    "cli/doctor/cluster.py": "how long a certificate is still valid",
    "config/times.py": "the now from which relative times count",
    "consumer/connector.py": "part of a consumer id (H1), which is unique without it",
    "metrics/consumer_counters.py": "how old an event-time watermark is, as shown",
    "cli/demo_program.py": "timestamps of made-up records",
    "monitor/exporter.py": "how old the metrics are",
    "monitor/rounds.py": "how old records are, as shown",
    "planner/alignment/alignment.py": "whether the newest record of a partition that was never seen is old (E3)",
    "dead_letters/letter_writer.py": "timestamps of dead letters",
    "writer/record_writer.py": "timestamps of rows that have none",
    "planner/batch.py": "whether endingTimestamp is over",
    "planner/stream.py": "whether endingTimestamp is over",
    "streamer/sinks/parquet.py": "how old an unfinished file is: if a live one is removed, its write is repeated",
    "wire/transport/aws.py": "when a signed token expires",
    "wire/transport/oauth.py": "when an unsecured token was issued, and when a JWT expires",
}


def wall_clocks(path: Path) -> bool:
    """Whether a module takes the time of day, or hands on the function that does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in WALL and isinstance(node.value, ast.Name):
            if node.value.id in ("time", "datetime", "date", "dt"):
                return True
        elif isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name in WALL for a in node.names):
            return True
    return False


def test_only_what_means_the_time_of_day_asks_for_it():
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if wall_clocks(path)}
    assert found <= ALLOWED.keys()
