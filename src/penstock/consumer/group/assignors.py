"""WHO reads what in a group: partitions over THREADS (H6), not over members. Pure: no client, no clock.

A thread is one stream of one member; a client that is no Penstock counts as one thread. The group's leader runs
`assign_threads`, or `assign` for what Kafka's protocol can say of it, which knows members only. A member that is not
told its streams, because its leader is another client, runs `divide` on what it was given. For range and roundrobin
both ways end in the same place.

    range               per topic: partitions in order over threads in order, the first threads take the remainder
    roundrobin          all partitions, in order, dealt to all threads in turn
    cooperative-sticky  whoever has a partition keeps it, as long as no thread has two more than another
    penstock-fixed      F13: a topic's partitions go round its threads, from a start that its name decides
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

TOPICS_COMPARED = 64

MOST_STREAMS = 1000
"""Per topic and member. Members say themselves how many they have, and the leader's work grows with it."""


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
    """By topic, how many streams it has for it: what it subscribes to."""
    owned: tuple[TopicPartition, ...] = ()
    """What it says it holds while it joins: only cooperative members hold anything then."""
    generation: int = -1
    """In which generation it got that."""
    instance_id: str | None = None
    streams: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The streams that have what it holds."""

    @property
    def weight(self) -> int:
        """How many threads it has; that of the topic with most of them, where topics differ."""
        return max(self.threads.values(), default=0)

    @property
    def rank(self) -> tuple[bool, str, str]:
        """Static members come first, under the name that survives their restarts; then the others. As in Java."""
        return self.instance_id is None, self.instance_id or self.consumer_id, self.member_id


Threads = dict[TopicPartition, Thread]


def thread_id(consumer_id: str, stream: int) -> str:
    return f"{consumer_id}-{stream}"


def assign(name: str, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """By member id, the partitions each one gets. `partitions`: how many each topic has; others get no reader."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for tp, thread in sorted(assign_threads(name, members, partitions).items()):
        given[thread.member_id].append(tp)
    return given


def assign_threads(name: str, members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    """The same by partition, with the stream. A partition that must first be released by its owner has none."""
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
    """A member's own partitions over its own streams. `before`: the streams of those that it already has."""
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
            return {tp: thread.stream for tp, thread in _deal(sorted(mine), [me]).items()}
        case "cooperative-sticky":
            return _divide_sticky(threads, mine, before)
    raise ValueError(f"no assignor is called {name!r}")


# --- range and F13 ----------------------------------------------------------------------------------------------------


class _Line:
    """Threads in a line: those of the first member, then those of the next. Not a list, because members say themselves
    how many they have: a few that claim thousands for every topic must not keep the group waiting."""

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
    """Neighbours stay together, and the first threads take one more each until the remainder is gone."""
    at = 0
    for i in range(min(len(numbers), len(threads))):
        size = len(numbers) // len(threads) + (i < len(numbers) % len(threads))
        thread = threads[i]
        for number in numbers[at : at + size]:
            yield number, thread
        at += size


def _in_turn(topic: str, numbers: Sequence[int], threads: _Line) -> Iterable[tuple[int, Thread]]:
    """F13 over what one member has of a topic: by its place there, because the numbers have gaps."""
    for place, number in enumerate(numbers):
        yield number, threads[reader_index(topic, place, len(threads))]


# --- roundrobin -------------------------------------------------------------------------------------------------------


def _round_robin(members: Sequence[Member], partitions: Mapping[str, int]) -> Threads:
    return _deal((TopicPartition(topic, p) for topic in sorted(partitions) for p in range(partitions[topic])), members)


def _deal(partitions: Iterable[TopicPartition], members: Sequence[Member]) -> Threads:
    """To each thread in turn, past those that do not subscribe to a partition's topic."""
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
            # This thread has nothing to do with the topic: the next member's first one that has.
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
    # Those that few can take come first, while there is still room where they must go.
    for tp in sorted(unowned, key=lambda tp: (len(final.takers(tp.topic)), tp)):
        final.place(tp)
    final.level()

    found: Threads = {}
    for member in members:
        # A partition moves in two steps: its owner must let go of it before anybody else gets it. Whoever lost
        # something joins again by itself, and that is the second step.
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
    """Of several who say that they hold a partition the one of the youngest generation does: the others have missed a
    rebalance. Two of the same generation cannot be told apart, so neither is believed."""
    youngest = max((member.generation for member in claimants), default=-1)
    holders = [member for member in claimants if member.generation == youngest]
    return holders[0] if len(holders) == 1 else None


def _may_have(member: Member, claimants: Sequence[Member]) -> bool:
    return not claimants or claimants == [member] or _holder(claimants) is member


class _Balance:
    """How many partitions each member has, per thread."""

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

        No move is made that could be spared: each brings a thread that has too much, or one that has too little, one
        step closer. It ends, because each makes the sum of squares smaller.
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
        """The topic that the source has most of, compared with the target: so topics stay spread, too."""
        # Not among all of them: of ten thousand topics that would take minutes. They take turns, see `_take`.
        movable = (topic for topic in self._held[source.member_id] if target.threads.get(topic, 0) > 0)
        return max(
            islice(movable, TOPICS_COMPARED),
            key=lambda topic: self._of_topic(source, topic) - self._of_topic(target, topic),
            default=None,
        )

    def _take(self, topic: str, member: Member) -> TopicPartition:
        topics = self._held[member.member_id]
        held = topics.pop(topic)
        tp = held.pop()
        if held:
            topics[topic] = held  # the last in line now
        self._count[member.member_id] -= 1
        return tp

    def _of_topic(self, member: Member, topic: str) -> int:
        return len(self._held[member.member_id].get(topic, ()))

    def _most(self, member: Member) -> int:
        """What the fullest of its threads has."""
        return -(-self._count[member.member_id] // self._weights[member.member_id])

    def _least(self, member: Member) -> int:
        return self._count[member.member_id] // self._weights[member.member_id]


def _divide_sticky(
    threads: Mapping[str, int], mine: Collection[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """What was on a stream stays there; the others go where least of their topic is, and least of everything."""
    found = {tp: before[tp] for tp in mine if 0 <= before.get(tp, -1) < threads[tp.topic]}
    of_topic: dict[str, Counter[int]] = defaultdict(Counter)
    in_all = [0] * max(threads.values(), default=0)
    for tp, stream in found.items():
        of_topic[tp.topic][stream] += 1
        in_all[stream] += 1
    for topic, each in groupby((tp for tp in sorted(mine) if tp not in found), key=lambda tp: tp.topic):
        # Among so many streams one has nothing at all, so those behind need not be looked at.
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
