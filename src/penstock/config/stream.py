"""The options that only a stream looks at: how much per trigger, what is committed, how partitions are found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from penstock.config.option import Option, flag, number, one_of
from penstock.errors import OptionError
from penstock.model.duration import duration

CommitMode: TypeAlias = Literal["on-checkpoint", "periodic", "disabled"]


def discovery_interval(name: str, value: str) -> float:
    """Seconds between two looks for new partitions; infinity for -1, which is never."""
    parsed = number(-1, 2**31 - 1)(name, value)
    return math.inf if parsed == -1 else parsed / 1000


STREAM_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "maxOffsetsPerTrigger",
            number(1),
            None,
            "The most offsets of one trigger, shared among the partitions in proportion to their backlog.",
        ),
        Option(
            "maxBytesPerTrigger",
            number(1),
            None,
            "About the most bytes of one trigger, as Kafka stores them (compressed). Estimated from the headers of the "
            "batches that come next.",
        ),
        Option(
            "minOffsetsPerTrigger",
            number(1),
            None,
            "A trigger waits until there are so many offsets to read, but no longer than `maxTriggerDelay`. "
            "`Trigger.AvailableNow` does not wait.",
        ),
        Option("maxTriggerDelay", duration, "15m", "The longest wait for `minOffsetsPerTrigger`."),
        Option(
            "commitMode",
            one_of("on-checkpoint", "periodic", "disabled"),
            None,
            "When the offsets of finished batches are committed to `kafka.group.id`, where Kafka's tools see them: "
            "after each batch (`on-checkpoint`, the default when a group is named), every "
            "`kafka.auto.commit.interval.ms` (`periodic`), or never.",
        ),
        Option(
            "partition.discovery.interval.ms",
            discovery_interval,
            "30000",
            "How often to look for new partitions and topics; 0: at every trigger; -1: only when the query starts.",
        ),
        Option(
            "filterRestoredPartitions",
            flag,
            "true",
            "Whether partitions in the checkpoint that the subscription no longer includes are left out. They keep "
            "their offsets in the checkpoint, and a later run that includes them continues there. If false, they are "
            "read.",
        ),
        Option(
            "allowUnrelatedCheckpoint",
            flag,
            "false",
            "Whether a query may run on a checkpoint that shares no topic with the subscription. By default that is an "
            "error. If true, the subscribed topics are read from their beginning, and the topics in the checkpoint "
            "keep their offsets there, unread.",
        ),
        Option(
            "reportMetrics",
            flag,
            "true",
            "Whether `latestOffset` in the query's progress carries, under the key `#penstock`, what LagListener "
            "shows: commits, committed offsets, bytes per record.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a user asked of a stream. Times are in seconds."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay: float = 900.0
    commit_mode: CommitMode = "disabled"
    commit_interval: float = 5.0
    discovery_interval: float = 30.0
    filter_restored: bool = True
    allow_unrelated: bool = False
    report_metrics: bool = True
    given: tuple[str, ...] = ()
    """The options that were really set: a batch read warns of them."""


def stream_options(values: Mapping[str, Any], group: str | None) -> StreamOptions:
    low, high = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise OptionError("minOffsetsPerTrigger", low, f"is more than maxOffsetsPerTrigger = {high}")
    mode = values.get("commitMode")
    if mode not in (None, "disabled") and group is None:
        raise OptionError("commitMode", mode, "needs a group to commit to", "Set kafka.group.id")
    fields = {
        "maxOffsetsPerTrigger": "max_offsets",
        "maxBytesPerTrigger": "max_bytes",
        "minOffsetsPerTrigger": "min_offsets",
        "maxTriggerDelay": "max_delay",
        "kafka.auto.commit.interval.ms": "commit_interval",
        "partition.discovery.interval.ms": "discovery_interval",
        "filterRestoredPartitions": "filter_restored",
        "allowUnrelatedCheckpoint": "allow_unrelated",
        "reportMetrics": "report_metrics",
    }
    return StreamOptions(
        commit_mode=mode or ("disabled" if group is None else "on-checkpoint"),
        given=tuple(name for name in STREAM_OPTIONS if name in values),
        **{field_name: values[name] for name, field_name in fields.items() if name in values},
    )
