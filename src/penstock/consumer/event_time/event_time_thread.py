"""The thread for what event time needs between reads: it detects idle partitions (E3), resumes those that were held
back (E4), and notifies the watermark listener."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.event_time.watermark_notifier import WatermarkNotifier
from penstock.consumer.fetch.cursor import Cursor
from penstock.masking import get_logger

log = get_logger(__name__)

IDLE_CHECK_SECONDS = 0.2
"""The longest interval between two checks for idle partitions. Checking 2,000 partitions takes about 2 ms."""


class EventTimeThread:
    """Started and closed by the connector."""

    def __init__(self, config: ConsumerConfig, tracker: SharedTracker, cursors: Callable[[], Iterable[Cursor]]) -> None:
        self._tracker = tracker
        self._interval = config.watermark_interval
        self._cursors = cursors
        self._punctuated = tracker.strategy.marks is not None
        self.notifier = WatermarkNotifier(config.group, each=self._punctuated)
        tracker.on_punctuated = self.notifier.notify
        self._notify_at = self._check_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-event-time-{config.group}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.notifier.start()

    def close(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self.notifier.close(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._stopped.wait(min(IDLE_CHECK_SECONDS, self._interval)):
            now = time.monotonic()
            try:
                if now >= self._check_at:
                    self._check_at = now + IDLE_CHECK_SECONDS / 2  # a wait may end a little early
                    self._tracker.check_idle(self._cursors())
                self._tracker.resume_caught_up()
                self._notify(now)
            except Exception:  # the streams continue without this thread, so it must not end
                log.exception("%s: checking event time failed", self._thread.name)

    def _notify(self, now: float) -> None:
        # The combined watermark of a punctuated strategy also moves without records, when a partition turns idle.
        if (self._punctuated or now >= self._notify_at) and (combined := self._tracker.combined()) is not None:
            self._notify_at = now + self._interval
            self.notifier.notify(combined)
