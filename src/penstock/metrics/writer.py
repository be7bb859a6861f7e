"""The metrics of a `penstock.Writer` (W10): their names, and a snapshot of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.metrics.metric import PARTITION, Metric, Sample, samples_of
from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.written import ProducerMetrics

ROWS = Metric("writerRecordsOut", "counter", "Records that brokers have acknowledged")
BYTES = Metric("writerBytesOut", "counter", "Bytes of acknowledged record batches, after compression")
PAYLOAD_BYTES = Metric("writerPayloadBytesOut", "counter", "The same before compression")
REQUESTS = Metric("writerRequests", "counter", "Produce requests")
RETRIES = Metric("writerRetries", "counter", "Record batches that were sent again")
BATCHES_SPLIT = Metric("writerBatchesSplit", "counter", "Record batches that were too large for their topic")
THROTTLE_SECONDS = Metric("writerThrottleSeconds", "counter", "Seconds for which brokers asked the writer to pause")
LAST_OFFSET = Metric("writerLastOffset", "gauge", "Offset of the last acknowledged record", PARTITION)

WRITER_METRICS = (
    ROWS,
    BYTES,
    PAYLOAD_BYTES,
    REQUESTS,
    RETRIES,
    BATCHES_SPLIT,
    THROTTLE_SECONDS,
    LAST_OFFSET,
)


@dataclass(frozen=True, slots=True)
class WriterMetrics:
    producer: ProducerMetrics
    last_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of the partitions whose offsets brokers have returned."""

    def samples(self) -> Iterator[Sample]:
        counters = self.producer
        yield from samples_of(
            (
                (ROWS, counters.rows),
                (BYTES, counters.bytes),
                (PAYLOAD_BYTES, counters.payload_bytes),
                (REQUESTS, counters.requests),
                (RETRIES, counters.retries),
                (BATCHES_SPLIT, counters.batches_split),
                (THROTTLE_SECONDS, counters.throttle_seconds),
            )
        )
        for tp, offset in self.last_offsets.items():
            yield LAST_OFFSET, (tp.topic, str(tp.partition)), offset
