"""The settings of a ConsumerConnector: Kafka's consumer settings, and those of its old high-level consumer.

The settings of the client (brokers, security, fetch sizes) are taken from KAFKA_OPTIONS. They are declared there with
the prefix `kafka.`, and here without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.config.client import DECOMPRESSION_LIMIT, KAFKA_NO_EFFECT, KAFKA_OPTIONS, client_config
from penstock.config.formats import FORMAT_OPTIONS, FormatOptions, format_options
from penstock.config.in_force import Shown
from penstock.config.option import Ignored, Option, OptionTable, OptionValues, as_text, bare_name
from penstock.config.parsers import flag, milliseconds, number, one_of, reset_rule, text
from penstock.config.security import SECURITY_REFUSED
from penstock.errors import OptionError, did_you_mean
from penstock.model.offset_spec import Reset
from penstock.wire.api.share_fetch import BATCH_OPTIMIZED, RECORD_LIMIT
from penstock.wire.client_config import ClientConfig

COOPERATIVE = "cooperative-sticky"
FIXED = "penstock-fixed"
ASSIGNORS = {
    "range": "range",
    "roundrobin": "roundrobin",
    COOPERATIVE: COOPERATIVE,
    FIXED: FIXED,
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": COOPERATIVE,
}
"""The names that a user may give an assignor, each with its name in the group protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The parsed settings of a connector: checked, without a secret in its repr. Times are in seconds."""

    client: ClientConfig
    group: str = ""
    """Empty without a group: the user assigns partitions."""
    consumer_id: str | None = None
    instance_id: str | None = None
    server_assigns: bool
    """Whether the group has the protocol `consumer`, in which the coordinator assigns partitions."""
    remote_assignor: str | None = None
    assignors: tuple[str, ...]
    user_data: bool | None
    """Whether a classic member tells the other Penstock members its streams; None: if it must (`needs_user_data`)."""
    session_timeout: float
    heartbeat_interval: float
    rebalance_timeout: float
    auto_commit: bool
    auto_commit_interval: float
    watermark_interval: float
    reset: Reset
    consumer_timeout: float | None
    """How long a stream waits for a message before it raises; None: forever."""
    queued_chunks: int
    fetchers: int
    rebalance_retries: int
    rebalance_backoff: float
    refresh_leader_backoff: float
    metadata_max_age: float
    exclude_internal: bool
    share_explicit: bool
    """Whether records of a share group are acknowledged only by calls."""
    share_acquire_mode: int
    max_poll_records: int
    """The records that one fetch of a share group acquires for each free place in the queue of a stream. A fast stream
    gets more."""
    formats: FormatOptions
    """The typed columns of `Stream.batches`: options of the Spark source, with the same names."""
    shown: Shown = field(default=(), compare=False)
    """The given settings, for the log."""
    ignored: Ignored = field(default=(), compare=False)
    """Settings that have no effect: a ConsumerConnector warns of them."""
    share_only: Ignored = field(default=(), compare=False)
    """Settings that only share streams use: other streams warn of them."""

    @property
    def cooperative(self) -> bool:
        """Whether partitions that stay with this member are read during a rebalance.

        Only if every assignor of the list is cooperative, as in Java. A member that joins does not know which one the
        group will choose, and an eager assignor assigns partitions as if no member owned any. So a mixed list is
        eager. It is the step between two rolling restarts that move a group from one assignor to the other.
        """
        return set(self.assignors) == {COOPERATIVE}


def strategies(name: str, value: str) -> tuple[str, ...]:
    wanted = [part.strip() for part in value.split(",") if part.strip()]
    if not wanted:
        raise OptionError(name, value, "names no assignor", "Example: range,roundrobin")
    own = [known for known in ASSIGNORS if "." not in known]
    for part in wanted:
        if part not in ASSIGNORS:
            # Java's StickyAssignor too: its user data has a format of its own.
            reason = f"{part!r} is not an assignor that Penstock has. It has {', '.join(own)}"
            raise OptionError(name, value, reason, did_you_mean(part, ASSIGNORS))
    return tuple(dict.fromkeys(ASSIGNORS[part] for part in wanted))


def old_reset_rule(name: str, value: str) -> Reset:
    """Parse `auto.offset.reset`, which had other words in the old consumer."""
    return reset_rule(name, {"smallest": "earliest", "largest": "latest"}.get(value.strip().lower(), value))


def instance(name: str, value: str) -> str:
    # Kafka's own rule. The broker would answer only "invalid" when the consumer joins.
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
        raise OptionError(name, value, "must be 1 to 249 of the letters A-Z a-z 0-9 . _ -", "Example: worker-1")
    return value


def _timeout(name: str, value: str) -> float | None:
    parsed = number(-1, 2**31 - 1)(name, value)
    return None if parsed == -1 else parsed / 1000


def _protocol(name: str, value: str) -> bool:
    return one_of("classic", "consumer")(name, value.strip().lower()) == "consumer"


def _acknowledgement_mode(name: str, value: str) -> bool:
    return one_of("implicit", "explicit")(name, value) == "explicit"


def _acquire_mode(name: str, value: str) -> int:
    modes = {"batch_optimized": BATCH_OPTIMIZED, "record_limit": RECORD_LIMIT}
    return modes[one_of(*modes)(name, value)]


def _user_data(name: str, value: str) -> bool | None:
    return {"auto": None, "true": True, "false": False}[one_of("auto", "true", "false")(name, value)]


_ms = milliseconds

_OWN = (
    Option(
        "group.id",
        text,
        None,
        "The group to join. Its members share the partitions of the topics. Required, except "
        "for `create_assigned_streams`.",
        "group",
    ),
    Option(
        "auto.offset.reset",
        old_reset_rule,
        "latest",
        "Where a partition starts if the group has no committed offset for it, and where it continues if its offset no "
        "longer exists: `earliest`, `latest` (in the old consumer `smallest` and `largest`), `none`, which raises an "
        "error in the stream, or `by_duration:PT1H`, which is the first record of the last hour. The duration is in "
        "ISO 8601: `PT15M`, `PT1H30M`, `P7D`. Without such a record it is the end.",
        "reset",
    ),
    Option(
        "enable.auto.commit",
        flag,
        "true",
        "Whether consumed offsets are committed every `auto.commit.interval.ms`, before partitions are revoked and at "
        "shutdown. A message is consumed when the stream has returned it. If false, call `commit_offsets`.",
        "auto_commit",
    ),
    replace(
        KAFKA_OPTIONS["kafka.auto.commit.interval.ms"],
        name="auto.commit.interval.ms",
        doc="The auto-commit interval in milliseconds.",
        field="auto_commit_interval",
    ),
    Option(
        "auto.watermark.interval.ms",
        _ms(1),
        "200",
        "The shortest interval in milliseconds between two calls of a watermark listener. A punctuated strategy "
        "ignores it.",
        "watermark_interval",
    ),
    Option(
        "consumer.timeout.ms",
        _timeout,
        "-1",
        "The time in milliseconds that a stream waits for a message before it raises `ConsumerTimeout`. -1: forever.",
        "consumer_timeout",
    ),
    Option(
        "queued.max.message.chunks",
        number(1, 10_000),
        "2",
        "The largest number of fetched chunks in the queue of one stream. While the queue is full, nothing is fetched "
        "for that stream.",
        "queued_chunks",
    ),
    Option(
        "num.consumer.fetchers",
        number(1, 100),
        "1",
        "The number of threads that fetch from one broker.",
        "fetchers",
    ),
    Option(
        "partition.assignment.strategy",
        strategies,
        "range",
        "The assignors of the group's partitions in order of preference, separated by commas: `range`, `roundrobin`, "
        f"`{COOPERATIVE}`, `{FIXED}`, or Java's class names of the first three. All members of a group must "
        f"have one in common. Only `{COOPERATIVE}` alone keeps reading during a rebalance the partitions that stay. In "
        "a list with others every partition is revoked first, as in Java.",
        "assignors",
    ),
    Option(
        "consumer.id",
        text,
        None,
        "The consumer's name within its group. Thread ids, metrics and rebalance listeners show it after the group's "
        "name, as `<group.id>_<consumer.id>`. Default: host, time in milliseconds and 8 random hex digits.",
        "consumer_id",
    ),
    Option(
        "group.instance.id",
        instance,
        None,
        "Makes the consumer a static member: if it joins again under this id within `session.timeout.ms`, it gets its "
        "partitions back without a rebalance. Each member needs its own id. Default: a dynamic member.",
        "instance_id",
    ),
    Option(
        "session.timeout.ms",
        _ms(1),
        "45000",
        "The time in milliseconds without a heartbeat after which the group removes a member. Brokers allow 6000 to "
        "1800000 (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`).",
        "session_timeout",
    ),
    Option(
        "heartbeat.interval.ms",
        _ms(1),
        "3000",
        "The interval in milliseconds between two heartbeats. Use at most a third of `session.timeout.ms`.",
        "heartbeat_interval",
    ),
    Option(
        "max.poll.interval.ms",
        _ms(1),
        "300000",
        "The time in milliseconds that a rebalance waits for the members to join. There is no poll: processing a "
        "message may take any time.",
        "rebalance_timeout",
    ),
    Option(
        "rebalance.max.retries",
        number(0, 1_000_000),
        "4",
        "The number of retries of a failed rebalance.",
        "rebalance_retries",
    ),
    Option(
        "rebalance.backoff.ms",
        _ms(0),
        "2000",
        "The pause in milliseconds before a rebalance is retried.",
        "rebalance_backoff",
    ),
    Option(
        "refresh.leader.backoff.ms",
        _ms(0),
        "200",
        "The pause in milliseconds before the leader of a partition without a leader is looked up again.",
        "refresh_leader_backoff",
    ),
    Option(
        "metadata.max.age.ms",
        _ms(1),
        "300000",
        "The interval in milliseconds at which the consumer looks for new partitions, and for new topics that match a "
        "filter.",
        "metadata_max_age",
    ),
    Option(
        "exclude.internal.topics",
        flag,
        "true",
        "Whether a topic filter excludes Kafka's internal topics.",
        "exclude_internal",
    ),
    Option(
        "group.protocol",
        _protocol,
        "classic",
        "The group protocol. `classic`: the members assign partitions among themselves. `consumer` (KIP-848): the "
        "brokers assign them, and partitions that stay are read throughout a rebalance. It needs Kafka 4.0.",
        "server_assigns",
    ),
    Option(
        "group.remote.assignor",
        text,
        None,
        "The brokers' assignor for `group.protocol=consumer`: `uniform` or `range`, or another one of their "
        "`group.consumer.assignors`. Default: the first one of theirs. Without effect in the classic protocol.",
        "remote_assignor",
    ),
    Option(
        "group.user.data",
        _user_data,
        "auto",
        "Whether a member of the classic protocol tells the other Penstock members its id, its numbers of streams, and "
        "that it has just started. Brokers do not convert a group to `group.protocol=consumer` while it has such "
        "members. `auto`: only members with several streams per topic, with `start` of `ConsumerConnector`, or with "
        "`penstock-fixed`, which need it. `true` also shows listeners the threads of the whole group. "
        "With `false` a member counts as one stream, and `start` has no effect.",
        "user_data",
    ),
    Option(
        "share.acknowledgement.mode",
        _acknowledgement_mode,
        "implicit",
        "Who acknowledges the records of a share group. `implicit`: asking a stream for more accepts what it has "
        "handed out before. `explicit`: only calls of `accept`, `release` and `reject` acknowledge.",
        "share_explicit",
    ),
    Option(
        "share.acquire.mode",
        _acquire_mode,
        "batch_optimized",
        "How a fetch of a share group respects `max.poll.records`. `batch_optimized`: it acquires whole record "
        "batches, and may exceed the limit. `record_limit`: it never exceeds the limit, and costs the broker more. "
        "That needs Kafka 4.2.",
        "share_acquire_mode",
    ),
    Option(
        "max.poll.records",
        number(1, 2**31 - 1),
        "500",
        "The number of records that a fetch of a share group acquires for each free place in the queue of a stream "
        "(`queued.max.message.chunks`). Their locks run from then on. A fast stream gets more: as many as it has read "
        "in 50 ms, unless `share.acquire.mode` is `record_limit`. Other streams ignore it.",
        "max_poll_records",
    ),
)

_CHANGED: dict[str, dict[str, Any]] = {
    "default.api.timeout.ms": {"doc": "The longest time in milliseconds that a request to the brokers is retried."},
    "max.partition.fetch.bytes": {"default": str(1 << 20)},
}
"""What differs in a client setting from the option of the Spark source."""


def _bare(words: str) -> str:
    """A text about options of the Spark source, for the settings of a consumer."""
    return KAFKA_OPTIONS.spelled(words, prefix="")


_LIMIT = replace(DECOMPRESSION_LIMIT, name="decompression.limit.bytes")

_CLIENT_OPTIONS = OptionTable(
    *(replace(option, **_CHANGED.get(bare_name(name), {})) for name, option in KAFKA_OPTIONS.items()),
    DECOMPRESSION_LIMIT,
)
"""The options of the client, with a consumer's defaults, under the names of the Spark source."""

