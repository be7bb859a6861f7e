"""The metric families that the source and the consumer share. The consumer's names begin with `consumer`.

The names follow Flink's Kafka source where it has the metric, so that dashboards carry over. One thing differs: offsets
here are those of the next record to read, while Flink's `currentOffset` is that of the last record read.
"""

from __future__ import annotations

from penstock.metrics.metric import PARTITION, Metric

PENDING_RECORDS = Metric(
    "pendingRecords", "gauge", "Records between the position and the end of the log, all partitions"
)
RECORDS_LAG = Metric("recordsLag", "gauge", "Records between the position and the end of the log", PARTITION)
CURRENT_OFFSET = Metric("currentOffset", "gauge", "Offset of the next record to read", PARTITION)
LATEST_OFFSET = Metric("latestOffset", "gauge", "Offset at which the readable log ends", PARTITION)
COMMITTED_OFFSET = Metric("committedOffset", "gauge", "Offset last committed to the consumer group", PARTITION)
COMMITS_SUCCEEDED = Metric("commitsSucceeded", "counter", "Commits to the consumer group that succeeded")
COMMITS_FAILED = Metric("commitsFailed", "counter", "Commits to the consumer group that failed or were refused")
MALFORMED_RECORDS = Metric("malformedRecords", "counter", "Records that did not parse")
DROPPED_RECORDS = Metric("droppedRecords", "counter", "Malformed records left out (modes DROPMALFORMED and DEADLETTER)")
SKIPPED_RECORDS = Metric("skippedRecords", "counter", "Records that the user's deserializer skipped")
READ_RECORDS = Metric("readRecords", "counter", "Records that the predicate of option where was applied to")
PASSED_RECORDS = Metric("passedRecords", "counter", "Records that met the predicate of option where")
EVENT_TIME_WATERMARK = Metric("eventTimeWatermark", "gauge", "Combined event-time watermark, in seconds since 1970")
EVENT_TIME_LAG = Metric("eventTimeLag", "gauge", "Seconds by which the combined event-time watermark lags the clock")
LATE_RECORDS = Metric("lateRecords", "counter", "Records whose event time the combined watermark had already passed")
PARTITION_WATERMARK = Metric(
    "partitionEventTimeWatermark", "gauge", "Event-time watermark of a partition, in seconds since 1970", PARTITION
)
PARTITION_IDLE = Metric(
    "partitionIdle", "gauge", "1 while a partition is idle and does not hold back others", PARTITION
)
PARTITION_HELD = Metric(
    "partitionHeld", "gauge", "1 while a partition is held back, because it is too far ahead of others", PARTITION
)
