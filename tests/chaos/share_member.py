"""A member of a share group in its own process, for tests that kill it.

    python share_member.py <order.json>

The file has the `config` of the connector, `topic`, `streams`, and `records`, a file that gets a line `partition offset
count` for each record before it is accepted. Records whose value begins with `poison` are released. It ends cleanly on
SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import AcknowledgementRefused, ConsumerConnector, ConsumerTimeout

stopped = threading.Event()


def drain(stream: Any, file: int) -> None:
    while not stopped.is_set():
        try:
            for batch in stream.batches(["partition", "offset", "deliveryCount", "value"]):
                take(stream, batch, file)
                if stopped.is_set():
                    return
        except ConsumerTimeout:
            continue


def take(stream: Any, batch: Any, file: int) -> None:
    rows = batch.to_pylist()
    lines = [f"{row['partition']} {row['offset']} {row['deliveryCount']}\n" for row in rows]
    os.write(file, "".join(lines).encode())
    bad = [at for at, row in enumerate(rows) if row["value"].startswith(b"poison")]
    try:
        stream.accept(batch)
        if bad:
            stream.release(batch, rows=bad)
    except AcknowledgementRefused as refused:
        say(str(refused))  # the records come again


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(order: Mapping[str, Any]) -> None:
    file = os.open(order["records"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with ConsumerConnector(order["config"]) as connector:
        streams = connector.create_share_streams({order["topic"]: order["streams"]})[order["topic"]]
        threads = [threading.Thread(target=drain, args=(stream, file)) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for stream in streams:
            for place, error in stream.commit().items():
                if error is not None:
                    say(f"{place}: {error}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    run(json.loads(Path(sys.argv[1]).read_text()))
