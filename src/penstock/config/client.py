"""Kafka's own options, behind `kafka.`, and the client they configure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.option import Option, milliseconds, number, one_of, servers, text
from penstock.config.security import SECURITY_OPTIONS, security
from penstock.wire.client_config import ClientConfig

_ms, _size = milliseconds, number(1, 1 << 30)

KAFKA_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "kafka.bootstrap.servers",
            servers,
            None,
            "Brokers to ask first: `host:port,host:port`. Required.",
        ),
        *SECURITY_OPTIONS.values(),
        Option("kafka.client.id", text, "penstock", "The name brokers see in their logs and quotas."),
        Option(
            "kafka.client.rack",
            text,
            None,
            "This client's rack: replicas there are read if the brokers say so.",
        ),
        Option(
            "kafka.group.id",
            text,
            None,
            "The group whose offsets `startingOffsets=group` starts from, and to which a stream commits what it has "
            "finished. It is never joined.",
        ),
        Option(
            "kafka.auto.offset.reset",
            one_of("earliest", "latest", "none"),
            None,
            "Where a partition starts that the group has no offset for; only together with `kafka.group.id`. Default: "
            "`latest` in a stream, as in Kafka; an error (`none`) in a batch.",
        ),
        Option(
            "kafka.auto.commit.interval.ms",
            _ms(1),
            "5000",
            "How often a stream with `commitMode=periodic` commits.",
        ),
        Option(
            "kafka.isolation.level",
            one_of("read_uncommitted", "read_committed"),
            "read_uncommitted",
            "`read_committed` leaves out records of aborted and of open transactions.",
        ),
        Option(
            "kafka.request.timeout.ms",
            _ms(1),
            "30000",
            "How long one request may take. While an answer is overdue, other brokers are asked who leads now: a "
            "broker that hangs is left as soon as another one has taken its place.",
        ),
        Option(
            "kafka.default.api.timeout.ms",
            _ms(1),
            "60000",
            "How long planning keeps trying to get an answer.",
        ),
        Option("kafka.socket.connection.setup.timeout.ms", _ms(1), "10000", "How long connecting may take."),
        Option("kafka.retry.backoff.ms", _ms(0), "100", "The first pause before a retry; it doubles."),
        Option("kafka.retry.backoff.max.ms", _ms(0), "1000", "The longest pause before a retry."),
        Option("kafka.connections.max.idle.ms", _ms(1), "60000", "When an unused connection is closed."),
        Option("kafka.fetch.min.bytes", _size, "1", "The broker waits for so many bytes,"),
        Option("kafka.fetch.max.wait.ms", _ms(0), "500", "but not longer than this."),
        Option("kafka.fetch.max.bytes", _size, str(50 << 20), "The most bytes of one response."),
        Option("kafka.max.partition.fetch.bytes", _size, str(4 << 20), "The most bytes of one partition in it."),
        Option(
            "kafka.receive.buffer.bytes",
            number(-1, 1 << 30),
            "-1",
            "The socket's buffer; -1 leaves it to the OS.",
        ),
    )
}

_NOT_JOINED = "no consumer group is joined"
_SAME = "Penstock works without it"

KAFKA_NO_EFFECT = {
    "kafka." + name: reason
    for names, reason in (
        ("group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms", _NOT_JOINED),
        ("max.poll.interval.ms partition.assignment.strategy session.timeout.ms", _NOT_JOINED),
        ("max.poll.records", "there is no poll: maxRecordsPerPartition and maxOffsetsPerTrigger limit a read"),
        ("allow.auto.create.topics", "Penstock creates no topics"),
        ("check.crcs", "checksums are always checked"),
        ("exclude.internal.topics", "subscribePattern says which topics are read"),
        ("metadata.max.age.ms", "partition.discovery.interval.ms says how often to look for partitions"),
        ("client.dns.lookup metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms", _SAME),
        ("reconnect.backoff.max.ms reconnect.backoff.ms", "kafka.retry.backoff.ms is the pause before any retry"),
        ("retries", "kafka.default.api.timeout.ms says how long to try"),
        ("socket.connection.setup.timeout.max.ms", "kafka.socket.connection.setup.timeout.ms does not grow"),
        ("send.buffer.bytes", "requests are small"),
        ("enable.metrics.push metric.reporters metrics.num.samples", "Penstock has metrics of its own"),
        ("metrics.recording.level metrics.sample.window.ms", "Penstock has metrics of its own"),
        ("share.acknowledgement.mode share.acquire.mode", "no share group is joined"),
        ("bootstrap.controllers", "kafka.bootstrap.servers is asked"),
    )
    for name in names.split()
}
"""Settings of Kafka's Java consumer that change nothing here, and why. Taken with a warning, so that options can move
over as they are. Those of security are never ignored: see SECURITY_REFUSED."""


def client_config(values: Mapping[str, Any]) -> ClientConfig:
    fields = {
        "kafka.client.id": "client_id",
        "kafka.client.rack": "client_rack",
        "kafka.request.timeout.ms": "request_timeout",
        "kafka.default.api.timeout.ms": "api_timeout",
        "kafka.socket.connection.setup.timeout.ms": "connect_timeout",
        "kafka.retry.backoff.ms": "retry_backoff",
        "kafka.retry.backoff.max.ms": "retry_backoff_max",
        "kafka.connections.max.idle.ms": "idle_timeout",
        "kafka.fetch.min.bytes": "fetch_min_bytes",
        "kafka.fetch.max.wait.ms": "fetch_max_wait",
        "kafka.fetch.max.bytes": "fetch_max_bytes",
        "kafka.max.partition.fetch.bytes": "partition_max_bytes",
        "kafka.receive.buffer.bytes": "receive_buffer",
        "decompressionLimitBytes": "decompression_limit",
    }
    return ClientConfig(
        bootstrap=values["kafka.bootstrap.servers"],
        security=security(values),
        read_committed=values.get("kafka.isolation.level") == "read_committed",
        **{field_name: values[name] for name, field_name in fields.items() if name in values},
    )
