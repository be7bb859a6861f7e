"""Every option, declared once: its name, how its text is read, its default and what it is for.

Parsing, errors, defaults, `--help` and the table in the docs all come from the two tables here: OPTIONS (the source's
own, named as in Spark's Kafka source) and KAFKA_OPTIONS (Kafka's own, behind `kafka.`).
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionError
from penstock.startup import (
    AtOffsets,
    AtTimestamp,
    Earliest,
    EndMode,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    StartRules,
)
from penstock.topics import AssignedPartitions, Subscription, TopicNames, TopicPartition, TopicPattern
from penstock.wire.config import ClientConfig
from penstock.wire.security import MECHANISMS, PROTOCOLS, Security, parse_jaas

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    parse: Callable[[str, str], Any]
    default: str | None
    doc: str


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a user asked for: parsed, checked, picklable, and without a secret in its repr."""

    client: ClientConfig
    subscription: Subscription
    starting: StartMode | None = None
    ending: EndMode = field(default_factory=Latest)
    rules: StartRules = field(default_factory=StartRules)
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout: float = 120.0
    offset_tries: int = 1
    offset_retry_interval: float = 1.0
    push_filters: bool | None = None


# --- reading one text ---------------------------------------------------------------------------------------------


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise OptionError(name, value, "is empty")
    return value.strip()


def _number(low: int, high: int = 2**63 - 1) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise OptionError(name, value, "is not a whole number") from None
        if not low <= number <= high:
            limit = f"at least {low}" if number < low else f"at most {high}"
            raise OptionError(name, value, f"must be {limit}")
        return number

    return parse


def _milliseconds(low: int) -> Callable[[str, str], float]:
    parse = _number(low, 2**31 - 1)
    return lambda name, value: parse(name, value) / 1000


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(name, value, "must be true or false")
    return value.strip().lower() == "true"


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        wanted = value.strip().lower()
        for choice in choices:
            if choice.lower() == wanted:
                return choice
        raise OptionError(name, value, f"must be one of {', '.join(choices)}", _did_you_mean(wanted, choices))

    return parse


def _names(name: str, value: str) -> TopicNames:
    topics = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not topics:
        raise OptionError(name, value, "names no topic")
    return TopicNames(topics)


def _pattern(name: str, value: str) -> TopicPattern:
    try:
        re.compile(_text(name, value))
    except re.error as error:
        raise OptionError(name, value, f"is not a regular expression: {error}") from None
    return TopicPattern(value.strip())


