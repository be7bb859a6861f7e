"""A member of a consumer group by librdkafka in its own process, for tests that pause and kill it.

    python rdkafka_member.py <order.json>

The file has librdkafka's `config`, `topic`, and `records`, a file that gets a line `partition first last` per record,
as that of member.py. The member commits only what it has written there, and ends cleanly on SIGTERM. It prints each
commit that succeeded as JSON, and `refused` before each one that did not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

COMMIT_SECONDS = 0.1
LOST = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH)
LATE = (*LOST, KafkaError.REBALANCE_IN_PROGRESS, KafkaError._NO_OFFSET)
"""A commit that comes too late, or without any offset, is an answer, not an error of the test."""


class Member:
    stop_requested = False

    def __init__(self, order: dict[str, Any]) -> None:
        self._file = os.open(order["records"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._written: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(order["config"])
        self._consumer.subscribe([order["topic"]], on_revoke=self._revoked, on_lost=self._lost)

    def run(self) -> None:
        due = time.monotonic()
        while not self.stop_requested:
            record = self._consumer.poll(0.05)
            if record is not None and record.error() is None:
                os.write(self._file, b"%d %d %d\n" % (record.partition(), record.offset(), record.offset()))
                self._written[record.topic(), record.partition()] = record.offset() + 1
            if time.monotonic() >= due:
                self._commit(set(self._written))
                due = time.monotonic() + COMMIT_SECONDS
        self._commit(set(self._written))
        self._consumer.close()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = {(tp.topic, tp.partition) for tp in partitions}
        self._commit(places)
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self._written.pop((tp.topic, tp.partition), None)

    def _commit(self, places: set[tuple[str, int]]) -> None:
        offsets = [TopicPartition(*place, self._written[place]) for place in places & self._written.keys()]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in LATE:
                raise
            say(f"refused {self._as_json(offsets)} {error}")
        else:
            say(self._as_json(offsets))
            for tp in offsets:
                if self._written.get((tp.topic, tp.partition)) == tp.offset:
                    del self._written[tp.topic, tp.partition]

    @staticmethod
    def _as_json(offsets: list[TopicPartition]) -> str:
        return json.dumps({tp.partition: tp.offset for tp in offsets})


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: setattr(Member, "stop_requested", True))  # before the member joins
    Member(json.loads(Path(sys.argv[1]).read_text())).run()


if __name__ == "__main__":
    main()