_SHARED = {
    bare_name(name): replace(option, name=bare_name(name), doc=_bare(option.doc))
    for name, option in _CLIENT_OPTIONS.items()
    if name != DECOMPRESSION_LIMIT.name
} | {_LIMIT.name: _LIMIT}

_OWN_OPTIONS = OptionTable(*_OWN)

CONSUMER_OPTIONS = OptionTable(
    _SHARED["bootstrap.servers"],
    *_OWN,
    *(option for name, option in _SHARED.items() if name not in {"bootstrap.servers", *_OWN_OPTIONS}),
)

OLD_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "auto.commit.enable": "enable.auto.commit",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Names in the old high-level consumer (librdkafka still has some of them), each with today's name."""

_DECODERS = "Use key_decoder and value_decoder of create_message_streams"
_JAAS = "Set sasl.jaas.config, as for Java's consumer: it contains both"
_PEM = "Set ssl.keystore.location, a PEM file with the certificate chain and the key"

CONSUMER_REFUSED = {
    "zookeeper.connect": "Kafka itself stores groups and their offsets: use bootstrap.servers",
    "key.deserializer": _DECODERS,
    "value.deserializer": _DECODERS,
    "interceptor.classes": "Interceptors are Java classes. To change records use key_decoder and value_decoder, or a "
    "class of yours as valueFormat; to leave records out, where= of Stream.batches; to follow commits and rebalances, "
    "set_rebalance_listener and metrics()",
    "sasl.username": _JAAS,
    "sasl.password": _JAAS,
    "ssl.ca.location": "Set ssl.truststore.location, which is a PEM file too",
    "ssl.certificate.location": _PEM,
    "ssl.key.location": _PEM,
    **{bare_name(name): _bare(advice) for name, advice in SECURITY_REFUSED.items()},
}
"""Settings of Java's or other clients that cannot be supported, each with the alternative."""

