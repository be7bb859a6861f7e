"""Calls the user's watermark listener in a thread of its own, so that a slow listener delays nothing else."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime

from penstock.consumer.event_time.batch import as_datetime
from penstock.masking import get_logger

log = get_logger(__name__)

MAX_WAITING = 1000
"""Watermarks of a punctuated strategy that wait for a slow listener. With more, the oldest are dropped: a newer
watermark includes them."""


class WatermarkNotifier:
    """Its thread runs once there is a listener. Every method may be called by any thread."""

    def __init__(self, group: str, *, each: bool) -> None:
        """`each`: pass on every watermark, in order. Otherwise only the newest: a slow listener misses some."""
        self._listener: Callable[[datetime], object] | None = None
        self._notified: int | None = None
        self._waiting: deque[int] = deque(maxlen=MAX_WAITING if each else 1)
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._open = self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-event-time-listener-{group}", daemon=True)

    @property
    def listener(self) -> Callable[[datetime], object] | None:
        return self._listener

    @listener.setter
    def listener(self, listener: Callable[[datetime], object] | None) -> None:
        self._listener = listener
        self._start_if_needed()

    def start(self) -> None:
        self._open = True
        self._start_if_needed()

    def close(self, timeout: float) -> None:
        """Stop calling the listener."""
        with self._lock:
            self._stopped = True
        self._wake.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def notify(self, watermark: int) -> None:
        """Pass a watermark on to the listener. Never blocks."""
        if self._listener is not None:
            self._waiting.append(watermark)
            self._wake.set()

    def _start_if_needed(self) -> None:
        with self._lock:
            if self._open and not self._stopped and self._listener is not None and self._thread.ident is None:
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._stopped:
                self._call(self._waiting.popleft())

    def _call(self, watermark: int) -> None:
        listener, moment = self._listener, as_datetime(watermark)
        if listener is None or moment is None or (self._notified is not None and watermark <= self._notified):
            return
        self._notified = watermark
        try:
            listener(moment)
        except Exception:
            log.exception("the watermark listener failed; the next watermark calls it again")
