"""The leader finder (H10): where each partition is fetched, and from which offset if it has none.

Cursors come here when they are new, when their leader has moved or its broker is gone, and when their offset is out of
range. One thread asks the cluster, backs off while a partition has no leader, and hands each cursor to the fetcher of
its leader, which it makes if there is none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.fetcher import Fetcher
from penstock.errors import BrokerUnavailable, NoGroupOffset, OffsetOutOfRange, PenstockError, UnknownTopic
from penstock.model.log_identity import is_recreated, leader_changed, truncated_at
from penstock.model.reader_index import reader_index
from penstock.reader.partition_leader import FOLLOWER_SECONDS
from penstock.wire.api.metadata import Broker, Leader, Metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster
from penstock.wire.transport.retry import Interrupted

log = logging.getLogger(__name__)

PASS_SECONDS = 5.0
"""The most one question may take: then it is said that brokers do not answer, and the next pass begins."""

HOPELESS_SECONDS = 10.0
"""How long what was refused for good is left alone: a login, an ACL. The reader hears of it each time."""

UNKNOWN_SECONDS = 1.0
"""How often a topic is asked for that the cluster does not have. A rebalance will take its partitions away."""


@dataclass(slots=True)
class Waiting:
    reason: str
    not_before: float = 0.0
    preferred: int | None = None
    """The replica that the leader recommends (KIP-392)."""


@dataclass(frozen=True, slots=True)
class ResetRule:
    """`auto.offset.reset` of a group."""

    group: str
    reset: str


class LeaderFinder:
    """Owns the fetchers. Methods may come from any thread unless they say otherwise."""

    def __init__(
        self,
        config: ClientConfig,
        rule: ResetRule,
        *,
        fetchers: int = 1,
        backoff: float = 0.2,
        on_broken: Callable[[BaseException], None],
        on_fetched: Callable[[], None] = lambda: None,
        on_reset: Callable[[Cursor], None] = lambda cursor: None,
    ) -> None:
        self._config = config
        self._rule = rule
        self._fetchers_per_broker = fetchers
        self._backoff = backoff
        self.broken = on_broken
        self.fetched = on_fetched
        self._on_reset = on_reset
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._waiting: dict[Cursor, Waiting] = {}
        self._followers: dict[Cursor, float] = {}
        """Cursors read from a follower, and until when."""
        self._unknown: set[str] = set()
        """Topics that the cluster did not have when it was asked last: asked for apart from the others, because that
        takes the cluster's grace."""
        self._fetchers: dict[tuple[str, int, int], Fetcher] = {}
        self._ending: list[Fetcher] = []
        self._overdue: set[Fetcher] = set()
        """Fetchers whose brokers let them wait."""
        asking = replace(config, api_timeout=min(config.api_timeout, PASS_SECONDS))
        self._cluster = Cluster(asking, self._stopped.wait)
        self._thread = threading.Thread(target=self._run, name=f"penstock-leaders-{rule.group}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, cursors: Iterable[Cursor], reason: str = "it is new") -> None:
        """Find the leaders of these, and fetch them."""
        with self._changed:
            for cursor in cursors:
                self._wait_for(cursor, Waiting(reason))

    def _wait_for(self, cursor: Cursor, waiting: Waiting) -> None:
        """With the lock held. One that was released meanwhile does not come back."""
        if not cursor.revoked:
            self._waiting[cursor] = waiting
            self._changed.notify_all()

    def remove(self, cursors: Collection[Cursor]) -> None:
        """Fetch these no more; fetchers that have nothing left are shut down."""
        with self._changed:
            for cursor in cursors:
                self._waiting.pop(cursor, None)
                self._followers.pop(cursor, None)
            for fetcher in self._fetchers.values():
                fetcher.remove(cursors)
            self._end_idle()

    def wake(self) -> None:
        """Something may have changed for the fetchers. Takes no lock that is held while calling a stream."""
        for fetcher in list(self._fetchers.values()):
            fetcher.wake()

    def end(self) -> None:
        """Fetch nothing more, and wake whatever blocks; `close` waits for it."""
        self._stopped.set()
        with self._changed:
            self._waiting.clear()
            self._ending += self._fetchers.values()
            self._fetchers.clear()
            self._changed.notify_all()
            for fetcher in self._ending:
                fetcher.end()
        self._cluster.abort()

    def close(self, timeout: float) -> None:
        """End the fetchers and this thread."""
        deadline = time.monotonic() + timeout
        self.end()
        for fetcher in self._ending:
            if not fetcher.join(max(0.0, deadline - time.monotonic())):
                log.warning("%s did not end in time", fetcher)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            while self._thread.is_alive() and time.monotonic() < deadline:
                self._cluster.abort()  # it may have begun another question meanwhile
                self._thread.join(0.1)

    # --- called by fetchers -----------------------------------------------------------------------------------------

    def leaderless(self, cursors: Collection[Cursor], reason: str, *, hopeless: bool = False) -> None:
        """These have no fetcher any more (H13). Not at once: who is asked in the moment of a move names the old one."""
        not_before = time.monotonic() + (HOPELESS_SECONDS if hopeless else self._backoff)
        with self._changed:
            for cursor in cursors:
                self._followers.pop(cursor, None)
                self._wait_for(cursor, Waiting(reason, not_before))

    def overdue(self, fetcher: Fetcher) -> None:
        with self._changed:
            self._overdue.add(fetcher)
            self._changed.notify_all()

    def out_of_range(self, cursor: Cursor, offset: int) -> None:
        with self._changed:
            if cursor not in self._followers:  # a follower may lag: only its leader's word counts
                cursor.lost = True
        self.leaderless([cursor], f"offset {offset} is out of range")

    def preferred(self, cursor: Cursor, node_id: int) -> None:
        """Not at once either: a leader may recommend a replica that nobody else knows."""
        reason, not_before = f"its leader recommends replica {node_id}", time.monotonic() + self._backoff
        with self._changed:
            self._wait_for(cursor, Waiting(reason, not_before, preferred=node_id))

    # --- the finder's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (due := self._due()) is not None:
                self._doubt_silent()
                for some in self._apart(due):
                    self._try_to_find(some)
        except Interrupted:
            pass
        except BaseException as error:
            log.exception("%s ended by an error of its own", self._thread.name)
            self.broken(error)

    def _due(self) -> dict[Cursor, Waiting] | None:
        """Cursors whose turn it is; waits for some, or for a broker to be doubted. None when closed."""
        with self._changed:
            while not self._stopped.is_set():
                now = time.monotonic()
                for cursor in [cursor for cursor, until in self._followers.items() if until <= now]:
                    del self._followers[cursor]
                    for fetcher in self._fetchers.values():
                        fetcher.remove([cursor])
                    self._waiting[cursor] = Waiting("a follower was read long enough")
                due = {cursor: waiting for cursor, waiting in self._waiting.items() if waiting.not_before <= now}
                if due or self._overdue:
                    return due
                times = [waiting.not_before for waiting in self._waiting.values()] + list(self._followers.values())
                self._changed.wait(min(times) - now if times else None)
            return None

    def _doubt_silent(self) -> None:
        """Take from fetchers whose brokers are silent what others lead by now. The rest goes on waiting: it has no
        other leader, and the answer may come."""
        with self._changed:
            overdue, self._overdue = self._overdue, set()
        for fetcher in overdue:
            held = {each.cursor.tp: each for each in fetcher.cursors()}
            with self._changed:
                read_from = {
                    tp: None if each.cursor in self._followers else Leader(fetcher.broker, each.epoch)
                    for tp, each in held.items()
                }
            departed = self._cluster.departed(fetcher.broker, read_from) if held else {}
            with self._changed:
                for tp, reason in departed.items():
                    if fetcher.let_go(held[tp]):
                        log.info("%s: its broker does not answer, and %s", tp, reason)
                        self._followers.pop(held[tp].cursor, None)
                        self._wait_for(held[tp].cursor, Waiting(reason))
                self._end_idle()

    def _apart(self, due: dict[Cursor, Waiting]) -> list[dict[Cursor, Waiting]]:
        """Those of topics that the cluster has, and then those of others."""
        known = {cursor: waiting for cursor, waiting in due.items() if cursor.tp.topic not in self._unknown}
        others = {cursor: waiting for cursor, waiting in due.items() if cursor not in known}
        return [part for part in (known, others) if part]

    def _try_to_find(self, due: dict[Cursor, Waiting]) -> None:
        try:
            self._find(due)
        except (BrokerUnavailable, UnknownTopic) as error:
            log.warning("leaders of %d partitions are not found so far: %s", len(due), str(error).splitlines()[0])
            self._postpone(due, self._backoff)
        except PenstockError as error:
            self.broken(error)
            self._postpone(due, HOPELESS_SECONDS)

    def _find(self, due: dict[Cursor, Waiting]) -> None:
        metadata, unknown = self._cluster.listing(sorted({cursor.tp.topic for cursor in due}))
        for name in sorted(set(unknown) - self._unknown):
            log.warning("topic %r is gone, or not there yet", name)
        self._unknown = (self._unknown - metadata.topics.keys()) | set(unknown)
        self._postpone([cursor for cursor in due if cursor.tp.topic in self._unknown], UNKNOWN_SECONDS)
        led = {cursor: waiting for cursor, waiting in due.items() if metadata.leader(cursor.tp) is not None}
        self._postpone([c for c in due if c.tp.topic in metadata.topics and c not in led], self._backoff)
        self._recognise(led, metadata)
        # At once, before anybody is asked for the others: a leader that does not answer holds up nobody else (H13).
        asked = {cursor for cursor in led if self._is_to_be_asked_for(cursor, metadata)}
        self._hand_over({cursor: waiting for cursor, waiting in led.items() if cursor not in asked}, metadata)
        lost = {cursor for cursor in asked if cursor.lost or cursor.consumed is None}
        unanswered = self._unanswered(asked - lost, lambda some: self._hold_against_epochs(some, metadata))
        unanswered |= self._unanswered(lost, self._reset)
        self._postpone(unanswered, self._backoff)
        self._hand_over({cursor: led[cursor] for cursor in asked - unanswered}, metadata)

    @staticmethod
    def _is_to_be_asked_for(cursor: Cursor, metadata: Metadata) -> bool:
        leader = metadata.leader(cursor.tp)
        if cursor.lost or cursor.consumed is None:
            return True
        return leader is not None and leader_changed(cursor.epoch, leader.epoch)

    def _unanswered(self, cursors: set[Cursor], ask: Callable[[set[Cursor]], set[Cursor]]) -> set[Cursor]:
        """Ask for some. Returns those whose leaders did not answer, maybe all of them."""
        try:
            return ask(cursors)
        except BrokerUnavailable as error:
            log.warning("offsets of %d partitions are not known so far: %s", len(cursors), str(error).splitlines()[0])
            return cursors

    def _postpone(self, cursors: Collection[Cursor], seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            for cursor in cursors:
                if cursor in self._waiting:
                    self._waiting[cursor].not_before = until

    def _recognise(self, cursors: Collection[Cursor], metadata: Metadata) -> None:
        """A topic that was made anew has another id, and the offsets of the old one mean nothing in it."""
        for cursor in cursors:
            topic_id = metadata.topics[cursor.tp.topic].topic_id
            if is_recreated(cursor.topic_id, topic_id):
                log.warning("%s: the topic was deleted and made anew: its position is void", cursor.tp)
                cursor.reader.move(cursor, None)
                cursor.epoch = -1
                cursor.committed = None  # the group's offset went with the old one
            cursor.topic_id = topic_id

    def _hold_against_epochs(self, cursors: Collection[Cursor], metadata: Metadata) -> set[Cursor]:
        """A leader elected from replicas that lagged lacks records that were read before, and gives their offsets to
        others: go back to where its log departs from what was read. Returns those whose leaders did not answer."""
        doubted = {}
        for cursor in cursors:
            leader = metadata.leader(cursor.tp)
            if leader is not None and leader_changed(cursor.epoch, leader.epoch) and not cursor.lost:
                doubted[cursor.tp] = cursor, cursor.epoch, leader.epoch
        if not doubted:
            return set()
        ends = self._cluster.epoch_ends({tp: epoch for tp, (_, epoch, _) in doubted.items()}, wait_for=())
        for tp, (_, end) in ends.items():
            cursor, old, new = doubted[tp]
            with cursor.reader.lock:
                if cursor.epoch != old or cursor.revoked:
                    continue  # somebody seeks
                position, fetched, version = cursor.reader.position(cursor), cursor.fetched, cursor.version
                if position is None or truncated_at(end, position if fetched is None else fetched) is None:
                    cursor.epoch = new
                    continue
                if position <= end:
                    cursor.reader.move(cursor, position)  # what was fetched behind it may be something else now
                    cursor.epoch = new
                    continue
            has = f"another log from offset {end} on: an unclean leader election has cut it"
            self._settle(cursor, version, position, end, has)
        return {cursor for tp, (cursor, _, _) in doubted.items() if tp not in ends}

    def _reset(self, cursors: Collection[Cursor]) -> set[Cursor]:
        """Positions by the rule, for cursors that have none, or one that is gone (H12). Returns those whose leaders did
        not answer."""
        if not cursors:
            return set()
        tps = [cursor.tp for cursor in cursors]
        versions = {cursor: cursor.version for cursor in cursors}
        end = self._cluster.reachable_ends(tps, wait_for=())
        begin = self._cluster.begin(end, wait_for=()) if end else {}
        for cursor in [cursor for cursor in cursors if cursor.tp in begin]:
            tp, wanted = cursor.tp, cursor.consumed if cursor.fetched is None else cursor.fetched
            if wanted is not None and begin[tp] <= wanted <= end[tp]:
                cursor.lost = False  # a leader that was elected a moment ago did not know its end yet
                continue
            target = begin[tp] if self._rule.reset == "earliest" else end[tp]
            self._settle(cursor, versions[cursor], wanted, target, f"offsets {begin[tp]} to {end[tp]}")
        return {cursor for cursor in cursors if cursor.tp not in begin}

    def _settle(self, cursor: Cursor, version: int, lost: int | None, target: int, has: str) -> None:
        """Move a cursor by the rule, or let the reader know that there is none."""
        tp = cursor.tp
        with cursor.reader.lock:
            if cursor.version != version:
                return  # somebody has said where to go meanwhile
            if self._rule.reset == "none":
                error = (
                    NoGroupOffset(self._rule.group, [tp])
                    if lost is None
                    else OffsetOutOfRange(tp.topic, tp.partition, lost, has)
                )
                cursor.reader.fail(cursor, error, version)
                return
            cursor.reader.reset(cursor, target)
        if lost is not None:
            log.warning("%s: wanted offset %d, the broker has %s; going on from %d", tp, lost, has, target)
            self._on_reset(cursor)

    def _hand_over(self, found: dict[Cursor, Waiting], metadata: Metadata) -> None:
        with self._changed:
            by_fetcher: dict[tuple[Broker, int], list[tuple[Cursor, int]]] = defaultdict(list)
            for cursor, waiting in found.items():
                if self._waiting.get(cursor) is not waiting:
                    continue  # released, or sent here again, meanwhile
                del self._waiting[cursor]
                leader = metadata.leader(cursor.tp)
                assert leader is not None
                follower = metadata.brokers.get(waiting.preferred) if waiting.preferred is not None else None
                number = reader_index(cursor.tp.topic, cursor.tp.partition, self._fetchers_per_broker)
                if follower is not None:
                    # No epoch to a follower: one whose metadata lags would refuse us, and we would be sent back to it.
                    self._followers[cursor] = time.monotonic() + FOLLOWER_SECONDS
                    by_fetcher[follower, number].append((cursor, -1))
                else:
                    by_fetcher[leader.broker, number].append((cursor, leader.epoch))
            if not self._stopped.is_set():
                for (broker, number), cursors in by_fetcher.items():
                    self._give(broker, number, cursors)
            self._end_idle()

    def _give(self, broker: Broker, number: int, cursors: list[tuple[Cursor, int]]) -> None:
        """With the lock held."""
        key = (broker.host, broker.port, number)
        fetcher = self._fetchers.get(key)
        if fetcher is not None and fetcher.add(cursors):
            return
        if fetcher is not None:
            self._ending.append(fetcher)
        fetcher = self._fetchers[key] = Fetcher(broker, number, self._config, self)
        fetcher.add(cursors)
        fetcher.start()

    def _end_idle(self) -> None:
        """Shut down fetchers that have nothing to fetch (H9). With the lock held."""
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.end(unless_busy=True):
                del self._fetchers[key]
                self._ending.append(fetcher)
        self._ending = [fetcher for fetcher in self._ending if fetcher.alive]
