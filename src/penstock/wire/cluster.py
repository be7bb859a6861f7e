"""A client of one cluster: topics, leaders, offsets, and what groups have committed.

The planner's only access to Kafka. Requests are retried until they are answered or a deadline passes. Errors that a
retry cannot cure (a wrong password, no permission) are raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from penstock.errors import BrokerUnavailable, UnknownTopic
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import UNKNOWN_TOPIC_OR_PARTITION, RetriableError
from penstock.wire.api.find_coordinator import GROUP
from penstock.wire.api.group_member import NOT_A_MEMBER, GroupMember, Rebalancing
from penstock.wire.api.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    ask_largest,
    ask_offsets,
    ask_times,
    check_knows_local,
)
from penstock.wire.api.metadata import (
    UNLISTED,
    Broker,
    Leader,
    Metadata,
    Topic,
    ask_may_write,
    ask_metadata,
    departed,
    nearest,
)
from penstock.wire.api.offset_commit import ask_commit
from penstock.wire.api.offset_fetch import Committed, ask_committed
from penstock.wire.api.offset_for_leader_epoch import UNKNOWN_EPOCH, ask_epoch_ends
from penstock.wire.api.open_transactions import OpenTransactionOwner, ask_owners, ask_transactional_ids
from penstock.wire.brokers import OPTIONAL_SECONDS, RETRIABLE_ERRORS, Brokers
from penstock.wire.client_config import ClientConfig
from penstock.wire.lookup.max_timestamps import find_max_timestamps
from penstock.wire.lookup.offset_windows import OffsetWindow, ask_largest_in_windows
from penstock.wire.lookup.offsets_for_times import Scan, Step, ask_scan, find_offsets
from penstock.wire.lookup.record_sizes import ask_sizes
from penstock.wire.lookup.time_index import TimeAnswers, look_up
from penstock.wire.transport.connection import Connection, Pending
from penstock.wire.transport.retry import Attempts

__all__ = ["Broker", "Cluster", "Leader", "Metadata", "Topic"]

log = get_logger(__name__)
Answer = TypeVar("Answer")
PendingAnswers: TypeAlias = Pending[tuple[dict[TopicPartition, Answer], dict[TopicPartition, RetriableError]]]
"""A leader's answers about its partitions, and the partitions that are worth a retry, with the reason."""

UNKNOWN_TOPIC_GRACE = 2.0
"""A topic created a moment ago is unknown to some brokers. After this many seconds it counts as missing."""

LEAST_AGE = 1.0
"""Seconds for which metadata stays fresh enough for partitions that are not waited for. They may be without a leader
for hours, and a query may ask many times a second."""


