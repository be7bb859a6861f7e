"""A metric: its name, kind, description and labels; and one sample of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

PARTITION = ("topic", "partition")


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """`penstock_pending_records` for `pendingRecords`. Prometheus itself appends `_total` to a counter."""
        return "penstock_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    def of_consumer(self) -> Metric:
        """The consumer's metric of the same family: `consumerPendingRecords` for `pendingRecords`."""
        return replace(self, name=f"consumer{self.name[0].upper()}{self.name[1:]}")


Sample: TypeAlias = tuple[Metric, tuple[str, ...], float]
"""A metric, the values of its labels, and its value."""


def samples_of(values: Iterable[tuple[Metric, float | None]], labels: tuple[str, ...] = ()) -> Iterator[Sample]:
    """Samples of the values that are known."""
    return ((metric, labels, value) for metric, value in values if value is not None)


def seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
