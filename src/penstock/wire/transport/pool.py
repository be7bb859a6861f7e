"""Connections and receive buffers that a process keeps for the next task.

Spark reuses its Python workers, so they stay from task to task and from micro-batch to micro-batch. The caller that
acquires a connection owns it until it is released. A thread closes idle connections, and ends when there are none.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import defaultdict
from weakref import WeakSet

from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.broker_wait import OverdueCheck
from penstock.wire.transport.connection import Connection

BUFFERS_KEPT = 4
"""Two per running read. A worker runs one task at a time, and a plain Python program rarely more than two."""

BUFFER_KEPT_BYTES = 32 << 20
"""A larger buffer, which a huge record needed, is not kept."""


class Pool:
    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Start empty. Also after a fork: the sockets belong to the parent, and its reaper thread was not copied."""
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._idle: dict[tuple[ClientConfig, str, int], list[Connection]] = defaultdict(list)
        self._made: WeakSet[Connection] = WeakSet()
        self._buffers: list[bytearray] = []
        self._reaper: threading.Thread | None = None

    def acquire(
        self, config: ClientConfig, host: str, port: int, timeout: float, overdue_check: OverdueCheck | None = None
    ) -> Connection:
        """A connection, kept or new. Until it is released, `overdue_check` is called while an answer is overdue."""
        with self._lock:
            kept = self._idle[config, host, port]
            while kept:
                connection = kept.pop()
                if connection.reusable:
                    connection.overdue_check = overdue_check
                    return connection
                connection.close()
        made = Connection(host, port, config, timeout, overdue_check)
        with self._lock:
            self._made.add(made)
        return made

    def release(self, connection: Connection) -> None:
        """Return a connection. If a response is unread, the connection is closed instead."""
        connection.overdue_check = None
        if not connection.reusable:
            connection.close()
            return
        with self._lock:
            if self._reaper is None:
                reaper = threading.Thread(target=self._reap, name="penstock-idle-connections", daemon=True)
                try:
                    reaper.start()
                except RuntimeError:  # the interpreter shuts down, and starts no more threads
                    connection.close()
                    return
                self._reaper = reaper
            self._idle[connection.config, connection.host, connection.port].append(connection)

    def forget_cluster(self, config: ClientConfig) -> None:
        """Close the idle connections to the brokers of a cluster: the next ones resolve names again."""
        with self._lock:
            for key in list(self._idle):
                if key[0].bootstrap == config.bootstrap and key[0].security == config.security:
                    for connection in self._idle.pop(key):
                        connection.close()

    def acquire_buffer(self, size: int) -> bytearray:
        with self._lock:
            return self._buffers.pop() if self._buffers else bytearray(size)

    def release_buffer(self, buffer: bytearray) -> None:
        with self._lock:
            if len(self._buffers) < BUFFERS_KEPT and len(buffer) <= BUFFER_KEPT_BYTES:
                self._buffers.append(buffer)

    def open_count(self, config: ClientConfig | None = None) -> int:
        """The connections that are open, idle or not: those of this process, or of one client."""
        with self._lock:
            made = list(self._made)
        return sum(1 for each in made if each.is_open and (config is None or _same_client(each.config, config)))

    def idle_count(self) -> int:
        with self._lock:
            return sum(len(kept) for kept in self._idle.values())

    def close(self) -> None:
        """Close everything idle and end the reaper."""
        with self._lock:
            reaper, self._reaper = self._reaper, None
            for kept in self._idle.values():
                for connection in kept:
                    connection.close()
            self._idle.clear()
            self._buffers.clear()
            self._wake.notify_all()
        if reaper is not None:
            reaper.join(timeout=5)

    def _reap(self) -> None:
        """Runs in the reaper thread until nothing is idle."""
        me = threading.current_thread()
        with self._lock:
            while self._reaper is me:
                now = time.monotonic()
                soonest = now + 60.0
                for key, kept in list(self._idle.items()):
                    for connection in list(kept):
                        due = connection.last_used + key[0].idle_timeout
                        if due <= now:
                            kept.remove(connection)
                            connection.close()
                        else:
                            soonest = min(soonest, due)
                    if not kept:
                        del self._idle[key]
                if not self._idle:
                    self._buffers.clear()
                    self._reaper = None
                    return
                self._wake.wait(soonest - now)


def _same_client(one: ClientConfig, other: ClientConfig) -> bool:
    """Whether two configurations are of one client: some of its requests have other time-outs."""
    return (one.bootstrap, one.security, one.client_id) == (other.bootstrap, other.security, other.client_id)


POOL = Pool()
atexit.register(POOL.close)
os.register_at_fork(after_in_child=POOL._forget)
