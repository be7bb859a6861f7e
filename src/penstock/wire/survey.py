"""Asks for the state of a whole cluster, in few requests: one per broker and question, however many topics and groups.

A monitor asks again and again, and what fails now is asked again in its next round. So nothing is retried here, unlike
in `Cluster`. A broker that does not answer is left out of an answer, and `problems` says so.

Coordinators need no look-up: every broker lists the groups that it coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.masking import masked
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.wire.api.describe_configs import Settings, ask_topic_settings
from penstock.wire.api.describe_log_dirs import ask_log_sizes
from penstock.wire.api.group_admin import (
    CONSUMER,
    CONSUMER_GROUP_DESCRIBE,
    DescribedGroup,
    ListedGroup,
    ask_descriptions,
    ask_groups,
)
from penstock.wire.api.list_offsets import EARLIEST, LATEST, ask_offsets
from penstock.wire.api.metadata import Broker, Metadata, ask_metadata
from penstock.wire.api.offset_fetch import MANY_GROUPS, OFFSET_FETCH, ask_all_committed
from penstock.wire.brokers import RETRIABLE_ERRORS, Brokers
from penstock.wire.client_config import ClientConfig
from penstock.wire.lookup.next_records import NextRecord, ask_next_records
from penstock.wire.transport.connection import Connection, Pending

Question = TypeVar("Question")
Answer = TypeVar("Answer")

ANSWER_SECONDS = 10.0
"""For one question to all brokers. A broker that takes longer is left out, and not asked for the next ten seconds."""

TOPICS_PER_REQUEST = 500
"""Of settings: a response has about 200 bytes per topic."""

Committed = dict[str, dict[TopicPartition, int]]
"""By group: the committed offsets."""


class Survey:
    """For one thread; only `abort` may come from another one. `spend` is called with a number of requests before they
    are sent, and may wait."""

    def __init__(self, config: ClientConfig, wait: Callable[[float], object], spend: Callable[[int], None]) -> None:
        self._brokers = Brokers(replace(config, read_committed=False), wait)
        self._known = Metadata({}, {})
        self._spend = spend
        self._problems: list[str] = []
        self.leaders_moved = False
        """Whether a leader refused since the last metadata: ask for metadata before the next offsets."""

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        self._brokers.abort()

    def take_problems(self) -> list[str]:
        """What went wrong since the last call, each text once."""
        problems, self._problems = self._problems, []
        return list(dict.fromkeys(map(masked, problems)))

    def topics(self) -> Metadata | None:
        """All topics and brokers; None if no broker answers."""
        attempts = self._brokers.attempts("asking for topics", ANSWER_SECONDS)

        def ask(connection: Connection, timeout: float) -> Metadata:
            self._spend(1)
            metadata, _ = ask_metadata(connection, None, timeout)
            return metadata

        try:
            metadata = self._brokers.ask_any(attempts, ask)
        except (*RETRIABLE_ERRORS, PenstockError) as error:
            self._problems.append(f"topics: {error}")
            return None
        self._brokers.learn(metadata.brokers.values())
        self._known = metadata
        self.leaders_moved = False
        return metadata

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets_at(partitions, EARLIEST, "first offsets")

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """High watermarks, as `kafka-consumer-groups` counts lag."""
        return self._offsets_at(partitions, LATEST, "end offsets")

    def _offsets_at(self, partitions: Iterable[TopicPartition], time: int, what: str) -> Offsets:
        metadata = self._known
        questions, _ = metadata.by_leader(partitions)

        def ask(connection: Connection, led: list[TopicPartition]) -> Pending[Offsets]:
            pending = ask_offsets(connection, led, dict.fromkeys(led, time), metadata, read_committed=False)

            def read(timeout: float) -> Offsets:
                answered, refused = pending(timeout)
                if refused:
                    self.leaders_moved = True
                    self._problems.append(f"{what}: {next(iter(refused.values()))}")
                return answered

            return read

        found: Offsets = {}
        for _, answered in self._ask(what, questions, ask):
            found |= answered
        return found

    def groups(self) -> dict[Broker, list[ListedGroup]]:
        """The groups of each broker that answers: those that it coordinates."""
        questions = dict.fromkeys(self._known.brokers.values(), None)
        return dict(self._ask("groups", questions, lambda connection, _: ask_groups(connection)))

    def descriptions(self, by_coordinator: Mapping[Broker, Sequence[str]], kind: str) -> list[DescribedGroup]:
        """State and members of groups of one kind."""

        def ask(connection: Connection, groups: Sequence[str]) -> Pending[list[DescribedGroup]]:
            if kind == CONSUMER and not connection.speaks(CONSUMER_GROUP_DESCRIBE, 0):
                return lambda timeout: []
            pending = ask_descriptions(connection, groups, kind, ANSWER_SECONDS)

            def read(timeout: float) -> list[DescribedGroup]:
                described, errors = pending(timeout)
                self._note_groups("members", errors)
                return described

            return read

        return [group for _, groups in self._ask("members", by_coordinator, ask) for group in groups]

    def committed(self, by_coordinator: Mapping[Broker, Sequence[str]]) -> Committed:
        """All committed offsets of groups. One request per coordinator; one per group before Kafka 3.0."""

        def ask(connection: Connection, groups: Sequence[str]) -> Pending[Committed]:
            at_once = connection.version(OFFSET_FETCH) >= MANY_GROUPS
            pending = ask_all_committed(connection, groups if at_once else groups[:1], ANSWER_SECONDS)

            def read(timeout: float) -> Committed:
                found, errors = pending(timeout)
                for group in () if at_once else groups[1:]:
                    self._spend(1)
                    more, refused = ask_all_committed(connection, (group,), ANSWER_SECONDS)(ANSWER_SECONDS)
                    found |= more
                    errors |= refused
                self._note_groups("committed offsets", errors)
                return found

            return read

        committed: Committed = {}
        for _, found in self._ask("committed offsets", by_coordinator, ask):
            committed |= found
        return committed

    def next_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, NextRecord]:
        """The next record at these offsets. Partitions without an answer are left out."""
        metadata = self._known
        questions, _ = metadata.by_leader(offsets)

        def ask(connection: Connection, led: list[TopicPartition]) -> Pending[dict[TopicPartition, NextRecord]]:
            return ask_next_records(connection, {tp: offsets[tp] for tp in led}, metadata, self._spend)

        found: dict[TopicPartition, NextRecord] = {}
        for _, answered in self._ask("record times", questions, ask):
            found |= answered
        return found

    def sizes(self) -> dict[int, Offsets]:
        """By broker id: the bytes of the replicas on its disks."""

        def ask(connection: Connection, _: None) -> Pending[Offsets]:
            pending = ask_log_sizes(connection, ANSWER_SECONDS)

            def read(timeout: float) -> Offsets:
                sizes, errors = pending(timeout)
                self._problems.extend(f"sizes: {connection.address} answers {error}" for error in sorted(errors))
                return sizes

            return read

        questions = dict.fromkeys(self._known.brokers.values(), None)
        return {broker.node_id: sizes for broker, sizes in self._ask("sizes", questions, ask)}

    def settings(self, topics: Collection[str], names: Sequence[str]) -> dict[str, Settings]:
        """These settings of topics. Requests are spread over the brokers."""
        brokers = list(self._known.brokers.values())
        ordered = list(topics)
        found: dict[str, Settings] = {}

        def ask(connection: Connection, part: list[str]) -> Pending[tuple[dict[str, Settings], set[str]]]:
            return ask_topic_settings(connection, part, names, ANSWER_SECONDS)

        stride = TOPICS_PER_REQUEST * len(brokers)
        for start in range(0, len(ordered), stride or 1):
            parts = [
                ordered[at : at + TOPICS_PER_REQUEST]
                for at in range(start, min(start + stride, len(ordered)), TOPICS_PER_REQUEST)
            ]
            for _, (settings, errors) in self._ask("settings", dict(zip(brokers, parts, strict=False)), ask):
                found |= settings
                self._problems.extend(f"settings of topics: {error}" for error in sorted(errors))
        return found

    def _note_groups(self, what: str, errors: Mapping[str, str]) -> None:
        """One problem per kind of error, however many groups have it."""
        by_error: dict[str, list[str]] = {}
        for group, error in errors.items():
            by_error.setdefault(error, []).append(group)
        for error, groups in by_error.items():
            more = f" and {len(groups) - 1} others" if len(groups) > 1 else ""
            self._problems.append(f"{what} of group {groups[0]!r}{more}: {error}")

    def _ask(
        self,
        what: str,
        questions: Mapping[Broker, Question],
        ask: Callable[[Connection, Question], Pending[Answer]],
    ) -> list[tuple[Broker, Answer]]:
        """Ask brokers at the same time, each once. Returns the answers, with the brokers that gave them."""
        asked = {broker: question for broker, question in questions.items() if not self._brokers.is_avoided(broker)}
        for broker in questions.keys() - asked.keys():
            self._problems.append(f"{broker.host}:{broker.port} did not answer a moment ago, and is not asked")
        if not asked:
            return []
        by_address = {broker.address: broker for broker in asked}
        self._spend(len(asked))
        attempts = self._brokers.attempts(what, ANSWER_SECONDS)

        def ask_one(connection: Connection, question: Question) -> Pending[tuple[Broker, Answer]]:
            pending = ask(connection, question)
            return lambda timeout: (by_address[connection.host, connection.port], pending(timeout))

        found: list[tuple[Broker, Answer]] = []
        try:
            for answered in self._brokers.ask_each(asked, ask_one, attempts):
                found.append(answered)
        except PenstockError as error:  # no permission, a wrong password, a broker that is too old
            self._problems.append(f"{what}: {error}")
        if attempts.count:
            self._problems.append(f"{what}: {attempts.last_reason}")
        return found
