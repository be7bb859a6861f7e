"""What happens in event time without a reader: partitions turn idle (E3), those held back are let go on (E4), and it is
time to tell the listener."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.event_time.alignment import EventTime
from penstock.consumer.event_time.watermark_listener import WatermarkTeller
from penstock.consumer.fetch.cursor import Cursor

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""How often it is looked who is idle, at the least. A look at 2,000 partitions takes some 2 ms."""


class WatermarkClock:
    """A thread of the connector's own; started and closed by it."""

    def __init__(self, config: ConsumerConfig, event_time: EventTime, cursors: Callable[[], Iterable[Cursor]]) -> None:
        self._event_time = event_time
        self._interval = config.watermark_interval
        self._cursors = cursors
        self._punctuated = event_time.strategy.marks is not None
        self.teller = WatermarkTeller(config.group, each=self._punctuated)
        event_time.on_punctuated = self.teller.tell
        self._tell_at = self._look_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-event-time-{config.group}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.teller.start()

    def close(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self.teller.close(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._stopped.wait(min(LOOK_SECONDS, self._interval)):
            now = time.monotonic()
            try:
                if now >= self._look_at:
                    self._look_at = now + LOOK_SECONDS / 2  # a wait may end a little early
                    self._event_time.look(self._cursors())
                self._event_time.let_go_on()
                self._tell(now)
            except Exception:  # the connector goes on without it, so it goes on, too
                log.exception("%s: a look at event time failed", self._thread.name)

    def _tell(self, now: float) -> None:
        # Of a punctuated strategy's the combined watermark still moves by itself when a partition turns idle.
        if (self._punctuated or now >= self._tell_at) and (combined := self._event_time.combined()) is not None:
            self._tell_at = now + self._interval
            self.teller.tell(combined)
