"""confluent-kafka to Arrow: the same columns as Penstock, in careful user code.

Each call returns thousands of messages; each column is one list comprehension and one pa.array call.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from serving import serve_requests

BATCH = 10_000
"""Messages per call. Measured: 50,000 takes 20% more CPU time, 100,000 takes 40% more."""

TUNED = {
    # By default a partition pauses for a second once its queue is full, which drains in less. Measured on 0.6 M
    # records: 0.15 M rows/s with the defaults, 0.3 to 0.4 M with longer queues alone, 0.5 M with this.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 400_000,
    "max.partition.fetch.bytes": 4 << 20,
}

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)


def to_arrow(messages: list[Any]) -> pa.RecordBatch:
    stamps = [message.timestamp() for message in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([message.topic() for message in messages], pa.string()),
            pa.array([message.partition() for message in messages], pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp[1] for stamp in stamps], pa.timestamp("ms", "UTC")).cast(SCHEMA.field("timestamp").type),
            # librdkafka's timestamp types begin at 1, Kafka's at 0.
            pa.array([stamp[0] - 1 for stamp in stamps], pa.int32()),
        ],
        schema=SCHEMA,
    )


def run(request: dict[str, Any]) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": "bench-confluent",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, **TUNED} if request.get("tuned") else settings)
    try:
        found = consumer.list_topics(request["topic"]).topics[request["topic"]].partitions
        began = time.perf_counter()
        consumer.assign([TopicPartition(request["topic"], number, OFFSET_BEGINNING) for number in found])
        rows = size = 0
        while rows < request["rows"]:
            messages = consumer.consume(min(BATCH, request["rows"] - rows), timeout=10.0)
            if not messages:
                raise RuntimeError(f"no more records arrived after {rows} of {request['rows']}")
            batch = to_arrow(messages)
            rows += batch.num_rows
            if request.get("verify"):
                size += sum(pc.sum(pc.binary_length(batch[name])).as_py() for name in ("key", "value"))
        return {"seconds": time.perf_counter() - began, "rows": rows, "bytes": size}
    finally:
        consumer.close()


if __name__ == "__main__":
    serve_requests(run)
