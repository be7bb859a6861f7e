"""The page's server over HTTP, with snapshots that the test publishes."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.parse

import pytest

from penstock.errors import PenstockError
from penstock.watch import feed as feed_module
from penstock.watch import server as server_module
from penstock.watch.access import Access
from penstock.watch.feed import Feed, Seen
from penstock.watch.search import Cut, SearchResult, ShownRecord
from penstock.watch.server import PageServer, page_files
from penstock.watch.watched_cluster import WatchedCluster
from support.made_snapshots import HOSTILE, group, snapshot, topic

DEADLINE = 30.0


class NoSnapshots:
    """The test publishes them itself."""

    def __init__(self):
        self.closing = threading.Event()

    def wait_for(self, after, timeout):
        self.closing.wait(0.02)


def no_search(request):
    raise PenstockError(f"no such topic: {request.topic}")


@pytest.fixture
def feed():
    with Feed(NoSnapshots()) as made:
        yield made


@contextlib.contextmanager
def serving(feed, search=no_search, access=None):
    with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, search)}, access or Access()) as server:
        yield server


@pytest.fixture
def server(feed):
    with serving(feed) as made:
        yield made
        feed.close()


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def search_headers(server):
    return {"Origin": f"http://127.0.0.1:{server.port}", "Content_Type": "application/json"}


class Events:
    """The stream, as a browser reads it."""

    def __init__(self, server, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        self.connection.request("GET", "/api/events", headers=headers)
        self.response = self.connection.getresponse()

    def next(self):
        lines = []
        while True:
            line = self.response.readline()
            if not line:
                return "closed", None
            if line == b"\n":
                found = dict(each.split(": ", 1) for each in lines)
                if "event" in found:
                    return found["event"], json.loads(found["data"])
                lines = []
            else:
                lines.append(line.decode().rstrip("\n"))

    def close(self):
        self.response.close()
        self.connection.close()


def test_the_page_and_its_files_with_their_policy(server):
    for path in page_files():
        status, body, headers = ask(server, "GET", path)
        assert status == 200
        assert body
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(server, "GET", "/..%2f..%2fserver.py")[0] == 404
    assert ask(server, "GET", "/../server.py")[0] == 404


def test_the_page_has_no_inline_script_and_no_address_of_another_server():
    for kind, content in page_files().values():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", 'onclick="'):
            assert word not in text, kind


def test_browsers_get_all_rows_then_changes(server, feed):
    feed.publish(snapshot(1, [topic("a")], [group(HOSTILE)]))
    events = Events(server)
    kind, data = events.next()
    assert kind == "full"
    assert data["groups"][0]["name"] == HOSTILE
    feed.publish(snapshot(2, [topic("a", end=2000)], [group(HOSTILE)]))
    kind, data = events.next()
    assert (kind, data["base"], data["topics"]["set"]) == ("delta", 1, [{"name": "a", "records": 2000}])
    events.close()


def test_one_that_missed_a_snapshot_gets_all_rows_of_the_newest(feed):
    feed.publish(snapshot(1))
    feed.publish(snapshot(2))
    feed.publish(snapshot(3))
    assert feed.after(Seen(2), 0)[1].startswith(b"event: delta")
    assert feed.after(Seen(1), 0)[1].startswith(b"event: full")
    assert feed.after(Seen(3), 0) is None
    assert feed.after(Seen(0), 0)[1] is feed.after(Seen(1), 0)[1], "encoded once"


def test_streams_end_when_the_server_does(feed):
    with serving(feed) as server:
        feed.publish(snapshot(1))
        open_events = [Events(server) for _ in range(3)]
        assert [events.next()[0] for events in open_events] == ["full"] * 3
        feed.close()
        assert [events.next()[0] for events in open_events] == ["end"] * 3
    for events in open_events:
        events.close()


def test_a_silent_stream_has_a_heartbeat(server, monkeypatch):
    monkeypatch.setattr(server_module, "HEARTBEAT_SECONDS", 0.01)
    events = Events(server)
    assert events.next()[0] == "alive"
    events.close()


def test_details(server, feed):
    feed.publish(snapshot(1, [topic("a/b c")], [group("é")]))
    status, body, _ = ask(server, "GET", "/api/topic?name=a%2Fb%20c")
    assert (status, len(json.loads(body)["partitions"])) == (200, 1)
    status, body, _ = ask(server, "GET", "/api/group?name=%C3%A9")
    assert (status, json.loads(body)["positions"][0]["lag"]) == (200, 100)
    assert ask(server, "GET", "/api/group?name=gone")[:2] == (200, b"null")


def test_details_after_the_first_one_are_what_has_changed(server, feed):
    def partitions(since):
        answer = json.loads(ask(server, "GET", f"/api/topic?name=a&since={since}")[1])
        return answer["number"], answer.get("base"), answer["partitions"]

    feed.publish(snapshot(1, [topic("a", partitions=3)]))
    assert len(partitions(0)[2]) == 3
    feed.publish(snapshot(2, [topic("a", partitions=3, end=1001)]))
    assert partitions(1)[:2] == (2, 1)
    assert partitions(1)[2]["set"][0] == {"partition": 0, "end": 1001}
    assert len(partitions(0)[2]) == 3, "a page that is new gets all rows"
    feed.publish(snapshot(3, [topic("a", partitions=3, end=1001)]))
    feed.publish(snapshot(4, [topic("a", partitions=3, end=1002)]))
    assert partitions(2)[2]["set"][0] == {"partition": 0, "end": 1002}, "a page may leave out snapshots"
    feed.publish(snapshot(5, []))
    assert ask(server, "GET", "/api/topic?name=a&since=4")[:2] == (200, b"null")
    feed.publish(snapshot(6, [topic("a", partitions=2)]))
    assert partitions(4)[1:2] == (None,), "it was away: all rows again"
    for wrong in ("", "x", "-1", "\u0663", "9" * 5000):
        assert ask(server, "GET", f"/api/topic?name=a&since={urllib.parse.quote(wrong)}")[0] == 200


def test_kept_details_are_bounded_by_their_rows(feed, monkeypatch):
    monkeypatch.setattr(feed_module, "DETAIL_ROWS", 10)
    feed.publish(snapshot(1, [topic(f"t{at}", partitions=4) for at in range(9)] + [topic("large", partitions=50)]))
    for at in range(9):
        feed.topic(f"t{at}")
    assert [name for _, name in feed._details] == ["t7", "t8"]
    feed.topic("large")
    assert [name for _, name in feed._details] == ["large"]


@pytest.mark.parametrize("path", ["/", "/main.js", "/api/events", "/api/topic?name=a"])
def test_a_wrong_host_gets_nothing(server, path):
    assert ask(server, "GET", path, Host="evil.example")[0] == 421


def test_two_host_headers_get_nothing(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert b" 421 " in raw.recv(1000)


def test_other_origins_get_no_data(server):
    assert ask(server, "GET", "/api/events", Origin="http://evil.example")[0] == 403
    assert ask(server, "GET", "/api/topic?name=a", Sec_Fetch_Site="cross-site")[0] == 403
    body = '{"topic": "t"}'
    given = search_headers(server)
    assert ask(server, "POST", "/api/records", body, **given | {"Origin": "http://evil.example"})[0] == 403
    assert ask(server, "POST", "/api/records", body, Content_Type="application/json")[0] == 403
    assert ask(server, "POST", "/api/records", body, **given | {"Content_Type": "text/plain"})[0] == 415


def test_only_the_page_itself_is_there_without_the_token(feed):
    """Never as a cookie: browsers send those of a host to all its ports."""
    with serving(feed, access=Access("secret")) as server:
        feed.publish(snapshot(1))
        for path in page_files():
            status, _, headers = ask(server, "GET", path)
            assert (status, headers["Set-Cookie"]) == (200, None)
        private = ["/api/events", "/api/topic?name=a", "/api/query?name=a", "/api/queries", "/nothing"]
        for path in (*private, "/api/topic?name=a&token=secret"):
            assert ask(server, "GET", path)[0] == 403
            assert ask(server, "HEAD", path)[0] == 403
            assert ask(server, "GET", path, Authorization="Bearer wrong")[0] == 403
            assert ask(server, "GET", path, Cookie="token=secret")[0] == 403
        assert ask(server, "POST", "/api/records", "{}", **search_headers(server))[0] == 403
        own = {"Authorization": "Bearer secret"}
        assert ask(server, "GET", "/api/topic?name=t", **own)[0] == 200
        assert ask(server, "POST", "/api/records", '{"topic": "t"}', **search_headers(server), **own)[0] == 200
        events = Events(server, **own)
        assert events.next()[0] == "full"
        events.close()


def test_a_preflight_of_another_origin_is_not_answered(server):
    """Only the own origin can send the header with the token."""
    wanted = {"Access-Control-Request-Headers": "authorization", "Access-Control-Request-Method": "POST"}
    status, _, headers = ask(server, "OPTIONS", "/api/reset", Origin="http://evil.example", **wanted)
    assert status == 501
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "hidden", [b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], ids=["length", "chunked"]
)
def test_a_connection_has_one_request(server, hidden):
    """What follows in a connection is never taken for a request: a proxy may have let it through as a body."""
    smuggled = b"GET /api/topic?name=a HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as raw:
        head = b"POST /api/other HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nConnection: keep-alive\r\n"
        raw.sendall(head + hidden + smuggled)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # what was not read
            while part := raw.recv(65536):
                answer += part
    assert answer.count(b"HTTP/1.") == 1
    assert answer.startswith((b"HTTP/1.0 404", b"HTTP/1.0 413"))


def test_records_are_searched(feed):
    asked = []

    def search(request):
        asked.append(request)
        return SearchResult((ShownRecord(0, 5, None, Cut(None, None), Cut("<b>\x1b", 10_000_000, True)),), 9, 0.1)

    with serving(feed, search) as server:
        status, body, _ = ask(server, "POST", "/api/records", '{"topic": "t", "where": "a"}', **search_headers(server))
    assert status == 200
    assert json.loads(body)["records"][0]["value"] == {"text": "<b>\x1b", "size": 10_000_000, "is_cut": True}
    assert asked[0].where == "a"


def test_errors_of_a_search_are_for_the_user(server):
    given = search_headers(server)
    status, body, _ = ask(server, "POST", "/api/records", '{"topic": "t"}', **given)
    assert (status, json.loads(body)["error"]) == (200, "no such topic: t")
    assert ask(server, "POST", "/api/records", "{", **given)[0] == 400
    assert ask(server, "POST", "/api/records", **given, Content_Length=str(server_module.MAX_BODY + 1))[0] == 413
    assert ask(server, "POST", "/api/other", "{}", **given)[0] == 404
    assert ask(server, "DELETE", "/", **given)[0] == 501


def test_a_port_in_use_is_an_error(server, feed):
    with pytest.raises(PenstockError, match="cannot be served"):
        PageServer("127.0.0.1", server.port, {"": WatchedCluster(feed, no_search)}, Access())
