"""Assigns partitions to parallel readers by the rule of Flink's source (F13)."""

from __future__ import annotations


def reader_index(topic: str, partition: int, readers: int) -> int:
    """The index of the reader that a partition belongs to, of `readers` parallel readers (F13)."""
    start = ((_java_hash(topic) * 31) & 0x7FFFFFFF) % readers
    return (start + partition) % readers


def _java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2])) & 0xFFFFFFFF
    return value
