"""The leader finder (H10): finds the broker from which each partition is fetched, and the offset if it has none.

It gets cursors that are new, whose leader has moved or is gone, and whose offset is out of range. One thread asks the
cluster, backs off while a partition has no leader, and passes each cursor to the fetcher of its leader. It starts that
fetcher if there is none.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.fetcher import Fetcher
from penstock.consumer.fetch.position_check import PositionCheck, ResetRule
from penstock.errors import BrokerUnavailable, PenstockError, UnknownTopic
from penstock.masking import get_logger
from penstock.model.reader_index import reader_index
from penstock.model.topic_partition import TopicPartition
from penstock.reader.partition_leader import FOLLOWER_SECONDS
from penstock.wire.api.metadata import Broker, Leader, Metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

LOOKUP_SECONDS = 5.0
"""The time-out of one lookup. Then it is logged that brokers do not answer, and the next lookup starts."""

REFUSED_SECONDS = 10.0
"""The backoff after an error that is not retriable: a login, an ACL. The streams' threads get the error each time."""

UNKNOWN_TOPIC_SECONDS = 1.0
"""The interval of lookups for a topic that the cluster does not have. A rebalance will revoke its partitions."""


@dataclass(slots=True)
class PendingLookup:
    """A cursor that waits for its leader."""

    reason: str
    not_before: float = 0.0
    preferred: int | None = None
    """The replica that the leader recommends (KIP-392)."""


