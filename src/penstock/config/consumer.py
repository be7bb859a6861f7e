"""What a connector is told: Kafka's own consumer settings, today's names and those of its old high-level consumer.

Every setting is declared once, in CONSUMER_OPTIONS: parsing, defaults, errors and the table in docs/consumer.md come
from there. What the client needs (brokers, security, fetch sizes) is taken over from KAFKA_OPTIONS, where it stands
behind `kafka.` for the Spark source; here nothing stands before a name, and errors say it as the user wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS, client_config
from penstock.config.formats import FORMAT_OPTIONS, FormatOptions, format_options
from penstock.config.option import Option, flag, milliseconds, number, one_of, text
from penstock.config.security import SECURITY_OPTIONS, SECURITY_REFUSED
from penstock.errors import OptionError, did_you_mean
from penstock.masking import MASK, is_secret
from penstock.wire.client_config import ClientConfig

PREFIX = "kafka."
COOPERATIVE = "cooperative-sticky"
ASSIGNORS = {
    "range": "range",
    "roundrobin": "roundrobin",
    COOPERATIVE: COOPERATIVE,
    "penstock-fixed": "penstock-fixed",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": COOPERATIVE,
}
"""Names by which an assignor may be asked for, and what it is called among the group's members."""


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """What a user asked of a connector: parsed, checked, and without a secret in its repr. Times are in seconds."""

    client: ClientConfig
    group: str
    consumer_id: str | None
    instance_id: str | None
    assignors: tuple[str, ...]
    session_timeout: float
    heartbeat_interval: float
    rebalance_timeout: float
    auto_commit: bool
    auto_commit_interval: float
    watermark_interval: float
    reset: str
    consumer_timeout: float | None
    """How long a stream waits for a message before it raises; None: for ever."""
    queued_chunks: int
    fetchers: int
    rebalance_retries: int
    rebalance_backoff: float
    refresh_leader_backoff: float
    metadata_max_age: float
    exclude_internal: bool
    formats: FormatOptions = field(default_factory=FormatOptions)
    """What `Stream.batches` are made into. Options of the Spark source, by the same names."""
    ignored: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Settings that change nothing here, and why: a ConsumerConnector warns of them."""

    @property
    def cooperative(self) -> bool:
        """Whether partitions that stay go on through a rebalance.

        Only if every assignor of the list can do that, as in Java: when a member joins, it does not know yet which of
        them the group will choose, and an eager one hands partitions out as if nobody held any. So a list that mixes
        them is eager. It is the step between two rolling restarts that bring a group from one to the other.
        """
        return set(self.assignors) == {COOPERATIVE}


def strategies(name: str, value: str) -> tuple[str, ...]:
    wanted = [part.strip() for part in value.split(",") if part.strip()]
    if not wanted:
        raise OptionError(name, value, "names no assignor", "Example: range,roundrobin")
    own = [known for known in ASSIGNORS if "." not in known]
    for part in wanted:
        if part not in ASSIGNORS:
            # Java's StickyAssignor too: what it tells its leader is a format of its own.
            reason = f"{part!r} is not an assignor that Penstock has. It has {', '.join(own)}"
            raise OptionError(name, value, reason, did_you_mean(part, ASSIGNORS))
    return tuple(dict.fromkeys(ASSIGNORS[part] for part in wanted))


def reset_rule(name: str, value: str) -> str:
    """`auto.offset.reset`, with the names it had in the old consumer."""
    word = value.strip().lower()
    if word.startswith("by_duration"):
        hint = "Give ConsumerConnector(config, start=datetime.now(UTC) - timedelta(hours=1)), or earliest"
        raise OptionError(name, value, "is not supported", hint)
    return one_of("earliest", "latest", "none")(name, {"smallest": "earliest", "largest": "latest"}.get(word, value))


def instance(name: str, value: str) -> str:
    # Kafka's own rule. Broken, the broker only says "invalid" when the group is joined.
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
        raise OptionError(name, value, "must be 1 to 249 of the letters A-Z a-z 0-9 . _ -", "Example: worker-1")
    return value


def _time_out(name: str, value: str) -> float | None:
    parsed = number(-1, 2**31 - 1)(name, value)
    return None if parsed == -1 else parsed / 1000


def _protocol(name: str, value: str) -> str:
    if value.strip().lower() == "consumer":
        reason = "Penstock joins groups by the classic protocol"
        raise OptionError(name, value, reason, "Leave it out, or give it a group of its own")
    return one_of("classic")(name, value)


_ms = milliseconds

_OWN = (
    Option("group.id", text, None, "The group to join: its members share the partitions. Required."),
    Option(
        "auto.offset.reset",
        reset_rule,
        "latest",
        "Where a partition starts for which the group has no offset, and goes on if its offset is gone: `earliest`, "
        "`latest` (the old `smallest` and `largest`), or `none`, which is an error that reaches the stream's reader.",
    ),
    Option(
        "enable.auto.commit",
        flag,
        "true",
        "Whether what was consumed is committed every `auto.commit.interval.ms`, before partitions are released and "
        "at shutdown. A message counts as consumed when the stream hands it out. With false, call `commit_offsets`.",
    ),
    Option("auto.commit.interval.ms", _ms(1), "5000", "How often that is."),
    Option(
        "auto.watermark.interval.ms",
        _ms(1),
        "200",
        "How often a watermark listener is called at most, unless the strategy is punctuated.",
    ),
    Option(
        "consumer.timeout.ms",
        _time_out,
        "-1",
        "How long a stream waits for a message before it raises `ConsumerTimeout`; -1: for ever.",
    ),
    Option(
        "queued.max.message.chunks",
        number(1, 10_000),
        "2",
        "The most fetched chunks that wait in the queue of one stream. While it is full, nothing more is fetched for "
        "that stream.",
    ),
    Option("num.consumer.fetchers", number(1, 100), "1", "How many threads fetch from one broker."),
    Option(
        "partition.assignment.strategy",
        strategies,
        "range",
        "How the group's partitions are shared out, in order of preference: `range`, `roundrobin`, "
        f"`{COOPERATIVE}`, `penstock-fixed`, with commas between them; Java's class names of the first three are "
        f"taken too. All members of a group must have one in common. Partitions that stay are read on during a "
        f"rebalance only with `{COOPERATIVE}` alone: beside others it lets everything go first, as in Java.",
    ),
    Option(
        "consumer.id",
        text,
        None,
        "This consumer's name in thread ids and among the members. Default: made of group, host, time and chance.",
    ),
    Option(
        "group.instance.id",
        instance,
        None,
        "Makes it a static member: one that comes back under this name within `session.timeout.ms` gets its partitions "
        "again without a rebalance. No two members may have the same.",
    ),
    Option(
        "session.timeout.ms",
        _ms(1),
        "45000",
        "When a member that was not heard of is put out of its group. Brokers allow 6000 to 1800000 "
        "(`group.min.session.timeout.ms`, `group.max.session.timeout.ms`).",
    ),
    Option(
        "heartbeat.interval.ms",
        _ms(1),
        "3000",
        "How often a member says that it lives; at most a third of `session.timeout.ms` is sound.",
    ),
    Option(
        "max.poll.interval.ms",
        _ms(1),
        "300000",
        "How long a rebalance waits for its members. There is no poll: a reader may take as long as it likes.",
    ),
    Option("rebalance.max.retries", number(0, 1_000_000), "4", "How often a failed rebalance is tried again,"),
    Option("rebalance.backoff.ms", _ms(0), "2000", "and the pause before it."),
    Option(
        "refresh.leader.backoff.ms",
        _ms(0),
        "200",
        "The pause before it is asked again who leads a partition that has no leader.",
    ),
    Option(
        "metadata.max.age.ms",
        _ms(1),
        "300000",
        "How often it is looked for new partitions, and for new topics that a filter matches.",
    ),
    Option("exclude.internal.topics", flag, "true", "Whether a filter leaves out Kafka's internal topics."),
    Option("group.protocol", _protocol, "classic", "The group protocol: `classic`."),
)

_CHANGED: dict[str, dict[str, Any]] = {
    "default.api.timeout.ms": {"doc": "How long a question to the brokers is tried again."},
    "max.partition.fetch.bytes": {"default": str(1 << 20)},
}

# Longest first: ssl.keystore.key is also the beginning of another name.
_KNOWN = "|".join(re.escape(name) for name in sorted(KAFKA_OPTIONS, key=len, reverse=True))
_NAMES = re.compile(rf"(?<![\w.])(?:{_KNOWN})(?![\w])")


def _bare(words: str) -> str:
    """A text with the names of options as users of a connector write them. Nothing else in it is touched: a broker may
    well be called kafka.example.org."""
    return _NAMES.sub(lambda found: found[0].removeprefix(PREFIX), words)


def _shared() -> dict[str, Option]:
    """The client's options, without what stands before their names in the Spark source."""
    limit = Option(
        "decompression.limit.bytes",
        number(1 << 16, 1 << 30),
        str(256 << 20),
        "The most that one record batch may unpack to; more is taken for an attack or damage.",
    )
    shared: dict[str, Option] = {}
    for option in KAFKA_OPTIONS.values():
        name = option.name.removeprefix(PREFIX)
        shared[name] = replace(option, name=name, **{"doc": _bare(option.doc)} | _CHANGED.get(name, {}))
    return shared | {limit.name: limit}


