"""What a browser asks for when it shows the records of a topic, and what it gets. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from penstock.errors import PenstockError

MAX_RECORDS, DEFAULT_RECORDS = 200, 50
MAX_WHERE = 10_000
"""Characters of a predicate."""
MAX_TOPIC = 249
"""Characters. A longer name would not be answered by brokers: they close the connection."""
LARGEST_PARTITION, LARGEST_OFFSET = 2**31 - 1, 2**63 - 1
"""As Kafka's protocol has them."""


class BadRequest(PenstockError):
    """A browser's request that is not understood."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    topic: str
    where: str | None = None
    limit: int = DEFAULT_RECORDS
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Text or bytes as text. Beyond a limit they are cut, and `size` is the number of bytes before."""

    text: str | None
    size: int | None
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class ShownRecord:
    partition: int
    offset: int
    timestamp: str | None
    key: Cut
    value: Cut
    headers: tuple[tuple[str, Cut], ...] = ()
    error: str | None = None
    """Why the key or the value does not parse; its bytes are shown then."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The newest records first."""

    records: tuple[ShownRecord, ...]
    scanned: int
    seconds: float
    stopped: str | None = None
    """Why older records were not read: the limit that was reached. None if there are none."""


Search: TypeAlias = Callable[[SearchRequest], SearchResult]
"""Raises PenstockError with a text for the user. Any thread may call it, several at the same time."""


def parse_request(body: bytes) -> SearchRequest:
    given = json_object(body)
    topic, where = given.get("topic"), given.get("where")
    limit, partition = given.get("limit", DEFAULT_RECORDS), given.get("partition")
    if not isinstance(topic, str) or not 1 <= len(topic) <= MAX_TOPIC:
        raise BadRequest("the request names no topic, or one that is too long")
    if where is not None and (not isinstance(where, str) or len(where) > MAX_WHERE):
        raise BadRequest(f"the predicate is not text of at most {MAX_WHERE:,} characters")
    if not is_count(limit, MAX_RECORDS) or limit < 1:
        raise BadRequest(f"the number of records is not between 1 and {MAX_RECORDS}")
    if partition is not None and not is_count(partition, LARGEST_PARTITION):
        raise BadRequest("the partition is not a number")
    return SearchRequest(topic, where.strip() or None if where else None, limit, partition)


def json_object(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the request is not JSON") from None
    if not isinstance(given, dict):
        raise BadRequest("the request is not a JSON object")
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: neither Kafka nor Arrow can encode it
        raise BadRequest("the request has text that is not Unicode") from None
    return given


def is_count(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def result_document(result: SearchResult) -> dict[str, Any]:
    return asdict(result)
