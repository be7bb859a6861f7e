"""Kafka's own options, behind `kafka.`, and the client they configure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import OptionError
from penstock.option_values import Option, milliseconds, number, one_of, servers, text
from penstock.wire.config import ClientConfig
from penstock.wire.security import MECHANISMS, PROTOCOLS, Security, parse_jaas

_ms, _size = milliseconds, number(1, 1 << 30)
JAAS = "kafka.sasl.jaas.config"

KAFKA_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "kafka.bootstrap.servers",
            servers,
            None,
            "Brokers to ask first: `host:port,host:port`. Required.",
        ),
        Option("kafka.security.protocol", one_of(*PROTOCOLS), "PLAINTEXT", "How to talk to the brokers."),
        Option(
            "kafka.ssl.truststore.location",
            text,
            None,
            "PEM file of the CAs to trust (default: the system's).",
        ),
        Option("kafka.ssl.truststore.certificates", text, None, "The same, as PEM text."),
        Option("kafka.ssl.truststore.type", text, "PEM", "PEM."),
        Option("kafka.ssl.truststore.password", text, None, "Not used: PEM certificates have none."),
        Option(
            "kafka.ssl.keystore.location",
            text,
            None,
            "PEM file with the client's certificate chain and key.",
        ),
        Option(
            "kafka.ssl.keystore.certificate.chain",
            text,
            None,
            "The client's certificate chain, as PEM text.",
        ),
        Option("kafka.ssl.keystore.key", text, None, "The client's private key, as PEM text."),
        Option("kafka.ssl.keystore.type", text, "PEM", "PEM."),
        Option("kafka.ssl.keystore.password", text, None, "Not used: see `kafka.ssl.key.password`."),
        Option("kafka.ssl.key.password", text, None, "The password of the client's private key."),
        Option(
            "kafka.ssl.endpoint.identification.algorithm",
            lambda name, value: value.strip() and one_of("https")(name, value),
            "https",
            "`https` checks the broker's host name against its certificate; empty does not.",
        ),
        Option("kafka.sasl.mechanism", one_of(*MECHANISMS), None, f"One of {', '.join(MECHANISMS)}."),
        Option(JAAS, text, None, 'Java\'s login line; `username="..."` and `password="..."` are read from it.'),
        Option("kafka.sasl.oauthbearer.token.endpoint.url", text, None, "Where OAUTHBEARER gets its token."),
        Option("kafka.sasl.kerberos.service.name", text, "kafka", "The brokers' Kerberos service."),
        Option(
            "kafka.sasl.kerberos.domain.name",
            text,
            None,
            "The brokers' Kerberos host, if not their address.",
        ),
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

KAFKA_NO_EFFECT = frozenset(
    "kafka." + name
    for name in """
    allow.auto.create.topics check.crcs client.dns.lookup enable.metrics.push
    exclude.internal.topics group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    max.poll.interval.ms max.poll.records metadata.max.age.ms metadata.recovery.strategy
    metadata.recovery.rebootstrap.trigger.ms metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.assignment.strategy reconnect.backoff.max.ms reconnect.backoff.ms
    sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
    sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms security.providers
    send.buffer.bytes session.timeout.ms share.acknowledgement.mode socket.connection.setup.timeout.max.ms
    ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    """.split()  # noqa: SIM905 (fifty lines otherwise)
)
"""Settings of Kafka's Java consumer that mean nothing here. Taken, with a note in the log, so that options can move
over as they are. Checksums, for one, are always checked."""


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
        security=_security(values),
        read_committed=values.get("kafka.isolation.level") == "read_committed",
        **{field_name: values[name] for name, field_name in fields.items() if name in values},
    )


def _security(values: Mapping[str, Any]) -> Security:
    for store in ("truststore", "keystore"):
        kind = values.get(f"kafka.ssl.{store}.type", "PEM").upper()
        location = values.get(f"kafka.ssl.{store}.location", "")
        advice = "Convert it: keytool -importkeystore to PKCS12, then openssl pkcs12 -in store.p12 -out store.pem"
        if kind != "PEM":
            raise OptionError(f"kafka.ssl.{store}.type", kind, "Penstock reads PEM files", advice)
        if location.lower().endswith((".jks", ".p12", ".pfx")):
            reason = "is a Java key store by its name; Penstock reads PEM files"
            raise OptionError(f"kafka.ssl.{store}.location", location, reason, advice)
    protocol = values.get("kafka.security.protocol", "PLAINTEXT")
    mechanism = values.get("kafka.sasl.mechanism")
    login = parse_jaas(values.get(JAAS, ""))
    if protocol.startswith("SASL"):
        mechanism = mechanism or "GSSAPI"  # Kafka's default
        if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not {"username", "password"} <= set(login):
            raise OptionError(
                JAAS,
                "***" if JAAS in values else None,
                f"must name username and password for kafka.sasl.mechanism {mechanism}",
                'Example: org.apache.kafka.common.security.plain.PlainLoginModule required username="me" '
                'password="...";',
            )
    elif mechanism is not None or JAAS in values:
        reason = f"does not log in, but {'kafka.sasl.mechanism' if mechanism else JAAS} is given"
        raise OptionError("kafka.security.protocol", protocol, reason, "Set SASL_SSL or SASL_PLAINTEXT")
    chain, key = values.get("kafka.ssl.keystore.certificate.chain"), values.get("kafka.ssl.keystore.key")
    if (chain is None) != (key is None):
        given, missing = ("certificate.chain", "key") if chain else ("key", "certificate.chain")
        reason = f"is of no use without kafka.ssl.keystore.{missing}"
        raise OptionError(f"kafka.ssl.keystore.{given}", "***", reason)
    return Security(
        protocol=protocol,
        check_hostname=bool(values.get("kafka.ssl.endpoint.identification.algorithm", "https")),
        ca_file=values.get("kafka.ssl.truststore.location"),
        ca_pem=values.get("kafka.ssl.truststore.certificates"),
        key_file=values.get("kafka.ssl.keystore.location"),
        key_pem=f"{chain}\n{key}" if chain and key else None,
        key_password=values.get("kafka.ssl.key.password"),
        sasl_mechanism=mechanism,
        sasl_username=login.get("username"),
        sasl_password=login.get("password"),
        sasl_claims=tuple(sorted(login.items())) if mechanism == "OAUTHBEARER" else (),
        oauth_endpoint=values.get("kafka.sasl.oauthbearer.token.endpoint.url"),
        kerberos_service=values.get("kafka.sasl.kerberos.service.name", "kafka"),
        kerberos_domain=values.get("kafka.sasl.kerberos.domain.name"),
    )