_OLD_NO_EFFECT = {
    "offsets.storage": "kafka",
    "dual.commit.enabled": "false",
}
"""Where the old consumer stored offsets: accepted if the value says Kafka, refused if it says ZooKeeper."""

_NO_EFFECT = {
    **{bare_name(name): _bare(reason) for name, reason in KAFKA_NO_EFFECT.items()},
    **{
        f"zookeeper.{name}.ms": "there is no ZooKeeper"
        for name in ("connection.timeout", "session.timeout", "sync.time")
    },
    **{
        f"offsets.{name}": "default.api.timeout.ms limits the time of all retries"
        for name in ("channel.backoff.ms", "channel.socket.timeout.ms", "commit.max.retries")
    },
    **dict.fromkeys(_OLD_NO_EFFECT, "offsets are stored in Kafka"),
}

CONSUMER_NO_EFFECT = {name: reason for name, reason in _NO_EFFECT.items() if name not in CONSUMER_OPTIONS}
"""Settings of Java's consumers that have no effect here. They are accepted with a warning."""


def _hint(key: str) -> str:
    if key.lower().startswith("eventtime.") or key.lower() == "includewatermarks":
        return "Event-time options belong to the Spark source. Use ConsumerConnector(config, watermarks=strategy)"
    return ""


_TABLE = OptionTable(
    *CONSUMER_OPTIONS.values(),
    *FORMAT_OPTIONS.values(),
    aliases=OLD_NAMES,
    refused=CONSUMER_REFUSED,
    no_effect=CONSUMER_NO_EFFECT,
    kafka=(*CONSUMER_OPTIONS, *OLD_NAMES, *CONSUMER_REFUSED, *CONSUMER_NO_EFFECT),
    hint=_hint,
)


