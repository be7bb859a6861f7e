"""The brokers of one cluster: a question to any of them, to all but one, to several at once; a connection to one.

Asking again and again until a deadline is here too: what may heal (a lost connection, an answer that says "not yet")
is tried again, everything else is raised.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from penstock.errors import PenstockError, ProtocolError
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.find_coordinator import GROUP, find_coordinator
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, ConnectionLost, Pending
from penstock.wire.transport.patience import OVERDUE_SECONDS, Doubt
from penstock.wire.transport.pool import POOL
from penstock.wire.transport.retry import Attempts, Interrupted
from penstock.wire.transport.security import Security

log = logging.getLogger(__name__)
Question = TypeVar("Question")
Answer = TypeVar("Answer")

HEALING = (ConnectionLost, RetriableError, ProtocolError)

IMPATIENT_SECONDS = 1.0
"""For an answer that can be done without. A broker that is up answers within milliseconds; one that is down refuses at
once; only a machine that is gone, or a network that swallows packets, takes this long."""

AVOIDED_SECONDS = 10.0
"""How long a broker that let us wait is asked last for metadata, and not at all for what can be done without."""

DOUBT_SECONDS = 2 * OVERDUE_SECONDS
"""For asking others about a broker that lets us wait. One of them may hang, too."""

_LEARNED: dict[tuple[tuple[tuple[str, int], ...], Security], list[tuple[str, int]]] = {}
"""The brokers of each cluster that this process has asked for metadata. One entry is replaced as a whole, by any
thread."""


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
        self._known = [broker.address for broker in brokers]
        _LEARNED[self.config.bootstrap, self.config.security] = self._known

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        for connection in list(self._held):
            connection.abort()

    # --- until a deadline -----------------------------------------------------------------------------------------

    def attempts(self, what: str, timeout: float | None = None) -> Attempts:
        option = self.config.option
        return Attempts(
            what,
            self.config.api_timeout if timeout is None else timeout,
            backoff=self.config.retry_backoff,
            backoff_max=self.config.retry_backoff_max,
            hint=f"Check {option('bootstrap.servers')} and {option('security.protocol')}, and that the brokers run. "
            f"To wait longer, set {option('default.api.timeout.ms')}",
            way_out_answered="The brokers answer, and refuse for now: the last try says why. To wait longer, set "
            f"{option('default.api.timeout.ms')}",
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

    def ask_any(self, attempts: Attempts, ask: Callable[[Connection, float], Answer]) -> Answer:
        """Ask what every broker can answer: one after the other, until one does.

        The known ones come in random order, then the bootstrap list. One that hangs must not keep us from the others,
        and all of them may be slow: each may be silent for as long as all this has taken so far, so that the answer is
        late by a factor of two at most.
        """
        addresses = self._addresses()
        for host, port in addresses:
            timeout = attempts.remaining(self.config.request_timeout)
            doubt = _impatience(attempts.elapsed) if len(addresses) > 1 else None
            try:
                with self._noticed(host, port), self._released(self._acquire(host, port, timeout, doubt)) as connection:
                    return ask(connection, attempts.remaining(self.config.request_timeout))
            except (ConnectionLost, ProtocolError):
                if (host, port) == addresses[-1]:
                    raise
        raise AssertionError("there is no broker to ask")

    def ask_others(self, than: tuple[str, int], what: str, ask: Callable[[Connection, float], Answer]) -> Answer | None:
        """Ask about a broker that lets us wait, in little time: None if no other one says anything."""
        self._avoided[than] = time.monotonic() + AVOIDED_SECONDS
        attempts = self.attempts(what, DOUBT_SECONDS)
        for host, port in self._addresses():
            if (host, port) == than or attempts.expired():
                continue
            timeout = attempts.remaining(OVERDUE_SECONDS)
            try:
                with self._noticed(host, port), self._released(self._acquire(host, port, timeout)) as connection:
                    return ask(connection, timeout)
            except RetriableError as error:
                log.debug("%s: %s", what, error)
                return None
            except PenstockError as error:
                log.debug("%s: %s", what, error)
        return None

    def find_coordinator(self, attempts: Attempts, name: str, kind: int = GROUP) -> Broker:
        """Who coordinates a group, or a transactional id."""
        return self.ask_any(attempts, lambda connection, timeout: find_coordinator(connection, name, timeout, kind))

    @contextmanager
    def coordinator(self, broker: Broker, attempts: Attempts, name: str, kind: int = GROUP) -> Iterator[Connection]:
        """A connection to a coordinator: lost when its answer is overdue and another one has taken its place."""

        def doubt() -> str | None:
            now = self.ask_others(
                broker.address,
                f"asking others than {broker.host}:{broker.port} who coordinates {name!r} now",
                lambda connection, timeout: find_coordinator(connection, name, timeout, kind),
            )
            return None if now is None or now.address == broker.address else f"{now.host}:{now.port} coordinates now"

        with self._released(self._acquire(broker.host, broker.port, attempts.remaining(), doubt)) as connection:
            yield connection

    def _addresses(self) -> list[tuple[str, int]]:
        """All brokers, those that let us wait a moment ago last.

        What others in this process have learned comes at the end: the bootstrap servers may all be down, and not every
        client asks for metadata.
        """
        known = list(self._known)
        random.shuffle(known)
        learned = _LEARNED.get((self.config.bootstrap, self.config.security), ())
        addresses = list(dict.fromkeys([*known, *self.config.bootstrap, *learned]))
        if self._avoided:
            addresses.sort(key=self._avoids)
        return addresses

    def ask_each(
        self,
        questions: Mapping[Broker, Question],
        ask: Callable[[Connection, Question], Pending[Answer]],
        attempts: Attempts,
        impatient: Collection[Broker] = (),
        patience: float | None = None,
        doubt: Callable[[Broker, Question], str | None] | None = None,
    ) -> Iterator[Answer]:
        """Ask several brokers at once: every question is sent before the first answer is read.

        One that fails is noted as a failed try and has no answer here. Those in `impatient` get little time, and none
        if they let us wait a moment ago; or all of them this much `patience`. `doubt` is asked about a broker whose
        answer is overdue.
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
                    doubted = None if doubt is None else partial(doubt, broker, question)
                    acquired = self._acquire(broker.host, broker.port, limit, doubted)
                    connection = stack.enter_context(self._released(acquired))
                    pending.append((connection, ask(connection, question), hurried))
                except HEALING as error:
                    attempts.failed(str(error), error)
            for connection, answer, hurried in pending:
                limit = attempts.remaining(little if hurried else self.config.request_timeout)
                try:
                    with self._noticed(connection.host, connection.port):
                        answered = answer(limit)
                    self._avoided.pop((connection.host, connection.port), None)
                except HEALING as error:
                    attempts.failed(str(error), error)
                else:
                    yield answered

    def _acquire(self, host: str, port: int, timeout: float, doubt: Doubt | None = None) -> Connection:
        # To sleep for no time is not free: on a busy machine it hands the core to somebody else (0.3 ms).
        if self._wait is not time.sleep and self._wait(0):
            raise Interrupted
        with self._noticed(host, port):
            return POOL.acquire(self.config, host, port, timeout, doubt)

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


def _impatience(seconds: float) -> Doubt:
    """Leaves a broker that others can stand in for when it has been waited for so long."""
    until = time.monotonic() + seconds
    return lambda: "others can answer, too" if time.monotonic() >= until else None
