"""`penstock watch` as a process against a real broker, over HTTP without a browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from fixtures.produce import Rec
from fixtures.serializers import avro_messages
from penstock.watch.report_sender import PageAddress, ReportSender
from support.made_reports import report

DEADLINE = 60.0


def test_the_page_of_a_real_cluster(kafka, topic, produce):
    name = topic(partitions=2)
    large = b"x" * 500_000
    produce(name, [Rec(b'{"n": %d}' % at, b"k%d" % at, [("h", b"<b>")], partition=at % 2) for at in range(40)])
    produce(name, [Rec(large, b"\x1b[2J", [], partition=0)])
    typed = f"{name}:valueFormat=json", f"{name}:valueSchema=n INT"
    with watched(kafka, "--include-topics", name) as (process, url):
        with urllib.request.urlopen(url, timeout=DEADLINE) as response:
            assert b"penstock watch" in response.read()
        assert records_in_stream(url, name) == 41
        found = search(url, {"topic": name, "where": "value:n >= 30"})
        assert sorted(json.loads(each["value"]["text"])["n"] for each in found["records"]) == list(range(30, 40))
        assert found["scanned"] == 41
        newest = search(url, {"topic": name, "limit": 1, "partition": 0})["records"][0]
        assert (newest["value"]["size"], newest["value"]["is_cut"]) == (500_000, True)
        assert len(newest["value"]["text"]) < 10_000
        assert newest["key"]["text"] == "\x1b[2J"
        assert "character" in search(url, {"topic": name, "where": "value:n = = 1"})["error"]
        assert "nowhere" in search(url, {"topic": "nowhere"})["error"]
        assert reported_lag(url) == 14
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
        assert (process.returncode, errors) == (130, "")
    with watched(kafka, *(each for option in typed for each in ("--topic-option", option))) as (_, url):
        found = search(url, {"topic": name, "where": "value.n >= 38"})
        assert sorted(each["value"]["text"] for each in found["records"]) == ['{"n": 38}', '{"n": 39}']


@pytest.mark.extended
def test_a_topic_with_a_schema_registry_is_decoded_and_searched(kafka, registry, topic, produce):
    avro, text = topic(partitions=2), topic()
    schema = """{"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "country", "type": ["null", "string"], "default": null}]}"""
    values = [{"id": at, "country": "DE" if at % 3 == 0 else None} for at in range(90)]
    messages = avro_messages(registry, avro, schema, values)
    produce(avro, [Rec(message, partition=at % 2, timestamp=1000 + at) for at, message in enumerate(messages)])
    produce(avro, [Rec(b"no avro", timestamp=5000)])
    produce(text, [Rec(b"plain")])
    arguments = [
        "-o",
        f"schemaRegistry.url={registry.url}",
        "--topic-option",
        f"{avro[:6]}*{avro[6:]}:valueFormat=avro",
    ]
    with watched(kafka, *arguments) as (_, url):
        found = search(url, {"topic": avro, "where": "value.country = 'DE' AND value.id >= 60", "limit": 5})
        shown = [json.loads(each["value"]["text"]) for each in found["records"]]
        assert shown == [{"id": at, "country": "DE"} for at in (87, 84, 81, 78, 75)]
        malformed, newest = search(url, {"topic": avro, "limit": 2})["records"]
        assert malformed["value"]["text"] == "no avro"
        assert malformed["error"].startswith("value: ")
        assert (json.loads(newest["value"]["text"])["id"], newest["error"]) == (89, None)
        assert search(url, {"topic": text})["records"][0]["value"]["text"] == "plain"


@contextlib.contextmanager
def watched(kafka, *arguments):
    """The process and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "watch", "--port", "0", "--interval", "0.3", *arguments],
        env=os.environ | {"PENSTOCK_BOOTSTRAP": kafka.bootstrap_servers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def reported_lag(url):
    """The lag that the page shows of a query that reports to it."""
    sender = ReportSender(PageAddress.of(url))
    sender.put(report())
    sender.close()
    with urllib.request.urlopen(url + "api/query?name=run-1", timeout=DEADLINE) as response:
        return json.loads(response.read())["row"]["lag"]


def search(url, request):
    given = urllib.request.Request(
        url + "api/records",
        json.dumps(request).encode(),
        {"Content-Type": "application/json", "Origin": url.rstrip("/")},
    )
    with urllib.request.urlopen(given, timeout=DEADLINE) as response:
        return json.loads(response.read())


def records_in_stream(url, topic):
    """The number of records of a topic, as soon as a snapshot has it."""
    deadline = time.monotonic() + DEADLINE
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=DEADLINE)
    try:
        connection.request("GET", "/api/events")
        with connection.getresponse() as response:
            while time.monotonic() < deadline:
                line = response.readline()
                assert line, "the stream has ended"
                rows = json.loads(line.removeprefix(b"data: ")).get("topics") if line.startswith(b"data: ") else None
                rows = rows["set"] if isinstance(rows, dict) else rows or []
                for row in rows:
                    if row["name"] == topic and row.get("records") is not None:
                        return row["records"]
    finally:
        connection.close()
    raise AssertionError("the topic did not appear in time")
