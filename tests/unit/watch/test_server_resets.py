"""Resets of offsets over HTTP: who may, and what is passed on."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from penstock.errors import PenstockError
from penstock.watch.access import Access
from penstock.watch.feed import Feed
from penstock.watch.resets import PlannedMove
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster

DEADLINE = 30.0
PLAN = {"group": "g", "to": "earliest"}
COMMIT = {"group": "g", "moves": [["t", 0, 5, 0]]}
BOTH = [("/api/reset/plan", PLAN), ("/api/reset", COMMIT)]


class NoSnapshots:
    def wait_for(self, after, timeout):
        time.sleep(0.01)


class RecordedResets:
    def __init__(self):
        self.committed = []

    def plan(self, request):
        if request.group != "g":
            raise PenstockError("the group is in use")
        return [PlannedMove("t", 0, 5, 0, "its beginning")]

    def commit(self, group, moves):
        self.committed.append((group, moves))


@pytest.fixture
def resets():
    return RecordedResets()


def served(resets, access):
    return PageServer("127.0.0.1", 0, {"": WatchedCluster(Feed(NoSnapshots()), None, resets)}, access)


@pytest.fixture
def server(resets):
    with served(resets, Access("secret")) as made:
        yield made


def ask(server, path, given, **more):
    headers = {
        "Origin": f"http://127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        "Authorization": f"Bearer {server.access.token}",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        sent = {name: value for name, value in (headers | more).items() if value is not None}
        connection.request("POST", path, json.dumps(given), sent)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_moves_are_shown_and_then_committed(server, resets):
    status, answer = ask(server, "/api/reset/plan", PLAN)
    assert status == 200
    assert json.loads(answer)["moves"] == [{"topic": "t", "partition": 0, "old": 5, "new": 0, "note": "its beginning"}]
    assert resets.committed == []
    assert ask(server, "/api/reset", COMMIT) == (200, b'{"committed":1}')
    assert resets.committed == [("g", [PlannedMove("t", 0, 5, 0)])]


def test_errors_are_for_the_user(server):
    assert ask(server, "/api/reset/plan", PLAN | {"group": "used"}) == (200, b'{"error":"the group is in use"}')
    assert ask(server, "/api/reset", {"group": "g"})[0] == 400


@pytest.mark.parametrize(("path", "given"), BOTH)
def test_without_the_permission_the_page_only_reads(path, given):
    with served(None, Access("secret")) as server:
        status, answer = ask(server, path, given)
    assert status == 403
    assert b"--allow-writes" in answer


@pytest.mark.parametrize(("path", "given"), BOTH)
@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Authorization", None, 403),
        ("Authorization", "Bearer wrong", 403),
        ("Origin", None, 403),
        ("Origin", "null", 403),
        ("Origin", "http://evil.example", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Host", "evil.example", 421),
        ("Content-Type", "text/plain", 415),
        ("Content-Type", "application/x-www-form-urlencoded", 415),
    ],
)
def test_no_other_site_resets_anything(server, resets, path, given, name, value, status):
    assert ask(server, path, given, **{name: value})[0] == status
    assert resets.committed == []
