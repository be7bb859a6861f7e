"""A page of several clusters, over HTTP."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from penstock.errors import PenstockError
from penstock.watch.access import Access
from penstock.watch.clusters import ClusterRows
from penstock.watch.feed import Feed, Seen
from penstock.watch.search import SearchResult
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster
from support.made_snapshots import group, snapshot, topic

DEADLINE = 30.0
NAMES = ("production", "staging & <test>")


class NoSnapshots:
    def wait_for(self, after, timeout):
        time.sleep(0.01)


@pytest.fixture
def feeds():
    rows = ClusterRows()
    made = {name: Feed(NoSnapshots(), name=name, clusters=rows) for name in NAMES}
    for each in made.values():
        each.start()
    yield made
    for each in made.values():
        each.close()


@pytest.fixture
def server(feeds):
    def search_of(name):
        def search(request):
            if request.topic != name:
                raise PenstockError(f"no such topic in {name}")
            return SearchResult((), 7, 0.1)

        return search

    clusters = {name: WatchedCluster(feed, search_of(name)) for name, feed in feeds.items()}
    with PageServer("127.0.0.1", 0, clusters, Access()) as made:
        yield made


def ask(server, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        given = {"Origin": f"http://127.0.0.1:{server.port}", "Content-Type": "application/json"} if body else {}
        connection.request("POST" if body else "GET", path, body, given)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def test_a_request_means_the_cluster_that_it_names_or_the_first_one(server, feeds):
    for name, feed in feeds.items():
        feed.publish(snapshot(1, [topic(f"of {name[:4]}")]))
    there, other = "/api/topic?name=of%20prod", "/api/topic?name=of%20stag"
    named = "&cluster=staging+%26+%3Ctest%3E"
    assert json.loads(ask(server, there)[1])["row"]["name"] == "of prod"
    assert ask(server, there + named)[1] == b"null"
    assert json.loads(ask(server, other + named)[1])["row"]["name"] == "of stag"
    assert ask(server, other)[1] == b"null"
    body = json.dumps({"topic": NAMES[1]})
    assert json.loads(ask(server, "/api/records?" + named[1:], body)[1])["scanned"] == 7
    assert json.loads(ask(server, "/api/records", body)[1])["error"] == "no such topic in production"


def test_a_cluster_that_is_not_watched_leads_to_the_first_page_and_has_no_data(server):
    status, _, headers = ask(server, "/?cluster=gone")
    assert (status, headers["Location"]) == (303, "/")
    assert ask(server, "/?cluster=production")[0] == 200
    for path in ("/api/topic?name=t&cluster=gone", "/api/events?cluster=gone"):
        assert ask(server, path)[:2] == (404, b"no such cluster is watched\n")
    assert ask(server, "/api/records?cluster=gone", "{}")[0] == 404


def test_each_feed_has_the_rows_of_all_clusters(feeds):
    def rows_of(name, condition):
        seen, deadline = Seen(), time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            found = feeds[name].after(seen, 1.0)
            if found is not None:
                seen, encoded = found
                if encoded.startswith(b"event: clusters"):
                    rows = json.loads(encoded.partition(b"data: ")[2])["clusters"]
                    if condition(rows):
                        return rows
        raise AssertionError(f"{name} does not learn of it")

    before = rows_of(NAMES[0], lambda rows: True)
    assert [row["name"] for row in before] == list(NAMES)
    feeds[NAMES[1]].publish(snapshot(1, [topic("t")], [group("g")]))
    for name in NAMES:
        assert rows_of(name, lambda rows: rows[1].get("lag") == 100)[0] == {"name": NAMES[0]}
