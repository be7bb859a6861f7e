"""One log line per batch about what it wrote, on the driver (W10)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.writer.outcome import TaskOutcome

log = get_logger(__name__)

SHOWN = 8
"""Partitions whose offsets are shown at INFO. DEBUG shows all."""


def log_written(outcomes: Sequence[TaskOutcome], batch: int | None) -> None:
    """Log rows, bytes, requests, retries and the offsets per partition."""
    rows = sum(outcome.metrics.rows for outcome in outcomes)
    ranges = offsets_of(outcomes)
    texts = [f"{tp}: {first} to {stop - 1}" for tp, (first, stop) in sorted(ranges.items())]
    log.info(
        "%s: %d rows, %d bytes, %d requests, %d retries; offsets %s%s",
        "write" if batch is None else f"batch {batch}",
        rows,
        sum(outcome.metrics.bytes for outcome in outcomes),
        sum(outcome.metrics.requests for outcome in outcomes),
        sum(outcome.metrics.retries for outcome in outcomes),
        ", ".join(texts[:SHOWN]) or "none",
        f" and {len(texts) - SHOWN} more partitions" if len(texts) > SHOWN else "",
    )
    if dropped := sum(outcome.dropped for outcome in outcomes):
        letters = sum(outcome.dead_letters for outcome in outcomes)
        log.warning("%d rows could not be encoded and were not written; %d dead letters", dropped, letters)
    if len(texts) > SHOWN:
        log.debug("offsets %s", ", ".join(texts))


def offsets_of(outcomes: Sequence[TaskOutcome]) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset and the offset after the last one, per partition. Records of others may lie between them."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for outcome in outcomes:
        for tp, written in outcome.written.items():
            first, stop = found.get(tp, (written.first_offset, written.end_offset))
            found[tp] = (min(first, written.first_offset), max(stop, written.end_offset))
    return found
