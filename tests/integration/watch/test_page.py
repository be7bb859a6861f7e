"""The page in a real browser, against simulated brokers.

Needs Debian's Chromium and Playwright: see fixtures/page.py.
"""

from __future__ import annotations

import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fixtures.page import opened, until
from penstock.model.topic_partition import TopicPartition
from support.axe import serious_findings
from support.made_snapshots import HOSTILE
from support.simulated_cluster import Group, SimulatedCluster, large_cluster

pytestmark = pytest.mark.extended

UPDATE_MS = 100
HAS_DATA = "document.documentElement.dataset.number > 0"


def now_ms():
    return int(time.time() * 1000)


def test_keys_lead_through_the_views_and_hostile_names_are_text(page, watch):
    began = now_ms()
    groups = {HOSTILE: Group({TopicPartition("t", 0): 900}, members=1), "other": Group({TopicPartition("t", 0): 1000})}
    with SimulatedCluster({"t": 1}, groups, time_of=lambda tp, offset: began - 90_000) as cluster:
        page.goto(watch(cluster))
        page.get_by_text("Furthest behind", exact=True).wait_for()
        page.keyboard.press("g")
        page.keyboard.press("g")
        page.get_by_role("heading", name="Groups").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("IMG SRC")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Lag over time").wait_for()
        assert "<img src=x onerror=alert(1)>\"'&\\x1b[2J\\u202e\\u2028\\n" in page.inner_text("h1")
        page.get_by_text("Behind", exact=True).first.wait_for()
        assert page.locator("main img").count() == 0
        page.keyboard.press("Escape")
        page.get_by_role("grid", name="Groups").wait_for()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
    assert page.errors == []


def test_an_update_of_ten_thousand_rows_takes_less_than_100_ms_of_script(page, watch):
    """Ages rise, so that each row of a group changes in each snapshot."""
    began = now_ms()
    with large_cluster(100, 1, 10_000, time_of=lambda tp, offset: began - 60_000) as cluster:
        page.goto(watch(cluster) + "#/groups")
        until(page, "document.querySelector('[role=grid]')?.ariaRowCount === '10001'")
        number = page.evaluate("document.documentElement.dataset.number")
        until(page, f"document.documentElement.dataset.number > {number}")
        assert float(page.evaluate("document.documentElement.dataset.updateMs")) < UPDATE_MS
        assert page.locator(".tbody .tr").count() < 100
    assert page.errors == []


def test_ten_thousand_partitions_are_sent_once_and_then_what_has_changed(page, watch):
    grid = "document.querySelector('[role=grid][aria-label=Partitions]')"
    sizes = []
    with SimulatedCluster({"t": 10_000}, {}) as cluster:
        page.on(
            "response",
            lambda answer: sizes.append(int(answer.headers["content-length"])) if "/api/topic" in answer.url else None,
        )
        page.goto(watch(cluster) + "#/topic/t")
        until(page, f"{grid}.ariaRowCount === '10001'")
        until(page, f"{grid}.querySelector('.tbody .tr').lastChild.innerText === '0'")  # rates begin with 2 rounds
        for partition in range(100):
            cluster.ends[TopicPartition("t", partition)] = 5000
        until(page, f"{grid}.querySelector('.tbody .tr').innerText.includes('5,000')")
    assert sizes[0] > 500_000
    assert sizes[-1] < 20_000, sizes
    assert page.errors == []


def test_what_is_down_is_said_and_the_page_recovers(page, watch):
    with SimulatedCluster({"t": 1}, {"g": Group({TopicPartition("t", 0): 900})}, brokers=1) as cluster:
        url = watch(cluster)
        page.goto(url)
        page.get_by_text("Furthest behind", exact=True).wait_for()
        watch.processes[0].kill()
        page.get_by_text("No connection to penstock watch").wait_for()
        watch.processes[0].wait()
        watch(cluster, port=url.rstrip("/").rpartition(":")[2])
        page.get_by_text("No connection to penstock watch").wait_for(state="detached")
        cluster.stop(0)
        page.get_by_text("Brokers do not answer").wait_for()


