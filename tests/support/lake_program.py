"""A Streamer into a table as a program, for tests that kill it: CONFIG as JSON, TOPIC, TARGET as in `penstock stream`.

It commits small pieces with short pauses around each commit, so that kills hit every step.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from penstock import Streamer
from penstock.cli.targets import parse_target

PAUSE = 0.02


class Slow:
    """The sink, with a pause before and after each commit to the table."""

    needs_arrow = stores_offsets = True

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def open(self, thread: str) -> Any:
        writer = self._sink.open(thread)
        honest = writer.commit

        def commit(rows: Any, moves: Any) -> Any:
            time.sleep(PAUSE)
            made = honest(rows, moves)
            print(f"stored {0 if rows is None else len(rows)}", flush=True)  # noqa: T201
            time.sleep(PAUSE)
            return made

        writer.commit = commit
        return writer


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # leaves the with block, so that it shuts down cleanly
    config, topic, target, *flags = sys.argv[1:]
    streamer = Streamer(
        topic,
        2,
        sink=Slow(parse_target(target, topic, None).sink),
        config=json.loads(config),
        flush_rows=300,
        flush_interval=0.3,
        retry_timeout=0.5,
        until_end="until-end" in flags,
    )
    with streamer:
        streamer.wait()
    print(f"done: {streamer.metrics()}", flush=True)  # noqa: T201