class LeaderFinder:
    """Owns the fetchers. Methods may be called by any thread unless they say otherwise."""

    def __init__(
        self,
        config: ClientConfig,
        rule: ResetRule,
        *,
        fetchers: int,
        backoff: float,
        on_error: Callable[[BaseException], None],
        on_fetched: Callable[[float, float], None] = lambda seconds, throttle: None,
        on_retry: Callable[[], None] = lambda: None,
        on_reset: Callable[[Cursor], None] = lambda cursor: None,
    ) -> None:
        """`on_error` gets errors that are not retriable, `on_reset` a cursor whose position was reset."""
        self._config = config
        self._fetchers_per_broker = fetchers
        self._backoff = backoff
        self.failed = on_error
        self.fetched = on_fetched
        self.retried = on_retry
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._pending: dict[Cursor, PendingLookup] = {}
        self._followers: dict[Cursor, float] = {}
        """Cursors that are fetched from a follower, and until when."""
        self.unlisted: frozenset[TopicPartition] = frozenset()
        """Partitions that their topics do not have, as of the last lookups."""
        self._unknown: set[str] = set()
        """Topics that the cluster did not have at the last lookup. They are looked up apart from the others, because
        such a lookup takes the grace period for stale metadata."""
        self._fetchers: dict[tuple[str, int, int], Fetcher] = {}
        self._ending: list[Fetcher] = []
        self._overdue: set[Fetcher] = set()
        """Fetchers whose brokers do not answer in time."""
        lookups = replace(config, api_timeout=min(config.api_timeout, LOOKUP_SECONDS))
        self._cluster = Cluster(lookups, self._stopped.wait, on_retry)
        self._positions = PositionCheck(self._cluster, rule, on_reset)
        self._thread = threading.Thread(target=self._run, name=f"penstock-leaders-{rule.group}", daemon=True)

    @property
    def unknown_topics(self) -> frozenset[str]:
        """Topics that the cluster did not have at the last lookup."""
        return frozenset(self._unknown)

    def start(self) -> None:
        self._thread.start()

    def add(self, cursors: Iterable[Cursor], reason: str = "it is new") -> None:
        """Find the leaders of these cursors, and fetch them."""
        with self._changed:
            for cursor in cursors:
                self._add(cursor, PendingLookup(reason))

    def _add(self, cursor: Cursor, lookup: PendingLookup) -> None:
        """With the lock held. A cursor that was revoked meanwhile does not come back."""
        if not cursor.revoked:
            self._pending[cursor] = lookup
            self._changed.notify_all()

    def remove(self, cursors: Collection[Cursor]) -> None:
        """Stop fetching these cursors, and end fetchers that have nothing left."""
        with self._changed:
            for cursor in cursors:
                self._pending.pop(cursor, None)
                self._followers.pop(cursor, None)
            for fetcher in self._fetchers.values():
                fetcher.remove(cursors)
            self._end_idle()

    def wake(self) -> None:
        """Make the fetchers check again which cursors want records. Takes no lock that is held while calling a
        stream."""
        for fetcher in list(self._fetchers.values()):
            fetcher.wake()

    def end(self) -> None:
        """Stop fetching, and wake blocked threads; `close` waits for them."""
        self._stopped.set()
        with self._changed:
            self._pending.clear()
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
                self._cluster.abort()  # it may have started another lookup meanwhile
                self._thread.join(0.1)

    # --- called by fetchers -----------------------------------------------------------------------------------------

    def leaderless(self, cursors: Collection[Cursor], reason: str, *, retriable: bool = True) -> None:
        """Look up these cursors again (H13), after a backoff: while a leader moves, brokers still name the old one."""
        not_before = time.monotonic() + (self._backoff if retriable else REFUSED_SECONDS)
        with self._changed:
            for cursor in cursors:
                self._followers.pop(cursor, None)
                self._add(cursor, PendingLookup(reason, not_before))

    def overdue(self, fetcher: Fetcher) -> None:
        with self._changed:
            self._overdue.add(fetcher)
            self._changed.notify_all()

    def out_of_range(self, cursor: Cursor, offset: int) -> None:
        with self._changed:
            if cursor not in self._followers:  # a follower may lag: only the leader's answer counts
                cursor.lost = True
        self.leaderless([cursor], f"offset {offset} is out of range")

    def preferred(self, cursor: Cursor, node_id: int) -> None:
        """Also after a backoff: a leader may recommend a replica that other brokers do not know yet."""
        reason, not_before = f"the leader recommends replica {node_id}", time.monotonic() + self._backoff
        with self._changed:
            self._add(cursor, PendingLookup(reason, not_before, preferred=node_id))

    # --- the finder's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (due := self._due()) is not None:
                self._check_overdue()
                for some in self._known_topics_first(due):
                    self._try_to_resolve(some)
        except Interrupted:
            pass
        except BaseException as error:
            log.exception("%s ended with an unexpected error", self._thread.name)
            self.failed(error)

    def _due(self) -> dict[Cursor, PendingLookup] | None:
        """Wait for cursors to look up, or for an overdue fetcher; returns the cursors. None when closed."""
        with self._changed:
            while not self._stopped.is_set():
                now = time.monotonic()
                for cursor in [cursor for cursor, until in self._followers.items() if until <= now]:
                    del self._followers[cursor]
                    for fetcher in self._fetchers.values():
                        fetcher.remove([cursor])
                    self._pending[cursor] = PendingLookup("return from a follower to the leader")
                due = {cursor: lookup for cursor, lookup in self._pending.items() if lookup.not_before <= now}
                if due or self._overdue:
                    return due
                times = [lookup.not_before for lookup in self._pending.values()] + list(self._followers.values())
                self._changed.wait(min(times) - now if times else None)
            return None

    def _check_overdue(self) -> None:
        """Take cursors that other brokers lead by now from fetchers whose brokers do not answer. The others stay: they
        have no other leader, and the answer may still come."""
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
                    if fetcher.remove_if_held(held[tp]):
                        log.info("%s: its broker does not answer, and %s", tp, reason)
                        self._followers.pop(held[tp].cursor, None)
                        self._add(held[tp].cursor, PendingLookup(reason))
                self._end_idle()

    def _known_topics_first(self, due: dict[Cursor, PendingLookup]) -> list[dict[Cursor, PendingLookup]]:
        """The cursors of topics that the cluster has, then those of the others."""
        known = {cursor: lookup for cursor, lookup in due.items() if cursor.tp.topic not in self._unknown}
        others = {cursor: lookup for cursor, lookup in due.items() if cursor not in known}
        return [part for part in (known, others) if part]

    def _try_to_resolve(self, due: dict[Cursor, PendingLookup]) -> None:
        try:
            self._resolve(due)
        except (BrokerUnavailable, UnknownTopic) as error:
            log.warning("the leaders of %d partitions are not found yet: %s", len(due), str(error).splitlines()[0])
            self._postpone(due, self._backoff)
        except PenstockError as error:
            self.failed(error)
            self._postpone(due, REFUSED_SECONDS)

    def _resolve(self, due: dict[Cursor, PendingLookup]) -> None:
        metadata, unknown = self._cluster.listing(sorted({cursor.tp.topic for cursor in due}))
        for name in sorted(set(unknown) - self._unknown):
            log.warning("topic %r does not exist: it was deleted, or is not created yet", name)
        self._unknown = (self._unknown - metadata.topics.keys()) | set(unknown)
        self._postpone([cursor for cursor in due if cursor.tp.topic in self._unknown], UNKNOWN_TOPIC_SECONDS)
        listed = {cursor.tp for cursor in due if cursor.tp.topic not in metadata.topics or metadata.lists(cursor.tp)}
        self.unlisted = self.unlisted - listed | {cursor.tp for cursor in due if cursor.tp not in listed}
        led = {cursor: lookup for cursor, lookup in due.items() if metadata.leader(cursor.tp) is not None}
        self._postpone([c for c in due if c.tp.topic in metadata.topics and c not in led], self._backoff)
        self._positions.check_topic_ids(led, metadata)
        # First those that need no offsets: a leader that does not answer must not delay the others (H13).
        asked = {cursor for cursor in led if self._positions.needs_leader(cursor, metadata)}
        self._pass_to_fetchers({cursor: lookup for cursor, lookup in led.items() if cursor not in asked}, metadata)
        lost = {cursor for cursor in asked if cursor.lost or cursor.consumed is None}
        unanswered = self._unanswered(asked - lost, lambda some: self._positions.check_truncation(some, metadata))
        unanswered |= self._unanswered(lost, self._positions.reset)
        self._postpone(unanswered, self._backoff)
        self._pass_to_fetchers({cursor: led[cursor] for cursor in asked - unanswered}, metadata)

    def _unanswered(self, cursors: set[Cursor], ask: Callable[[set[Cursor]], set[Cursor]]) -> set[Cursor]:
        """Ask the leaders of some cursors. Returns those whose leaders did not answer, maybe all of them."""
        try:
            return ask(cursors)
        except BrokerUnavailable as error:
            log.warning("the offsets of %d partitions are not known yet: %s", len(cursors), str(error).splitlines()[0])
            return cursors

    def _postpone(self, cursors: Collection[Cursor], seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            for cursor in cursors:
                if cursor in self._pending:
                    self._pending[cursor].not_before = until

    def _pass_to_fetchers(self, found: dict[Cursor, PendingLookup], metadata: Metadata) -> None:
        with self._changed:
            by_fetcher: dict[tuple[Broker, int], list[tuple[Cursor, int]]] = defaultdict(list)
            for cursor, lookup in found.items():
                if self._pending.get(cursor) is not lookup:
                    continue  # revoked, or added again, meanwhile
                del self._pending[cursor]
                leader = metadata.leader(cursor.tp)
                assert leader is not None
                follower = metadata.brokers.get(lookup.preferred) if lookup.preferred is not None else None
                number = reader_index(cursor.tp.topic, cursor.tp.partition, self._fetchers_per_broker)
                if follower is not None:
                    # No epoch for a follower: one with stale metadata would refuse it, and the leader would recommend
                    # it again.
                    self._followers[cursor] = time.monotonic() + FOLLOWER_SECONDS
                    by_fetcher[follower, number].append((cursor, -1))
                else:
                    by_fetcher[leader.broker, number].append((cursor, leader.epoch))
            if not self._stopped.is_set():
                for (broker, number), cursors in by_fetcher.items():
                    self._add_to_fetcher(broker, number, cursors)
            self._end_idle()

    def _add_to_fetcher(self, broker: Broker, number: int, cursors: list[tuple[Cursor, int]]) -> None:
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
        """End fetchers that have nothing to fetch (H9). With the lock held."""
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.end(unless_busy=True):
                del self._fetchers[key]
                self._ending.append(fetcher)
        self._ending = [fetcher for fetcher in self._ending if fetcher.alive]
