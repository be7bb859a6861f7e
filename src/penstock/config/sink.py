"""The options of writing: of the Spark sink and of `penstock.Writer`. Named as in Spark's Kafka sink, plus those for
exactly-once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.config.client import CLIENT_OPTIONS, KAFKA_NO_EFFECT, client_config
from penstock.config.in_force import Shown
from penstock.config.log_level import LOG_LEVEL
from penstock.config.option import Ignored, Option, OptionTable, OptionValues, bare_name
from penstock.config.parsers import flag, number, one_of, text
from penstock.config.producer import PRODUCER_NO_EFFECT, PRODUCER_OPTIONS, PRODUCER_REFUSED, producer_config
from penstock.config.security import SECURITY_REFUSED
from penstock.config.write_formats import WRITE_FORMAT_OPTIONS, WriteFormats, write_format_options
from penstock.errors import OptionError
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.producer_config import ProducerConfig

Guarantee: TypeAlias = Literal["at-least-once", "exactly-once"]
EXACTLY_ONCE: Guarantee = "exactly-once"

TRANSACTIONAL_ID = "kafka.transactional.id"

SINK_OPTIONS_OWN = OptionTable(
    Option(
        "topic",
        text,
        None,
        "The topic to write to. It wins over the column `topic`. Default: each row's column `topic`.",
        "topic",
    ),
    Option(
        "includeHeaders",
        flag,
        "true",
        "Whether the column `headers` is written, if the rows have it.",
        "include_headers",
    ),
    Option(
        "deliveryGuarantee",
        one_of("at-least-once", "exactly-once"),
        "at-least-once",
        "`at-least-once`: a task that runs again writes its rows again. `exactly-once`: rows are written in Kafka "
        "transactions that end when Spark commits the batch; readers need `isolation.level=read_committed`.",
        "guarantee",
    ),
    Option(
        "transactionalIdPrefix",
        text,
        "penstock-sink",
        "The first part of the transactional ids and private groups of `deliveryGuarantee=exactly-once`. The user "
        "needs `Write` on transactional ids and `Read` on groups with this prefix.",
        "prefix",
    ),
    Option(
        "queryId",
        text,
        None,
        "For `foreachBatch` with `deliveryGuarantee=exactly-once`: the id of the query, the same after each restart. "
        "Set `batchId` too. A stream that writes with this sink needs neither.",
        "query_id",
    ),
    Option(
        "batchId",
        number(0),
        None,
        "For `foreachBatch` with `deliveryGuarantee=exactly-once`: the batch id that Spark passes to the function.",
        "batch_id",
    ),
    Option(
        "noteTopic",
        text,
        None,
        "An existing topic under whose name `exactly-once` keeps its notes in private groups. No record is written to "
        "it. Default: option `topic`. Needed if topics come from the column `topic`.",
        "note_topic",
    ),
    Option(
        TRANSACTIONAL_ID,
        text,
        None,
        "The transactional id of a `penstock.Writer` that writes in transactions. Each process needs one of its own. "
        "The Spark sink chooses its ids itself: see `transactionalIdPrefix`.",
        "transactional_id",
    ),
    LOG_LEVEL,
)

_NOT_READ = "the sink does not read"
_CLIENT_NAMES = (
    *("bootstrap.servers", "client.id", "request.timeout.ms", "default.api.timeout.ms", "retry.backoff.ms"),
    *("retry.backoff.max.ms", "socket.connection.setup.timeout.ms", "connections.max.idle.ms", "receive.buffer.bytes"),
    *("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"),
)


def _is_for_writing(name: str) -> bool:
    bare = bare_name(name)
    return bare in _CLIENT_NAMES or bare.startswith(("ssl.", "sasl.", "security."))


SINK_CLIENT_OPTIONS = OptionTable(
    *(each for each in CLIENT_OPTIONS.values() if _is_for_writing(each.name)), ignores_case=True
)
"""The options of a client that writes."""

_READING_OPTIONS = {name: _NOT_READ for name in CLIENT_OPTIONS if not _is_for_writing(name)}
REFUSED = {
    "subscribe": "A sink writes: set option topic",
    "subscribePattern": "A sink writes: set option topic",
    "assign": "A sink writes: set option topic, and the column `partition`",
    "path": "A topic is not a path: use option topic",
    **PRODUCER_REFUSED,
    **SECURITY_REFUSED,
}
"""Options that are errors, each with the advice of its error."""


SINK_OPTIONS = OptionTable(
    *SINK_OPTIONS_OWN.values(),
    *WRITE_FORMAT_OPTIONS.values(),
    *PRODUCER_OPTIONS.values(),
    *SINK_CLIENT_OPTIONS.values(),
    refused=REFUSED,
    no_effect=KAFKA_NO_EFFECT | PRODUCER_NO_EFFECT | _READING_OPTIONS,
    ignores_case=True,
)
"""Every option of a write. Names are accepted in any case, as in Spark, and Kafka's with or without `kafka.`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The parsed options of a write: checked, picklable, without a secret in its repr."""

    client: ClientConfig
    producer: ProducerConfig
    formats: WriteFormats
    topic: str | None = None
    include_headers: bool
    guarantee: Guarantee
    prefix: str
    query_id: str | None = None
    batch_id: int | None = None
    note_topic: str | None = None
    transactional_id: str | None = None
    log_level: int | None = None
    """That of Python's logging; None: not given."""
    shown: Shown = field(default=(), compare=False)
    """The given options, for the log."""
    ignored: Ignored = field(default=(), compare=False)
    """Options that have no effect."""

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE

    @property
    def notes_in(self) -> str:
        """The topic under whose name notes are kept. Checked by `check_notes`."""
        name = self.note_topic or self.topic
        assert name is not None, "check_notes comes first"
        return name


def parse_sink_options(given: Mapping[str, Any]) -> SinkOptions:
    """Parse a user's options. Raises OptionError for the first wrong one."""
    with SINK_OPTIONS.names_as_written(given):
        return _parsed(SINK_OPTIONS.parse(given))


def _parsed(values: OptionValues) -> SinkOptions:
    if "kafka.bootstrap.servers" not in values.given:
        raise OptionError("kafka.bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    of_client = {name: value for name, value in values.given.items() if name in CLIENT_OPTIONS}
    options = SinkOptions(
        client=client_config(OptionValues(CLIENT_OPTIONS, of_client, values.written)),
        producer=producer_config(values),
        formats=write_format_options(values),
        shown=values.shown,
        ignored=values.ignored,
        **values.fields(SINK_OPTIONS_OWN),
    )
    if (options.query_id is None) != (options.batch_id is None):
        missing, there = ("queryId", "batchId") if options.query_id is None else ("batchId", "queryId")
        raise OptionError(missing, None, f"is missing, but {there} is given", "foreachBatch needs both")
    if options.exactly_once and not options.producer.idempotent:
        raise OptionError(
            "deliveryGuarantee", EXACTLY_ONCE, "needs kafka.acks=all and kafka.enable.idempotence=true", "Remove them"
        )
    return options


def check_notes(options: SinkOptions) -> None:
    """Refuse exactly-once that has no place for its notes. A stream needs one, and a batch with `batchId`."""
    if options.note_topic is None and options.topic is None:
        raise OptionError(
            "noteTopic",
            None,
            "is missing: exactly-once keeps notes under the name of a topic, and option topic is not set",
            "Set noteTopic to an existing topic that this user may read",
        )
