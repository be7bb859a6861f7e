"""Kafka's producer options, named as in Kafka with the prefix `kafka.`, and the ProducerConfig that they make up."""

from __future__ import annotations

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, milliseconds, number, one_of
from penstock.errors import OptionError
from penstock.wire.producer.producer_config import ProducerConfig

ACKS = "kafka.acks"
COMPRESSION = "kafka.compression.type"
IDEMPOTENCE = "kafka.enable.idempotence"
DELIVERY_TIMEOUT = "kafka.delivery.timeout.ms"
LINGER = "kafka.linger.ms"

LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}


def _acks(name: str, value: str) -> int:
    return {"all": -1, "-1": -1, "1": 1, "0": 0}[one_of("all", "-1", "1", "0")(name, value)]


_FIELDS = OptionTable(
    Option(
        ACKS,
        _acks,
        "all",
        "When a batch counts as written: `all` (all in-sync replicas have it), `1` (the leader has it) or `0` (it was "
        "sent). Values other than `all` switch `kafka.enable.idempotence` off.",
        "acks",
    ),
    Option(
        COMPRESSION,
        one_of("none", "gzip", "snappy", "lz4", "zstd"),
        "none",
        "The codec of record batches: `none`, `gzip`, `snappy`, `lz4` or `zstd`. `lz4` costs little and saves most of "
        "the network; `zstd` needs brokers from Kafka 2.1 on.",
        "compression",
    ),
    Option(
        "kafka.batch.size",
        number(1, 1 << 30),
        str(512 << 10),
        "The size in bytes, before compression, at which a record batch is sent. A larger record is a batch of its "
        "own. If a topic does not accept a batch (`max.message.bytes`), the batch is split and sent again.",
        "batch_size",
    ),
    Option(
        LINGER,
        milliseconds(0),
        "0",
        "The time in milliseconds for which a `penstock.Writer` keeps a batch that is not full, for the records of "
        "later calls. Spark's tasks do not wait: they send everything at their end.",
        "linger",
    ),
    Option(
        "kafka.max.request.size",
        number(1 << 10, 1 << 30),
        str(1 << 20),
        "The largest size in bytes of one request, and of one record before compression. A larger record fails.",
        "max_request_size",
    ),
    Option(
        "kafka.buffer.memory",
        number(1 << 16, 1 << 34),
        str(32 << 20),
        "The largest size in bytes of the batches that a task holds in memory. A task that has more waits until the "
        "brokers have taken some.",
        "buffer_size",
    ),
    Option(
        DELIVERY_TIMEOUT,
        milliseconds(1),
        "120000",
        "The time in milliseconds for which a batch is retried before the write fails.",
        "delivery_timeout",
    ),
    Option(
        "kafka.transaction.timeout.ms",
        milliseconds(1),
        "900000",
        "The time in milliseconds after which the broker aborts a transaction that has not ended. With "
        "`deliveryGuarantee=exactly-once` a batch must be written and committed within it. Brokers allow 15 minutes by "
        "default (`transaction.max.timeout.ms`).",
        "transaction_timeout",
    ),
    Option(
        "kafka.max.in.flight.requests.per.connection",
        number(1, 5),
        "5",
        "The largest number of requests that a broker has not answered. With more than five, Kafka does not keep the "
        "order of an idempotent producer.",
        "max_in_flight",
    ),
    Option(
        IDEMPOTENCE,
        flag,
        "true",
        "Whether retries of a request are recognised by the broker, so that they write nothing twice and keep the "
        "order. `false` is for brokers that do not allow it.",
        "idempotent",
    ),
)

_LEVEL_OPTIONS = OptionTable(
    *(
        Option(
            f"kafka.compression.{codec}.level",
            number(low, high),
            None,
            f"The compression level of `{codec}`, from {low} to {high}. Default: the codec's own.",
        )
        for codec, (low, high) in LEVELS.items()
    )
)

PRODUCER_OPTIONS = OptionTable(*_FIELDS.values(), *_LEVEL_OPTIONS.values())

PRODUCER_NO_EFFECT = {
    "kafka." + name: reason
    for names, reason in (
        ("retries", f"{DELIVERY_TIMEOUT} limits the time of all retries"),
        ("max.block.ms", "kafka.default.api.timeout.ms limits the wait for metadata"),
        ("partitioner.ignore.keys partitioner.adaptive.partitioning.enable", "rows without a key rotate"),
        ("partitioner.availability.timeout.ms", "rows without a key go to partitions that have a leader"),
        ("send.buffer.bytes", "the operating system sizes the socket's buffers"),
        ("metadata.max.idle.ms", "metadata is kept for one task"),
        ("transaction.two.phase.commit.enable", "brokers do not offer it by default"),
    )
    for name in names.split()
}
"""Settings of Kafka's Java producer that have no effect here, each with the reason."""

_SERIALIZERS = "Columns are bytes or text. Set keyFormat and valueFormat to encode typed columns"

PRODUCER_REFUSED = {
    "kafka.key.serializer": _SERIALIZERS,
    "kafka.value.serializer": _SERIALIZERS,
    "kafka.partitioner.class": "It is a Java class. Compute the column `partition` instead",
    "kafka.interceptor.classes": "Interceptors are Java classes. Change the columns before they are written; for the "
    "result see LagListener in Spark, and the metrics of penstock.Writer",
}


def producer_config(values: OptionValues) -> ProducerConfig:
    """The producer's settings. Raises OptionError for those that contradict each other."""
    fields = values.fields(_FIELDS)
    acks, idempotent = fields["acks"], fields["idempotent"]
    if acks != -1 and idempotent:
        if IDEMPOTENCE in values.given:
            hint = f"Set {ACKS}=all, or {IDEMPOTENCE}=false"
            raise OptionError(ACKS, acks, f"contradicts {IDEMPOTENCE}=true", hint)
        fields["idempotent"] = False
    compression = fields["compression"]
    level = f"kafka.compression.{compression}.level"
    return ProducerConfig(level=values[level] if level in _LEVEL_OPTIONS else None, **fields)
