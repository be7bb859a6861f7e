"""A notebook cell that shows the queries of a `LagListener`, and follows them. It needs no widgets, only IPython."""

from __future__ import annotations

import html
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from penstock.masking import get_logger
from penstock.watch.query_report import BatchReport, PartitionReport, QueryReport, cut

log = get_logger(__name__)

UPDATE_SECONDS = 1.0
"""Between two updates of a cell. A faster query skips to its newest values."""

MAX_CELLS = 4
"""Cells that follow. A cell that was displayed before the last four keeps its values."""

MAX_ROWS, MAX_BARS, MAX_WORST, MAX_ERROR = 20, 40, 3, 600

Reports: TypeAlias = Callable[[], Sequence[QueryReport]]

NOTHING = "No streaming query so far. spark.streams.addListener(listener) adds the listener to its session."


class LiveCell:
    """Displays reports, and updates what it has displayed in its own thread."""

    def __init__(self, reports: Reports, page: Callable[[], str | None]) -> None:
        self._reports = reports
        self._page = page
        self._handles: deque[Any] = deque(maxlen=MAX_CELLS)
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def display(self) -> None:
        """Called by the thread of the notebook's cell."""
        if "IPython" not in sys.modules:
            sys.stdout.write(f"{plain_text(self._reports())}\n")
            return
        from IPython import display, get_ipython

        if getattr(get_ipython(), "kernel", None) is None:  # a terminal, which cannot replace what it has printed
            display.display(self._bundle(), raw=True)
            return
        handle = display.display(self._bundle(), raw=True, display_id=True)
        if handle is None:
            return
        self._handles.append(handle)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-live-cell", daemon=True)
            self._thread.start()

    def changed(self) -> None:
        """Called by Spark's listener thread: there is something newer to show."""
        self._changed.set()

    def close(self) -> None:
        """Show the last values, and end the thread."""
        self._closed.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            for handle in tuple(self._handles):
                self._update(handle)
            self._closed.wait(UPDATE_SECONDS)

    def _update(self, handle: Any) -> None:
        try:
            handle.update(self._bundle(), raw=True)
        except Exception:  # the kernel is going down, or the front end is gone
            log.debug("a live cell cannot be updated", exc_info=True)

    def _bundle(self) -> dict[str, str]:
        reports = self._reports()
        return {"text/html": as_html(reports, self._page()), "text/plain": plain_text(reports)}


def plain_text(reports: Sequence[QueryReport]) -> str:
    """A line for each query, where HTML cannot be shown."""
    if not reports:
        return NOTHING
    return "\n".join(f"query {_printable(each.name or each.id)}: {each.state}, {_lag(each.lag)}" for each in reports)


def _lag(lag: int | None) -> str:
    return "lag unknown" if lag is None else f"{lag:,} {'record' if lag == 1 else 'records'} behind"


# --- HTML -------------------------------------------------------------------------------------------------------------

CELL = "padding:2px 10px;text-align:right;white-space:nowrap"
LEFT = "padding:2px 10px;text-align:left"
COLUMNS = (
    "Query",
    "State",
    "Input/s",
    "Processed/s",
    "Lag",
    "Furthest behind",
    "Event time",
    "Batch",
    "Trigger",
    "Rows",
)


def as_html(reports: Sequence[QueryReport], page: str | None = None) -> str:
    """A table of the queries, the newest first. All text is escaped: names and errors come from anywhere."""
    if not reports:
        return f"<p>{html.escape(NOTHING)}</p>"
    newest = list(reversed(reports))[:MAX_ROWS]
    head = "".join(f'<th style="{LEFT if at < 2 else CELL}">{name}</th>' for at, name in enumerate(COLUMNS))
    rows = "".join(part for report in newest for part in _rows(report))
    more = len(reports) - len(newest)
    below = f"<p>{more} older {'query is' if more == 1 else 'queries are'} not shown.</p>" if more else ""
    if page is not None:
        link = _escaped(page)
        below += f'<p><a href="{link}" target="_blank" rel="noopener">{link}</a> shows more.</p>'
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}'


def _rows(report: QueryReport) -> Iterator[str]:
    behind = [each.event_time_lag for each in report.sources if each.event_time_lag is not None]
    whole = next((each.milliseconds for each in report.phases if each.name == "triggerExecution"), None)
    cells = (
        _number(report.input_rate),
        _number(report.processing_rate),
        _number(report.lag),
        _escaped(_worst(report.partitions)),
        _seconds(max(behind, default=None)),
        _number(report.batch),
        _seconds(None if whole is None else whole / 1000),
        _bars(report.batches),
    )
    name = _escaped(cut(report.name or report.id, 80))
    state = report.state if report.state != "failed" else "<b>failed</b>"
    numbers = "".join(f'<td style="{CELL}">{each}</td>' for each in cells)
    yield f'<tr><td style="{LEFT}">{name}</td><td style="{LEFT}">{state}</td>{numbers}</tr>'
    if report.error is not None:
        text = html.escape(_printable_lines(cut(report.error, MAX_ERROR)))
        yield (
            f'<tr><td colspan="{len(COLUMNS)}" style="{LEFT}">'
            f'<pre style="margin:0;white-space:pre-wrap">{text}</pre></td></tr>'
        )


def _worst(partitions: Sequence[PartitionReport]) -> str:
    """The partitions with the most lag, and how many are idle and held."""
    late = sorted((each for each in partitions if each.lag), key=lambda each: -(each.lag or 0))[:MAX_WORST]
    parts = [f"{cut(each.topic, 40)}-{each.partition}: {each.lag:,}" for each in late]
    for count, what in ((sum(bool(each.idle) for each in partitions), "idle"), (_held(partitions), "held")):
        if count:
            parts.append(f"{count:,} {what}")
    return ", ".join(parts) or "–"


def _held(partitions: Sequence[PartitionReport]) -> int:
    return sum(bool(each.held) for each in partitions)


def _bars(batches: Sequence[BatchReport]) -> str:
    """The rows of the last batches as a small drawing. It has only numbers in it."""
    last = batches[-MAX_BARS:]
    if not last:
        return "–"
    most = max(1, *(each.rows for each in last))
    heights = [max(0, round(each.rows / most * 20)) for each in last]
    bars = "".join(
        f'<rect x="{at * 3}" y="{20 - height}" width="2" height="{height}"/>' for at, height in enumerate(heights)
    )
    label = f"rows of the last {len(last)} batches, at most {most:,}"
    return (
        f'<svg width="{3 * MAX_BARS}" height="20" role="img" aria-label="{label}" fill="currentColor">'
        f"<title>{label}</title>{bars}</svg>"
    )


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} s"


def _escaped(text: str) -> str:
    return html.escape(_printable(text))


def _printable(text: str) -> str:
    """Control characters and the like as `\\x1b`, as the page shows them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _printable_lines(text: str) -> str:
    return "\n".join(map(_printable, text.expandtabs(4).split("\n")))