_SHARED = _shared()

CONSUMER_OPTIONS: dict[str, Option] = {
    "bootstrap.servers": _SHARED["bootstrap.servers"],
    **{option.name: option for option in _OWN},
    **{name: option for name, option in _SHARED.items() if name not in {option.name for option in _OWN}},
}

OLD_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "auto.commit.enable": "enable.auto.commit",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Names of the old high-level consumer (some live on in librdkafka) for what is called otherwise today."""

_DECODERS = "Use key_decoder and value_decoder of create_message_streams"
_JAAS = "Set sasl.jaas.config, as for Java's consumer: it names both"
_PEM = "Set ssl.keystore.location: a PEM file with the certificate chain and the key"

CONSUMER_REFUSED = {
    "zookeeper.connect": "Groups and their offsets live in Kafka itself: use bootstrap.servers",
    "key.deserializer": _DECODERS,
    "value.deserializer": _DECODERS,
    "interceptor.classes": "Interceptors are Java classes. " + _DECODERS,
    "sasl.username": _JAAS,
    "sasl.password": _JAAS,
    "ssl.ca.location": "Set ssl.truststore.location: a PEM file too",
    "ssl.certificate.location": _PEM,
    "ssl.key.location": _PEM,
    **{name.removeprefix(PREFIX): _bare(advice) for name, advice in SECURITY_REFUSED.items()},
}
"""Settings of Java's or other clients that cannot be honoured, and what to do instead."""