def _json(name: str, value: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise OptionError(name, value, f"is not JSON: {error}", f"Example: {example}") from None
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(name, value, "must be a JSON object with at least one topic", f"Example: {example}")
    return parsed


ASSIGN_EXAMPLE = '{"topicA": [0, 1], "topicB": [2]}'
OFFSETS_EXAMPLE = '{"topicA": {"0": 23, "1": -2}, "topicB": "earliest"}'
TIMES_EXAMPLE = '{"topicA": {"0": 1000, "1": 2000}, "topicB": 1500}'


def _assigned(name: str, value: str) -> AssignedPartitions:
    partitions: list[TopicPartition] = []
    for topic, numbers in _json(name, value, ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list) or not numbers:
            raise OptionError(name, value, f"topic {topic!r} needs a list of partitions", f"Example: {ASSIGN_EXAMPLE}")
        partitions += [TopicPartition(topic, _whole(name, value, number, 0)) for number in numbers]
    return AssignedPartitions(tuple(dict.fromkeys(partitions)))


def _whole(name: str, value: str, number: object, low: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number < 2**63:
        raise OptionError(name, value, f"{number!r} is not a whole number of at least {low}")
    return number


def _per_partition(name: str, value: str, low: int, words: Mapping[str, int], example: str) -> PerPartition:
    """A number per partition, or per whole topic, which Spark's own source does not take."""

    def number(raw: object) -> int:
        if isinstance(raw, str) and raw.lower() in words:
            return words[raw.lower()]
        return _whole(name, value, raw, low)

    topics: dict[str, int] = {}
    partitions: dict[TopicPartition, int] = {}
    for topic, given in _json(name, value, example).items():
        if not isinstance(given, dict):
            topics[topic] = number(given)
            continue
        for key, raw in given.items():
            if not key.isdecimal():
                raise OptionError(name, value, f"{key!r} is not a partition of {topic!r}", f"Example: {example}")
            partitions[TopicPartition(topic, int(key))] = number(raw)
    return PerPartition(topics, partitions)


WORDS = {"earliest": -2, "latest": -1}


def _offsets(name: str, value: str) -> StartMode:
    word = value.strip().lower()
    if word == "earliest":
        return Earliest()
    if word == "latest":
        return Latest()
    if word == "group":
        return GroupOffsets()
    if not word.startswith("{"):
        near = _did_you_mean(word, ("earliest", "latest", "group"))
        raise OptionError(name, value, "must be earliest, latest, group or JSON", near or f"Example: {OFFSETS_EXAMPLE}")
    return AtOffsets(_per_partition(name, value, -2, WORDS, OFFSETS_EXAMPLE), name)


def _timestamp(name: str, value: str) -> AtTimestamp:
    return AtTimestamp(_number(0)(name, value), name)


def _timestamps(name: str, value: str) -> AtTimestamp:
    return AtTimestamp(_per_partition(name, value, 0, {}, TIMES_EXAMPLE), name)


def _servers(name: str, value: str) -> tuple[tuple[str, int], ...]:
    servers = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        host, _, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise OptionError(name, value, f"{part!r} is not host:port", "Example: broker1:9092,broker2:9092")
        servers.append((host, int(port)))
    if not servers:
        raise OptionError(name, value, "names no broker", "Example: broker1:9092,broker2:9092")
    return tuple(servers)


# --- the tables ---------------------------------------------------------------------------------------------------

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")

OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("subscribe", _names, None, "Topics to read, with commas between them."),
        Option("subscribePattern", _pattern, None, "A regular expression that whole topic names must match."),
        Option("assign", _assigned, None, f"Single partitions as JSON: `{ASSIGN_EXAMPLE}`."),
        Option(
            "startingOffsets",
            _offsets,
            "earliest",
            "Where to start: `earliest`, `group` (the offsets that `kafka.group.id` has committed), or JSON with the "
            f"next offset per partition or topic, -2 for earliest: `{OFFSETS_EXAMPLE}`.",
        ),
        Option(
            "endingOffsets",
            _offsets,
            "latest",
            "Where to stop (exclusive): `latest`, or JSON with an offset per partition or topic, -1 for latest.",
        ),
        Option("startingTimestamp", _timestamp, None, "Start every partition at this time (ms since 1970)."),
        Option("endingTimestamp", _timestamp, None, "Stop every partition before the first record at this time (ms)."),
        Option(
            "startingOffsetsByTimestamp",
            _timestamps,
            None,
            f"Start at a time (ms) per partition or topic: `{TIMES_EXAMPLE}`.",
        ),
        Option("endingOffsetsByTimestamp", _timestamps, None, "Stop at a time (ms) per partition or topic, as JSON."),
        Option(
            "startingOffsetsByTimestampStrategy",
            _one_of("latest", "error"),
            "latest",
            "For a partition with no record at or after its starting time: begin at its end (`latest`), or fail.",
        ),
        Option("minPartitions", _number(1, 2**31 - 1), None, "Cut large ranges until there are about so many tasks."),
        Option("maxRecordsPerPartition", _number(1), None, "The most offsets one task reads."),
        Option("includeHeaders", _flag, "false", "Add the `headers` column."),
        Option(
            "failOnDataLoss",
            _flag,
            "true",
            "Whether offsets that are gone (retention, a deleted topic) fail the query, or are warned about.",
        ),
        Option(
            "kafkaConsumer.pollTimeoutMs",
            _milliseconds(1),
            "120000",
            "How long a task keeps trying without getting a record before it fails, with the history of tries.",
        ),
        Option(
            "fetchOffset.numRetries",
            _number(1, 1000),
            "1",
            "How often planning asks for offsets; each time it retries within `kafka.default.api.timeout.ms`.",
        ),
        Option("fetchOffset.retryIntervalMs", _milliseconds(0), "1000", "The pause between two of those."),
        Option(
            "filterPushdown",
            _one_of("auto", "true", "false"),
            "auto",
            "Whether filters on topic, partition, offset and timestamp narrow what is fetched. Spark allows it when "
            "`spark.sql.python.filterPushdown.enabled` is true; `auto` follows that.",
        ),
        Option(
            "decompressionLimitBytes",
            _number(1 << 16, 1 << 30),
            str(256 << 20),
            "The most that one record batch may unpack to; more is taken for an attack or damage.",
        ),
    )
}

