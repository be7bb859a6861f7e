"""The events of the format figures, and the sums that prove that a reader has read all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

DISTINCT = 50_021
"""Number of events that a topic repeats. A prime, so that it does not align with partitions and batches; and 5 MB of
values, more than a CPU cache keeps between repetitions."""

MODULUS = 1_000_003
"""Sums use this modulus, because a long does not hold the sum of millions of timestamps in milliseconds."""

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Literal["BIGINT", "STRING", "DOUBLE"]

    def sum_of(self, column: str) -> str:
        """The SQL expression of the sum. It sums integers, because the sum of doubles depends on their order."""
        match self.kind:
            case "BIGINT":
                return f"sum({column} % {MODULUS})"
            case "STRING":
                return f"sum(length({column}))"
            case "DOUBLE":
                return f"sum(cast(round({column} * 100) as bigint))"

    def amount(self, event: Event) -> int:
        """The amount that an event adds to the sum."""
        value: Any = event.get(self.name)
        if value is None:
            return 0
        match self.kind:
            case "BIGINT":
                return int(value) % MODULUS
            case "STRING":
                return len(value)
            case "DOUBLE":
                cents: int = round(value * 100)
                return cents


FIELDS: tuple[Field, ...] = (
    Field("id", "BIGINT"),
    Field("user", "STRING"),
    Field("page", "STRING"),
    Field("price", "DOUBLE"),
    Field("time", "BIGINT"),
)
WIDE_FIELDS = tuple(
    field
    for number in range(1, 6)
    for field in (
        Field(f"count_{number}", "BIGINT"),
        Field(f"label_{number}", "STRING"),
        Field(f"ratio_{number}", "DOUBLE"),
        Field(f"place_{number}", "STRING"),
    )
)
ONE_OF_THEM = WIDE_FIELDS[9]
"""A string in the middle: neither the first field that a parser finds nor the cheapest type."""

FROM_PRICE = 999.1
"""About one event in 1,000 costs so much."""

_FIRST_TIME = 1_767_323_045_123
_PAGES = ("shoes", "shirts", "garden", "kitchen", "toys", "books")
_PLACES = ("Augsburg", "Ulm", "Kempten", "Lindau", "Memmingen", "Sonthofen")


def is_expensive(event: Event) -> bool:
    return bool(event["price"] >= FROM_PRICE)


def ddl(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name} {field.kind}" for field in fields)


def events(filler: int = 0) -> list[Event]:
    """The same events in every call. `filler` makes the page longer, for encodings without field names."""
    chance = random.Random(7_001)
    return [
        {
            "id": 10_000_000 + chance.randrange(80_000_000),
            "user": f"u{chance.randrange(1_000_000, 2_000_000)}",
            "page": f"/catalogue/{chance.choice(_PAGES)}/{_digits(chance, 5 + filler)}",
            "price": chance.randrange(10_000, 99_999) / 100,
            "time": _FIRST_TIME + 37 * number,
        }
        for number in range(DISTINCT)
    ]


def wide_events() -> list[Event]:
    chance = random.Random(7_002)
    return [{field.name: _wide_value(field, chance) for field in WIDE_FIELDS} for _ in range(DISTINCT)]


def _wide_value(field: Field, chance: random.Random) -> Any:
    match field.kind:
        case "BIGINT":
            return chance.randrange(100_000)
        case "DOUBLE":
            return chance.randrange(100, 9_999) / 100
        case "STRING":
            return chance.choice(_PLACES) if field.name.startswith("place") else f"l{chance.randrange(10_000)}"


def _digits(chance: random.Random, count: int) -> str:
    return f"{chance.randrange(10**count):0{count}}"


def sums(
    fields: Sequence[Field], good: Sequence[Event], rows: int, every: int | None = None, bad: Sequence[Event] = ()
) -> dict[str, int]:
    """The sums over the first `rows` records that Load.java writes. A bad record counts with the fields that remain."""
    whole, rest = divmod(rows, len(good))
    totals = {}
    for field in fields:
        amounts = [field.amount(event) for event in good]
        totals[field.name] = whole * sum(amounts) + sum(amounts[:rest])
        for number, other in _replaced(rows, every, bad):
            totals[field.name] += field.amount(other) - amounts[number % len(good)]
    return totals


def count(good: Sequence[Event], rows: int) -> int:
    """How many of the first `rows` records have any field."""
    whole, rest = divmod(rows, len(good))
    return whole * sum(map(bool, good)) + sum(map(bool, good[:rest]))


def _replaced(rows: int, every: int | None, bad: Sequence[Event]) -> Iterator[tuple[int, Event]]:
    if every is not None:
        for number in range(every - 1, rows, every):
            yield number, bad[number // every % len(bad)]
