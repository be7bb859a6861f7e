"""Which requests are answered: hosts, tokens and origins, as plain values."""

from __future__ import annotations

import pytest

from penstock.watch.access import HEADERS, Access, new_token

OPEN = Access()
LOCKED = Access("secret-token", frozenset({"box.example"}))


def test_names_of_other_sites_are_refused_unless_they_are_allowed():
    assert OPEN.refuses_host("localhost:8765") is None
    assert OPEN.refuses_host("box.example:8765")
    assert LOCKED.refuses_host("box.example:8765") is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "secret-token"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer secret-toke"},
        {"Authorization": "Bearer secret-token\xe9"},
        {"Authorization": "Bearer \ud800"},
        {"Authorization": "Basic secret-token"},
        {"Cookie": "token=secret-token"},
    ],
)
def test_a_missing_or_wrong_token_is_refused(headers):
    assert "token" in LOCKED.refuses_token(headers)


def test_the_right_token_is_accepted_and_none_is_needed_without_one():
    assert LOCKED.refuses_token({"Authorization": "Bearer secret-token"}) is None
    assert LOCKED.refuses_token({"Authorization": "bearer secret-token "}) is None
    assert OPEN.refuses_token({}) is None


def test_tokens_are_long_and_not_printed():
    assert "secret" not in repr(LOCKED)
    assert len(new_token()) >= 32
    assert new_token() != new_token()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:8765", "Origin": "http://evil.example"},
        {"Host": "localhost:8765", "Origin": "http://localhost:9999"},
        {"Host": "localhost:8765", "Origin": "null"},
        {"Host": "localhost:8765", "Origin": "http://[::1"},
        {"Host": "localhost:8765", "Sec-Fetch-Site": "cross-site"},
        {"Host": "localhost:8765", "Sec-Fetch-Site": "same-site", "Origin": "http://localhost:8765"},
    ],
)
def test_pages_of_other_origins_are_refused(headers):
    assert OPEN.refuses_origin(headers)


def test_the_own_page_is_not_refused_and_a_post_needs_an_origin():
    own = {"Host": "localhost:8765", "Origin": "http://localhost:8765", "Sec-Fetch-Site": "same-origin"}
    assert OPEN.refuses_origin(own, required=True) is None
    assert OPEN.refuses_origin({"Host": "localhost:8765"}) is None
    assert OPEN.refuses_origin({"Host": "localhost:8765"}, required=True)


def test_the_policy_forbids_inline_scripts_and_other_servers():
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
