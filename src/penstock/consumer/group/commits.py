"""The commits of a group's member (H15): under its generation, and only for what it owns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator
from penstock.errors import CommitRefused, UnknownTopic
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import UNKNOWN_TOPIC_OR_PARTITION, RetriableError
from penstock.wire.api.group_offsets import FencedInstance, GroupMember, MembershipLost, Rebalancing, ask_commit
from penstock.wire.brokers import HEALING
from penstock.wire.transport.retry import Attempts, Interrupted

UNKNOWN_TOPIC_GRACE = 2.0
"""A topic created a moment ago is unknown to some brokers; after this long it is taken to be deleted."""


class Commits:
    """One commit at a time. `doubt` is called when the coordinator says that we are no member."""

    def __init__(self, config: ConsumerConfig, given_up: threading.Event, doubt: Callable[[], None]) -> None:
        self._config = config
        self._doubt = doubt
        self._given_up = given_up
        self._coordinator = Coordinator(config.client, config.group, given_up.wait)
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._member: GroupMember | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        self._joining = False
        self._joiner: threading.Thread | None = None
        """The membership thread: it cannot wait for a generation that it has to bring about itself."""
        self._deadline = float("inf")

    # --- the membership thread ------------------------------------------------------------------------------------

    def speak_as(self, member: GroupMember) -> None:
        """We are this member of this generation."""
        with self._changed:
            self._member = member
            self._joining = False
            self._changed.notify_all()

    def joining(self) -> None:
        """A new generation is on its way: commits that the old one is refused may wait for it."""
        with self._changed:
            self._joiner = threading.current_thread()
            self._joining = True

    def suspend(self) -> None:
        """We are no member."""
        with self._changed:
            self._member = None
            self._joining = False
            self._changed.notify_all()

    def own(self, partitions: Collection[TopicPartition]) -> None:
        with self._changed:
            self._owned = frozenset(partitions)

    # --- any thread -----------------------------------------------------------------------------------------------

    def hurry(self, deadline: float) -> None:
        """No commit goes on beyond this time (monotonic)."""
        self._deadline = min(self._deadline, deadline)

    def abort(self) -> None:
        self._coordinator.abort()

    def commit(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], timeout: float | None
    ) -> None:
        for tp, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"offset {offset} of {tp} cannot be committed: an offset is 0 or more")
        if not offsets:
            return
        config = self._config
        seconds = config.client.api_timeout if timeout is None else timeout
        seconds = max(0.001, min(seconds, self._deadline - time.monotonic()))
        attempts = self._coordinator.attempts(f"committing {len(offsets)} offsets of group {config.group!r}", seconds)
        if not self._turn.acquire(timeout=seconds):
            attempts.failed("another commit is still under way")
            raise attempts.give_up()
        try:
            self._commit(dict(offsets), epochs, attempts)
        except Interrupted:
            raise CommitRefused(config.group, "it is closed") from None
        finally:
            self._turn.release()

    def _commit(
        self, missing: dict[TopicPartition, int], epochs: Mapping[TopicPartition, int], attempts: Attempts
    ) -> None:
        while True:
            member = self._speaker_for(missing)
            try:
                refused = self._ask(missing, epochs, member, attempts)
            except HEALING as error:
                attempts.failed(str(error), error)
            except (Rebalancing, MembershipLost) as error:
                attempts.failed(str(error), error)
                self._await_generation(member, error, attempts)
            except FencedInstance as error:
                self._doubt()
                raise CommitRefused(self._config.group, str(error)) from error
            else:
                for tp in list(missing):
                    if tp not in refused:
                        del missing[tp]
                if not missing:
                    return
                self._note(refused, attempts)
            attempts.pause()

    def _speaker_for(self, offsets: Collection[TopicPartition]) -> GroupMember:
        """As whom to commit. Do not simplify to what `commit` began with: in the middle of a commit a rebalance may
        take a partition away, and the coordinator would let the new generation set back its new owner."""
        with self._changed:
            if self._member is None:
                reason = "it is not a member of the group at the moment: it has not joined yet, or was thrown out"
                raise CommitRefused(self._config.group, reason)
            strange = sorted(tp for tp in offsets if tp not in self._owned)
            if strange:
                raise CommitRefused(self._config.group, f"{strange[0]} is not assigned to it")
            return self._member

    def _ask(
        self,
        missing: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        member: GroupMember,
        attempts: Attempts,
    ) -> dict[TopicPartition, RetriableError]:
        return self._coordinator.ask(
            attempts,
            lambda connection: ask_commit(
                connection,
                self._config.group,
                missing,
                epochs,
                {},
                attempts.remaining(self._config.client.request_timeout),
                member,
            ),
        )

    def _await_generation(self, member: GroupMember, error: Exception, attempts: Attempts) -> None:
        """The coordinator does not take this generation (any more). Wait for the next one if there is one to come."""
        with self._changed:
            if threading.current_thread() is not self._joiner:
                self._changed.wait_for(lambda: self._member != member or not self._joining, attempts.remaining())
                if self._member != member or isinstance(error, Rebalancing):
                    return
        self._doubt()
        raise CommitRefused(self._config.group, str(error)) from error

    def _note(self, refused: Mapping[TopicPartition, RetriableError], attempts: Attempts) -> None:
        for tp, problem in refused.items():
            if problem.error_code == UNKNOWN_TOPIC_OR_PARTITION and attempts.elapsed >= UNKNOWN_TOPIC_GRACE:
                raise UnknownTopic(tp.topic, tp.partition, f"so group {self._config.group!r} cannot commit its offset")
            attempts.failed(str(problem), problem)
