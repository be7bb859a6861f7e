"""Finds the leader of each assigned partition, and owns the share fetchers.

One thread asks the cluster. It passes each partition to the fetcher of its leader, and looks it up again after a
backoff when that fetcher has lost its broker, or the broker does not lead the partition any more.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from penstock.consumer.share.share_fetcher import ShareFetcher
from penstock.consumer.share.share_partition import SharePartition
from penstock.errors import BrokerUnavailable, PenstockError, UnknownTopic
from penstock.masking import get_logger
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

LOOKUP_SECONDS = 5.0
"""The time-out of one lookup. Then it is logged that brokers do not answer, and the next lookup starts."""

REFUSED_SECONDS = 10.0
"""The backoff after an error that is not retriable: a login, an ACL. The streams' threads get the error each time."""


class ShareLeaders:
    """Methods may be called by any thread unless they say otherwise."""

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        new_fetcher: Callable[[Broker, str, ShareLeaders], ShareFetcher],
        *,
        backoff: float,
        on_error: Callable[[BaseException], None],
        on_fetched: Callable[[float, float], None],
        on_retry: Callable[[], None],
    ) -> None:
        """`new_fetcher` makes the fetcher of a member at a broker. `on_error` gets errors that are not retriable."""
        self._new_fetcher = new_fetcher
        self._backoff = backoff
        self.failed = on_error
        self.fetched = on_fetched
        self.retried = on_retry
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._pending: dict[SharePartition, float] = {}
        """Partitions to look up, each not before a time."""
        self._fetchers: dict[tuple[str, int, str], ShareFetcher] = {}
        self._ending: list[ShareFetcher] = []
        lookups = replace(config, api_timeout=min(config.api_timeout, LOOKUP_SECONDS))
        self._cluster = Cluster(lookups, self._stopped.wait, on_retry)
        self._thread = threading.Thread(target=self._run, name=f"penstock-leaders-{group}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, partitions: Iterable[SharePartition]) -> None:
        """Find the leaders of these partitions, and fetch them."""
        with self._changed:
            self._pending.update(dict.fromkeys(partitions, 0.0))
            self._changed.notify_all()

    def remove(self, partitions: Collection[SharePartition]) -> None:
        """Stop fetching these partitions."""
        with self._changed:
            for each in partitions:
                each.revoked = True
                self._pending.pop(each, None)
            for fetcher in self._fetchers.values():
                fetcher.remove(partitions)

    def leaderless(self, partitions: Collection[SharePartition], reason: str, *, retriable: bool = True) -> None:
        not_before = time.monotonic() + (self._backoff if retriable else REFUSED_SECONDS)
        with self._changed:
            if not self._stopped.is_set():
                log.debug("%d partitions are looked up again: %s", len(partitions), reason)
                self._pending.update({each: not_before for each in partitions if not each.revoked})
                self._changed.notify_all()

    def wake(self) -> None:
        """A stream has room. Takes no lock that is held while calling a stream."""
        for fetcher in list(self._fetchers.values()):
            fetcher.wake()

    def close(self, timeout: float) -> None:
        """Let the fetchers send their last acknowledgements, and end all threads."""
        deadline = time.monotonic() + timeout
        self._stopped.set()
        with self._changed:
            self._pending.clear()
            ending = [*self._ending, *self._fetchers.values()]
            self._changed.notify_all()
        for fetcher in ending:
            fetcher.end()
        self._cluster.abort()
        for fetcher in ending:
            if not fetcher.join(max(0.0, deadline - 0.2 - time.monotonic())):
                log.warning("%s: no answer to the last acknowledgements in time", fetcher)
                fetcher.abort()
        for fetcher in ending:
            fetcher.join(max(0.1, deadline - time.monotonic()))
        while self._thread.is_alive() and self._thread is not threading.current_thread():
            self._cluster.abort()  # it may have started another lookup meanwhile
            self._thread.join(0.1)
            if time.monotonic() >= deadline:
                break

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (due := self._due()) is not None:
                self._try_to_resolve(due)
        except Interrupted:
            pass
        except BaseException as error:
            log.exception("%s ended with an unexpected error", self._thread.name)
            self.failed(error)

    def _due(self) -> list[SharePartition] | None:
        """Wait for partitions to look up. None when closed."""
        with self._changed:
            while not self._stopped.is_set():
                now = time.monotonic()
                if due := [each for each, not_before in self._pending.items() if not_before <= now]:
                    return due
                times = list(self._pending.values())
                self._changed.wait(max(0.0, min(times) - now) if times else None)
            return None

    def _try_to_resolve(self, due: Collection[SharePartition]) -> None:
        try:
            self._resolve(due)
        except (BrokerUnavailable, UnknownTopic) as error:
            log.warning("the leaders of %d partitions are not found yet: %s", len(due), str(error).splitlines()[0])
            self._postpone(due, self._backoff)
        except PenstockError as error:
            self.failed(error)
            self._postpone(due, REFUSED_SECONDS)

    def _resolve(self, due: Collection[SharePartition]) -> None:
        metadata, _ = self._cluster.listing(sorted({each.tp.topic for each in due}))
        by_fetcher: dict[tuple[Broker, str], list[SharePartition]] = defaultdict(list)
        without: list[SharePartition] = []
        for each in due:
            leader, topic = metadata.leader(each.tp), metadata.topics.get(each.tp.topic)
            # A recreated topic has another id: the next assignment brings it.
            if leader is None or topic is None or topic.topic_id != each.key.topic_id:
                without.append(each)
            else:
                by_fetcher[leader.broker, each.member_id].append(each)
        self._postpone(without, self._backoff)
        with self._changed:
            if self._stopped.is_set():
                return
            for (broker, member_id), partitions in by_fetcher.items():
                led = [each for each in partitions if self._pending.pop(each, None) is not None]
                if led:
                    self._pass_to_fetcher(broker, member_id, led)
            self._ending = [fetcher for fetcher in self._ending if fetcher.alive]

    def _postpone(self, partitions: Collection[SharePartition], seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            self._pending.update({each: until for each in partitions if each in self._pending})

    def _pass_to_fetcher(self, broker: Broker, member_id: str, partitions: list[SharePartition]) -> None:
        """With the lock held."""
        key = (*broker.address, member_id)
        fetcher = self._fetchers.get(key)
        if fetcher is not None and fetcher.add(partitions):
            return
        if fetcher is not None:
            self._ending.append(fetcher)
        fetcher = self._fetchers[key] = self._new_fetcher(broker, member_id, self)
        fetcher.add(partitions)
        fetcher.start()
