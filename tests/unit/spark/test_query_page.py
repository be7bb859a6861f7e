"""`LagListener(page=...)`, without a Spark session: only the events are made here."""

from __future__ import annotations

import http.client
import json
import logging
from urllib.parse import urlsplit

import pytest

from penstock.errors import OptionError
from penstock.spark import LagListener
from penstock.watch.access import Access
from penstock.watch.feed import Feed, Seen
from penstock.watch.queries import QueryRegistry
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster
from support.made_progress import run_query
from support.made_snapshots import HOSTILE
from support.own_logs import own_records

DEADLINE = 30.0


def get(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_page_of_this_process_shows_a_query_and_its_error(caplog):
    caplog.set_level(logging.INFO, logger="penstock.lag")
    listener = LagListener(page=True, log_interval=None)
    try:
        assert [record.message for record in own_records(caplog, "penstock.lag")] == [
            f"queries are shown at {listener.page}"
        ]
        assert listener.page.startswith("http://127.0.0.1:")
        assert get(listener.page, "/")[0] == 200
        run = run_query(listener, "java.lang.Error: <script>alert(1)</script> password=hush")
        status, body = get(listener.page, f"/api/query?name={run}")
        detail = json.loads(body)
        assert (status, detail["row"]["state"], detail["row"]["title"]) == (200, "failed", HOSTILE)
        assert detail["report"]["error"] == "java.lang.Error: <script>alert(1)</script> password=***"
        assert detail["report"]["lag"] == 1
    finally:
        listener.close()
    assert listener.page is None
    run_query(listener)  # Spark may still call it


def test_a_page_elsewhere_gets_the_reports():
    queries = QueryRegistry()
    feed = Feed(None, queries)
    with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, None)}, Access("secret"), queries) as server, feed:
        url = f"http://127.0.0.1:{server.port}"
        listener = LagListener(page=f"{url}/?token=secret", log_interval=None)
        assert listener.page == url
        run = run_query(listener)
        seen, data = Seen(), {"queries": []}
        while not any(row["state"] == "finished" for row in data["queries"]):
            seen, encoded = feed.after(seen, DEADLINE)
            data = json.loads(encoded.partition(b"\ndata: ")[2])
        assert [row["name"] for row in data["queries"]] == [run]
        listener.close()
        feed.close()


def test_without_a_page_there_is_no_server_and_no_thread():
    listener = LagListener()
    assert listener.page is None
    run_query(listener)


@pytest.mark.parametrize("page", ["here", "https://host", 8765, None])
def test_what_is_not_a_page_is_an_error(page):
    with pytest.raises(OptionError, match=r"option page.*Use True for a page"):
        LagListener(page=page)


def test_the_token_is_not_in_the_error():
    with pytest.raises(OptionError) as raised:
        LagListener(page="ftp://host/?token=hush")
    assert "hush" not in str(raised.value)
