"""Resolves where each partition is read from, and up to where.

A start or an end is one of a few modes. `resolve_start` and `resolve_end` turn a mode into one offset per partition.
They ask an `OffsetLookup`, never a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from penstock.config.source import SourceOptions
from penstock.config.times import now_ms
from penstock.errors import DataLoss, NoGroupOffset, NoOffsetForTimestamp, OptionError
from penstock.masking import get_logger
from penstock.model.offset_spec import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    ByDuration,
    Earliest,
    EarliestLocal,
    EndMode,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    StartRules,
)
from penstock.model.topic_partition import Offsets, TopicPartition, listed

log = get_logger(__name__)


class OffsetLookup(Protocol):
    """What resolving a start or an end asks a cluster."""

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...
    def local_begins(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...
    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...
    def hidden_past(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...
    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...
    def first_at(
        self,
        times: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int | None]: ...


def stream_start(options: SourceOptions) -> tuple[StartMode, StartRules]:
    """Where a new stream starts by default (F6), and its fallback (F9)."""
    rules = options.rules
    mode = options.starting or (Latest() if rules.group is None else GroupOffsets())
    if isinstance(mode, GroupOffsets) and rules.reset is None:
        rules = replace(rules, reset="latest")  # Kafka's own default
    return mode, rules


def resolve_start(
    mode: StartMode, partitions: list[TopicPartition], lookup: OffsetLookup, rules: StartRules
) -> Offsets:
    """The offset of the first record to read, per partition."""
    match mode:
        case Earliest():
            return lookup.begin(partitions)
        case EarliestLocal():
            return lookup.local_begins(partitions)
        case Latest():
            return lookup.end(partitions)
        case GroupOffsets():
            return _group_offsets(partitions, lookup, rules)
        case AtTimestamp():
            check_named(mode.option, mode.timestamp, partitions)
            return _offsets_at(mode, partitions, lookup, rules.fail_on_no_match)
        case AtOffsets(offsets, option):
            _check_known(option, offsets, partitions)
            unnamed = [tp for tp in partitions if offsets.get(tp) is None]
            if unnamed and rules.group is None:
                raise OptionError(
                    option,
                    None,
                    f"names no offset for {listed(unnamed)}",
                    f'Name every partition, or the whole topic: {{"{unnamed[0].topic}": "earliest"}}; or set '
                    "kafka.group.id to start those at the group's offsets",
                )
            found = _named_offsets(offsets, partitions, lookup)
            if unnamed:
                log.warning(
                    "%s names no offset for %s: starting there at the offsets of group %r",
                    option,
                    listed(unnamed),
                    rules.group,
                )
                found |= _group_offsets(unnamed, lookup, rules)
            return found


def resolve_end(mode: EndMode, partitions: list[TopicPartition], lookup: OffsetLookup) -> Offsets:
    """The offset after the last record to read, per partition."""
    match mode:
        case Latest():
            return lookup.end(partitions)
        case AtTimestamp():
            check_named(mode.option, mode.timestamp, partitions)
            return _offsets_at(mode, partitions, lookup, fail_on_no_match=False)
        case AtOffsets(offsets, option):
            _check_known(option, offsets, partitions)
            check_named(option, offsets, partitions)
            return _named_offsets(offsets, partitions, lookup)


def within_bounds(start: Offsets, stop: Offsets, begin: Offsets, end: Offsets, fail_on_data_loss: bool) -> None:
    """Check every start and stop against the offsets that the broker has (F27). Raises one DataLoss for all of them, or
    warns and limits `start` and `stop` to these offsets. `end` is the high watermark, because records that open
    transactions hide are not lost."""
    lost: list[tuple[str, int, str, str]] = []
    for tp in start:
        has = f"offsets {begin[tp]} to {end[tp]}"
        for wanted, word in ((start, "from"), (stop, "up to")):
            if not begin[tp] <= wanted[tp] <= end[tp]:
                # A stop below the first offset lost nothing that lies at or after the start.
                if word == "up to" and wanted[tp] < begin[tp] and start[tp] >= wanted[tp]:
                    continue
                lost.append((tp.topic, tp.partition, f"{word} offset {wanted[tp]}", has))
    if not lost:
        return
    error = DataLoss(lost)
    if fail_on_data_loss:
        raise error
    log.warning("%s\nReading the remaining records, because failOnDataLoss is false", error.what)
    for tp in start:
        start[tp] = min(max(start[tp], begin[tp]), end[tp])
        stop[tp] = min(max(stop[tp], begin[tp]), end[tp])


def _named_offsets(offsets: PerPartition, partitions: list[TopicPartition], lookup: OffsetLookup) -> Offsets:
    named = {tp: offset for tp in partitions if (offset := offsets.get(tp)) is not None}
    earliest = lookup.begin([tp for tp, offset in named.items() if offset == EARLIEST])
    latest = lookup.end([tp for tp, offset in named.items() if offset == LATEST])
    return named | earliest | latest


def _group_offsets(partitions: list[TopicPartition], lookup: OffsetLookup, rules: StartRules) -> Offsets:
    assert rules.group is not None, "parsing the options refuses a group start without a group"
    committed = lookup.committed(rules.group, partitions)
    found = {tp: offset for tp, offset in committed.items() if offset is not None}
    missing = [tp for tp in partitions if tp not in found]
    if not missing:
        return found
    if rules.reset == "earliest":
        return found | lookup.begin(missing)
    if rules.reset == "latest":
        return found | lookup.end(missing)
    if isinstance(rules.reset, ByDuration):
        return found | _offsets_at(AtTimestamp(rules.reset.time(now_ms())), missing, lookup, fail_on_no_match=False)
    raise NoGroupOffset(rules.group, missing)


def _offsets_at(
    mode: AtTimestamp, partitions: list[TopicPartition], lookup: OffsetLookup, fail_on_no_match: bool
) -> Offsets:
    times = {tp: at for tp in partitions if (at := mode.of(tp)) is not None}
    # Do not simplify (F8): the end is read BEFORE the lookup. Read after it, a record produced in between would be
    # neither found nor past the end, and would be skipped.
    end = lookup.end(partitions)
    found = lookup.first_at(times, end)
    unmatched = [tp for tp in partitions if found[tp] is None]
    if unmatched and fail_on_no_match:
        raise NoOffsetForTimestamp([(tp.topic, tp.partition, times[tp]) for tp in unmatched])
    return {tp: end[tp] if (offset := found[tp]) is None else offset for tp in partitions}


def check_named(option: str, named: int | PerPartition, partitions: list[TopicPartition]) -> None:
    """Raise OptionError unless the option names every partition, and no other."""
    if isinstance(named, int):
        return
    unnamed = [tp for tp in partitions if named.get(tp) is None]
    if unnamed:
        raise OptionError(option, None, f"names nothing for {listed(unnamed)}", "Name every partition or whole topics")
    _check_known(option, named, partitions)


def _check_known(option: str, named: PerPartition, partitions: list[TopicPartition]) -> None:
    known, topics = set(partitions), {tp.topic for tp in partitions}
    unknown = sorted(
        {str(tp) for tp in named.partitions if tp not in known}
        | {topic for topic in named.topics if topic not in topics}
    )
    if unknown:
        raise OptionError(
            option,
            None,
            f"names {', '.join(unknown[:5])}, which the subscription does not have",
            f"It has {listed(partitions)}",
        )
