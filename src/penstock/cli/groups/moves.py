"""The offsets that `penstock groups reset` commits. Pure, except for reading a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from penstock.cli.positions import AtOffset, LastRecords, parse_position
from penstock.errors import OptionError
from penstock.model.offset_spec import AtTimestamp, Earliest, GroupOffsets, Latest
from penstock.model.topic_partition import Offsets, TopicPartition

FILE_EXAMPLE = "Lines of topic,partition,offset, as kafka-consumer-groups exports them"


@dataclass(frozen=True, slots=True)
class Shift:
    """Move the committed offsets by this number, backwards if negative."""

    count: int


@dataclass(frozen=True, slots=True)
class Listed:
    """The offsets of a file, by partition."""

    offsets: Mapping[TopicPartition, int]


Target: TypeAlias = Earliest | Latest | AtTimestamp | AtOffset | LastRecords | Shift | Listed


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a reset."""

    topic: str
    partition: int
    old: int | None
    new: int
    note: str = ""


def parse_target(text: str) -> Target:
    position = parse_position("--to", text)
    if isinstance(position, GroupOffsets):
        raise OptionError("--to", text, "is already the position of the group", "To move it, use --by N")
    return position


def parse_topic(text: str) -> tuple[str, tuple[int, ...] | None]:
    """`words` for all partitions of a topic, `words:0,2` for some. Topic names have no colon."""
    topic, colon, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if colon else []
    if not topic or not all(part.isascii() and part.isdecimal() for part in parts):
        raise OptionError("--topic", text, "is not a topic, or a topic with partitions", "Example: words or words:0,2")
    return topic, tuple(sorted({int(part) for part in parts})) if colon else None


def read_offsets_file(path: str) -> Listed:
    """Read offsets as CSV (`topic,partition,offset`), or as the JSON of `startingOffsets`."""
    try:
        text = Path(path).read_text("utf-8-sig")  # spreadsheets write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise OptionError("--from-file", path, f"cannot be read: {reason}") from error
    rows = _json_rows(path, text) if text.lstrip().startswith("{") else _csv_rows(text)
    offsets: Offsets = {}
    for place, topic, partition, offset in rows:
        numbers = (str(partition).strip(), str(offset).strip())
        if not topic or not all(number.isascii() and number.isdecimal() for number in numbers):
            raise OptionError("--from-file", path, f"{place} is not a topic, a partition and an offset", FILE_EXAMPLE)
        tp = TopicPartition(topic, int(numbers[0]))
        if offsets.setdefault(tp, int(numbers[1])) != int(numbers[1]):
            raise OptionError("--from-file", path, f"has two offsets for {tp}")
    if not offsets:
        raise OptionError("--from-file", path, "contains no offsets", FILE_EXAMPLE)
    return Listed(offsets)


def _csv_rows(text: str) -> Iterable[tuple[str, str, object, object]]:
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if row and not row[0].lstrip().startswith("#"):
            topic, partition, offset = row if len(row) == 3 else ("", "", "")
            yield f"line {number}", topic.strip(), partition, offset


def _json_rows(path: str, text: str) -> Iterable[tuple[str, str, object, object]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise OptionError("--from-file", path, f"is not JSON: {error}") from None
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            yield f"{topic!r}", "", "", ""
            continue
        for partition, offset in partitions.items():
            yield f"{topic!r}, partition {partition}", topic, partition, offset


def moves(
    target: Target,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int | None],
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int | None],
) -> list[Move]:
    """The new offset of each partition, within its log. `at_time` is used only if the target is a time."""
    found = []
    for tp in sorted(partitions):
        old, note = committed.get(tp), ""
        match target:
            case Earliest():
                wanted = begin[tp]
            case Latest():
                wanted = end[tp]
            case AtOffset(offset):
                wanted = offset
            case LastRecords(count):
                wanted = max(end[tp] - count, begin[tp])
            case Listed(offsets):
                wanted = offsets[tp]
            case AtTimestamp():
                there = at_time[tp]
                wanted = end[tp] if there is None else there
                note = "no record at or after the time: its end" if there is None else ""
            case Shift(count):
                if old is None:
                    reason = f"{tp} has no committed offset to move from"
                    raise OptionError("--by", f"{count:+}", reason, "Use --to, or leave out that partition")
                wanted = old + count
        new = min(max(wanted, begin[tp]), end[tp])
        if wanted < new:
            note = f"its beginning: {wanted} no longer exists" if wanted >= 0 else "its beginning"
        elif wanted > new:
            note = f"its end: {wanted} is not written yet"
        found.append(Move(tp.topic, tp.partition, old, new, note))
    return found
