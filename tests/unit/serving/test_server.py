"""The HTTP server that the page and the exporter share: its connections, its headers, its end."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import sys
import time

import pytest

from penstock.serving import server as server_module
from penstock.serving.server import Answer, HttpServer

DEADLINE = 60.0


def echo(connection):
    connection.send(Answer(200, "text/plain", connection.single_headers().get("Host", "none").encode()))


def served():
    return HttpServer("127.0.0.1", 0, echo, name="test-http", connections=2, headers={"X-Own": "1"}, secret="s3cret")


@pytest.fixture
def server():
    made = served()
    yield made
    made.close()


def opened(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE)


def test_an_answer_has_its_length_and_headers_and_a_head_no_body(server):
    for method, body in (("GET", b"localhost"), ("HEAD", b"")):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        connection.request(method, "/", headers={"Host": "localhost"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Length"], answer.headers["X-Own"]) == (200, "9", "1")
        assert answer.read() == body
        connection.close()


def test_a_header_that_is_sent_twice_counts_as_none(server):
    with opened(server) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert raw.makefile("rb").read().endswith(b"\r\n\r\nnone")


def test_a_secret_in_a_path_is_not_logged_and_control_characters_are_escaped(server, caplog):
    caplog.set_level(logging.DEBUG, "penstock.serving.server")
    with opened(server) as raw:
        raw.sendall(b"GET /?token=s3cret\x1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n")
        raw.makefile("rb").read()
    assert "token=***" in caplog.text
    assert "s3cret" not in caplog.text
    assert "\x1b" not in caplog.text


def test_connections_beyond_the_limit_get_a_503_and_the_end_of_one_makes_room(server):
    silent = [opened(server), opened(server)]
    try:
        with opened(server) as refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503")
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent[0].makefile("rb").read().endswith(b"localhost"), "the answer ends the connection"
        with opened(server) as another:
            another.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert another.recv(100).startswith(b"HTTP/1.0 200")
    finally:
        for each in silent:
            each.close()


def test_closing_cuts_connections_that_are_still_open():
    server = served()
    with opened(server) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        with opened(server) as second, opened(server) as refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503"), "both are accepted by now"
            server.close()
            assert second.recv(100) == b""
        assert silent.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        opened(server)


def test_a_request_that_comes_byte_by_byte_ends_at_its_deadline(monkeypatch):
    """Each byte arrives within the limit of a single read, so such limits alone would hold the connection forever."""
    monkeypatch.setattr(server_module, "CLIENT_SECONDS", 0.5)
    server = served()
    try:
        with opened(server) as slow:
            began = time.monotonic()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                while time.monotonic() - began < DEADLINE:
                    slow.sendall(b"G" if time.monotonic() - began < 0.05 else b"E")
                    slow.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        assert slow.recv(100) == b""
                        break
            assert 0.5 <= time.monotonic() - began < DEADLINE
    finally:
        server.close()


@pytest.mark.parametrize("head", [b"X: " + b"x" * 60_000 + b"\r\n", b"X: y\r\n" * 20_000], ids=["long", "many"])
def test_a_head_that_is_too_large_is_refused(server, head):
    with opened(server) as raw:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + head * 2)
        with contextlib.suppress(ConnectionResetError):  # what was not read
            assert raw.recv(100).startswith(b"HTTP/1.0 431")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET http://[ HTTP/1.1", 400),
        (b"GET /<b>x</b> HTTP/9.9", 505),
        (b"<script> / HTTP/1.1", 501),
        (b"GET / <script> HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nA b: <b>", 200),
    ],
)
def test_a_request_that_is_not_understood_is_not_repeated_in_the_answer(server, line, status):
    with opened(server) as raw:
        raw.sendall(line + b"\r\nHost: localhost\r\n\r\n")
        answer = raw.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.0 %d" % status)
    assert b"X-Own: 1" in answer
    assert b"<" not in answer


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address")
def test_one_address_cannot_hold_all_connections():
    server = HttpServer("127.0.0.1", 0, echo, name="test-http", connections=4, headers={})
    silent = [opened(server) for _ in range(3)]
    try:
        with opened(server) as refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503")
        with socket.create_connection(
            ("127.0.0.1", server.port), timeout=DEADLINE, source_address=("127.0.0.2", 0)
        ) as other:
            other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.0 200")
    finally:
        for each in silent:
            each.close()
        server.close()