def parse_config(config: Mapping[str, object], *, needs_group: bool = True) -> ConsumerConfig:
    """Parse a user's settings. Raises OptionError for the first wrong one, under the name the user gave it."""
    with _TABLE.names_as_written(config):
        _check_old_storage(config)
        return _parsed(_TABLE.parse(config), needs_group)


def missing_group() -> OptionError:
    return OptionError(
        "group.id",
        None,
        "is missing. It names the group whose members share the partitions, and for which Kafka stores offsets",
        "Choose one name per application: the same for consumers that share work, a different one for each "
        "consumer that reads everything",
    )


def _parsed(values: OptionValues, needs_group: bool) -> ConsumerConfig:
    formats = format_options(values)
    if "bootstrap.servers" not in values.given:
        raise OptionError("bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    if needs_group and "group.id" not in values.given:
        raise missing_group()
    _check_protocol(values)
    _check_times(values)
    ignored = values.ignored
    if "group.remote.assignor" in values.given and not values["group.protocol"]:
        name = values.written.get("group.remote.assignor", "group.remote.assignor")
        ignored = (*ignored, (name, "the members assign partitions in the classic protocol"))
    own = values.fields(_OWN_OPTIONS)
    if "group.id" not in values.given:
        own["auto_commit"] = False
        ignored = (*ignored, *_without_group(values))
    share_only = tuple(
        (values.written.get(name, name), "only share streams use it") for name in _SHARE_ONLY if name in values.given
    )
    return ConsumerConfig(
        client=_client(values), formats=formats, shown=values.shown, ignored=ignored, share_only=share_only, **own
    )


_SHARE_ONLY = ("share.acknowledgement.mode", "share.acquire.mode", "max.poll.records")

_MEMBERS = "Every record goes to one member, whichever has room"
_SHARE_REFUSED = {
    "auto.offset.reset": "Set share.auto.offset.reset of the group: kafka-configs.sh --entity-type groups",
    "enable.auto.commit": "Acknowledgements take the place of commits: set share.acknowledgement.mode",
    "isolation.level": "Set share.isolation.level of the group: kafka-configs.sh --entity-type groups",
    "group.instance.id": "A share group has no static members",
    "partition.assignment.strategy": _MEMBERS,
    "group.remote.assignor": _MEMBERS,
    "group.protocol": "A share group has a protocol of its own",
    "session.timeout.ms": "The brokers' group.share.session.timeout.ms decides",
    "heartbeat.interval.ms": "The brokers' group.share.heartbeat.interval.ms decides",
}
"""Settings that a share group does not have, each with the alternative. Java's share consumer refuses the same ones."""


def check_share_settings(config: ConsumerConfig) -> None:
    """Raises OptionError for a given setting that a share group does not have."""
    for name, _ in config.shown:
        hint = _SHARE_REFUSED.get(_TABLE.declared_name(name))
        if hint is not None:
            raise OptionError(name, None, "is not a setting of share groups", hint)


_GROUP_SETTINGS = (
    *("group.instance.id", "group.protocol", "group.remote.assignor", "group.user.data", "session.timeout.ms"),
    *("heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy", "auto.commit.interval.ms"),
)


def _without_group(values: OptionValues) -> list[tuple[str, str]]:
    """The settings that have no effect without a group. Raises OptionError for auto-commit that was asked for."""
    if values.given.get("enable.auto.commit"):
        written = values.written.get("enable.auto.commit", "enable.auto.commit")
        raise OptionError(written, True, "needs a group, and group.id is missing", "Set group.id, or leave it out")
    return [
        (values.written.get(name, name), "there is no group.id") for name in _GROUP_SETTINGS if name in values.given
    ]


def _client(values: OptionValues) -> ClientConfig:
    names = {name: _CLIENT_OPTIONS.declared_name(name) for name in values.given}
    given = {name: values[own] for own, name in names.items() if name in _CLIENT_OPTIONS}
    given[DECOMPRESSION_LIMIT.name] = values[_LIMIT.name]
    return client_config(OptionValues(_CLIENT_OPTIONS, given, values.written))


def _check_old_storage(config: Mapping[str, object]) -> None:
    for name, value in config.items():
        storage = _OLD_NO_EFFECT.get(_TABLE.declared_name(name))
        if storage is not None and as_text(name, value).strip().lower() != storage:
            raise OptionError(
                name,
                value,
                "offsets are stored only in Kafka",
                "Leave it out, and import the old offsets with: penstock groups reset GROUP --from-file FILE",
            )


_CLASSIC_ONLY = {
    "session.timeout.ms": "The brokers' group.consumer.session.timeout.ms decides",
    "heartbeat.interval.ms": "The brokers' group.consumer.heartbeat.interval.ms decides",
    "partition.assignment.strategy": "Set group.remote.assignor: the brokers assign partitions",
}
"""Settings that the brokers have taken over in the protocol `consumer`. Refused there, as in Java."""


def _check_protocol(values: OptionValues) -> None:
    if not values["group.protocol"]:
        return
    for name, hint in _CLASSIC_ONLY.items():
        if name in values.given:
            written = values.written.get(name, name)
            raise OptionError(written, None, "has no effect with group.protocol=consumer", hint)


def _check_times(values: OptionValues) -> None:
    for shorter, longer, why in (
        ("heartbeat.interval.ms", "session.timeout.ms", "the group would remove the member between two heartbeats"),
        ("fetch.max.wait.ms", "request.timeout.ms", "each fetch that finds nothing would time out"),
    ):
        if values[shorter] >= values[longer]:
            limit = f"{values.written.get(longer, longer)} = {values[longer] * 1000:.0f}"
            raise OptionError(
                values.written.get(shorter, shorter),
                f"{values[shorter] * 1000:.0f}",
                f"must be less than {limit}: {why}",
            )