NO_EFFECT = {
    "maxOffsetsPerTrigger": "it limits streaming queries",
    "minOffsetsPerTrigger": "it delays streaming queries",
    "maxTriggerDelay": "it belongs to minOffsetsPerTrigger",
    "groupIdPrefix": "no consumer group is joined",
}
"""Options of Spark's source that change nothing in a batch read: taken, with a warning, as Spark does."""

DESERIALIZER_ADVICE = "Keys and values leave Kafka as bytes: use DataFrame operations to decode them"

REFUSED = {
    "kafka.key.deserializer": DESERIALIZER_ADVICE,
    "kafka.value.deserializer": DESERIALIZER_ADVICE,
    "kafka.enable.auto.commit": "Reading moves no group's offsets: there is nothing to commit automatically",
    "kafka.interceptor.classes": "Interceptors can change records, and are Java classes: use DataFrame operations",
    "path": "A topic is not a path: use option subscribe",
}

RESET_ADVICE = (
    "Set the source option startingOffsets to say where to start. (It is taken together with kafka.group.id, for "
    "partitions where the group has no offset)"
)

_ms, _size = _milliseconds, _number(1, 1 << 30)
JAAS = "kafka.sasl.jaas.config"

KAFKA_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("kafka.bootstrap.servers", _servers, None, "Brokers to ask first: `host:port,host:port`. Required."),
        Option("kafka.security.protocol", _one_of(*PROTOCOLS), "PLAINTEXT", "How to talk to the brokers."),
        Option("kafka.ssl.truststore.location", _text, None, "PEM file of the CAs to trust (default: the system's)."),
        Option("kafka.ssl.truststore.certificates", _text, None, "The same, as PEM text."),
        Option("kafka.ssl.truststore.type", _text, "PEM", "PEM."),
        Option("kafka.ssl.truststore.password", _text, None, "Not used: PEM certificates have none."),
        Option("kafka.ssl.keystore.location", _text, None, "PEM file with the client's certificate chain and key."),
        Option("kafka.ssl.keystore.certificate.chain", _text, None, "The client's certificate chain, as PEM text."),
        Option("kafka.ssl.keystore.key", _text, None, "The client's private key, as PEM text."),
        Option("kafka.ssl.keystore.type", _text, "PEM", "PEM."),
        Option("kafka.ssl.keystore.password", _text, None, "Not used: see `kafka.ssl.key.password`."),
        Option("kafka.ssl.key.password", _text, None, "The password of the client's private key."),
        Option(
            "kafka.ssl.endpoint.identification.algorithm",
            lambda name, value: value.strip() and _one_of("https")(name, value),
            "https",
            "`https` checks the broker's host name against its certificate; empty does not.",
        ),
        Option("kafka.sasl.mechanism", _one_of(*MECHANISMS), None, f"One of {', '.join(MECHANISMS)}."),
        Option(JAAS, _text, None, 'Java\'s login line; `username="..."` and `password="..."` are read from it.'),
        Option("kafka.sasl.oauthbearer.token.endpoint.url", _text, None, "Where OAUTHBEARER gets its token."),
        Option("kafka.sasl.kerberos.service.name", _text, "kafka", "The brokers' Kerberos service."),
        Option("kafka.sasl.kerberos.domain.name", _text, None, "The brokers' Kerberos host, if not their address."),
        Option("kafka.client.id", _text, "penstock", "The name brokers see in their logs and quotas."),
        Option("kafka.client.rack", _text, None, "This client's rack: replicas there are read if the brokers say so."),
        Option("kafka.group.id", _text, None, "The group whose offsets `startingOffsets=group` starts from."),
        Option(
            "kafka.auto.offset.reset",
            _one_of("earliest", "latest", "none"),
            "none",
            "Where a partition starts that the group has no offset for; only together with `kafka.group.id`.",
        ),
        Option(
            "kafka.isolation.level",
            _one_of("read_uncommitted", "read_committed"),
            "read_uncommitted",
            "`read_committed` leaves out records of aborted and of open transactions.",
        ),
        Option("kafka.request.timeout.ms", _ms(1), "30000", "How long one request may take."),
        Option("kafka.default.api.timeout.ms", _ms(1), "60000", "How long planning keeps trying to get an answer."),
        Option("kafka.socket.connection.setup.timeout.ms", _ms(1), "10000", "How long connecting may take."),
        Option("kafka.retry.backoff.ms", _ms(0), "100", "The first pause before a retry; it doubles."),
        Option("kafka.retry.backoff.max.ms", _ms(0), "1000", "The longest pause before a retry."),
        Option("kafka.connections.max.idle.ms", _ms(1), "60000", "When an unused connection is closed."),
        Option("kafka.fetch.min.bytes", _size, "1", "The broker waits for so many bytes,"),
        Option("kafka.fetch.max.wait.ms", _ms(0), "500", "but not longer than this."),
        Option("kafka.fetch.max.bytes", _size, str(50 << 20), "The most bytes of one response."),
        Option("kafka.max.partition.fetch.bytes", _size, str(4 << 20), "The most bytes of one partition in it."),
        Option("kafka.receive.buffer.bytes", _number(-1, 1 << 30), "-1", "The socket's buffer; -1 leaves it to the OS."),
    )
}

