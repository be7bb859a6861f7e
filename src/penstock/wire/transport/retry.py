"""Retries until a deadline: growing pauses, and the history that the final error shows."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from penstock.errors import BrokerUnavailable
from penstock.wire.api.error_codes import RetriableError

HISTORY_KEPT = 12
"""The first and the last attempts explain a failure; a minute of backoff makes about a hundred between them."""


class Interrupted(Exception):
    """The owner is closing: stop trying. Not an error."""


class Attempts:
    """Attempts at one thing until a deadline. `pause` sleeps between two attempts and raises when time is up.

    `wait` is how to sleep. It returns True, early, when the owner is closing; then `pause` raises Interrupted, so that
    a shutdown does not wait for a backoff.
    """

    def __init__(
        self,
        what: str,
        timeout: float,
        *,
        backoff: float = 0.1,
        backoff_max: float = 1.0,
        hint: str = "",
        hint_if_answered: str | None = None,
        wait: Callable[[float], object] = time.sleep,
        on_error: Callable[[], None] | None = None,
    ) -> None:
        """`hint_if_answered` replaces `hint` if a broker answered the last attempt, and refused.

        `on_error` is called when an attempt fails with an error.
        """
        self.what = what
        self.timeout = timeout
        self._hint = hint
        self._hint_if_answered = hint if hint_if_answered is None else hint_if_answered
        self._first_backoff = backoff
        self._backoff_max = backoff_max
        self._wait = wait
        self._on_error = on_error
        self.reset()

    def reset(self) -> None:
        """An attempt succeeded: restart the time, the backoff and the history."""
        self._started = time.monotonic()
        self._deadline = self._started + self.timeout
        self._backoff = self._first_backoff
        self._history: list[str] = []
        self._dropped = 0
        self._last_cause: BaseException | None = None
        self._last_reason: str | None = None

    @property
    def count(self) -> int:
        """Failed attempts since the last success."""
        return len(self._history) + self._dropped

    @property
    def last_problem(self) -> str:
        """The problem of the last failed attempt."""
        return self._history[-1] if self._history else "no answer"

    @property
    def last_reason(self) -> str:
        """The same, without the time at which it was."""
        return "no answer" if self._last_reason is None else self._last_reason

    @property
    def elapsed(self) -> float:
        """Seconds since the first attempt, or since the last success."""
        return time.monotonic() - self._started

    def remaining(self, at_most: float = float("inf")) -> float:
        """Seconds left, never below a millisecond: a socket time-out of 0 would mean "do not block"."""
        return max(0.001, min(at_most, self._deadline - time.monotonic()))

    def expired(self) -> bool:
        return time.monotonic() >= self._deadline

    def failed(self, problem: str, cause: BaseException | None = None) -> None:
        """Note a failed attempt."""
        if cause is not None and self._on_error is not None:
            self._on_error()
        self._last_cause, self._last_reason = cause, problem
        after = time.monotonic() - self._started
        self._history.append(f"after {after:.1f} s: {problem}")
        if len(self._history) > HISTORY_KEPT:
            del self._history[HISTORY_KEPT // 2]
            self._dropped += 1

    def pause(self) -> None:
        """Back off before the next attempt; raises BrokerUnavailable when the deadline has passed."""
        if self.expired():
            raise self.give_up()
        self.back_off()

    def back_off(self) -> None:
        """Back off without a check of the deadline: the caller decides what a passed deadline means."""
        # Jitter of a quarter keeps the tasks of a job from asking a recovering broker in step.
        if self._wait(min(self._backoff * random.uniform(0.75, 1.25), self.remaining())):  # noqa: S311
            raise Interrupted
        self._backoff = min(self._backoff * 2, self._backoff_max)

    def give_up(self) -> BrokerUnavailable:
        """The error that ends the attempts, with their history."""
        lines = list(self._history)
        if self._dropped:
            lines.insert(HISTORY_KEPT // 2, f"... {self._dropped} more attempts ...")
        hint = self._hint_if_answered if isinstance(self._last_cause, RetriableError) else self._hint
        error = BrokerUnavailable(f"{self.what}: not done within {self.timeout:g} s", lines, hint)
        error.__cause__ = self._last_cause
        return error