class Cluster:
    """A client of one cluster. Keeps the last metadata; connections come from the process's pool.

    For one thread; only `abort` may come from another one, when `wait` has begun to return True.
    """

    def __init__(
        self,
        config: ClientConfig,
        wait: Callable[[float], object] = time.sleep,
        on_error: Callable[[], None] | None = None,
    ) -> None:
        """`on_error` is called when an attempt fails in a way that a retry may heal."""
        self.config = config
        self._brokers = Brokers(config, wait, on_error)
        self._coordinators: dict[tuple[int, str], Broker] = {}
        """By kind (group or transactional id) and name."""
        self._known: Metadata | None = None
        self._known_since = float("-inf")
        self._leader_was_wrong = False
        """Whether a leader did not answer, or refused, since the last metadata."""

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        self._brokers.abort()

    # --- topics ---------------------------------------------------------------------------------------------------

    @property
    def known(self) -> Metadata | None:
        """All metadata so far. A new object whenever there is new metadata."""
        return self._known

    def metadata(self, topics: Sequence[str] | None, create: bool = False) -> Metadata:
        """The named topics (None: all) with their leaders. Raises UnknownTopic for a name the cluster does not have.

        `create`: let brokers create missing topics, if their auto.create.topics.enable is true.
        """
        metadata, unknown = self.listing(topics, create)
        if unknown:
            attempts = self._brokers.attempts(f"asking {self.config.bootstrap_text} for all topics")
            others, _ = self._brokers.retry(attempts, lambda: self._ask_metadata(None, attempts))
            raise UnknownTopic(unknown[0], detail=nearest(unknown[0], others))
        return metadata

    def listing(self, topics: Sequence[str] | None, create: bool = False) -> tuple[Metadata, list[str]]:
        """The named topics (None: all) with their leaders, and the names that the cluster does not have."""
        attempts = self._brokers.attempts(f"asking {self.config.bootstrap_text} for topics")
        started = time.monotonic()

        def ask() -> tuple[Metadata, list[str]]:
            metadata, unknown = self._ask_metadata(topics, attempts, create)
            if unknown and not self._is_over(started):
                raise RetriableError(f"topic {unknown[0]!r} is unknown so far")
            missing = [name for name in topics or () if name not in metadata.topics and name not in unknown]
            if missing:
                raise RetriableError(f"the response leaves out topic {missing[0]!r}")
            return metadata, unknown

        metadata, unknown = self._brokers.retry(attempts, ask)
        self._learn(topics, metadata, unknown)
        return metadata, unknown

    def try_listing(self, topics: Sequence[str], timeout: float) -> tuple[Metadata, list[str]]:
        """The same, asked once: a failure is raised, and a topic that was just created may still be unknown."""
        attempts = self._brokers.attempts(f"asking {self.config.bootstrap_text} for topics", timeout)
        metadata, unknown = self._ask_metadata(topics, attempts)
        self._learn(topics, metadata, unknown)
        return metadata, unknown

    def _learn(self, topics: Sequence[str] | None, metadata: Metadata, unknown: Sequence[str]) -> None:
        known = metadata if topics is None or self._known is None else self._known.updated(metadata)
        self._known = known.without(unknown) if unknown else known
        self._known_since, self._leader_was_wrong = time.monotonic(), False

    def _ask_metadata(
        self, topics: Sequence[str] | None, attempts: Attempts, create: bool = False
    ) -> tuple[Metadata, list[str]]:
        metadata, unknown = self._brokers.ask_any(
            attempts, lambda connection, timeout: ask_metadata(connection, topics, timeout, create)
        )
        self._brokers.learn(metadata.brokers.values())
        return metadata, unknown

    def may_write(self, topic: str) -> bool | None:
        """Whether ACLs allow this user to write to a topic; None if brokers do not say."""
        attempts = self._brokers.attempts(f"asking {self.config.bootstrap_text} for permissions on topic {topic!r}")
        return self._brokers.retry(
            attempts,
            lambda: self._brokers.ask_any(
                attempts, lambda connection, timeout: ask_may_write(connection, topic, timeout)
            ),
        )

    def departed(self, broker: Broker, read_from: Mapping[TopicPartition, Leader | None]) -> dict[TopicPartition, str]:
        """The partitions that must no longer be read from this broker, and why. Asks another broker, once.

        Called while an answer of this broker is overdue. `read_from` as in penstock.wire.api.metadata.departed.
        """
        now = self._ask_others(broker, sorted({tp.topic for tp in read_from}))
        return {} if now is None else departed(broker, read_from, now)

    def _unlisted(self, broker: Broker) -> str | None:
        """The reason to stop waiting for a broker, if the cluster no longer lists it."""
        now = self._ask_others(broker, ())
        return None if now is None or now.has(broker) else UNLISTED

    def _ask_others(self, broker: Broker, topics: Sequence[str]) -> Metadata | None:
        answer = self._brokers.ask_others(
            broker.address,
            f"asking others about {broker.host}:{broker.port}, which does not answer",
            lambda connection, timeout: ask_metadata(connection, topics, timeout),
        )
        if answer is None:
            return None
        self._brokers.learn(answer[0].brokers.values())
        return answer[0]

    def _is_over(self, started: float) -> bool:
        """Whether a topic that has been unknown since then counts as missing."""
        return time.monotonic() - started >= self.unknown_topic_grace

    @property
    def unknown_topic_grace(self) -> float:
        """Seconds after which a topic that is unknown counts as missing."""
        return min(UNKNOWN_TOPIC_GRACE, self.config.api_timeout / 2)

    # --- offsets --------------------------------------------------------------------------------------------------

    def begin(
        self, partitions: Iterable[TopicPartition], wait_for: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """The first offsets of logs. `wait_for` as in `reachable_ends`; None waits for all."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST), wait_for)

    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets at which reading ends now: high watermarks, or last stable offsets under read_committed."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of logs, including records that open transactions hide under read_committed."""
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed=False)

    def hidden_past(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The high watermarks of logs that have records past these ends, hidden by open transactions under
        read_committed."""
        if not self.config.read_committed or not ends:
            return {}
        return {tp: mark for tp, mark in self.high_watermarks(ends).items() if mark > ends[tp]}

    def reachable_ends(
        self, partitions: Iterable[TopicPartition], wait_for: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Like `end`, but waits only for the partitions in `wait_for`. Others without an answer are left out.

        After the deadline, those in `wait_for` are left out too. It is an error only if no partition has an answer.
        """
        return self._offsets(dict.fromkeys(partitions, LATEST), wait_for=frozenset(wait_for))

    def first_at(
        self,
        times: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int | None]:
        """The exact offset of the first record at or after a time (ms); None if there is none below `ends`.

        `ends` must be read before (F8). It is known that there is none below `since`. If the broker's answer may hide
        records, the log is scanned: see penstock.wire.lookup.offsets_for_times.
        """
        attempts = self._brokers.attempts(f"looking for the first records of a time in {len(times)} partitions")
        return find_offsets(times, ends, self, attempts, since or {}, self.config.option("default.api.timeout.ms"))

    def scan(self, scans: Mapping[TopicPartition, Scan], first: bool) -> dict[TopicPartition, Step | None]:
        """One step of the look-up above, by one fetch per leader; None if an offset is outside its log."""
        attempts = self._brokers.attempts(f"looking into {len(scans)} partitions")

        def ask(
            connection: Connection, partitions: list[TopicPartition], metadata: Metadata
        ) -> PendingAnswers[Step | None]:
            return ask_scan(connection, {tp: scans[tp] for tp in partitions}, metadata, first)

        return self._ask_leaders(attempts, scans, ask)

    def by_time(self, times: Mapping[TopicPartition, int]) -> TimeAnswers:
        """What the brokers' time indexes say about the first records at or after a time (ms)."""
        return look_up(times, self)

    def times_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]:
        """The brokers' own answers: offset and timestamp of the first record at or after a time (ms).

        The offset may be that of a transaction marker, or of an aborted record: `timestamps_in` finds out. None may
        hide records: `by_time` finds out.
        """
        attempts = self._brokers.attempts(f"asking for the times of {len(times)} partitions")

        def ask(
            connection: Connection, partitions: list[TopicPartition], metadata: Metadata
        ) -> PendingAnswers[tuple[int, int]]:
            return ask_times(connection, partitions, times, metadata)

        found = self._ask_leaders(attempts, times, ask)
        return {tp: None if offset < 0 else (offset, time) for tp, (offset, time) in found.items()}

    def largest_times(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The largest timestamp of a log, or a larger one: brokers count markers and deleted records. None if they do
        not say."""
        asked = list(partitions)
        attempts = self._brokers.attempts(f"asking for the largest timestamps of {len(asked)} partitions")

        def ask(
            connection: Connection, partitions: list[TopicPartition], metadata: Metadata
        ) -> PendingAnswers[tuple[int, int]]:
            return ask_largest(connection, partitions, metadata)

        found = self._ask_leaders(attempts, asked, ask)
        return {tp: None if offset < 0 else time for tp, (offset, time) in found.items()}

    def timestamps_in(self, windows: Mapping[TopicPartition, OffsetWindow]) -> dict[TopicPartition, int | None]:
        """The largest timestamp of the records in small windows of logs, by one fetch per leader.

        Counts the records that a reader gets: no markers and, under read_committed, no aborted records. None if there
        are none.
        """
        attempts = self._brokers.attempts(f"looking into {len(windows)} partitions")

        def ask(
            connection: Connection, partitions: list[TopicPartition], metadata: Metadata
        ) -> PendingAnswers[int | None]:
            return ask_largest_in_windows(connection, {tp: windows[tp] for tp in partitions}, metadata)

        return self._ask_leaders(attempts, windows, ask)

    def timestamps_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The timestamps of single records; None if a reader gets no record there."""
        return self.timestamps_in({tp: OffsetWindow(offset, offset, offset + 1) for tp, offset in offsets.items()})

    def max_timestamps(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The largest timestamp of the records below an offset that are still in the log; None if there are none.

        Never too large; penstock.wire.lookup.max_timestamps says when it may be too small.
        """
        return find_max_timestamps(before, self)

    def newest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The largest timestamp of the records that can be read now; None if there are none."""
        return find_max_timestamps(self.end(partitions), self)

    def local_begin(self, tp: TopicPartition) -> int:
        """The first offset on the leader's own disk. Below it is tiered storage, if the topic has that."""
        return self._offsets({tp: EARLIEST_LOCAL})[tp]

    def local_begins(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The same of several partitions. Raises OptionError if a leader is too old to know it."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST_LOCAL), must_know_local=True)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], wait_for: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Per partition the largest leader epoch up to the given one, and the offset at which it ends.

        (-1, -1) if no such epoch is known. In a truncated log the epoch ends below the offsets that were read.
        `wait_for` as in `reachable_ends`; None waits for all.
        """
        known = [tp for tp, epoch in epochs.items() if epoch >= 0]
        attempts = self._brokers.attempts(f"asking for the leader epochs of {len(known)} partitions")

        def ask(
            connection: Connection, partitions: list[TopicPartition], metadata: Metadata
        ) -> PendingAnswers[tuple[int, int]]:
            return ask_epoch_ends(connection, {tp: epochs[tp] for tp in partitions}, metadata)

        unknown = {tp: UNKNOWN_EPOCH for tp, epoch in epochs.items() if epoch < 0}
        return unknown | self._ask_leaders(attempts, known, ask, wait_for)

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OpenTransactionOwner]:
        """The producer of the first open transaction of each partition, for error texts. Tried once: partitions are
        left out if they have none, or if brokers do not answer, are too old, or may not say."""
        wanted = list(partitions)
        attempts = self._brokers.attempts(f"asking for the open transactions of {len(wanted)} partitions")
        metadata, _ = self.listing(sorted({tp.topic for tp in wanted}))
        questions, _ = metadata.by_leader(wanted)
        found: dict[TopicPartition, OpenTransactionOwner] = {}
        for owners in self._brokers.ask_each(questions, ask_owners, attempts, optional=questions):
            found |= owners
        producers = sorted({owner.producer_id for owner in found.values()})
        if not producers:
            return found
        names: dict[int, str] = {}
        coordinators = dict.fromkeys(metadata.brokers.values(), producers)
        for named in self._brokers.ask_each(coordinators, ask_transactional_ids, attempts, optional=coordinators):
            names |= named
        return {tp: replace(owner, transactional_id=names.get(owner.producer_id)) for tp, owner in found.items()}

    def bytes_per_record(
        self, positions: Mapping[TopicPartition, int], sample: int = 65536
    ) -> dict[TopicPartition, float]:
        """Stored bytes (compressed, as they travel) per offset from these positions on, by one small fetch per leader.

        An estimate, tried once. Partitions without data or answer are left out.
        """
        if not positions:
            return {}
        topics = {tp.topic for tp in positions}
        known = self._known
        if known is None or not topics <= known.topics.keys():
            known, _ = self.listing(sorted(topics))
        metadata = known
        questions, _ = metadata.by_leader(positions)

        def ask(connection: Connection, partitions: list[TopicPartition]) -> Pending[dict[TopicPartition, float]]:
            return ask_sizes(connection, {tp: positions[tp] for tp in partitions}, metadata, sample)

        attempts = self._brokers.attempts(f"sampling {len(positions)} partitions")
        found: dict[TopicPartition, float] = {}
        for sizes in self._brokers.ask_each(questions, ask, attempts, optional=questions):
            found |= sizes
        return found

    def _offsets(
        self,
        times: Mapping[TopicPartition, int],
        wait_for: Collection[TopicPartition] | None = None,
        read_committed: bool | None = None,
        must_know_local: bool = False,
    ) -> dict[TopicPartition, int]:
        attempts = self._brokers.attempts(f"asking for the offsets of {len(times)} partitions")

        def ask(connection: Connection, partitions: list[TopicPartition], metadata: Metadata) -> PendingAnswers[int]:
            if must_know_local:
                check_knows_local(connection)
            return ask_offsets(connection, partitions, times, metadata, read_committed)

        return self._ask_leaders(attempts, times, ask, wait_for)

    def _ask_leaders(
        self,
        attempts: Attempts,
        partitions: Collection[TopicPartition],
        ask: Callable[[Connection, list[TopicPartition], Metadata], PendingAnswers[Answer]],
        wait_for: Collection[TopicPartition] | None = None,
    ) -> dict[TopicPartition, Answer]:
        """Ask the leaders of partitions until all have answered, or only those in `wait_for` if that is given.

        Each round asks the leaders of the partitions that have no answer. After a round that leaves some without one:

        - Partitions that are waited for: back off, and ask their leaders again, after fresh metadata.
        - Others: ask again once after fresh metadata, unless the metadata is fresh already. Then leave them out.
        """
        found: dict[TopicPartition, Answer] = {}
        missing = partitions
        fresh = self._leader_was_wrong and self._may_refresh()
        optional_seconds: float | None = None
        while missing:
            found |= self._ask_round(attempts, missing, ask, wait_for, fresh, optional_seconds)
            if len(found) == len(partitions):
                break
            missing = [tp for tp in partitions if tp not in found]
            self._leader_was_wrong = True
            if not found:
                # Without any answer none is optional, and on a busy machine a healthy broker may take more than the
                # usual time: wait as long again as it has taken so far, which is late by a factor of two at most.
                optional_seconds = min(max(attempts.elapsed, OPTIONAL_SECONDS), self.config.request_timeout)
            else:
                optional_seconds = None
            if wait_for is None or not found or any(tp in wait_for for tp in missing):
                if not fresh:
                    log.warning("%s: %s; trying for %g s", attempts.what, attempts.last_problem, attempts.timeout)
                if not self._pause(attempts, may_end=wait_for is not None and bool(found)):
                    break
            elif fresh or not self._may_refresh():
                break
            fresh = True
        return found

    def _ask_round(
        self,
        attempts: Attempts,
        partitions: Collection[TopicPartition],
        ask: Callable[[Connection, list[TopicPartition], Metadata], PendingAnswers[Answer]],
        wait_for: Collection[TopicPartition] | None,
        fresh: bool,
        optional_seconds: float | None,
    ) -> dict[TopicPartition, Answer]:
        """Ask the leaders of partitions once, all at the same time. Partitions without an answer are left out."""
        metadata, questions = self._by_leader(partitions, attempts, fresh)

        def ask_leader(connection: Connection, led: list[TopicPartition]) -> PendingAnswers[Answer]:
            return ask(connection, led, metadata)

        def overdue_check(broker: Broker, led: list[TopicPartition]) -> str | None:
            return next(iter(self.departed(broker, {tp: metadata.leader(tp) for tp in led}).values()), None)

        optional = () if wait_for is None else _unwaited(questions, wait_for)
        found: dict[TopicPartition, Answer] = {}
        for answered, refused in self._brokers.ask_each(
            questions, ask_leader, attempts, optional, optional_seconds, overdue_check
        ):
            found |= answered
            for problem in refused.values():
                attempts.failed(str(problem), problem)
        return found

    @staticmethod
    def _pause(attempts: Attempts, may_end: bool) -> bool:
        """Back off. After the deadline: raises BrokerUnavailable, or returns False if the answers so far will do."""
        try:
            attempts.pause()
        except BrokerUnavailable:
            if not may_end:
                raise
            return False
        return True

    def _by_leader(
        self, partitions: Collection[TopicPartition], attempts: Attempts, fresh: bool
    ) -> tuple[Metadata, dict[Broker, list[TopicPartition]]]:
        """Partitions by their leaders. Asks for metadata if the known metadata lacks one, or with `fresh`."""
        metadata = self._known
        if metadata is not None and not fresh:
            questions, leaderless = metadata.by_leader(partitions)
            if not leaderless or (all(map(metadata.lists, leaderless)) and not self._may_refresh()):
                self._note_leaderless(leaderless, attempts)
                return metadata, questions
        metadata = self.metadata(tuple(dict.fromkeys(tp.topic for tp in partitions)))
        questions, leaderless = metadata.by_leader(partitions)
        for tp in leaderless:
            # A partition that was added a moment ago is unknown to some brokers, too.
            if not metadata.lists(tp) and attempts.elapsed >= self.unknown_topic_grace:
                count = len(metadata.topics[tp.topic].partitions)
                raise UnknownTopic(tp.topic, tp.partition, f"the topic has partitions 0 to {count - 1}")
        self._note_leaderless(leaderless, attempts)
        return metadata, questions

    def _note_leaderless(self, partitions: Sequence[TopicPartition], attempts: Attempts) -> None:
        if partitions:
            others = f" nor have {len(partitions) - 1} others" if len(partitions) > 1 else ""
            problem = RetriableError(f"{partitions[0]} has no leader{others}")
            attempts.failed(str(problem), problem)

    def _may_refresh(self) -> bool:
        return time.monotonic() - self._known_since >= LEAST_AGE

    # --- groups ---------------------------------------------------------------------------------------------------

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets that a group has committed; None where it has committed nothing."""
        wanted = list(partitions)
        found = self.commits(group, wanted)
        return {tp: found[tp].offset if tp in found else None for tp in wanted}

    def commits(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        stable: bool = True,
        member: Callable[[], GroupMember] = lambda: NOT_A_MEMBER,
    ) -> dict[TopicPartition, Committed]:
        """The same, with the leader epoch and the metadata that were committed beside the offset.

        `stable`: retry while a transaction has commits for these partitions and is not ended. `member`: the member of a
        group of the protocol `consumer` as which to ask, called before each attempt; it may get MembershipLost.
        """
        wanted = list(partitions)
        attempts = self._brokers.attempts(f"asking for the committed offsets of group {group!r}")

        def ask(connection: Connection) -> dict[TopicPartition, Committed]:
            timeout = attempts.remaining(self.config.request_timeout)
            try:
                return ask_committed(connection, group, wanted, timeout, stable, member())
            except Rebalancing as error:  # the heartbeats bring the new epoch
                raise RetriableError(str(error)) from error

        return self._ask_coordinator(group, attempts, ask)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Commit the next offsets to read for a group without members. One request, unless its coordinator moves.

        Raises if a partition could not be committed; others may have been committed then.
        """
        for tp, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"offset {offset} of {tp} cannot be committed: an offset is 0 or more")
        missing = dict(offsets)
        if not missing:
            return
        attempts = self._brokers.attempts(f"committing {len(offsets)} offsets of group {group!r}")
        started = time.monotonic()

        def ask(connection: Connection) -> None:
            timeout = attempts.remaining(self.config.request_timeout)
            refused = ask_commit(connection, group, missing, epochs or {}, metadata or {}, timeout)
            for tp in list(missing):
                if tp not in refused:
                    del missing[tp]
            for tp, problem in refused.items():
                if problem.error_code == UNKNOWN_TOPIC_OR_PARTITION and self._is_over(started):
                    raise UnknownTopic(tp.topic, tp.partition, f"so group {group!r} cannot commit offset {offsets[tp]}")
            for problem in refused.values():
                raise problem

        self._ask_coordinator(group, attempts, ask)

    def _ask_coordinator(
        self, name: str, attempts: Attempts, ask: Callable[[Connection], Answer], kind: int = GROUP
    ) -> Answer:
        """Ask the coordinator of a group or a transactional id. It is looked up once, and again after a failure."""

        def tried() -> Answer:
            coordinator = self._coordinators.get((kind, name))
            if coordinator is None:
                coordinator = self._brokers.find_coordinator(attempts, name, kind)
                self._coordinators[kind, name] = coordinator
            try:
                with self._brokers.coordinator(coordinator, attempts, name, kind) as connection:
                    return ask(connection)
            except RETRIABLE_ERRORS:
                del self._coordinators[kind, name]
                raise

        return self._brokers.retry(attempts, tried)


def _unwaited(
    questions: Mapping[Broker, Iterable[TopicPartition]], wait_for: Collection[TopicPartition]
) -> set[Broker]:
    """The brokers that lead only partitions that are not waited for."""
    return {broker for broker, tps in questions.items() if not any(tp in wait_for for tp in tps)}
