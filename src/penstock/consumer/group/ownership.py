"""What a member owns: taken over from the group and let go again by whoever does the work on partitions (H7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.config.consumer import ConsumerConfig
from penstock.errors import AuthenticationFailed, AuthorizationFailed, NoGroupOffset, OptionError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.transport.retry import Interrupted

log = logging.getLogger(__name__)

HOPELESS = (AuthenticationFailed, AuthorizationFailed, NoGroupOffset, OptionError)
"""What does not get better by being tried again."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a generation of the group means to one member."""

    generation: int
    member_id: str
    leader: bool
    assignor: str
    partitions: Mapping[TopicPartition, int]
    """Ours, and the stream that each belongs to."""
    threads_of_group: Mapping[str, Mapping[int, str]]
    """By topic and partition the id of the thread that has it: in the whole group if its leader is a Penstock (and the
    group not too large for that), else our own."""
    fresh: bool
    """Whether all members of the group have just started."""


class Ownership(Protocol):
    """Who does the work on partitions. Every method is called by the membership thread."""

    def owned(self) -> list[TopicPartition]: ...

    def release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Let go of partitions: when it returns, nothing of them is handed out any more, and what was is committed
        (through `Membership.commit`), unless they are lost. Never raises."""

    def assign(self, assignment: Assignment) -> None:
        """Begin with what is new in an assignment. Raises if that failed: then nothing was begun."""

    def failed(self, error: BaseException) -> None:
        """The membership has ended by an error."""


class TakingOverFailed(Exception):
    """The last try at taking over an assignment has failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Holdings:
    """What we own at the moment. For the membership thread.

    `on_change` hears of every change, in time: of a partition that comes before work on it begins, of one that goes
    after that has ended. `pause` waits between two tries and raises what makes further tries pointless.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        ownership: Ownership,
        on_change: Callable[[Collection[TopicPartition]], None],
        pause: Callable[[float], None],
    ) -> None:
        self._config = config
        self._ownership = ownership
        self._on_change = on_change
        self._pause = pause
        self.streams: dict[TopicPartition, int] = {}
        self.fresh = True
        """Whether there has been no assignment yet."""

    def release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        if partitions:
            log.info("group %r: %s %d partitions", self._config.group, "lost" if lost else "releases", len(partitions))
            self._ownership.release(partitions, lost=lost)
            self._hold({tp: stream for tp, stream in self.streams.items() if tp not in partitions})

    def release_all(self, *, lost: bool) -> None:
        self.release(list(self.streams), lost=lost)

    def take_over(self, assignment: Assignment) -> None:
        """Hand an assignment over, again and again if it must be."""
        self._hold({**self.streams, **assignment.partitions})
        try:
            self._try_to_assign(assignment)
        except BaseException:
            begun = set(self._ownership.owned())
            self._hold({tp: stream for tp, stream in self.streams.items() if tp in begun})
            raise
        self.fresh = False

    def _try_to_assign(self, assignment: Assignment) -> None:
        for left in reversed(range(self._config.rebalance_retries + 1)):
            try:
                self._ownership.assign(assignment)
                return
            except Interrupted:
                raise
            except Exception as error:
                if left == 0 or isinstance(error, HOPELESS):
                    raise TakingOverFailed(error) from error
                log.warning("group %r: taking over failed, %d more tries: %s", self._config.group, left, error)
            self._pause(self._config.rebalance_backoff)

    def _hold(self, streams: dict[TopicPartition, int]) -> None:
        self.streams = streams
        self._on_change(streams.keys())
