"""Prefetching (F16): a thread fetches one item ahead of the thread that emits.

One slot is between the two. The prefetching thread fills it and blocks while it is full, so memory stays bounded. An
error crosses over the same way, and is raised where the caller waits for records. Closing wakes both threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

from penstock.masking import get_logger

log = get_logger(__name__)
Item = TypeVar("Item")

JOIN_TIMEOUT = 30.0
"""Seconds. The prefetching thread is woken before it is joined; it ends within one decode call, in milliseconds."""


class PrefetchClosed(Exception):
    """The slot was closed: the prefetching thread must end. Not an error."""


class PrefetchSlot(Generic[Item]):
    """Holds one item between the prefetching and the emitting thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._items: list[Item] = []
        self._error: BaseException | None = None
        self._finished = False
        self._closed = False

    def put(self, item: Item) -> None:
        """Called by the prefetching thread. Blocks while the slot is full; raises PrefetchClosed once it is closed."""
        with self._condition:
            while self._items and not self._closed:
                self._condition.wait()
            if self._closed:
                raise PrefetchClosed
            self._items.append(item)
            self._condition.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """Called by the prefetching thread when it ends, with the error that ended it."""
        with self._condition:
            self._finished = True
            self._error = error
            self._condition.notify_all()

    def take(self, is_alive: Callable[[], bool]) -> Item | None:
        """Called by the emitting thread: the next item, None at the end. Raises the prefetching thread's error.

        Waits while the prefetching thread is alive: that thread has a deadline for everything it does.
        """
        with self._condition:
            while not self._items and not self._finished and not self._closed:
                if not self._condition.wait(timeout=1.0) and not is_alive() and not self._finished:
                    raise RuntimeError("the prefetching thread died without an error")
            if self._items:
                item = self._items.pop()
                self._condition.notify_all()
                return item
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Wake both threads. Any thread may call it."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._condition.notify_all()


def prefetch(produce: Callable[[], Iterable[Item]], wake: Callable[[], None], name: str) -> Generator[Item, None, None]:
    """Iterate `produce()` in a thread of its own, one item ahead. `wake` must unblock `produce` from outside.

    If the caller stops early (a LIMIT, an error downstream), the thread is woken and joined before this returns.
    """
    slot: PrefetchSlot[Item] = PrefetchSlot()

    def run() -> None:
        try:
            for item in produce():
                slot.put(item)
        except PrefetchClosed:
            slot.finish()
        except BaseException as error:
            slot.finish(error)
        else:
            slot.finish()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        while (item := slot.take(thread.is_alive)) is not None:
            yield item
    finally:
        slot.close()
        wake()
        thread.join(JOIN_TIMEOUT)
        if thread.is_alive():
            log.warning("thread %s did not end within %g s after it was stopped", name, JOIN_TIMEOUT)
