"""The assignors: they divide a group's partitions over threads, not over members (H6). Pure.

A thread is one stream of one member; a member of another client counts as one thread. The group's leader runs
`assign_threads`; `assign` reduces its result to members, which is all that Kafka's protocol knows. A member whose
leader is another client gets no streams from it, and runs `divide` on its own partitions. For range and roundrobin both
ways give the same result.

    range               per topic: partitions in order over threads in order; the first threads take the remainder
    roundrobin          all partitions in order, to all threads in turn
    cooperative-sticky  a partition stays with its thread, as long as no thread has two more than another
    penstock-fixed      F13: a topic's partitions go to its threads in turn; the topic's name decides the first thread
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import accumulate, groupby, islice
from typing import NamedTuple

from penstock.model.reader_index import reader_index
from penstock.model.topic_partition import TopicPartition

RANGE = "range"
ROUND_ROBIN = "roundrobin"
COOPERATIVE_STICKY = "cooperative-sticky"
FIXED = "penstock-fixed"

MAX_TOPICS_COMPARED = 64
"""Topics that cooperative-sticky compares before it moves a partition."""


class Thread(NamedTuple):
    """One stream of one member."""

    member_id: str
    stream: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as its leader sees it."""

    member_id: str
    consumer_id: str
    threads: Mapping[str, int]
    """The subscribed topics, with their numbers of streams."""
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it claims to own while it joins: none, unless it rebalances cooperatively."""
    generation: int = -1
    """The generation that assigned them."""
    instance_id: str | None = None
    streams: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The stream of each partition that it owns."""

    @property
    def weight(self) -> int:
        """The number of its threads: that of the topic with most, where topics differ."""
        return max(self.threads.values(), default=0)

    @property
    def rank(self) -> tuple[bool, str, str]:
        """The order of members, as in Java: static members first, by the id that survives their restarts."""
        return self.instance_id is None, self.instance_id or self.consumer_id, self.member_id


Threads = dict[TopicPartition, Thread]


def thread_id(consumer_id: str, stream: int) -> str:
    return f"{consumer_id}-{stream}"


def assign(name: str, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """The partitions by member id. `partitions`: the partition count of each topic."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for tp, thread in sorted(assign_threads(name, members, partitions).items()):
        given[thread.member_id].append(tp)
    return given


def assign_threads(name: str, members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    """The thread of each partition. A partition that its owner must revoke first has none."""
    rule: Callable[[Sequence[Member], Mapping[str, int]], Threads] = {
        RANGE: _range,
        ROUND_ROBIN: _round_robin,
        COOPERATIVE_STICKY: _cooperative_sticky,
        FIXED: _fixed,
    }[name]
    return rule(sorted(members, key=lambda member: member.rank), partitions)


def divide(
    name: str,
    threads: Mapping[str, int],
    mine: Collection[TopicPartition],
    before: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Divide a member's partitions over its streams. `before`: the streams of partitions that it owned already."""
    me = Member("", "", threads)
    match name:
        case "range" | "penstock-fixed":
            numbers: dict[str, list[int]] = defaultdict(list)
            for tp in sorted(mine):
                numbers[tp.topic].append(tp.partition)
            place = _in_ranges if name == RANGE else _in_turn
            return {
                TopicPartition(topic, number): thread.stream
                for topic, each in numbers.items()
                for number, thread in place(topic, each, _threads_of(topic, [me]))
            }
        case "roundrobin":
            return {tp: thread.stream for tp, thread in _in_rotation(sorted(mine), [me]).items()}
        case "cooperative-sticky":
            return _divide_sticky(threads, mine, before)
    raise ValueError(f"no assignor is called {name!r}")


# --- range and F13 ----------------------------------------------------------------------------------------------------


class _Line:
    """All threads in order: those of the first member, then those of the next.

    Not a list, because members announce their own number of threads: a few members that announce thousands for every
    topic must not make the group wait.
    """

    def __init__(self, members: Iterable[Member], count: Callable[[Member], int]) -> None:
        self.members = [member for member in members if count(member) > 0]
        self.ends = list(accumulate(count(member) for member in self.members))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, place: int) -> Thread:
        at = bisect_right(self.ends, place)
        return Thread(self.members[at].member_id, place - (self.ends[at - 1] if at else 0))


def _threads_of(topic: str, members: Iterable[Member]) -> _Line:
    return _Line(members, lambda member: member.threads.get(topic, 0))


