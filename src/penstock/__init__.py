"""Penstock: the fastest way from Kafka into PySpark and back.

    spark.read.format("penstock").option("kafka.bootstrap.servers", "broker:9092").option("subscribe", "words").load()

The names below are the public API; everything else is private. Importing the package is fast: Spark, Arrow and the
Kafka client are imported with the first name that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import (
    AcknowledgementRefused,
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    BrokerUnavailable,
    ColumnError,
    CommitRefused,
    ConsumerTimeout,
    CorruptBatch,
    DataLoss,
    DeserializerFailed,
    EmbeddedBrokerError,
    EventTimeError,
    IncompatibleSchema,
    MalformedRecord,
    MessageStreamsExist,
    NoGroupOffset,
    NoOffsetForTimestamp,
    OffsetOutOfRange,
    OpenTransaction,
    OptionError,
    PenstockError,
    PredicateFailed,
    ProtocolError,
    RecordTooLarge,
    RegistryError,
    RegistryRefused,
    RegistryUnavailable,
    ReplayError,
    RowsRefused,
    SchemaNotFound,
    SchemaRefused,
    SinkError,
    TimeLookupTimeout,
    TopicRecreated,
    TransactionLost,
    UnknownQuery,
    UnknownTopic,
    UnreadableSchema,
    UnrelatedCheckpoint,
    UnsupportedSpark,
    UnwritableRecord,
)

if TYPE_CHECKING:
    from penstock._kernel import Message
    from penstock.arrow.reading import read_batches
    from penstock.arrow.transaction import Transaction
    from penstock.arrow.write_result import PartitionResult, WriteResult
    from penstock.arrow.writing import Writer, write_batches
    from penstock.consumer.connector import ConsumerConnector
    from penstock.consumer.event_time.batch import EventBatch
    from penstock.consumer.share.share_records import ShareBatch, ShareMessage
    from penstock.consumer.share.share_stream import ShareStream
    from penstock.consumer.stream.async_stream import AsyncStream
    from penstock.consumer.stream.stream import Stream
    from penstock.consumer.subscription import AllowTopics, DenyTopics
    from penstock.eventtime.strategy import WatermarkStrategy
    from penstock.eventtime.tracker import EventTimeStatus, PartitionEventTime
    from penstock.model.topic_partition import TopicPartition
    from penstock.spark import register
    from penstock.streamer.dead_letters import DeadLetter, DeadLetterTopic
    from penstock.streamer.sinks.adbc import AdbcSink
    from penstock.streamer.sinks.delta import DeltaSink
    from penstock.streamer.sinks.iceberg import IcebergSink
    from penstock.streamer.sinks.parquet import ParquetSink
    from penstock.streamer.sinks.sink import CallableSink
    from penstock.streamer.streamer import Streamer
    from penstock.testing import EmbeddedKafka

    __version__: str

__all__ = [
    "AcknowledgementRefused",
    "AdbcSink",
    "AllowTopics",
    "AsyncStream",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "BrokerError",
    "BrokerUnavailable",
    "CallableSink",
    "ColumnError",
    "CommitRefused",
    "ConsumerConnector",
    "ConsumerTimeout",
    "CorruptBatch",
    "DataLoss",
    "DeadLetter",
    "DeadLetterTopic",
    "DeltaSink",
    "DenyTopics",
    "DeserializerFailed",
    "EmbeddedBrokerError",
    "EmbeddedKafka",
    "EventBatch",
    "EventTimeError",
    "EventTimeStatus",
    "IcebergSink",
    "IncompatibleSchema",
    "MalformedRecord",
    "Message",
    "MessageStreamsExist",
    "NoGroupOffset",
    "NoOffsetForTimestamp",
    "OffsetOutOfRange",
    "OpenTransaction",
    "OptionError",
    "ParquetSink",
    "PartitionEventTime",
    "PartitionResult",
    "PenstockError",
    "PredicateFailed",
    "ProtocolError",
    "RecordTooLarge",
    "RegistryError",
    "RegistryRefused",
    "RegistryUnavailable",
    "ReplayError",
    "RowsRefused",
    "SchemaNotFound",
    "SchemaRefused",
    "ShareBatch",
    "ShareMessage",
    "ShareStream",
    "SinkError",
    "Stream",
    "Streamer",
    "TimeLookupTimeout",
    "TopicPartition",
    "TopicRecreated",
    "Transaction",
    "TransactionLost",
    "UnknownQuery",
    "UnknownTopic",
    "UnreadableSchema",
    "UnrelatedCheckpoint",
    "UnsupportedSpark",
    "UnwritableRecord",
    "WatermarkStrategy",
    "WriteResult",
    "Writer",
    "__version__",
    "read_batches",
    "register",
    "write_batches",
]

_MODULES = {
    "AdbcSink": "penstock.streamer.sinks.adbc",
    "AllowTopics": "penstock.consumer.subscription",
    "AsyncStream": "penstock.consumer.stream.async_stream",
    "CallableSink": "penstock.streamer.sinks.sink",
    "ConsumerConnector": "penstock.consumer.connector",
    "DeadLetter": "penstock.streamer.dead_letters",
    "DeadLetterTopic": "penstock.streamer.dead_letters",
    "DenyTopics": "penstock.consumer.subscription",
    "EmbeddedKafka": "penstock.testing",
    "DeltaSink": "penstock.streamer.sinks.delta",
    "EventBatch": "penstock.consumer.event_time.batch",
    "EventTimeStatus": "penstock.eventtime.tracker",
    "IcebergSink": "penstock.streamer.sinks.iceberg",
    "Message": "penstock._kernel",
    "ParquetSink": "penstock.streamer.sinks.parquet",
    "PartitionEventTime": "penstock.eventtime.tracker",
    "PartitionResult": "penstock.arrow.write_result",
    "ShareBatch": "penstock.consumer.share.share_records",
    "ShareMessage": "penstock.consumer.share.share_records",
    "ShareStream": "penstock.consumer.share.share_stream",
    "Stream": "penstock.consumer.stream.stream",
    "Streamer": "penstock.streamer.streamer",
    "TopicPartition": "penstock.model.topic_partition",
    "Transaction": "penstock.arrow.transaction",
    "WatermarkStrategy": "penstock.eventtime.strategy",
    "WriteResult": "penstock.arrow.write_result",
    "Writer": "penstock.arrow.writing",
    "read_batches": "penstock.arrow.reading",
    "register": "penstock.spark",
    "write_batches": "penstock.arrow.writing",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("penstock")
    elif name in _MODULES:
        from importlib import import_module

        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
