"""A member of a consumer group in its own process, for tests that kill it.

    python member.py <order.json>

The file has the `config` of the connector, `topic`, `streams`, and `records`, a file that gets a line `partition first
last` per batch. The member commits only batches that it has written there. So whenever it is killed, a record that
the group counts as read is in the file. It prints each commit that succeeded, and ends cleanly on SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import CommitRefused, ConsumerConnector, TopicPartition

COMMIT_SECONDS = 0.1
WRITTEN_SECONDS = 30.0


class Member:
    """Reads its streams, a thread each. As a rebalance listener it commits partitions before they are revoked."""

    stop_requested = False
    """Set by the signal handler, which does no more: it may interrupt code that holds one of our locks."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._file = os.open(order["records"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._committing = threading.Lock()
        """From looking at what is written to the answer: an older commit must not come after that of `revoked`."""
        self._written: dict[TopicPartition, int] = {}
        self.connector = ConsumerConnector(order["config"])
        self.connector.set_rebalance_listener(self)
        streams = self.connector.create_message_streams({order["topic"]: order["streams"]})[order["topic"]]
        self._threads = [threading.Thread(target=self._drain, args=[stream]) for stream in streams]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        while any(thread.is_alive() for thread in self._threads):
            time.sleep(COMMIT_SECONDS)
            if self.stop_requested:
                break
            self._commit(self.connector.assignment(), "late")  # `revoked` commits partitions that are revoked meanwhile
        self.connector.shutdown()
        for thread in self._threads:
            thread.join()

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        pass

    def revoked(self, owned: list[TopicPartition]) -> None:
        """The last batch may not be written yet."""
        end = time.monotonic() + WRITTEN_SECONDS
        partitions = [each for each in self.connector.metrics().partitions if (each.topic, each.partition) in owned]
        positions = {TopicPartition(each.topic, each.partition): each.current_offset or 0 for each in partitions}
        begun = {TopicPartition(each.topic, each.partition): each.committed_offset or 0 for each in partitions}
        while any(self._written.get(tp, begun[tp]) < position for tp, position in positions.items()):
            assert time.monotonic() < end
            time.sleep(0.001)
        self._commit(owned, "refused")
        with self._lock:
            for tp in owned:
                self._written.pop(tp, None)

    def _drain(self, stream: Any) -> None:
        for batch in stream.batches(["topic", "partition", "offset"]):
            topic, partition = batch["topic"][0].as_py(), batch["partition"][0].as_py()
            offsets = batch["offset"].to_pylist()
            assert offsets == list(range(offsets[0], offsets[-1] + 1))
            os.write(self._file, b"%d %d %d\n" % (partition, offsets[0], offsets[-1]))
            with self._lock:
                self._written[TopicPartition(topic, partition)] = offsets[-1] + 1

    def _commit(self, of: Any, unless: str) -> None:
        with self._committing:
            self._commit_now(of, unless)

    def _commit_now(self, of: Any, unless: str) -> None:
        with self._lock:
            offsets = {tp: offset for tp, offset in self._written.items() if tp in of}
        if not offsets:
            return
        try:
            self.connector.commit_offsets(offsets)
        except CommitRefused as error:
            say(f"{unless}: {error}")
        else:
            say(json.dumps({tp.partition: offset for tp, offset in offsets.items()}))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: setattr(Member, "stop_requested", True))  # before the member joins
    Member(json.loads(Path(sys.argv[1]).read_text())).run()


if __name__ == "__main__":
    main()
