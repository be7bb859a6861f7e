"""Kafka's client options, named as in Kafka with the prefix `kafka.`, and the ClientConfig that they make up."""

from __future__ import annotations

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import milliseconds, number, one_of, rack, reset_rule, servers, text
from penstock.config.security import SECURITY_OPTIONS, security
from penstock.wire.client_config import ClientConfig

_ms, _size = milliseconds, number(1, 1 << 30)


def _read_committed(name: str, value: str) -> bool:
    return one_of("read_uncommitted", "read_committed")(name, value) == "read_committed"


def _rebootstrap(name: str, value: str) -> bool:
    return one_of("rebootstrap", "none")(name, value) == "rebootstrap"


DECOMPRESSION_LIMIT = Option(
    "decompressionLimitBytes",
    number(1 << 16, 1 << 30),
    str(256 << 20),
    "The largest size in bytes that one record batch may have after decompression. A larger one is refused as "
    "damaged or hostile.",
)

_OWN_OPTIONS = OptionTable(
    Option(
        "kafka.bootstrap.servers",
        servers,
        None,
        "The brokers to connect to first, as `host:port,host:port`. Required.",
        "bootstrap",
    ),
    Option(
        "kafka.client.id",
        text,
        "penstock",
        "The client's name in the brokers' logs and quotas.",
        "client_id",
    ),
    Option(
        "kafka.client.rack",
        rack,
        None,
        "The client's rack. Records are fetched from a replica in this rack if the brokers offer one. `env:ZONE` takes "
        "it from the environment variable `ZONE`, and `python:module:function` from a Python function without "
        "arguments, each in the process that reads: executors may run in several zones.",
        "client_rack",
    ),
    Option(
        "kafka.group.id",
        text,
        None,
        "The group from whose committed offsets `startingOffsets=group` starts, and to which a stream commits the "
        "offsets of finished batches. The source never joins the group.",
    ),
    Option(
        "kafka.auto.offset.reset",
        reset_rule,
        None,
        "Where a partition starts for which the group has no committed offset: `earliest`, `latest`, `none` (an "
        "error), or `by_duration:PT1H`, at the first record of the last hour (a duration in ISO 8601). Allowed only "
        "with `kafka.group.id`. Default: `latest` in a stream, as in Kafka, and `none` (an error) in a batch.",
    ),
    Option(
        "kafka.auto.commit.interval.ms",
        _ms(1),
        "5000",
        "The interval in milliseconds at which a stream with `commitMode=periodic` commits.",
    ),
    Option(
        "kafka.isolation.level",
        _read_committed,
        "read_uncommitted",
        "`read_committed` skips records of aborted transactions and stops before open ones. `read_uncommitted` reads "
        "all records.",
        "read_committed",
    ),
    Option(
        "kafka.request.timeout.ms",
        _ms(1),
        "30000",
        "The longest time in milliseconds that one request may take. While a response is overdue, the client asks "
        "other brokers for the partition's leader and moves to a new leader as soon as there is one.",
        "request_timeout",
    ),
    Option(
        "kafka.default.api.timeout.ms",
        _ms(1),
        "60000",
        "The longest time in milliseconds that planning retries a request.",
        "api_timeout",
    ),
    Option(
        "kafka.socket.connection.setup.timeout.ms",
        _ms(1),
        "10000",
        "The longest time in milliseconds that connecting to a broker may take, TLS and login included.",
        "connect_timeout",
    ),
    Option(
        "kafka.retry.backoff.ms",
        _ms(0),
        "100",
        "The pause in milliseconds before the first retry. It doubles with each further retry.",
        "retry_backoff",
    ),
    Option(
        "kafka.retry.backoff.max.ms",
        _ms(0),
        "1000",
        "The longest pause in milliseconds before a retry.",
        "retry_backoff_max",
    ),
    Option(
        "kafka.connections.max.idle.ms",
        _ms(1),
        "60000",
        "The time in milliseconds after which an unused connection is closed.",
        "idle_timeout",
    ),
    Option(
        "kafka.metadata.recovery.strategy",
        _rebootstrap,
        "rebootstrap",
        "What the client does when none of the brokers that it knows answers. `rebootstrap` asks "
        "`kafka.bootstrap.servers` again, and resolves their names again. `none` asks only the known brokers.",
        "rebootstrap",
    ),
    Option(
        "kafka.metadata.recovery.rebootstrap.trigger.ms",
        _ms(0),
        "300000",
        "The time in milliseconds without an answer from any known broker after which the client forgets them all, and "
        "starts from `kafka.bootstrap.servers` again. Known brokers that refuse connections do not take this time: the "
        "bootstrap servers are asked right after them.",
        "rebootstrap_after",
    ),
    Option(
        "kafka.fetch.min.bytes",
        _size,
        "1",
        "The number of bytes for which a broker waits before it answers a fetch, up to `kafka.fetch.max.wait.ms`.",
        "fetch_min_bytes",
    ),
    Option(
        "kafka.fetch.max.wait.ms",
        _ms(0),
        "500",
        "The longest time in milliseconds that a broker waits for `kafka.fetch.min.bytes`.",
        "fetch_max_wait",
    ),
    Option(
        "kafka.fetch.max.bytes",
        _size,
        str(50 << 20),
        "The largest size in bytes of one fetch response.",
        "fetch_max_bytes",
    ),
    Option(
        "kafka.max.partition.fetch.bytes",
        _size,
        str(4 << 20),
        "The largest size in bytes of one partition's records in a fetch response.",
        "partition_max_bytes",
    ),
    Option(
        "kafka.receive.buffer.bytes",
        number(-1, 1 << 30),
        "-1",
        "The size in bytes of the socket's receive buffer. -1 leaves it to the operating system.",
        "receive_buffer",
    ),
)

