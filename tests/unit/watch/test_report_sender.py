"""The thread that sends reports: never in the way of its caller, whatever the page does."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.watch import report_sender as module
from penstock.watch.query_report import parse_report
from penstock.watch.report_sender import PageAddress, ReportSender
from support.made_reports import report
from support.own_logs import own_records

DEADLINE = 30.0
SECRET = "hush-hush"


class Page:
    """Takes what is sent, and answers as the test says."""

    def __init__(self, port=0):
        self.status = 204
        self.reports = []
        self.tokens = []
        self.changed = threading.Condition()
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with page.changed:
                    page.reports.append(parse_report(body))
                    page.tokens.append(self.headers.get("Authorization"))
                    page.changed.notify_all()
                    status = page.status
                self.send_response(status)
                text = b"" if status == 204 else f"no, password={SECRET}".encode()
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.port = self.server.server_address[1]

    def until(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, DEADLINE), [(each.run_id, each.batch) for each in self.reports]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page()
    yield made
    made.close()


def sender(page, *, repeat=1000.0, token=""):
    return ReportSender(PageAddress.of(f"http://127.0.0.1:{page.port}/{token}"), interval=0.001, repeat_seconds=repeat)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "LONGEST_RETRY_SECONDS", 0.02)


def test_the_newest_report_of_each_run_arrives_with_the_token(page):
    sending = sender(page, token=f"?token={SECRET}")
    for batch in range(100):
        sending.put(report(batches=batch % 100))
        sending.put(report("run-2", batches=1))
    page.until(lambda: any(each.batch == 99 for each in page.reports))
    page.until(lambda: any(each.run_id == "run-2" for each in page.reports))
    assert set(page.tokens) == {f"Bearer {SECRET}"}
    assert SECRET not in repr(sending._address) + sending.url
    sending.close()


def test_running_queries_are_reported_again_and_ended_ones_once(page):
    sending = sender(page, repeat=0.01)
    sending.put(report("ended", state="finished"))
    sending.put(report())
    page.until(lambda: len([each for each in page.reports if each.run_id == "run-1"]) > 3)
    assert len([each for each in page.reports if each.run_id == "ended"]) == 1
    sending.close()


def test_a_page_that_is_away_is_reported_once_and_found_again(page, caplog):
    sending = sender(page)
    page.close()
    sending.put(report())
    deadline = time.monotonic() + DEADLINE
    while not own_records(caplog):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    again = Page(page.port)
    try:
        again.until(lambda: again.reports)
    finally:
        sending.close()
        again.close()
        page.close = lambda: None
    (record,) = own_records(caplog)
    assert record.levelno == logging.WARNING
    assert f"queries are not shown at http://127.0.0.1:{page.port}: " in record.message


def test_a_page_that_refuses_is_asked_again_and_its_reason_is_shown_without_secrets(page, caplog):
    page.status = 403
    sending = sender(page)
    sending.put(report())
    page.until(lambda: len(page.reports) > 2)
    page.status = 204
    sending.close()
    (record,) = own_records(caplog)
    assert "HTTP 403, 'no, password=***'" in record.message


def test_a_report_that_is_not_understood_is_not_sent_again(page):
    page.status = 400
    sending = sender(page)
    sending.put(report())
    sending.put(report("run-2"))
    page.until(lambda: {each.run_id for each in page.reports} == {"run-1", "run-2"})
    sending.close()
    assert len(page.reports) == 2


def test_the_last_report_is_sent_when_the_program_ends(page):
    sending = ReportSender(PageAddress.of(f"http://127.0.0.1:{page.port}"), interval=1000.0)
    sending.put(report())
    page.until(lambda: page.reports)
    sending.put(report(state="failed", error="no"))
    sending.close()
    assert page.reports[-1].state == "failed"
    assert not sending._thread.is_alive()


def test_reports_that_wait_are_bounded(page):
    page.status = 503
    sending = sender(page)
    for number in range(300):
        sending.put(report(f"run-{number}"))
    assert len(sending._newest) == module.MAX_WAITING
    assert len(sending._waiting) <= module.MAX_WAITING
    assert sending.dropped == 200
    sending.close()


@pytest.mark.parametrize(
    ("text", "url", "token"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765", None),
        ("http://127.0.0.1:8765/", "http://127.0.0.1:8765", None),
        ("http://[::1]:8765/?token=a%2Bb", "http://[::1]:8765", "a+b"),
        ("http://localhost", "http://localhost:80", None),
    ],
)
def test_the_url_that_penstock_watch_prints(text, url, token):
    address = PageAddress.of(text)
    assert (address.url, address.token) == (url, token)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8765",
        "https://localhost",
        "http://",
        "http://me:x@host",
        "http://h/path",
        "http://h:x",
        "http://[::1",
    ],
)
def test_what_is_not_the_url_of_a_page(text):
    with pytest.raises(ValueError, match="is not "):
        PageAddress.of(text)


def test_a_token_cannot_end_the_header():
    with pytest.raises(ValueError, match="token"):
        PageAddress.of("http://h/?token=a%0d%0aHost:%20b")


def test_a_page_that_hangs_holds_up_neither_the_caller_nor_the_end(monkeypatch, caplog):
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sending = ReportSender(PageAddress.of(f"http://127.0.0.1:{silent.getsockname()[1]}"), interval=0.001)
        for number in range(1000):
            sending.put(report(batches=number % 100))
        sending.close()
        assert not sending._thread.is_alive()
    assert len(own_records(caplog)) == 1
