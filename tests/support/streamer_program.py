"""A Streamer as a program, for tests that kill it: CONFIG as JSON, TOPIC, TARGET as in `penstock stream`, FLAGS.

It writes a few rows at a time, so that a kill hits a write.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from penstock import Streamer
from penstock.cli.targets import parse_target

FLUSH_ROWS = 250
PAUSE = 0.02


class Slow:
    """A sink that sleeps before and after each write."""

    needs_arrow = True

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def open(self, thread: str) -> Any:
        writer = self._sink.open(thread)
        honest = writer.write

        def write(rows: Any) -> None:
            time.sleep(PAUSE)
            honest(rows)
            print(f"wrote {len(rows)}", flush=True)  # noqa: T201
            time.sleep(PAUSE)

        writer.write = write
        return writer


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # leaves the with block, so that it shuts down cleanly
    config, topic, target, *flags = sys.argv[1:]
    sink = parse_target(target, topic, None).sink
    with Streamer(
        topic, 2, sink=Slow(sink), config=json.loads(config), flush_rows=FLUSH_ROWS, until_end="until-end" in flags
    ) as streamer:
        streamer.wait()
    print(f"done: {streamer.metrics()}", flush=True)  # noqa: T201
