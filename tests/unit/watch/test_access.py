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
    "cookies",
    [
        None,
        "",
        f"{LOCKED.cookie}=",
        f"{LOCKED.cookie}=wrong",
        f"{LOCKED.cookie}=secret-toke",
        "penstock-watch=secret-token",
        "a=secret-token",
        "\x00;=;=",
        "é",
    ],
)
def test_a_missing_or_wrong_token_is_refused(cookies):
    assert "token" in LOCKED.refuses_token(cookies)


def test_the_right_token_is_accepted_and_none_is_needed_without_one():
    assert LOCKED.refuses_token(f"a=b; {LOCKED.cookie}=secret-token") is None
    assert LOCKED.is_token("secret-token")
    assert not LOCKED.is_token("secret-tokené\ud800")
    assert OPEN.refuses_token(None) is None
    assert not OPEN.is_token("")


def test_two_commands_on_one_host_do_not_take_each_others_cookie():
    """Browsers send the cookies of all ports of a host."""
    other = Access("other-token")
    both = "; ".join(each.set_cookie.partition(";")[0] for each in (LOCKED, other))
    assert LOCKED.refuses_token(both) is None
    assert other.refuses_token(both) is None


def test_the_cookie_stays_on_the_site_and_away_from_scripts():
    assert "SameSite=Lax" in LOCKED.set_cookie
    assert "HttpOnly" in LOCKED.set_cookie
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
