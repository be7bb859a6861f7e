"""Auto-commit (H15): commits the positions at every interval, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.config.consumer import ConsumerConfig
from penstock.errors import CommitRefused
from penstock.masking import get_logger

log = get_logger(__name__)


class AutoCommit:
    """Started and closed by the connector; does nothing if auto-commit is off."""

    def __init__(self, config: ConsumerConfig, commit: Callable[[], object]) -> None:
        self._interval = config.auto_commit_interval
        self._commit = commit
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        if config.auto_commit:
            self._thread = threading.Thread(target=self._run, name=f"penstock-commit-{config.group}", daemon=True)

    def start(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def close(self, timeout: float) -> None:
        self._stopped.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self._commit()
            except CommitRefused as error:
                log.info("auto-commit: %s", error)  # a rebalance is under way, and commits itself
            except Exception as error:
                if not self._stopped.is_set():
                    log.warning("auto-commit failed; the next one includes these offsets: %s", error)
