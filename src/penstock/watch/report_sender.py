"""Sends the reports of streaming queries to a page that runs elsewhere, in its own thread."""

from __future__ import annotations

import atexit
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from penstock.errors import PenstockError
from penstock.masking import get_logger, masked
from penstock.watch.query_report import QueryReport, cut, encode_report
from penstock.wire.transport.http import Answer, HttpClient, Request, RetryPolicy

log = get_logger(__name__)

MAX_WAITING = 100
"""Runs whose newest report is kept, as many as the page shows."""

INTERVAL = 0.5
"""Seconds between two rounds of reports. A faster query skips to its newest report."""

REPEAT_SECONDS = 15.0
"""Running queries are reported again: the page may have been restarted, and learns that the driver lives."""

RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 15.0
TIMEOUT, CLOSE_SECONDS = 3.0, 3.0


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where a page listens. The token is not printed."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, text: str) -> PageAddress:
        """Parse the URL that `penstock watch` prints. Raises ValueError with the reason."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from None
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("is not a URL that begins with http://")
        if parts.username is not None or parts.fragment or parts.path not in ("", "/"):
            raise ValueError("is not the URL of a page, such as http://127.0.0.1:8765")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        token = parse_qs(parts.query).get("token", [None])[0]
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ValueError("has a token that is not printable ASCII")
        return cls(f"http://{host}:{port or 80}", token)


class ReportSender:
    """Never blocks its caller, and never fails: what goes wrong is logged once."""

    def __init__(
        self, address: PageAddress, *, interval: float = INTERVAL, repeat_seconds: float = REPEAT_SECONDS
    ) -> None:
        self._address = address
        self._interval = interval
        self._repeat_seconds = repeat_seconds
        self._changed = threading.Condition()
        self._newest: OrderedDict[str, QueryReport] = OrderedDict()
        self._waiting: set[str] = set()
        self._closed = False
        self._warned = False
        self.dropped = 0
        """Reports of runs that were given up for newer runs."""
        self._client = HttpClient(tls=None, body_limit=4096)
        self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # the last reports: how queries ended

    @property
    def url(self) -> str:
        return self._address.url

    # --- called by any thread -----------------------------------------------------------------------------------------

    def put(self, report: QueryReport) -> None:
        """Send a report soon. It replaces an earlier one of its run that has not been sent."""
        with self._changed:
            self._newest[report.run_id] = report
            self._newest.move_to_end(report.run_id)
            self._waiting.add(report.run_id)
            while len(self._newest) > MAX_WAITING:
                oldest, _ = self._newest.popitem(last=False)
                if oldest in self._waiting:
                    self._waiting.discard(oldest)
                    self.dropped += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Send what waits, if the page answers at once, and end the thread."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause, repeat_at = 0.0, time.monotonic() + self._repeat_seconds
        failures = 0
        while True:
            with self._changed:
                # After a round, or a failure, reports wait for a while.
                self._changed.wait_for(lambda: self._closed, pause)
                self._changed.wait_for(lambda: self._closed or self._waiting, max(0.0, repeat_at - time.monotonic()))
                if time.monotonic() >= repeat_at:
                    repeat_at = time.monotonic() + self._repeat_seconds
                    self._waiting |= {each for each, report in self._newest.items() if report.state == "running"}
                is_last = self._closed
            failures = 0 if self._send_waiting() else failures + 1
            if is_last:
                self._client.close()
                return
            backoff = min(LONGEST_RETRY_SECONDS, RETRY_SECONDS * 2.0 ** min(failures - 1, 10))
            pause = max(self._interval, backoff) if failures else self._interval

    def _send_waiting(self) -> bool:
        """Whether all reports were sent."""
        with self._changed:
            reports = [self._newest[each] for each in self._waiting]
        for report in reports:
            if not self._send(report):
                return False
            with self._changed:
                if self._newest.get(report.run_id) is report:
                    self._waiting.discard(report.run_id)
                    if report.state != "running":
                        del self._newest[report.run_id]  # sent for the last time
        return True

    def _send(self, report: QueryReport) -> bool:
        try:
            headers = {"Content-Type": "application/json"}
            if self._address.token is not None:
                headers["Authorization"] = f"Bearer {self._address.token}"
            request = Request("POST", "/api/queries", headers, encode_report(report))
            _, answer = self._client.call([self._address.url], request, RetryPolicy(timeout=TIMEOUT, tries=1))
        except PenstockError as error:
            self._warn(str(error))
            return False
        except Exception as error:  # a bug must not end the thread: queries would no longer be shown
            self._warn(f"{type(error).__name__}: {error}")
            return False
        if answer.status != 204:
            self._warn(_refusal(answer))
        return answer.status in (204, 400, 413)  # what the page does not understand is not sent again

    def _warn(self, reason: str) -> None:
        if self._warned:
            return
        self._warned = True
        log.warning(
            "queries are not shown at %s: %s. They go on, and are shown when the page takes their reports",
            self._address.url,
            reason,
        )


def _refusal(answer: Answer) -> str:
    text = masked(answer.body.decode("utf-8", "replace").strip())
    return f"HTTP {answer.status}, {cut(text)!r}"