def test_the_page_switches_between_clusters(page, watch, tmp_path):
    began = now_ms()
    groups = {"billing": Group({TopicPartition("orders", 0): 900})}
    with (
        SimulatedCluster({"orders": 3}, groups, time_of=lambda tp, offset: began - 90_000) as production,
        SimulatedCluster({"clicks": 2}, {}, brokers=1) as staging,
    ):
        names = {"production": production, HOSTILE.replace("=", " "): staging}
        for at, cluster in enumerate(names.values()):
            (tmp_path / str(at)).write_text(f"bootstrap.servers={cluster.bootstrap}\n")
        url = watch(None, *(f"--cluster={name}={tmp_path / str(at)}" for at, name in enumerate(names)))
        page.goto(url)
        page.keyboard.press("g")
        page.keyboard.press("c")
        page.get_by_role("heading", name="Clusters").wait_for()
        page.get_by_text("answers", exact=True).nth(1).wait_for()
        page.get_by_role("link", name="img src").click()
        page.get_by_role("heading", name="Cluster", exact=True).wait_for()
        page.get_by_role("link", name="Topics").click()
        page.get_by_text("clicks", exact=True).wait_for()
        page.get_by_label("Cluster", exact=True).select_option("production")
        page.get_by_text("orders", exact=True).wait_for()
        assert page.url.endswith("?cluster=production#/topics")
        page.get_by_text("orders", exact=True).click()
        until(page, "document.querySelector('[role=grid][aria-label=Partitions]')?.ariaRowCount === '4'")
        staging.stop(0)
        page.goto(url + "#/clusters")
        page.get_by_text("does not answer", exact=True).wait_for()
        assert page.locator("main img, header img").count() == 0
    assert page.errors == []


def test_axe_has_no_serious_findings_in_clusters(browser, watch, tmp_path):
    with SimulatedCluster({"orders": 3}, {}) as cluster:
        (tmp_path / "a").write_text(f"bootstrap.servers={cluster.bootstrap}\n")
        url = watch(None, f"--cluster=a={tmp_path / 'a'}", f"--cluster=b={tmp_path / 'a'}")
        context = browser.new_context(reduced_motion="reduce", bypass_csp=True)
        try:
            page = opened(context.new_page())
            page.goto(url + "#/clusters")
            page.get_by_text("answers", exact=True).nth(1).wait_for()
            assert serious_findings(page) == []
        finally:
            context.close()


def test_a_link_on_another_site_opens_the_page_and_nothing_else(page, watch):
    """As a chat in the browser shows the URL. It opens the page; the page's data is refused."""
    with SimulatedCluster({"t": 1}, {}) as cluster, other_site() as site:
        url = watch(cluster, "--token")
        site.html = f'<a href="{url}">look</a> <a href="{url.partition("?")[0]}api/topic?name=t">data</a>'
        page.goto(f"http://evil.example:{site.server_port}/")
        page.get_by_text("look").click()
        until(page, HAS_DATA)
        assert "token" not in page.url
        assert page.errors == []
        page.goto(f"http://evil.example:{site.server_port}/")
        page.get_by_text("data").click()
        page.get_by_text("requests from other sites are refused").wait_for()


def test_the_token_is_kept_for_the_page_and_in_no_cookie(browser, watch):
    """Cookies go to all ports of a host, also to a server that another user of this machine runs."""
    with SimulatedCluster({"t": 1}, {}) as cluster:
        url = watch(cluster, "--token")
        address = url.partition("?")[0]
        context = browser.new_context()
        try:
            page = opened(context.new_page())
            page.goto(address)
            page.get_by_text("No data: a token is required").wait_for()
            page.goto(url)
            until(page, HAS_DATA)
            assert page.url == address
            assert context.cookies() == []
            page.reload()
            until(page, HAS_DATA)
            page.goto(f"{address}?token=wrong")  # a link on another site
            until(page, HAS_DATA)
            assert page.url == address
            another = opened(context.new_page())
            another.goto(f"{address}#/topic/t")
            until(another, "document.querySelector('[role=grid][aria-label=Partitions]')?.ariaRowCount === '2'")
        finally:
            context.close()


@contextlib.contextmanager
def other_site():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(server.html.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
