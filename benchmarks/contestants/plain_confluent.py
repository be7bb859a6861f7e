"""confluent-kafka filling Arrow: the columns that Penstock makes, the way one would write it with care.

Messages come thousands at a time; each column is one list comprehension and one pa.array call.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from answering import answer_orders
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

BATCH = 10_000
"""Messages per call. Measured: 50,000 takes 20% more processor time, 100,000 takes 40% more."""

TUNED = {
    # Its default pauses a partition for a second once its queue is full, which drains in less. Measured: 0.15 M rows/s
    # with the defaults, 0.3 to 0.4 M with longer queues alone, 0.5 M with this, on 0.6 M records.
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
            # librdkafka counts from 1 where Kafka counts from 0.
            pa.array([stamp[0] - 1 for stamp in stamps], pa.int32()),
        ],
        schema=SCHEMA,
    )


def run(order: dict[str, Any]) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": order["bootstrap"],
        "group.id": "bench-confluent",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, **TUNED} if order.get("tuned") else settings)
    try:
        found = consumer.list_topics(order["topic"]).topics[order["topic"]].partitions
        began = time.perf_counter()
        consumer.assign([TopicPartition(order["topic"], number, OFFSET_BEGINNING) for number in found])
        rows = size = 0
        while rows < order["rows"]:
            messages = consumer.consume(min(BATCH, order["rows"] - rows), timeout=10.0)
            if not messages:
                raise RuntimeError(f"nothing more came after {rows} of {order['rows']} records")
            batch = to_arrow(messages)
            rows += batch.num_rows
            if order.get("verify"):
                size += sum(pc.sum(pc.binary_length(batch[name])).as_py() for name in ("key", "value"))
        return {"seconds": time.perf_counter() - began, "rows": rows, "bytes": size}
    finally:
        consumer.close()


if __name__ == "__main__":
    answer_orders(run)
