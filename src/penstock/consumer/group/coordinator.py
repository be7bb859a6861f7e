"""Requests to a group's coordinator, which is looked up when needed, and again after it has moved."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.wire.api.metadata import Broker, ask_metadata
from penstock.wire.brokers import RETRIABLE_ERRORS, Brokers
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.retry import Attempts

Answer = TypeVar("Answer")

VANISHED_GRACE = 2.0
"""A broker with stale metadata does not list a topic that others know. So brokers are asked for this long about a topic
that is gone, before its partitions are revoked."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Topics of the cluster."""

    partitions: Mapping[str, int]
    internal: frozenset[str]
    names: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """The names of the topics by their ids."""


class Coordinator:
    """For one thread; only `abort` may be called by another, once `wait` returns True."""

    def __init__(
        self, config: ClientConfig, group: str, wait: Callable[[float], object], on_error: Callable[[], None]
    ) -> None:
        """`on_error` is called when an attempt fails in a way that a retry may heal."""
        self._config = config
        self._group = group
        self._wait = wait
        self._on_error = on_error
        self._brokers = Brokers(config, wait)
        self._where: Broker | None = None
        self._attempts: Attempts | None = None

    @property
    def problem(self) -> str | None:
        """The last failed attempt of the request that was begun last; None if none has failed. Any thread."""
        attempts = self._attempts
        return attempts.last_problem if attempts is not None and attempts.count else None

    def abort(self) -> None:
        """Wake the thread that waits for an answer. Any thread may call it."""
        self._brokers.abort()

    def attempts(self, what: str, timeout: float) -> Attempts:
        self._attempts = Attempts(
            what,
            timeout,
            backoff=self._config.retry_backoff,
            backoff_max=self._config.retry_backoff_max,
            hint="Check bootstrap.servers and security.protocol, and that the brokers run",
            hint_if_answered="The brokers answer, but refuse for now: the last attempt says why",
            wait=self._wait,
        )
        return self._attempts

    def ask(self, attempts: Attempts, ask: Callable[[Connection], Answer]) -> Answer:
        """One attempt. Retriable errors are raised too: the next attempt looks the coordinator up again."""
        try:
            if self._where is None:
                self._where = self._brokers.find_coordinator(attempts, self._group)
            with self._brokers.coordinator(self._where, attempts, self._group) as connection:
                return ask(connection)
        except RETRIABLE_ERRORS:
            self._where = None
            self._on_error()
            raise

    def listing(self, topics: Sequence[str] | None, expected: Mapping[str, int], timeout: float) -> Listing:
        """The topics that the cluster has of those named (None: of all), with their partition counts.

        `expected`: the partition counts known before. Raises BrokerUnavailable if no broker answers in time.
        """
        attempts = self.attempts(f"asking {self._config.bootstrap_text} for topics", timeout)
        started = time.monotonic()
        while True:
            try:
                metadata, _ = self._brokers.ask_any(
                    attempts, lambda connection, timeout: ask_metadata(connection, topics, timeout)
                )
                self._brokers.learn(metadata.brokers.values())
                partitions = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
                gone = [name for name, count in expected.items() if partitions.get(name, 0) < count]
                if not gone or time.monotonic() - started >= min(VANISHED_GRACE, attempts.timeout / 2):
                    internal = frozenset(name for name, topic in metadata.topics.items() if topic.internal)
                    ids = {topic.topic_id: name for name, topic in metadata.topics.items() if topic.topic_id}
                    return Listing(partitions, internal, ids)
                attempts.failed(f"the answer leaves out partitions of topic {gone[0]!r}")
            except RETRIABLE_ERRORS as error:
                self._on_error()
                attempts.failed(str(error), error)
            attempts.pause()
