"""The options that only a stream uses: limits per trigger, commits, and partition discovery."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.config.client import KAFKA_OPTIONS
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, number, one_of
from penstock.errors import OptionError
from penstock.model.duration import duration

EndOfStream: TypeAlias = Literal["partition", "any"]
CommitMode: TypeAlias = Literal["on-checkpoint", "periodic", "disabled"]


def discovery_interval(name: str, value: str) -> float:
    """Seconds between two partition discoveries; infinity for -1, which means never."""
    parsed = number(-1, 2**31 - 1)(name, value)
    return math.inf if parsed == -1 else parsed / 1000


STREAM_OPTIONS = OptionTable(
    Option(
        "maxOffsetsPerTrigger",
        number(1),
        None,
        "The largest number of offsets in one trigger, shared among the partitions in proportion to their backlog. "
        "Default: no limit.",
        "max_offsets",
    ),
    Option(
        "maxBytesPerTrigger",
        number(1),
        None,
        "The approximate largest number of bytes in one trigger, as Kafka stores them (compressed). The planner "
        "estimates it from the headers of the next record batches. Default: no limit.",
        "max_bytes",
    ),
    Option(
        "minOffsetsPerTrigger",
        number(1),
        None,
        "A trigger waits until this number of offsets can be read, but not longer than `maxTriggerDelay`. "
        "`Trigger.AvailableNow` does not wait. Default: a trigger does not wait.",
        "min_offsets",
    ),
    Option(
        "maxTriggerDelay",
        duration,
        "15m",
        "The longest time that a trigger waits for `minOffsetsPerTrigger`, such as `15m` or `30s`.",
        "max_delay",
    ),
    Option(
        "commitMode",
        one_of("on-checkpoint", "periodic", "disabled"),
        None,
        "When the offsets of finished batches are committed to `kafka.group.id`, for Kafka's tools to see: "
        "`on-checkpoint` commits after each batch, `periodic` every `kafka.auto.commit.interval.ms`, `disabled` never. "
        "Default: `on-checkpoint` if `kafka.group.id` is set, else `disabled`.",
    ),
    Option(
        "partition.discovery.interval.ms",
        discovery_interval,
        "30000",
        "The interval in milliseconds at which the planner looks for new partitions and topics. 0: at every trigger. "
        "-1: only when the query starts.",
        "discovery_interval",
    ),
    Option(
        "endOfStream",
        one_of("partition", "any"),
        "partition",
        "What ends at a record for which the `is_end_of_stream` of your deserializer is true. `partition`: its "
        "partition, and the query when all partitions have ended. `any`: the whole query, as in Flink. The other "
        "partitions then end where the batch of that record ends.",
        "end_of_stream",
    ),
    Option(
        "filterRestoredPartitions",
        flag,
        "true",
        "Whether partitions of the checkpoint that the subscription no longer includes are skipped. They keep their "
        "offsets in the checkpoint, and a later run that includes them continues there. If false, they are read.",
        "filter_restored",
    ),
    Option(
        "allowUnrelatedCheckpoint",
        flag,
        "false",
        "Whether a query may run on a checkpoint that shares no topic with the subscription. If false, that is an "
        "error. If true, the subscribed topics are read from their beginning, and the topics of the checkpoint keep "
        "their offsets there, unread.",
        "allow_unrelated",
    ),
    Option(
        "reportMetrics",
        flag,
        "true",
        "Whether `latestOffset` in the query's progress carries the metrics of LagListener under the key `#penstock`: "
        "commits, committed offsets, bytes per record, and what each worker does at the brokers.",
        "report_metrics",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The parsed options of a stream. Times are in seconds."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay: float
    commit_mode: CommitMode
    commit_interval: float
    discovery_interval: float
    end_of_stream: EndOfStream
    filter_restored: bool
    allow_unrelated: bool
    report_metrics: bool


def stream_options(values: OptionValues) -> StreamOptions:
    group = values["kafka.group.id"]
    low, high = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if low is not None and high is not None and low > high:
        raise OptionError("minOffsetsPerTrigger", low, f"is more than maxOffsetsPerTrigger = {high}")
    mode = values["commitMode"]
    if mode not in (None, "disabled") and group is None:
        raise OptionError("commitMode", mode, "needs a group to commit to", "Set kafka.group.id")
    return StreamOptions(
        commit_mode=mode or ("disabled" if group is None else "on-checkpoint"),
        commit_interval=values["kafka.auto.commit.interval.ms"],
        **values.fields(STREAM_OPTIONS),
    )


def default_stream_options() -> StreamOptions:
    """The options of a stream that sets none."""
    return stream_options(OptionTable(*STREAM_OPTIONS.values(), *KAFKA_OPTIONS.values()).parse({}))
