"""Reports of streaming queries over HTTP: the rules of the endpoint, and what browsers get of them."""

from __future__ import annotations

import contextlib
import http.client
import json

import pytest

from penstock.errors import PenstockError
from penstock.watch.access import Access
from penstock.watch.feed import Feed, Seen
from penstock.watch.queries import QueryRegistry
from penstock.watch.query_report import MAX_BYTES, encode_report
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster
from support.made_reports import report
from support.made_snapshots import HOSTILE

DEADLINE = 30.0


def no_search(request):
    raise PenstockError("no cluster")


@contextlib.contextmanager
def serving(access=None, *, takes_reports=True):
    queries = QueryRegistry()
    feed = Feed(None, queries)
    reports = queries if takes_reports else None
    with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, no_search)}, access or Access(), reports) as server, feed:
        yield server
        feed.close()


@pytest.fixture
def server():
    with serving() as made:
        yield made


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


JSON = {"Content_Type": "application/json"}


def send(server, given, **headers):
    return ask(server, "POST", "/api/queries", encode_report(given), **(JSON | headers))


def event(server, seen):
    seen, encoded = server.cluster("/").feed.after(seen, DEADLINE)
    return seen, json.loads(encoded.partition(b"\ndata: ")[2])


def test_a_report_reaches_browsers_as_a_row_and_as_a_detail(server):
    seen, data = event(server, Seen())
    assert (data["has_cluster"], data["queries"]) == (False, [])
    assert send(server, report(name=HOSTILE, state="failed", error=HOSTILE, ended_at=1.0)) == (204, b"")
    seen, data = event(server, seen)
    assert data["queries"][0]["title"] == HOSTILE
    status, body = ask(server, "GET", "/api/query?name=run-1")
    assert status == 200
    assert json.loads(body)["report"]["error"] == HOSTILE
    assert ask(server, "GET", "/api/query?name=other") == (200, b"null")


def test_the_detail_is_that_of_the_newest_report(server):
    send(server, report())
    event(server, Seen())
    ask(server, "GET", "/api/query?name=run-1")
    send(server, report(batches=9))
    seen, data = event(server, Seen())
    while [row["batch"] for row in data["queries"]] != [9]:
        seen, data = event(server, seen)
    assert json.loads(ask(server, "GET", "/api/query?name=run-1")[1])["row"]["batch"] == 9


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_what_a_browser_would_send_is_refused(server, headers, status):
    assert send(server, report(), **headers)[0] == status
    assert ask(server, "GET", "/api/query?name=run-1") == (200, b"null")


def test_a_body_that_is_not_a_report_is_refused(server):
    assert ask(server, "POST", "/api/queries", b"{}", **JSON)[0] == 400
    assert ask(server, "POST", "/api/queries", b"[" * 50_000, **JSON)[0] == 400
    assert ask(server, "POST", "/api/queries", b"", Content_Length=str(MAX_BYTES + 1), **JSON)[0] == 413
    assert ask(server, "GET", "/api/queries", **JSON)[0] == 404


def test_a_token_is_required_where_the_page_requires_one():
    with serving(Access("right")) as server:
        assert send(server, report())[0] == 403
        assert send(server, report(), Authorization="Bearer wrong")[0] == 403
        assert send(server, report(), Authorization="Basic right")[0] == 403
        assert send(server, report(), Cookie="penstock-watch=right")[0] == 403
        assert send(server, report(), Authorization="Bearer right")[0] == 204


def test_without_a_token_reports_come_from_this_machine_only():
    assert Access().refuses_report("127.0.0.1", {}) is None
    assert Access().refuses_report("::1", {}) is None
    assert "this machine only" in Access().refuses_report("192.0.2.1", {})
    assert Access("t").refuses_report("192.0.2.1", {"Authorization": "Bearer t"}) is None


def test_a_page_of_one_driver_takes_no_reports_of_others():
    with serving(takes_reports=False) as server:
        assert send(server, report())[0] == 404


def test_a_browser_skips_to_the_newest_rows(server):
    for number in range(5):
        send(server, report(f"run-{number}"))
    seen, data = event(server, Seen())
    while len(data["queries"]) < 5:
        seen, data = event(server, seen)
    newest, data = event(server, Seen())
    assert (newest, len(data["queries"])) == (seen, 5)
    assert server.cluster("/").feed.after(seen, 0) is None