def _range(members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    return {
        TopicPartition(topic, number): thread
        for topic, count in partitions.items()
        for number, thread in _in_ranges(topic, range(count), _threads_of(topic, members))
    }


def _fixed(members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    found: Threads = {}
    for topic, count in partitions.items():
        threads = _threads_of(topic, members)
        if threads:
            for number in range(count):
                found[TopicPartition(topic, number)] = threads[reader_index(topic, number, len(threads))]
    return found


def _in_ranges(_: str, numbers: Sequence[int], threads: _Line) -> Iterable[tuple[int, Thread]]:
    """Consecutive partitions per thread; the first threads take one more each, until the remainder is gone."""
    at = 0
    for i in range(min(len(numbers), len(threads))):
        size = len(numbers) // len(threads) + (i < len(numbers) % len(threads))
        thread = threads[i]
        for number in numbers[at : at + size]:
            yield number, thread
        at += size


def _in_turn(topic: str, numbers: Sequence[int], threads: _Line) -> Iterable[tuple[int, Thread]]:
    """F13 over the partitions that one member has of a topic: by place, because their numbers have gaps."""
    for place, number in enumerate(numbers):
        yield number, threads[reader_index(topic, place, len(threads))]


# --- roundrobin -------------------------------------------------------------------------------------------------------


def _round_robin(members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    return _in_rotation(
        (TopicPartition(topic, p) for topic in sorted(partitions) for p in range(partitions[topic])), members
    )


def _in_rotation(partitions: Iterable[TopicPartition], members: Sequence[Member]) -> Threads:
    """To each thread in turn, skipping threads that do not subscribe to a partition's topic."""
    line = _Line(members, lambda member: member.weight)
    begins = [0, *line.ends]
    takers: dict[str, list[int]] = {}
    found: Threads = {}
    place = 0
    for tp in partitions:
        if tp.topic not in takers:
            takers[tp.topic] = [i for i, member in enumerate(line.members) if member.threads.get(tp.topic, 0) > 0]
        able = takers[tp.topic]
        if not able:
            continue
        at = bisect_right(line.ends, place)
        if at == len(line.ends) or place - begins[at] >= line.members[at].threads.get(tp.topic, 0):
            # This thread does not read the topic: take the first thread of the next member that does.
            following = bisect_right(able, at)
            place = begins[able[following % len(able)]]
        found[tp] = line[place]
        place += 1
    return found


# --- cooperative-sticky -----------------------------------------------------------------------------------------------


def _cooperative_sticky(members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    claims = _claims(members, partitions)
    final = _Balance(members)
    unowned: list[TopicPartition] = []
    by_id = {member.member_id: member for member in members}
    for topic, count in sorted(partitions.items()):
        for tp in (TopicPartition(topic, number) for number in range(count)):
            holder = _holder(claims.get(tp, []))
            if holder is None or not by_id[holder.member_id].threads.get(topic):
                unowned.append(tp)
            else:
                final.give(tp, holder)
    # Partitions that few members can take come first, while those members still have room.
    for tp in sorted(unowned, key=lambda tp: (len(final.takers(tp.topic)), tp)):
        final.place(tp)
    final.level()

    found: Threads = {}
    for member in members:
        # A partition moves in two steps: its owner must revoke it before another member gets it. A member that revoked
        # a partition joins again, which is the second step.
        now = [tp for tp in final.held(member) if _may_have(member, claims.get(tp, []))]
        owned = frozenset(member.owned)
        before = {tp: stream for tp, stream in member.streams.items() if tp in owned}
        for tp, stream in _divide_sticky(member.threads, now, before).items():
            found[tp] = Thread(member.member_id, stream)
    return found


def _claims(members: Sequence[Member], partitions: Mapping[str, int]) -> dict[TopicPartition, list[Member]]:
    found: dict[TopicPartition, list[Member]] = defaultdict(list)
    for member in members:
        for tp in dict.fromkeys(member.owned):
            if 0 <= tp.partition < partitions.get(tp.topic, 0):
                found[tp].append(member)
    return found


def _holder(claimants: Sequence[Member]) -> Member | None:
    """The owner of a partition that several members claim: the one of the youngest generation, as the others have
    missed a rebalance. Two claims of the same generation cannot be resolved, so neither counts."""
    youngest = max((member.generation for member in claimants), default=-1)
    holders = [member for member in claimants if member.generation == youngest]
    return holders[0] if len(holders) == 1 else None


def _may_have(member: Member, claimants: Sequence[Member]) -> bool:
    return not claimants or claimants == [member] or _holder(claimants) is member


class _Balance:
    """The partitions of each member while they are being balanced over threads."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._weights = {member.member_id: member.weight for member in members}
        self.members = [member for member in members if self._weights[member.member_id] > 0]
        self._held: dict[str, dict[str, list[TopicPartition]]] = {member.member_id: {} for member in members}
        self._count = {member.member_id: 0 for member in members}
        self._takers: dict[str, list[Member]] = {}

    def held(self, member: Member) -> list[TopicPartition]:
        return [tp for each in self._held[member.member_id].values() for tp in each]

    def takers(self, topic: str) -> list[Member]:
        if topic not in self._takers:
            self._takers[topic] = [member for member in self.members if member.threads.get(topic, 0) > 0]
        return self._takers[topic]

    def give(self, tp: TopicPartition, member: Member) -> None:
        self._held[member.member_id].setdefault(tp.topic, []).append(tp)
        self._count[member.member_id] += 1

    def place(self, tp: TopicPartition) -> None:
        takers = self.takers(tp.topic)
        if takers:
            self.give(tp, min(takers, key=lambda member: (self._least(member), self._of_topic(member, tp.topic))))

    def level(self) -> None:
        """Move partitions from the fullest threads to the emptiest, while they differ by two or more.

        No move is superfluous: each brings a thread with too many or too few partitions one step closer. It ends,
        because each move makes the sum of squares smaller.
        """
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        fullest = sorted(self.members, key=self._most, reverse=True)
        emptiest = sorted(self.members, key=self._least)
        for source in fullest:
            for target in emptiest:
                if self._most(source) - self._least(target) < 2:
                    break
                if (topic := self._topic_to_move(source, target)) is not None:
                    self.give(self._take(topic, source), target)
                    return True
        return False

    def _topic_to_move(self, source: Member, target: Member) -> str | None:
        """The topic that the source has most of, compared with the target: so each topic stays spread, too."""
        # Not among all topics: with ten thousand topics that would take minutes. They take turns, see `_take`.
        movable = (topic for topic in self._held[source.member_id] if target.threads.get(topic, 0) > 0)
        return max(
            islice(movable, MAX_TOPICS_COMPARED),
            key=lambda topic: self._of_topic(source, topic) - self._of_topic(target, topic),
            default=None,
        )

    def _take(self, topic: str, member: Member) -> TopicPartition:
        topics = self._held[member.member_id]
        held = topics.pop(topic)
        tp = held.pop()
        if held:
            topics[topic] = held  # last in the order now
        self._count[member.member_id] -= 1
        return tp

    def _of_topic(self, member: Member, topic: str) -> int:
        return len(self._held[member.member_id].get(topic, ()))

    def _most(self, member: Member) -> int:
        """The number of partitions of its fullest thread."""
        return -(-self._count[member.member_id] // self._weights[member.member_id])

    def _least(self, member: Member) -> int:
        """The number of partitions of its emptiest thread."""
        return self._count[member.member_id] // self._weights[member.member_id]


def _divide_sticky(
    threads: Mapping[str, int], mine: Collection[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Partitions stay on their streams; others go to the stream with the fewest of their topic, then with the
    fewest."""
    found = {tp: before[tp] for tp in mine if 0 <= before.get(tp, -1) < threads[tp.topic]}
    of_topic: dict[str, Counter[int]] = defaultdict(Counter)
    in_all = [0] * max(threads.values(), default=0)
    for tp, stream in found.items():
        of_topic[tp.topic][stream] += 1
        in_all[stream] += 1
    for topic, each in groupby((tp for tp in sorted(mine) if tp not in found), key=lambda tp: tp.topic):
        # Among this many streams one has no partition at all, so the streams after it are never chosen.
        streams = min(threads[topic], len(mine))
        of_this = of_topic[topic]
        least = [(of_this.get(stream, 0), count, stream) for stream, count in enumerate(in_all[:streams])]
        heapify(least)
        for tp in each:
            here, everywhere, stream = least[0]
            heapreplace(least, (here + 1, everywhere + 1, stream))
            found[tp] = stream
            in_all[stream] += 1
    return found
