"""The page in a real browser, of a real cluster."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer

from fixtures.members import wait_for
from fixtures.page import cells, opened, tile, until, until_rows
from fixtures.produce import Rec
from penstock.model.topic_partition import TopicPartition
from penstock.testing import EmbeddedKafka
from support.axe import serious_findings
from support.group_tool import described

pytestmark = [pytest.mark.extended, pytest.mark.broker]

MARKUP = b"<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[2J\xe2\x80\xae"


def test_figures_are_those_of_kafkas_own_tool(kafka, topic, produce, cluster, page, watch):
    name = topic(partitions=3)
    group = f"group-{uuid.uuid4().hex[:8]}"
    produce(name, [Rec(b"v", partition=at % 3) for at in range(3100)])
    cluster.commit(group, {TopicPartition(name, 0): 1034, TopicPartition(name, 1): 0, TopicPartition(name, 2): 7})
    page.goto(watch(kafka, "--include-topics", name, "--include-groups", group) + f"#/group/{group}")
    rows = until_rows(page, "Lag by partition", 3)
    shown = sorted([row[0], row[1], *(text.replace(",", "") for text in row[2:5])] for row in rows)
    assert shown == described(kafka, group)
    assert tile(page, "Lag") == f"{sum(int(row[4]) for row in shown):,}"
    assert page.errors == []


def test_members_and_commits_appear_while_one_looks(kafka, topic, produce, page, watch):
    name = topic(partitions=2)
    group = f"group-{uuid.uuid4().hex[:8]}"
    produce(name, [Rec(b"v", partition=at % 2) for at in range(100)])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "client.id": "one <b>member</b>",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([name])
        wait_for(lambda: consumer.poll(0.5), "a record")
        page.goto(watch(kafka, "--include-groups", group) + f"#/group/{group}")
        page.get_by_text("one <b>member</b>", exact=True).first.wait_for()
        wait_for(lambda: (consumer.poll(0.1), len(consumer.assignment()) == 2)[1], "both partitions")
        for _ in range(50):
            consumer.poll(0.05)
        consumer.commit(asynchronous=False)
        page.get_by_text("first commit in").first.wait_for()
    finally:
        consumer.close()
    page.get_by_text("one <b>member</b> left").first.wait_for()
    page.get_by_text("Empty", exact=True).first.wait_for()
    assert page.errors == []


def test_a_search_finds_a_record_and_hostile_ones_are_text(kafka, produce, page, watch):
    name = f"records-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2, configs={"max.message.bytes": 20_000_000})
    produce(name, [Rec(b'{"n": %d, "page": "/cart"}' % at, b"k%d" % at, partition=at % 2) for at in range(2000)])
    produce(name, [Rec(MARKUP, MARKUP, [("<b>h</b>", MARKUP)], partition=1)])
    produce(name, [Rec(b"x" * 10_000_000, b"large")], **{"message.max.bytes": 20_000_000})
    page.goto(watch(kafka, "--include-topics", name) + f"#/topic/{name}")
    page.get_by_text("50 records among").wait_for()
    assert page.locator("main img, main script, main b").count() == 0
    page.get_by_text("… (9.5 MB)").wait_for()

    page.get_by_label("Search records, in SQL").fill("key = 'k1234'")
    page.keyboard.press("Enter")
    page.get_by_text("1 record among 2,002").wait_for()
    [row] = cells(page, "Newest records")
    assert row[3:] == ["k1234", '{"n": 1234, "page": "/cart"}']
    page.get_by_text("k1234", exact=True).click()
    assert page.locator(".record pre").nth(1).inner_text() == '{\n  "n": 1234,\n  "page": "/cart"\n}'

    page.get_by_label("Search records, in SQL").fill("value LIKE '%<script>%'")
    page.keyboard.press("Enter")
    page.get_by_text("1 record among 2,002").wait_for()
    page.get_by_role("row").filter(has_text="onerror").first.click()
    text = page.locator(".record").inner_text()
    assert "Header <b>h</b>" in text
    assert "<script>alert(2)</script>\\x1b[2J\\u202e" in text
    assert page.locator("main img, main script, main b").count() == 0

    page.get_by_label("Search records, in SQL").fill("value = = 1")
    page.keyboard.press("Enter")
    page.locator(".error").wait_for()
    assert page.errors == []


def test_the_page_survives_restarts_of_the_broker_and_says_so(page, watch, tmp_path):
    with EmbeddedKafka(data_dir=tmp_path) as own:
        own.create_topic("before", 1)
        page.goto(watch(own) + "#/topics")
        page.get_by_text("before", exact=True).wait_for()
        for after in ("first", "second"):
            own.kill_node(1)
            page.get_by_text("Brokers do not answer since").wait_for()
            assert page.get_by_text("before", exact=True).is_visible(), "the last values stay"
            own.restart_node(1)
            page.get_by_text("Brokers do not answer").wait_for(state="detached")
            own.create_topic(after, 1)
            page.get_by_text(after, exact=True).wait_for()
    page.get_by_text("Brokers do not answer since").wait_for()
    assert page.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390], ids=["wide", "narrow"])
def test_axe_has_no_serious_findings(kafka, topic, produce, cluster, browser, watch, theme, width):
    name = topic(partitions=2)
    produce(name, [Rec(b'{"n": %d}' % at, partition=at % 2, timestamp=at) for at in range(100)])
    cluster.commit(name, {TopicPartition(name, 0): 3, TopicPartition(name, 1): 50})
    entry = watch(kafka, "--include-topics", name, "--include-groups", name, "--allow-writes")
    url = entry.partition("?")[0]
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce", bypass_csp=True
    )
    try:
        page = opened(context.new_page())
        page.goto(entry)
        for place, text in (
            ("#/", "Furthest behind"),
            ("#/topics", name),
            (f"#/topic/{name}", "50 records among"),
            ("#/groups", name),
            (f"#/group/{name}", "Reset offsets"),
        ):
            page.goto(url + place)
            page.get_by_text(text).first.wait_for()
            until(page, "document.querySelectorAll('.tbody .tr').length > 0")
            assert serious_findings(page) == [], place
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        assert serious_findings(page) == [], "help"
    finally:
        context.close()


def test_pages_of_other_sites_get_nothing(kafka, topic, browser, watch):
    """DNS rebinding: evil.example leads the browser to this machine. CSRF: a page of another origin asks."""
    name = topic(partitions=1)
    url = watch(kafka, "--include-topics", name)
    page = browser.new_page()
    try:
        rebound = page.goto(url.replace("127.0.0.1", "evil.example"))
        assert (rebound.status, "not allowed" in page.inner_text("body")) == (421, True)
        page.goto("about:blank")
        answers = []
        page.on("response", lambda response: answers.append(response.status))
        ask = """([url, topic]) => fetch(url + "api/records", {
            method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: JSON.stringify({topic})
        }).then((answer) => answer.type, (error) => "blocked")"""
        assert page.evaluate(ask, [url, name]) in ("opaque", "blocked")
        assert answers in ([403], []), "the brokers were not asked"
        read = """(url) => fetch(url).then((answer) => answer.text(), (error) => "blocked")"""
        assert page.evaluate(read, f"{url}api/topic?name={name}") == "blocked"
    finally:
        page.close()


def test_offsets_of_a_group_are_reset_after_a_preview(kafka, topic, produce, cluster, page, watch):
    name = topic(partitions=2)
    group = f"group-{uuid.uuid4().hex[:8]}"
    produce(name, [Rec(b"v", partition=at % 2) for at in range(100)])
    cluster.commit(group, {TopicPartition(name, 0): 10, TopicPartition(name, 1): 20})
    url = watch(kafka, "--include-topics", name, "--include-groups", group, "--allow-writes")
    page.goto(url)
    page.goto(f"{url.partition('?')[0]}#/group/{group}")
    page.get_by_label("New position").fill("latest")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing has been changed yet.").wait_for()
    moves = [row[1:5] for row in cells(page, "Moves")]
    assert sorted(moves) == [["0", "10", "50", "+40"], ["1", "20", "50", "+30"]]
    assert [row[2] for row in described(kafka, group)] == ["10", "20"]

    cluster.commit(group, {TopicPartition(name, 1): 21})
    page.get_by_role("button", name="Commit 2 offsets").click()
    page.get_by_text("was committed meanwhile").wait_for()
    assert [row[2] for row in described(kafka, group)] == ["10", "21"], "nothing was changed"

    page.get_by_label("New position").fill("5")
    page.get_by_label("Topic", exact=True).fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Commit 2 offsets").click()
    page.get_by_text("Committed 2 offsets.").wait_for()
    assert [row[2] for row in described(kafka, group)] == ["5", "5"]
    page.get_by_text("offsets set back by").first.wait_for()

    page.get_by_label("New position").fill("yesterday")
    page.keyboard.press("Enter")
    page.locator(".error").wait_for()
    assert page.errors == []
