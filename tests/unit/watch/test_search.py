"""What browsers may ask for when they search records."""

from __future__ import annotations

import pytest

from penstock.watch.search import BadRequest, SearchRequest, parse_request


def test_a_request():
    assert parse_request(b'{"topic": "t"}') == SearchRequest("t")
    assert parse_request(b'{"topic": "t", "where": " a = 1 ", "limit": 7, "partition": 0}') == SearchRequest(
        "t", "a = 1", 7, 0
    )
    assert parse_request(b'{"topic": "t", "where": "  "}').where is None


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xff", b"[]", b"null", b"[" * 100_000, b"{}", b'{"topic": ""}', b'{"topic": 1}', b'{"topic": ["t"]}'),
        *(b'{"topic": "t", "limit": 0}', b'{"topic": "t", "limit": 201}', b'{"topic": "t", "limit": true}'),
        *(b'{"topic": "t", "limit": 1e3}', b'{"topic": "t", "partition": -1}', b'{"topic": "t", "where": 1}'),
        b'{"topic": "t", "where": "' + b"x" * 20_000 + b'"}',
        b'{"topic": "' + b"t" * 250 + b'"}',
        *(b'{"topic": "t\\ud800"}', b'{"topic": "t", "partition": 2147483648}', b'{"topic": 1' + b"0" * 5000 + b"}"),
    ],
)
def test_other_requests_are_refused(body):
    with pytest.raises(BadRequest):
        parse_request(body)
