"""The partitions that a member owns now, and the retries of an assignment."""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignment import Assignment, PartitionOwner
from penstock.errors import AuthenticationFailed, AuthorizationFailed, NoGroupOffset, OptionError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import MembershipLost
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

NOT_RETRIABLE = (AuthenticationFailed, AuthorizationFailed, NoGroupOffset, OptionError)


class AssignmentFailed(Exception):
    """The last attempt to carry out an assignment has failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class OwnedPartitions:
    """For the membership thread.

    `on_change` is called with the owned partitions: before work on a new partition starts, and after work on a revoked
    one has ended. `pause` waits between two attempts, and raises if further attempts are pointless.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        owner: PartitionOwner,
        on_change: Callable[[Collection[TopicPartition]], None],
        pause: Callable[[float], None],
    ) -> None:
        self._config = config
        self._owner = owner
        self._on_change = on_change
        self._pause = pause
        self.streams: dict[TopicPartition, int] = {}
        """The owned partitions, and the number of the stream that reads each."""
        self.fresh = True
        """Whether this member has had no assignment yet."""

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        if partitions:
            log.info("group %r: %s %d partitions", self._config.group, "lost" if lost else "revokes", len(partitions))
            self._owner.revoke(partitions, lost=lost)
            self._own({tp: stream for tp, stream in self.streams.items() if tp not in partitions})

    def revoke_all(self, *, lost: bool) -> None:
        self.revoke(list(self.streams), lost=lost)

    def assign(self, assignment: Assignment) -> None:
        """Carry out an assignment, with `rebalance.max.retries`."""
        self._own({**self.streams, **assignment.partitions})
        try:
            self._try_to_assign(assignment)
        except BaseException:
            started = set(self._owner.owned())
            self._own({tp: stream for tp, stream in self.streams.items() if tp in started})
            raise
        self.fresh = False

    def _try_to_assign(self, assignment: Assignment) -> None:
        for left in reversed(range(self._config.rebalance_retries + 1)):
            try:
                self._owner.assign(assignment)
                return
            except (Interrupted, MembershipLost):
                raise
            except Exception as error:
                if left == 0 or isinstance(error, NOT_RETRIABLE):
                    raise AssignmentFailed(error) from error
                log.warning("group %r: the assignment failed, %d retries are left: %s", self._config.group, left, error)
            self._pause(self._config.rebalance_backoff)

    def _own(self, streams: dict[TopicPartition, int]) -> None:
        self.streams = streams
        self._on_change(streams.keys())
