"""`penstock watch` as a process against a real broker, over HTTP without a browser."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

from fixtures.produce import Rec
from penstock.watch.report_sender import PageAddress, ReportSender
from support.made_reports import report

DEADLINE = 60.0


def test_the_page_of_a_real_cluster(kafka, topic, produce):
    name = topic(partitions=2)
    large = b"x" * 500_000
    produce(name, [Rec(b'{"n": %d}' % at, b"k%d" % at, [("h", b"<b>")], partition=at % 2) for at in range(40)])
    produce(name, [Rec(large, b"\x1b[2J", [], partition=0)])
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "watch", "--port", "0", "--interval", "0.3", "--include-topics", name],
        env=os.environ | {"PENSTOCK_BOOTSTRAP": kafka.bootstrap_servers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().strip()
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
