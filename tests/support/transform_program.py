"""A program that reads a topic, transforms it and writes it to another one, exactly once. It may kill itself.

Arguments: bootstrap servers, source, target, group, and where to die: `before-write`, `after-write`, `after-offsets`,
`after-commit`, or `never`. It dies in its second transaction. Otherwise it ends when no record comes for two seconds.
"""

from __future__ import annotations

import os
import signal
import sys

import pyarrow as pa

import penstock


def main(bootstrap: str, source: str, target: str, group: str, dies: str) -> None:
    at = {"before-write": 0, "after-write": 1, "after-offsets": 2, "after-commit": 3, "never": -1}[dies]
    transactions = 0

    def point(number: int) -> None:
        if number == at and transactions == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.instance.id": "the-only-one",  # its successor need not wait for the end of its session
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "consumer.timeout.ms": 2000,
        "fetch.message.max.bytes": 2000,  # many small batches
    }
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.transactional.id": f"transform-{group}", "topic": target}
    with penstock.Writer(options) as writer, penstock.ConsumerConnector(config) as connector:
        (stream,) = connector.create_message_streams({source: 1})[source]
        try:
            for batch in stream.batches(["key", "value"]):
                with writer.transaction() as transaction:
                    point(0)
                    transaction.write(transformed(batch))
                    point(1)
                    transaction.commit_offsets(stream)
                    point(2)
                point(3)
                transactions += 1
        except penstock.ConsumerTimeout:
            pass


def transformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    upper = pa.array([value.upper() for value in batch.column("value").to_pylist()], pa.binary())
    return pa.record_batch({"key": batch.column("key"), "value": upper})


if __name__ == "__main__":
    main(*sys.argv[1:])