_OLD_NO_EFFECT = {
    "offsets.storage": "kafka",
    "dual.commit.enabled": "false",
}
"""What the old consumer could keep in ZooKeeper: taken if it says Kafka, refused if not."""

_NO_EFFECT = {
    **{name.removeprefix(PREFIX): _bare(reason) for name, reason in KAFKA_NO_EFFECT.items()},
    "group.remote.assignor": "groups are joined by the classic protocol",
    "max.poll.records": "there is no poll",
    **{
        f"zookeeper.{name}.ms": "there is no ZooKeeper"
        for name in ("connection.timeout", "session.timeout", "sync.time")
    },
    **{
        f"offsets.{name}": "default.api.timeout.ms says how long to try"
        for name in ("channel.backoff.ms", "channel.socket.timeout.ms", "commit.max.retries")
    },
    **dict.fromkeys(_OLD_NO_EFFECT, "offsets are kept in Kafka"),
}

CONSUMER_NO_EFFECT = {name: reason for name, reason in _NO_EFFECT.items() if name not in CONSUMER_OPTIONS}
"""Settings of Java's consumers that change nothing here, and why: taken, with a warning."""

_FIELDS: dict[str, str] = {
    "group.id": "group",
    "consumer.id": "consumer_id",
    "group.instance.id": "instance_id",
    "partition.assignment.strategy": "assignors",
    "session.timeout.ms": "session_timeout",
    "heartbeat.interval.ms": "heartbeat_interval",
    "max.poll.interval.ms": "rebalance_timeout",
    "enable.auto.commit": "auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval",
    "auto.watermark.interval.ms": "watermark_interval",
    "auto.offset.reset": "reset",
    "consumer.timeout.ms": "consumer_timeout",
    "queued.max.message.chunks": "queued_chunks",
    "num.consumer.fetchers": "fetchers",
    "rebalance.max.retries": "rebalance_retries",
    "rebalance.backoff.ms": "rebalance_backoff",
    "refresh.leader.backoff.ms": "refresh_leader_backoff",
    "metadata.max.age.ms": "metadata_max_age",
    "exclude.internal.topics": "exclude_internal",
}


