"""What a browser sends to reset the offsets of a group, in two steps: it sees the moves, then commits these. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.watch.search import LARGEST_OFFSET, LARGEST_PARTITION, BadRequest, is_count, json_object

MAX_MOVES = 20_000
"""Partitions of one reset. They fit the largest body of a request."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    group: str
    to: str
    """As `penstock groups reset --to` takes it."""
    topic: str | None = None
    """None: every partition with a committed offset."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    topic: str
    partition: int
    old: int | None
    new: int
    note: str = ""


class Resets(Protocol):
    """Both raise PenstockError with a text for the user. Any thread may call them."""

    def plan(self, request: PlanRequest) -> list[PlannedMove]: ...

    def commit(self, group: str, moves: Sequence[PlannedMove]) -> None:
        """Commit what the user has seen. Fails if a committed offset is not `old` any more, and commits nothing."""


def parse_plan(body: bytes) -> PlanRequest:
    given = json_object(body)
    topic = given.get("topic")
    if topic is not None:
        topic = _text(topic, "topic")
    return PlanRequest(_text(given.get("group"), "group"), _text(given.get("to"), "position"), topic)


def parse_commit(body: bytes) -> tuple[str, list[PlannedMove]]:
    """The group and its moves."""
    given = json_object(body)
    moves = given.get("moves")
    if not isinstance(moves, list) or not 1 <= len(moves) <= MAX_MOVES:
        raise BadRequest(f"the request does not have 1 to {MAX_MOVES:,} moves")
    parsed = [_move(each) for each in moves]
    if len({(each.topic, each.partition) for each in parsed}) < len(parsed):
        raise BadRequest("the request moves a partition twice")
    return _text(given.get("group"), "group"), parsed


def _move(given: Any) -> PlannedMove:
    if not isinstance(given, list) or len(given) != 4:
        raise BadRequest("a move is not a topic, a partition, the old offset and the new one")
    topic, partition, old, new = given
    offsets = [new] if old is None else [old, new]
    if not is_count(partition, LARGEST_PARTITION) or not all(is_count(each, LARGEST_OFFSET) for each in offsets):
        raise BadRequest("a move has a partition or an offset that is not a number")
    return PlannedMove(_text(topic, "topic"), partition, old, new)


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > 1000:
        raise BadRequest(f"the request has no {what}")
    return given
