"""What happens in event time without a reader: partitions turn idle (E3), those held back are let go on (E4), and the
listener is told."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime

from penstock.consumer.config import ConsumerConfig
from penstock.consumer.cursor import Cursor
from penstock.consumer.event_batch import as_datetime
from penstock.consumer.event_time import EventTime

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""How often it is looked who is idle, at the least. A look at 2,000 partitions takes some 2 ms."""


class WatermarkClock:
    """A thread of the connector's own; started and closed by it."""

    def __init__(self, config: ConsumerConfig, event_time: EventTime, cursors: Callable[[], Iterable[Cursor]]) -> None:
        self._event_time = event_time
        self._interval = config.watermark_interval
        self._cursors = cursors
        self.listener: Callable[[datetime], object] | None = None
        self._told: int | None = None
        self._to_tell: deque[int] = deque()
        """What a punctuated strategy has found, in order."""
        self._tell_at = self._look_at = 0.0
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-event-time-{config.group}", daemon=True)
        self._punctuated = event_time.strategy.marks is not None
        event_time.on_punctuated = self._found

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _found(self, watermark: int) -> None:
        """Called by readers."""
        if self.listener is not None:
            self._to_tell.append(watermark)
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(min(LOOK_SECONDS, self._interval))
            self._wake.clear()
            now = time.monotonic()
            try:
                if now >= self._look_at:
                    self._look_at = now + LOOK_SECONDS / 2  # a wait may end a little early
                    self._event_time.look(self._cursors())
                self._event_time.release_held()
                self._tell(now)
            except Exception:  # the connector goes on without it, so it goes on, too
                log.exception("%s: a look at event time failed", self._thread.name)

    def _tell(self, now: float) -> None:
        while self._to_tell:
            self._call(self._to_tell.popleft())
        # Of a punctuated strategy's the combined watermark still moves by itself when a partition turns idle.
        if (self._punctuated or now >= self._tell_at) and (combined := self._event_time.combined()) is not None:
            self._tell_at = now + self._interval
            self._call(combined)

    def _call(self, watermark: int) -> None:
        listener = self.listener
        if self._stopped or listener is None or (self._told is not None and watermark <= self._told):
            return
        self._told = watermark
        try:
            told = as_datetime(watermark)
            assert told is not None
            listener(told)
        except Exception:
            log.exception("the watermark listener failed; it is called again with the next one")
