"""The brokers of one cluster: a connection to any of them, to one, or a question to several at once.

Asking again and again until a deadline is here too: what may heal (a lost connection, an answer that says "not yet")
is tried again, everything else is raised.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

from penstock.errors import ProtocolError
from penstock.wire.codes import NotYet
from penstock.wire.config import ClientConfig
from penstock.wire.connection import Connection, ConnectionLost, Pending
from penstock.wire.deadline import Attempts, Interrupted
from penstock.wire.metadata import Broker
from penstock.wire.pool import POOL

log = logging.getLogger(__name__)
Question = TypeVar("Question")
Answer = TypeVar("Answer")

HEALING = (ConnectionLost, NotYet, ProtocolError)

IMPATIENT_SECONDS = 1.0
"""For an answer that can be done without. A broker that is up answers within milliseconds; one that is down refuses at
once; only a machine that is gone, or a network that swallows packets, takes this long."""

AVOIDED_SECONDS = 10.0
"""How long a broker that let us wait is asked last for metadata, and not at all for what can be done without."""


class Brokers:
    """For one thread; only `abort` may come from another one, when `wait` has begun to return True."""

    def __init__(self, config: ClientConfig, wait: Callable[[float], object]) -> None:
        self.config = config
        self._wait = wait
        self._known: list[tuple[str, int]] = []
        self._avoided: dict[tuple[str, int], float] = {}
        self._held: list[Connection] = []

    def learn(self, brokers: Iterable[Broker]) -> None:
        """These are the cluster's brokers now."""
        self._known = [(broker.host, broker.port) for broker in brokers]

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        for connection in list(self._held):
            connection.abort()

    # --- until a deadline -----------------------------------------------------------------------------------------

    def attempts(self, what: str) -> Attempts:
        option = self.config.option
        return Attempts(
            what,
            self.config.api_timeout,
            backoff=self.config.retry_backoff,
            backoff_max=self.config.retry_backoff_max,
            way_out=f"Check {option('bootstrap.servers')} and {option('security.protocol')}, and that the brokers run. "
            f"To wait longer, set {option('default.api.timeout.ms')}",
            wait=self._wait,
        )

    def retry(self, attempts: Attempts, ask: Callable[[], Answer]) -> Answer:
        """Ask until there is an answer."""
        while True:
            try:
                return ask()
            except HEALING as error:
                if attempts.count == 0 and isinstance(error, ConnectionLost):
                    log.warning("%s: %s; trying for %g s", attempts.what, error, attempts.timeout)
                attempts.failed(str(error), error)
            attempts.pause()

    # --- whom to ask ----------------------------------------------------------------------------------------------

    @contextmanager
    def any(self, attempts: Attempts) -> Iterator[Connection]:
        """A connection to some broker: the known ones in random order, then the bootstrap list."""
        known = list(self._known)
        random.shuffle(known)
        if self._avoided:
            known.sort(key=self._avoids)
        addresses = [*known, *self.config.bootstrap]
        for host, port in addresses[:-1]:
            with suppress(ConnectionLost, ProtocolError):
                connection = self._acquire(host, port, attempts.remaining())
                break
        else:
            connection = self._acquire(*addresses[-1], attempts.remaining())
        with self._released(connection):
            yield connection

    @contextmanager
    def one(self, host: str, port: int, attempts: Attempts) -> Iterator[Connection]:
        with self._released(self._acquire(host, port, attempts.remaining())) as connection:
            yield connection

    def ask_each(
        self,
        questions: Mapping[Broker, Question],
        ask: Callable[[Connection, Question], Pending[Answer]],
        attempts: Attempts,
        impatient: Collection[Broker] = (),
        patience: float | None = None,
    ) -> Iterator[Answer]:
        """Ask several brokers at once: every question is sent before the first answer is read.

        One that fails is noted as a failed try and has no answer here. Those in `impatient` get little time, and none
        if they let us wait a moment ago; or all of them this much `patience`.
        """
        little = IMPATIENT_SECONDS if patience is None else patience
        with ExitStack() as stack:
            pending: list[tuple[Connection, Pending[Answer], bool]] = []
            for broker, question in questions.items():
                hurried = broker in impatient
                if hurried and patience is None and self._avoids((broker.host, broker.port)):
                    attempts.failed(f"{broker.host}:{broker.port} is not asked: it did not answer a moment ago")
                    continue
                try:
                    limit = attempts.remaining(little if hurried else float("inf"))
                    connection = stack.enter_context(self._released(self._acquire(broker.host, broker.port, limit)))
                    pending.append((connection, ask(connection, question), hurried))
                except HEALING as error:
                    attempts.failed(str(error), error)
            for connection, answer, hurried in pending:
                limit = attempts.remaining(little if hurried else self.config.request_timeout)
                try:
                    with self._noticed(connection.host, connection.port):
                        answered = answer(limit)
                except HEALING as error:
                    attempts.failed(str(error), error)
                else:
                    yield answered

    def _acquire(self, host: str, port: int, timeout: float) -> Connection:
        # To sleep for no time is not free: on a busy machine it hands the core to somebody else (0.3 ms).
        if self._wait is not time.sleep and self._wait(0):
            raise Interrupted
        with self._noticed(host, port):
            return POOL.acquire(self.config, host, port, timeout)

    @contextmanager
    def _released(self, connection: Connection) -> Iterator[Connection]:
        """Give a connection back afterwards; meanwhile `abort` reaches it."""
        self._held.append(connection)
        try:
            if self._wait is not time.sleep and self._wait(0):  # an abort that came while we were connecting
                raise Interrupted
            yield connection
        finally:
            self._held.remove(connection)
            POOL.release(connection)

    @contextmanager
    def _noticed(self, host: str, port: int) -> Iterator[None]:
        """Remember a broker that lets us wait for nothing."""
        started = time.monotonic()
        try:
            yield
        except ConnectionLost:
            now = time.monotonic()
            if now - started > IMPATIENT_SECONDS / 2:
                self._avoided[host, port] = now + AVOIDED_SECONDS
            raise

    def _avoids(self, address: tuple[str, int]) -> bool:
        until = self._avoided.get(address)
        if until is not None and until <= time.monotonic():
            del self._avoided[address]
            return False
        return until is not None
