"""Streaming queries on the page, in a real browser: see fixtures/page.py."""

from __future__ import annotations

import time

import pytest

from fixtures.page import opened
from penstock.errors import PenstockError
from penstock.watch.access import Access
from penstock.watch.feed import Feed
from penstock.watch.queries import QueryRegistry
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster
from support.axe import serious_findings
from support.made_reports import report
from support.made_snapshots import HOSTILE, group, snapshot, topic

pytestmark = pytest.mark.extended


def no_search(request):
    raise PenstockError("no cluster")


def ring(page):
    """Around the table, which has the focus."""
    style = "getComputedStyle(document.activeElement).outlineStyle"
    return page.evaluate(f"`${{document.activeElement.role}} ${{{style}}}`")


@pytest.fixture
def page(browser):
    made = opened(browser.new_page(viewport={"width": 1200, "height": 1000}))
    yield made
    made.close()


def test_a_driver_s_own_page_shows_queries_and_no_cluster(page):
    queries = QueryRegistry(repeated=False)
    feed = Feed(None, queries)
    with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, no_search)}, Access()) as server, feed:
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_role("heading", name="Queries").wait_for()
        assert page.get_by_role("link", name="Topics").count() == 0
        assert ring(page) == "grid none", "before a key was pressed"
        queries.put(report(name=HOSTILE, topic=HOSTILE, partitions=3, batches=40))
        queries.put(report("run-2", name="other", lag=0))
        page.get_by_text("running").nth(1).wait_for()
        page.keyboard.press("/")
        page.keyboard.type("IMG SRC")
        page.keyboard.press("Enter")
        assert ring(page) == "grid solid"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Time of the last batch").wait_for()
        page.get_by_text("triggerExecution").wait_for()
        assert "<img src=x onerror=alert(1)>\"'&\\x1b[2J" in page.inner_text("h1")
        assert page.locator("main img").count() == 0
        assert page.locator(".chart rect").count() == 40
        text = page.inner_text("main")
        for shown in ("751", "3.5 s", "idle", "held", "2023-11-14 22:13:20Z", "stateStoreSave", "64 KB"):
            assert shown in text, shown
        queries.put(report(name="failed now", state="failed", error=f"Error: {HOSTILE}\n\tat line 2", ended_at=1.0))
        page.get_by_label("Error", exact=True).wait_for()
        assert "Error: <img src=x onerror=alert(1)>" in page.get_by_label("Error", exact=True).inner_text()
        page.keyboard.press("Escape")
        page.get_by_role("grid", name="Queries").wait_for()
        page.get_by_text("failed", exact=True).wait_for()
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390], ids=["wide", "narrow"])
def test_axe_has_no_serious_findings(browser, theme, width):
    queries = QueryRegistry(repeated=False)
    feed = Feed(None, queries)
    queries.put(report(partitions=3, batches=40))
    queries.put(report("run-2", name="other", state="failed", error="Error: x\n\tat line 2", ended_at=1.0))
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce", bypass_csp=True
    )
    try:
        page = opened(context.new_page())
        with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, no_search)}, Access()) as server, feed:
            url = f"http://127.0.0.1:{server.port}/"
            for place, text in (("", "failed"), ("#/query/run-1", "triggerExecution"), ("#/query/run-2", "at line 2")):
                page.goto(url + place)
                page.get_by_text(text).first.wait_for()
                assert serious_findings(page) == [], place
    finally:
        context.close()


class NoSnapshots:
    def wait_for(self, after, timeout):
        time.sleep(0.05)


def test_the_queries_appear_beside_the_cluster_with_the_first_report(page):
    queries = QueryRegistry()
    feed = Feed(NoSnapshots(), queries)
    with PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, no_search)}, Access(), queries) as server, feed:
        feed.publish(snapshot(1, [topic("t")], [group("g")]))
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_role("heading", name="Cluster").wait_for()
        assert page.get_by_role("link", name="Queries").count() == 0
        queries.put(report())
        page.get_by_role("link", name="Queries").click()
        page.get_by_text("orders").wait_for()
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.get_by_role("heading", name="Topics").wait_for()
    assert page.errors == []
