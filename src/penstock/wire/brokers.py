"""The brokers of one cluster: requests to any of them, to all but one, to several at once.

Retries are here too. Lost connections and retriable answers are tried again until a deadline; other errors are raised.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from penstock.errors import PenstockError, ProtocolError
from penstock.masking import get_logger
from penstock.wire.api.error_codes import RebootstrapRequired, RetriableError
from penstock.wire.api.find_coordinator import GROUP, find_coordinator
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.broker_wait import OVERDUE_SECONDS, OverdueCheck
from penstock.wire.transport.connection import Connection, ConnectionLost, Pending
from penstock.wire.transport.pool import POOL
from penstock.wire.transport.retry import Attempts, Interrupted
from penstock.wire.transport.security import Security

log = get_logger(__name__)
Question = TypeVar("Question")
Answer = TypeVar("Answer")

RETRIABLE_ERRORS = (ConnectionLost, RetriableError, ProtocolError)

OPTIONAL_SECONDS = 1.0
"""For an answer that is optional. A broker that is up answers within milliseconds, one that is down refuses at once.
Only a machine that is gone, or a network that drops packets, takes this long."""

AVOIDED_SECONDS = 10.0
"""After a broker did not answer: so long it is the last to be asked for metadata, and is not asked for optional
answers."""

OVERDUE_CHECK_SECONDS = 2 * OVERDUE_SECONDS
"""For asking other brokers about one whose answer is overdue. One of them may hang, too."""

_LEARNED: dict[tuple[tuple[tuple[str, int], ...], Security], list[tuple[str, int]]] = {}
"""The brokers of each cluster that this process has asked for metadata. An entry is replaced as a whole, by any
thread."""


class Brokers:
    """For one thread; only `abort` may come from another one, when `wait` has begun to return True."""

    def __init__(
        self, config: ClientConfig, wait: Callable[[float], object], on_error: Callable[[], None] | None = None
    ) -> None:
        """`on_error` is called when an attempt of `attempts` fails with an error."""
        self.config = config
        self._wait = wait
        self._on_error = on_error
        self._known: list[tuple[str, int]] = []
        self._avoided: dict[tuple[str, int], float] = {}
        self._unanswered_since: float | None = None
        """When the first broker failed to answer a question of `ask_any` since the last answer to one."""
        self._held: list[Connection] = []

    def learn(self, brokers: Iterable[Broker]) -> None:
        """Note the brokers that the cluster lists now."""
        self._known = [broker.address for broker in brokers]
        _LEARNED[self.config.bootstrap, self.config.security] = self._known

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        for connection in list(self._held):
            connection.abort()

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Interrupted if the owner is closing."""
        if self._wait(seconds):
            raise Interrupted

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
            hint_if_answered="The brokers answer, but refuse for now: the last attempt says why. To wait longer, set "
            f"{option('default.api.timeout.ms')}",
            wait=self._wait,
            on_error=self._on_error,
        )

    def retry(self, attempts: Attempts, ask: Callable[[], Answer]) -> Answer:
        """Ask until there is an answer."""
        while True:
            try:
                return ask()
            except RETRIABLE_ERRORS as error:
                if attempts.count == 0 and isinstance(error, ConnectionLost):
                    log.warning("%s: %s; trying for %g s", attempts.what, error, attempts.timeout)
                attempts.failed(str(error), error)
            attempts.pause()

    # --- which brokers are asked ----------------------------------------------------------------------------------

    def ask_any(self, attempts: Attempts, ask: Callable[[Connection, float], Answer]) -> Answer:
        """Ask for something that every broker knows: one broker after the other, until one answers.

        The known brokers come in random order, then the bootstrap servers. A broker that hangs must not keep us from
        the others, and all of them may be slow. So each may be silent for as long as this call has taken so far, and
        the answer is late by a factor of two at most. Known brokers that have not answered for a long time, or that
        say that they are the wrong ones, are forgotten: only the bootstrap servers are asked then.
        """
        addresses = self._addresses()
        starts_again = self.config.rebootstrap
        while True:
            host, port = addresses.pop(0)
            try:
                answer = self._ask_one(host, port, attempts, ask, is_last=not addresses)
            except (ConnectionLost, ProtocolError, RebootstrapRequired) as error:
                if starts_again and (isinstance(error, RebootstrapRequired) or self._has_lost_all()):
                    starts_again, addresses = False, self._rebootstrap(str(error))
                if not addresses:
                    raise
            except BaseException:  # this broker has answered
                self._unanswered_since = None
                raise
            else:
                self._unanswered_since = None
                return answer

    def _ask_one(
        self, host: str, port: int, attempts: Attempts, ask: Callable[[Connection, float], Answer], is_last: bool
    ) -> Answer:
        """Ask a broker for something that others know, too."""
        if self._unanswered_since is None:
            self._unanswered_since = time.monotonic()
        timeout = attempts.remaining(self.config.request_timeout)
        patience = min(attempts.elapsed, self._rebootstrap_in() if self.config.rebootstrap else float("inf"))
        check = None if is_last else _leave_after(patience)
        with self._noticed(host, port), self._released(self._acquire(host, port, timeout, check)) as connection:
            return ask(connection, attempts.remaining(self.config.request_timeout))

    def _rebootstrap_in(self) -> float:
        """Seconds until the known brokers are forgotten, if none of them answers."""
        if self._unanswered_since is None:
            return self.config.rebootstrap_after
        return max(0.0, self._unanswered_since + self.config.rebootstrap_after - time.monotonic())

    def _has_lost_all(self) -> bool:
        """Whether brokers are known, and none has answered for the time after which they are forgotten."""
        learned = (self.config.bootstrap, self.config.security) in _LEARNED
        return self._rebootstrap_in() <= 0 and (bool(self._known) or learned)

    def _rebootstrap(self, reason: str) -> list[tuple[str, int]]:
        """Forget the known brokers, and return the bootstrap servers (KIP-899, KIP-1102)."""
        log.warning("starting from %s again: %s", self.config.bootstrap_text, reason)
        self._known = []
        self._avoided.clear()
        self._unanswered_since = None
        _LEARNED.pop((self.config.bootstrap, self.config.security), None)
        POOL.forget_cluster(self.config)
        return list(self.config.bootstrap)

    def ask_others(self, than: tuple[str, int], what: str, ask: Callable[[Connection, float], Answer]) -> Answer | None:
        """Ask other brokers about one whose answer is overdue. Takes little time; None if no other broker answers."""
        self._avoided[than] = time.monotonic() + AVOIDED_SECONDS
        attempts = self.attempts(what, OVERDUE_CHECK_SECONDS)
        for host, port in self._addresses():
            if (host, port) == than or attempts.expired():
                continue
            timeout = attempts.remaining(OVERDUE_SECONDS)
            try:
                with self._noticed(host, port), self._released(self._acquire(host, port, timeout)) as connection:
                    return ask(connection, timeout)
            except RetriableError as error:
                log.debug("%s: %s", what, error)
                if isinstance(error, RebootstrapRequired) and self.config.rebootstrap:
                    self._rebootstrap(str(error))
                return None
            except PenstockError as error:
                log.debug("%s: %s", what, error)
        return None

    def find_coordinator(self, attempts: Attempts, name: str, kind: int = GROUP) -> Broker:
        """The broker that coordinates a group, or a transactional id."""
        return self.ask_any(attempts, lambda connection, timeout: find_coordinator(connection, name, timeout, kind))

    @contextmanager
    def coordinator(self, broker: Broker, attempts: Attempts, name: str, kind: int = GROUP) -> Iterator[Connection]:
        """A connection to a coordinator. It is lost if an answer is overdue and another broker coordinates by then."""

        def check() -> str | None:
            now = self.ask_others(
                broker.address,
                f"asking others than {broker.host}:{broker.port} for the coordinator of {name!r}",
                lambda connection, timeout: find_coordinator(connection, name, timeout, kind),
            )
            return None if now is None or now.address == broker.address else f"{now.host}:{now.port} coordinates now"

        with self._released(self._acquire(broker.host, broker.port, attempts.remaining(), check)) as connection:
            yield connection

    def _addresses(self) -> list[tuple[str, int]]:
        """All brokers; those that did not answer a moment ago come last.

        Brokers that other clients of this process have learned come after the bootstrap servers, which may all be down.
        Not every client asks for metadata.
        """
        known = list(self._known)
        random.shuffle(known)
        if known and not self.config.rebootstrap:
            return sorted(known, key=self._avoids)
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
        optional: Collection[Broker] = (),
        optional_seconds: float | None = None,
        overdue_check: Callable[[Broker, Question], str | None] | None = None,
    ) -> Iterator[Answer]:
        """Ask several brokers at once: every request is sent before the first response is read.

        A broker that fails counts as a failed attempt, and yields no answer. `optional` brokers get little time, and
        are not asked if they did not answer a moment ago; with `optional_seconds`, all of them are asked and get that
        time. `overdue_check` is called about a broker whose answer is overdue.
        """
        little = OPTIONAL_SECONDS if optional_seconds is None else optional_seconds
        with ExitStack() as stack:
            pending: list[tuple[Connection, Pending[Answer], bool]] = []
            for broker, question in questions.items():
                is_optional = broker in optional
                if is_optional and optional_seconds is None and self._avoids(broker.address):
                    attempts.failed(f"{broker.host}:{broker.port} is not asked: it did not answer a moment ago")
                    continue
                try:
                    limit = attempts.remaining(little if is_optional else float("inf"))
                    check = None if overdue_check is None else partial(overdue_check, broker, question)
                    acquired = self._acquire(broker.host, broker.port, limit, check)
                    connection = stack.enter_context(self._released(acquired))
                    pending.append((connection, ask(connection, question), is_optional))
                except RETRIABLE_ERRORS as error:
                    attempts.failed(str(error), error)
            for connection, answer, is_optional in pending:
                limit = attempts.remaining(little if is_optional else self.config.request_timeout)
                try:
                    with self._noticed(connection.host, connection.port):
                        answered = answer(limit)
                    self._avoided.pop((connection.host, connection.port), None)
                except RETRIABLE_ERRORS as error:
                    attempts.failed(str(error), error)
                else:
                    yield answered

    def _acquire(self, host: str, port: int, timeout: float, check: OverdueCheck | None = None) -> Connection:
        if self._aborted():
            raise Interrupted
        with self._noticed(host, port):
            return POOL.acquire(self.config, host, port, timeout, self._until_aborted(check))

    def _aborted(self) -> bool:
        # Sleeping for 0 s is not free: on a busy machine it gives the core to another process (0.3 ms).
        return self._wait is not time.sleep and bool(self._wait(0))

    def _until_aborted(self, check: OverdueCheck | None) -> OverdueCheck | None:
        """Ends the wait of a thread that is still connecting: `abort` does not reach a connection before it is made."""
        if self._wait is time.sleep:
            return check

        def aborted_or_overdue() -> str | None:
            if self._aborted():
                return "the client is closing"
            return None if check is None else check()

        return aborted_or_overdue

    @contextmanager
    def _released(self, connection: Connection) -> Iterator[Connection]:
        """Return a connection to the pool afterwards; meanwhile `abort` reaches it."""
        self._held.append(connection)
        try:
            if self._aborted():  # an abort that came while we were connecting
                raise Interrupted
            yield connection
        finally:
            self._held.remove(connection)
            POOL.release(connection)

    @contextmanager
    def _noticed(self, host: str, port: int) -> Iterator[None]:
        """Remember a broker that took its time and did not answer."""
        started = time.monotonic()
        try:
            yield
        except ConnectionLost:
            now = time.monotonic()
            if now - started > OPTIONAL_SECONDS / 2:
                self._avoided[host, port] = now + AVOIDED_SECONDS
            raise

    def is_avoided(self, broker: Broker) -> bool:
        """Whether this broker did not answer a moment ago."""
        return self._avoids(broker.address)

    def _avoids(self, address: tuple[str, int]) -> bool:
        until = self._avoided.get(address)
        if until is not None and until <= time.monotonic():
            del self._avoided[address]
            return False
        return until is not None


def _leave_after(seconds: float) -> OverdueCheck:
    """Ends the wait for a broker after this time, if other brokers can answer too."""
    until = time.monotonic() + seconds
    return lambda: "others can answer, too" if time.monotonic() >= until else None
