"""Collects snapshots of a cluster in its own thread."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from penstock.masking import get_logger
from penstock.monitor.request_budget import RequestBudget
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import Snapshot
from penstock.wire.client_config import ClientConfig
from penstock.wire.survey import Survey
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

CLOSE_SECONDS = 30.0
"""For a request that is under way. `abort` wakes its thread, so that it rarely takes more than milliseconds."""


class Collector:
    """Owned by the one who starts it; closing it ends its thread. Any thread may read snapshots.

    However many readers there are, the cluster gets at most `requests_per_second` requests.
    """

    def __init__(self, client: ClientConfig, settings: MonitorSettings | None = None) -> None:
        self.settings = settings or MonitorSettings()
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._snapshot: Snapshot | None = None
        self._failure: BaseException | None = None
        self._budget = RequestBudget(self.settings.requests_per_second, self._closing.wait, time.monotonic)
        self._survey = Survey(client, self._closing.wait, self._budget.spend)
        self._rounds = Rounds(self._survey, self.settings, lambda: self._budget.spent)
        self._thread = threading.Thread(target=self._run, name="penstock-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread. May be called more than once."""
        self._closing.set()
        self._survey.abort()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot | None:
        """The last snapshot; None before the first round has ended. Raises the error that ended the thread."""
        if self._failure is not None:
            raise self._failure
        return self._snapshot

    def wait_for(self, after: int, timeout: float) -> Snapshot | None:
        """The first snapshot with a number above `after`. None if there is none in time, or the collector is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing.is_set() or self._failure is not None or self._number() > after, timeout
            )
            newest = self.snapshot
            return newest if newest is not None and newest.number > after else None

    def _number(self) -> int:
        return 0 if self._snapshot is None else self._snapshot.number

    def _run(self) -> None:
        """The thread of the collector."""
        try:
            while not self._closing.is_set():
                began = time.monotonic()
                snapshot = self._rounds.run()
                with self._changed:
                    self._snapshot = snapshot
                    self._changed.notify_all()
                self._closing.wait(max(0.0, began + self.settings.interval - time.monotonic()))
        except Interrupted:
            pass
        except Exception as error:  # a bug: readers of snapshots get it
            log.exception("the monitor has failed")
            with self._changed:
                self._failure = error
                self._changed.notify_all()
