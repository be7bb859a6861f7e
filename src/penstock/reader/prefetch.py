"""The handover (F16): one slot between the thread that fetches and the thread that emits.

The fetching thread fills the slot and blocks while it is full, so memory stays bounded; the emitting thread drains it.
An error crosses over the same way and is raised where the records were awaited. Closing wakes both sides.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)
Item = TypeVar("Item")

JOIN_TIMEOUT = 30.0
"""The fetching thread is woken before it is joined; it ends within one decode call, which takes milliseconds."""


class Closed(Exception):
    """The handover was closed under the fetching thread: not an error, a request to stop."""


class Handover(Generic[Item]):
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._slot: list[Item] = []
        self._error: BaseException | None = None
        self._finished = False
        self._closed = False

    def put(self, item: Item) -> None:
        """Called by the fetching thread: blocks while the slot is full; raises Closed when nobody wants more."""
        with self._condition:
            while self._slot and not self._closed:
                self._condition.wait()
            if self._closed:
                raise Closed
            self._slot.append(item)
            self._condition.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """Called by the fetching thread when it ends, with the error that ended it."""
        with self._condition:
            self._finished = True
            self._error = error
            self._condition.notify_all()

    def take(self, alive: Callable[[], bool]) -> Item | None:
        """Called by the emitting thread: the next item, None at the end; raises what the fetching thread met.

        Waits as long as the fetching thread lives: that one has a deadline for everything it does.
        """
        with self._condition:
            while not self._slot and not self._finished and not self._closed:
                if not self._condition.wait(timeout=1.0) and not alive() and not self._finished:
                    raise RuntimeError("the fetching thread died without a word")
            if self._slot:
                item = self._slot.pop()
                self._condition.notify_all()
                return item
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Called by the emitting thread, or by anyone: wakes both sides."""
        with self._condition:
            self._closed = True
            self._slot.clear()
            self._condition.notify_all()


def run_ahead(
    produce: Callable[[], Iterable[Item]], wake: Callable[[], None], name: str
) -> Generator[Item, None, None]:
    """Iterate `produce()` in a thread of its own, one item ahead. `wake` must unblock `produce` from outside.

    When the caller stops early (a LIMIT, an error downstream) the thread is woken and joined before this returns.
    """
    handover: Handover[Item] = Handover()

    def fetch() -> None:
        try:
            for item in produce():
                handover.put(item)
        except Closed:
            handover.finish()
        except BaseException as error:
            handover.finish(error)
        else:
            handover.finish()

    thread = threading.Thread(target=fetch, name=name, daemon=True)
    thread.start()
    try:
        while (item := handover.take(thread.is_alive)) is not None:
            yield item
    finally:
        handover.close()
        wake()
        thread.join(JOIN_TIMEOUT)
        if thread.is_alive():
            log.warning("%s did not end within %g s of being told to", name, JOIN_TIMEOUT)