KAFKA_OPTIONS = OptionTable(*_OWN_OPTIONS.values(), *SECURITY_OPTIONS.values())

CLIENT_OPTIONS = OptionTable(*KAFKA_OPTIONS.values(), DECOMPRESSION_LIMIT)
"""The options of a ClientConfig."""

_NOT_JOINED = "no consumer group is joined"
_NOT_NEEDED = "Penstock works without it"
_OWN_METRICS = "Penstock has its own metrics"

KAFKA_NO_EFFECT = {
    "kafka." + name: reason
    for names, reason in (
        ("group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms", _NOT_JOINED),
        ("max.poll.interval.ms partition.assignment.strategy session.timeout.ms", _NOT_JOINED),
        ("max.poll.records", "there is no poll: maxRecordsPerPartition and maxOffsetsPerTrigger limit a read"),
        ("allow.auto.create.topics", "Penstock does not create topics"),
        ("check.crcs", "checksums are always checked"),
        ("exclude.internal.topics", "subscribePattern decides which topics are read"),
        ("metadata.max.age.ms", "partition.discovery.interval.ms is the interval of partition discovery"),
        ("client.dns.lookup", _NOT_NEEDED),
        ("reconnect.backoff.max.ms reconnect.backoff.ms", "kafka.retry.backoff.ms is the pause before any retry"),
        ("retries", "kafka.default.api.timeout.ms limits the time of all retries"),
        ("socket.connection.setup.timeout.max.ms", "kafka.socket.connection.setup.timeout.ms does not grow"),
        ("send.buffer.bytes", "requests are small"),
        ("enable.metrics.push metric.reporters metrics.num.samples", _OWN_METRICS),
        ("metrics.recording.level metrics.sample.window.ms", _OWN_METRICS),
        ("share.acknowledgement.mode share.acquire.mode", "no share group is joined"),
        ("bootstrap.controllers", "Penstock connects to kafka.bootstrap.servers"),
    )
    for name in names.split()
}
"""Settings of Kafka's Java consumer that have no effect here, each with the reason. They are accepted with a warning,
so that options can be moved over unchanged. Security settings are never ignored: see SECURITY_REFUSED."""


def client_config(values: OptionValues) -> ClientConfig:
    return ClientConfig(
        security=security(values),
        decompression_limit=values[DECOMPRESSION_LIMIT.name],
        option_prefix=values.prefix,
        **values.fields(_OWN_OPTIONS),
    )
