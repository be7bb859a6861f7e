"""Which parallel reader a partition belongs to: the rule of Flink's source (F13)."""

from __future__ import annotations


def reader_index(topic: str, partition: int, readers: int) -> int:
    """F13: which of `readers` parallel readers a partition belongs to."""
    start = ((_java_hash(topic) * 31) & 0x7FFFFFFF) % readers
    return (start + partition) % readers


def _java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, kept to 32 bits."""
    value = 0
    units = text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2])) & 0xFFFFFFFF
    return value