KAFKA_NO_EFFECT = frozenset(
    "kafka." + name
    for name in """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.dns.lookup enable.metrics.push
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
    """.split()
)
"""Settings of Kafka's Java consumer that mean nothing here. Taken, with a note in the log, so that options can move
over as they are. Checksums, for one, are always checked."""


def _did_you_mean(name: str, known: Any) -> str:
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"Did you mean {lowered[close[0]]}?" if close else ""


SECRET = re.compile(r"password|jaas|secret|keystore\.key|token", re.IGNORECASE)


# --- reading all of them ------------------------------------------------------------------------------------------


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Read a user's options; raises OptionError for the first wrong one. Names are taken in any case, as Spark does."""
    values = _parse_each(given)
    chosen = [name for name in SUBSCRIPTIONS if name in values]
    if len(chosen) != 1:
        what = f"only one of {', '.join(SUBSCRIPTIONS)} may be given" if chosen else "names what to read and is missing"
        way_out = "" if chosen else f"Or give {' or '.join(SUBSCRIPTIONS[1:])}"
        raise OptionError(" and ".join(chosen) or SUBSCRIPTIONS[0], None, what, way_out)
    if "kafka.bootstrap.servers" not in values:
        raise OptionError("kafka.bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    group = values.get("kafka.group.id")
    starting = _one_limit(
        values, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "kafka.auto.offset.reset"
    )
    ending = _one_limit(values, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    if isinstance(starting, GroupOffsets) and group is None:
        raise OptionError("startingOffsets", "group", "needs the group's name", "Set kafka.group.id")
    if isinstance(ending, GroupOffsets):
        raise OptionError("endingOffsets", "group", "a group's offsets say where to start, not where to stop")
    if "kafka.auto.offset.reset" in values and group is None:
        raise OptionError("kafka.auto.offset.reset", given_value(given, "kafka.auto.offset.reset"), "is not supported",
                          RESET_ADVICE)
    if isinstance(ending, Earliest):
        raise OptionError("endingOffsets", "earliest", "the end cannot be the beginning", "Set latest or JSON")
    _check_order(starting, ending)
    pushdown = values.get("filterPushdown", "auto")
    return SourceOptions(
        client=_client(values),
        subscription=values[chosen[0]],
        starting=starting,
        ending=ending or Latest(),
        rules=StartRules(
            group,
            values.get("kafka.auto.offset.reset"),
            fail_on_no_match=values.get("startingOffsetsByTimestampStrategy") == "error",
        ),
        min_partitions=values.get("minPartitions"),
        max_records_per_partition=values.get("maxRecordsPerPartition"),
        include_headers=values.get("includeHeaders", False),
        fail_on_data_loss=values.get("failOnDataLoss", True),
        poll_timeout=values.get("kafkaConsumer.pollTimeoutMs", 120.0),
        offset_tries=values.get("fetchOffset.numRetries", 1),
        offset_retry_interval=values.get("fetchOffset.retryIntervalMs", 1.0),
        push_filters=None if pushdown == "auto" else pushdown == "true",
    )


def given_value(given: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in given.items() if key.lower() == name.lower()), None)


def _parse_each(given: Mapping[str, str]) -> dict[str, Any]:
    known = {name.lower(): option for name, option in (OPTIONS | KAFKA_OPTIONS).items()}
    idle = {name.lower(): reason for name, reason in NO_EFFECT.items()}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.lower()
        shown = "***" if SECRET.search(name) else value
        if name in REFUSED:
            raise OptionError(key, shown, "is not supported", REFUSED[name])
        if name in idle:
            log.warning("option %s has no effect in a batch read: %s", key, idle[name])
        elif name in KAFKA_NO_EFFECT:
            log.info("option %s has no effect here", key)
        elif name not in known:
            everything = [*OPTIONS, *KAFKA_OPTIONS, *NO_EFFECT, *sorted(KAFKA_NO_EFFECT)]
            raise OptionError(key, shown, "is unknown", _did_you_mean(key, everything) or _prefix_hint(key))
        else:
            try:
                values[known[name].name] = known[name].parse(known[name].name, value)
            except OptionError as error:
                if shown != value:
                    raise OptionError(error.name, shown, error.reason) from None
                raise
    return values


def _prefix_hint(key: str) -> str:
    if "kafka." + key.lower() in KAFKA_OPTIONS:
        return f"Did you mean kafka.{key}?"
    return "Kafka's own settings begin with kafka."


def _one_limit(values: Mapping[str, Any], *names: str) -> Any:
    """The first given of several ways to say one thing: the order of precedence is Spark's."""
    limits = [name for name in names if name in values and not name.startswith("kafka.")]
    return values[limits[0]] if limits else None


def check_batch(options: SourceOptions) -> None:
    """What a batch read refuses, as Spark's source does: it must not start at the end or end at the beginning."""
    advice = "A batch reads what is there already. Set earliest, group, or JSON with offsets"
    if isinstance(options.starting, Latest):
        raise OptionError("startingOffsets", "latest", "a batch cannot start at the end", advice)
    for mode, word, number in ((options.starting, "latest", -1), (options.ending, "earliest", -2)):
        if isinstance(mode, AtOffsets):
            for place, offset in [*mode.offsets.topics.items(), *mode.offsets.partitions.items()]:
                if offset == number:
                    raise OptionError(mode.option, f"{place}: {number}", f"cannot be {word} in a batch", advice)


def _check_order(starting: StartMode | None, ending: EndMode | None) -> None:
    """A start after its end is a mistake, not an empty read."""
    for start, stop in ((starting, ending),):
        if isinstance(start, AtTimestamp) and isinstance(stop, AtTimestamp):
            a, b = start.timestamp, stop.timestamp
        elif isinstance(start, AtOffsets) and isinstance(stop, AtOffsets):
            a, b = start.offsets, stop.offsets
        else:
            continue
        if isinstance(a, int) and isinstance(b, int):
            pairs: list[tuple[str, int | None, int | None]] = [("every partition", a, b)]
        elif isinstance(a, PerPartition) and isinstance(b, PerPartition):
            places = {**a.partitions, **b.partitions}
            pairs = [(str(tp), a.get(tp), b.get(tp)) for tp in places]
            pairs += [(topic, a.topics[topic], b.topics[topic]) for topic in a.topics if topic in b.topics]
        else:
            continue
        for place, low, high in pairs:
            if low is not None and high is not None and low > high >= 0:
                raise OptionError(start.option, low, f"lies after {stop.option} = {high} for {place}")


def _client(values: Mapping[str, Any]) -> ClientConfig:
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
        if kind != "PEM" or location.lower().endswith((".jks", ".p12", ".pfx")):
            raise OptionError(
                f"kafka.ssl.{store}.location",
                location,
                f"{kind if kind != 'PEM' else 'this'} is a Java key store; Penstock reads PEM files",
                "Convert it: keytool -importkeystore to PKCS12, then openssl pkcs12 -in store.p12 -out store.pem",
            )
    protocol = values.get("kafka.security.protocol", "PLAINTEXT")
    mechanism = values.get("kafka.sasl.mechanism")
    login = parse_jaas(values.get(JAAS, ""))
    if protocol.startswith("SASL"):
        mechanism = mechanism or "GSSAPI"  # Kafka's default
        if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not {"username", "password"} <= set(login):
            raise OptionError(
                JAAS,
                "***" if JAAS in values else None,
                f"must name username and password for {mechanism}",
                'Example: org.apache.kafka.common.security.plain.PlainLoginModule required username="me" '
                'password="...";',
            )
    elif mechanism is not None or JAAS in values:
        raise OptionError("kafka.security.protocol", protocol, "does not log in, but SASL options are given",
                          "Set SASL_SSL or SASL_PLAINTEXT")
    chain, key = values.get("kafka.ssl.keystore.certificate.chain"), values.get("kafka.ssl.keystore.key")
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
