"""Where `LagListener` shows its queries: a page of this process, or one that runs elsewhere."""

from __future__ import annotations

from typing import Protocol

from penstock.errors import OptionError, PenstockError
from penstock.watch.access import Access
from penstock.watch.feed import Feed
from penstock.watch.queries import QueryRegistry
from penstock.watch.query_report import QueryReport
from penstock.watch.report_sender import PageAddress, ReportSender
from penstock.watch.search import SearchRequest, SearchResult
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster

LOOPBACK = "127.0.0.1"


class QueryPage(Protocol):
    @property
    def url(self) -> str: ...

    def put(self, report: QueryReport) -> None:
        """Never blocks and never fails: Spark's thread of listeners calls it."""

    def close(self) -> None: ...


class OwnPage:
    """A page server in this process, on a free port of loopback. It shows queries, and no cluster."""

    def __init__(self) -> None:
        self._queries = QueryRegistry(repeated=False)
        self._feed = Feed(None, self._queries)
        self._server = PageServer(LOOPBACK, 0, {"": WatchedCluster(self._feed, _no_records)}, Access())
        self._feed.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.port}/"

    def put(self, report: QueryReport) -> None:
        self._queries.put(report)

    def close(self) -> None:
        self._feed.close()
        self._server.close()


def open_page(page: bool | str) -> QueryPage | None:
    """The page for the argument `page` of LagListener."""
    if isinstance(page, bool):
        return OwnPage() if page else None
    if not isinstance(page, str):
        raise OptionError("page", None, "is neither True nor an address", HINT)
    try:
        return ReportSender(PageAddress.of(page))
    except ValueError as error:
        raise OptionError("page", page, str(error), HINT) from None


HINT = "Use True for a page of this process, or the URL that penstock watch prints, such as http://127.0.0.1:8765"


def _no_records(request: SearchRequest) -> SearchResult:
    raise PenstockError("this page shows queries only: penstock watch shows records")
