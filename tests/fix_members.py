"""Fixtures: members of a group on a real broker, whose work on partitions is only written down."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest

from penstock.consumer.config import parse_config
from penstock.consumer.membership import Assignment, Membership
from penstock.consumer.subscription import NamedTopics, StreamSubscription
from penstock.topics import TopicPartition

DEADLINE = 90.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Until the condition is true. What it said then."""
    deadline = time.monotonic() + seconds
    while not (said := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return said


class Recorder:
    """An Ownership that writes down what it is told. `on_release` and `on_assign` may do more."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.partitions: dict[TopicPartition, int] = {}
        self.assignments: list[Assignment] = []
        self.errors: list[BaseException] = []
        self.threads: set[str] = set()
        self.on_release: Callable[[Collection[TopicPartition], bool], None] = lambda partitions, lost: None
        self.on_assign: Callable[[Assignment], None] = lambda assignment: None

    def owned(self) -> list[TopicPartition]:
        return sorted(self.partitions)

    def release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append(("lost" if lost else "released", sorted(partitions)))
        self.on_release(partitions, lost)
        for tp in partitions:
            del self.partitions[tp]  # a KeyError here: released what was never assigned

    def assign(self, assignment: Assignment) -> None:
        self.threads.add(threading.current_thread().name)
        self.on_assign(assignment)
        new = {tp: stream for tp, stream in assignment.partitions.items() if tp not in self.partitions}
        assert all(assignment.partitions[tp] == stream for tp, stream in self.partitions.items())
        self.events.append(("assigned", sorted(new)))
        self.assignments.append(assignment)
        self.partitions |= new

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


class Made:
    """A membership with its recorder."""

    def __init__(self, kafka: Any, group: str, subscription: StreamSubscription, config: Mapping[str, object]) -> None:
        self.recorder = Recorder()
        self.consumer_id = str(config.get("consumer.id") or f"{group}-{uuid.uuid4().hex[:8]}")
        settings = {
            "bootstrap.servers": kafka if isinstance(kafka, str) else kafka.bootstrap_servers,
            "group.id": group,
            "session.timeout.ms": 30_000,  # a process that gets no processor for seconds is not dead
            "heartbeat.interval.ms": 200,
            **config,
        }
        self.config = parse_config(settings)
        self.membership = Membership(self.config, self.consumer_id, subscription, self.recorder)

    def __repr__(self) -> str:
        return f"<{self.consumer_id} {self.membership.state} {self.recorder.events}>"

    @property
    def has(self) -> set[TopicPartition]:
        """What it owns in a stable generation, else nothing."""
        return set(self.recorder.partitions) if self.membership.state == "stable" else set()

    def close(self, leave: bool = True) -> None:
        self.membership.close(DEADLINE, leave)
        assert self.membership._thread is None or not self.membership._thread.is_alive()


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def member(kafka: Any, group: str) -> Iterator[Callable[..., Made]]:
    """`member({topic: 2}, **{"session.timeout.ms": 6000})` joins the test's group; closed at the test's end."""
    made: list[Made] = []

    def make(subscription: Mapping[str, int] | StreamSubscription, cluster: Any = kafka, **config: object) -> Made:
        if isinstance(subscription, Mapping):
            subscription = NamedTopics(subscription)
        made.append(Made(cluster, group, subscription, config))
        made[-1].membership.start()
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert [error for each in made for error in each.recorder.errors] == [], "a membership failed"


def partitions(topic: str, count: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(count)}


def shared(members: Collection[Made], wanted: Collection[TopicPartition]) -> bool:
    """Whether each of these partitions has one owner, and each member has something."""
    held = [tp for each in members for tp in each.has]
    return sorted(held) == sorted(wanted) and all(each.has for each in members)


def await_shared(members: Collection[Made], wanted: Collection[TopicPartition]) -> None:
    wait_for(lambda: shared(members, wanted), f"each of {len(wanted)} partitions with one of {members}")