def parse_config(config: Mapping[str, object]) -> ConsumerConfig:
    """Read a user's settings; raises OptionError for the first wrong one, by the name the user gave it."""
    given, written, ignored = _parse_each(config)
    formats = format_options({name: given.pop(name) for name in FORMAT_OPTIONS if name in given})
    if "bootstrap.servers" not in given:
        raise OptionError("bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    if "group.id" not in given:
        raise OptionError(
            "group.id",
            None,
            "is missing. It names the group whose members share the partitions, and for which Kafka keeps offsets",
            "Choose one name per application: the same for consumers that share work, another for each that is to "
            "read everything",
        )
    values = {name: option.parse(name, option.default) for name, option in CONSUMER_OPTIONS.items() if option.default}
    values |= given
    _check_times(values, written)
    try:
        # Without the defaults of security, which would look as if a user had asked for TLS and a login.
        plain = {
            name: value for name, value in values.items() if PREFIX + name not in SECURITY_OPTIONS or name in given
        }
        shared = {PREFIX + name: plain[name] for name in _SHARED if name in plain}
        limit = {"decompressionLimitBytes": values["decompression.limit.bytes"]}
        client = replace(client_config(shared | limit), option_prefix="")
    except OptionError as error:
        raise _renamed(error) from None
    fields: dict[str, Any] = {name_here: values.get(name) for name, name_here in _FIELDS.items()}
    return ConsumerConfig(client, formats=formats, ignored=tuple(ignored.items()), **fields)


def _parse_each(config: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """The values by today's names, the names by which the user gave them, and what has no effect, with the reason."""
    values: dict[str, Any] = {}
    written: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for key, raw in config.items():
        shown = MASK if is_secret(key) else raw
        name = OLD_NAMES.get(key, key)
        if key in CONSUMER_REFUSED:
            raise OptionError(key, shown, "is not supported", CONSUMER_REFUSED[key])
        if key in CONSUMER_NO_EFFECT:
            _check_old_storage(key, raw)
            ignored[key] = CONSUMER_NO_EFFECT[key]
            continue
        if name in FORMAT_OPTIONS:
            values[name], written[name] = _parse(FORMAT_OPTIONS[name].parse, key, raw, shown), key
            continue
        if name not in CONSUMER_OPTIONS:
            # Without its value: a misspelt name may stand before a password.
            raise OptionError(key, None, "is unknown", _nearest(key))
        value = _parse(CONSUMER_OPTIONS[name].parse, key, raw, shown)
        if name in values and values[name] != value:
            other = written[name]
            raise OptionError(key, shown, f"contradicts {other} = {config[other]!r}", f"Give {name} alone")
        values[name], written[name] = value, key
    return values, written, ignored


def _parse(parse: Callable[[str, str], Any], key: str, raw: object, shown: object) -> Any:
    try:
        return parse(key, _text(key, raw, shown))
    except OptionError as error:
        raise _renamed(error, shown) from None


def _renamed(error: OptionError, shown: object = None) -> OptionError:
    """The error in the words of a ConsumerConnector's user, and without a secret."""
    value = error.value if shown is None else shown
    return OptionError(_bare(error.name), value, _bare(error.reason), _bare(error.hint))


def _text(key: str, raw: object, shown: object) -> str:
    """A value as text: settings come from files as texts and from programs as what they are."""
    match raw:
        case bool():
            return str(raw).lower()
        case str():
            return raw
        case int():
            return str(raw)
        case float():
            return str(int(raw)) if raw.is_integer() else str(raw)
        case list() | tuple() if all(isinstance(part, str) for part in raw):
            return ",".join(raw)
    kind = "None: leave it out" if raw is None else f"a {type(raw).__name__}"
    raise OptionError(key, None if raw is None else shown, f"must be text, a number or true or false, not {kind}")


def _check_old_storage(key: str, raw: object) -> None:
    if key in _OLD_NO_EFFECT and _text(key, raw, raw).strip().lower() != _OLD_NO_EFFECT[key]:
        raise OptionError(
            key,
            raw,
            "offsets are kept in Kafka and nowhere else",
            "Leave it out, and bring the old offsets over with: penstock groups reset GROUP --from-file FILE",
        )


def _nearest(key: str) -> str:
    known = [*CONSUMER_OPTIONS, *FORMAT_OPTIONS, *OLD_NAMES, *sorted(CONSUMER_NO_EFFECT)]
    if key.startswith(PREFIX) and key.removeprefix(PREFIX) in known:
        return f"Did you mean {key.removeprefix(PREFIX)}? Only the Spark source puts {PREFIX} before Kafka's names"
    if key.lower().startswith("eventtime.") or key.lower() == "includewatermarks":
        return "Options of event time are the Spark source's; here it is ConsumerConnector(config, watermarks=strategy)"
    return did_you_mean(key.replace("_", "."), known)


def _check_times(values: Mapping[str, Any], written: Mapping[str, str]) -> None:
    for shorter, longer, why in (
        ("heartbeat.interval.ms", "session.timeout.ms", "a member would be put out between two heartbeats"),
        ("fetch.max.wait.ms", "request.timeout.ms", "each fetch that finds nothing would time out"),
    ):
        if values[shorter] >= values[longer]:
            limit = f"{written.get(longer, longer)} = {values[longer] * 1000:.0f}"
            raise OptionError(
                written.get(shorter, shorter),
                f"{values[shorter] * 1000:.0f}",
                f"must be less than {limit}: {why}",
            )
