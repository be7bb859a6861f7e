"""OAUTHBEARER with tokens of the user's own function."""

from __future__ import annotations

import base64
import json
import sys
import time
from types import ModuleType

import pytest

from penstock.wire.transport.oauth import TokenCache, TokenRefused, TokenUnavailable
from support.configs import oauth_login

LOGIN = oauth_login(callback="own_tokens:get", entries=(("region", "eu"), ("key", "hush")))


@pytest.fixture
def module(monkeypatch) -> ModuleType:
    """The user's module, which counts the calls of its function in `calls`."""
    made = ModuleType("own_tokens")
    made.calls = []
    made.returns = "t0ken"

    def get(entries):
        made.calls.append(entries)
        if isinstance(made.returns, Exception):
            raise made.returns
        return made.returns

    made.get = get
    monkeypatch.setitem(sys.modules, "own_tokens", made)
    return made


def deadline() -> float:
    return time.monotonic() + 60


def jwt(seconds: float) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + seconds}).encode()).rstrip(b"=").decode()
    return f"e30.{body}.sig"


def test_the_function_gets_the_entries_and_a_token_with_its_end_is_kept(module):
    module.returns = ("t0ken", time.time() + 3600)
    cache = TokenCache()
    assert [cache.get(LOGIN, deadline()).text for _ in range(3)] == ["t0ken"] * 3
    assert module.calls == [{"region": "eu", "key": "hush"}]


def test_the_end_of_a_jwt_is_read_from_it(module):
    module.returns = jwt(3600)
    cache = TokenCache()
    cache.get(LOGIN, deadline())
    cache.get(LOGIN, deadline())
    assert len(module.calls) == 1


@pytest.mark.parametrize("end", [-10, None])
def test_a_token_that_is_over_or_whose_end_is_unknown_is_not_kept(module, end):
    module.returns = "opaque" if end is None else ("opaque", time.time() + end)
    cache = TokenCache()
    cache.get(LOGIN, deadline())
    cache.get(LOGIN, deadline())
    assert len(module.calls) == 2


def test_a_token_is_replaced_ahead_of_its_end_and_the_old_one_serves_while_that_fails(module):
    login = oauth_login(callback="own_tokens:get", refresh_window=0.0, refresh_jitter=0.0, refresh_min_period=0.0)
    module.returns = ("first", time.time() + 60)
    cache = TokenCache()
    assert cache.get(login, deadline()).text == "first"
    module.returns = ConnectionError("away")
    assert cache.get(login, deadline()).text == "first"
    assert len(module.calls) == 2
    cache = TokenCache()
    with pytest.raises(TokenUnavailable, match="own_tokens:get failed: ConnectionError: away"):
        cache.get(login, deadline())


def test_other_errors_are_final(module):
    module.returns = ValueError("no such key")
    with pytest.raises(TokenRefused, match="own_tokens:get failed: ValueError: no such key"):
        TokenCache().get(LOGIN, deadline())


@pytest.mark.parametrize("returned", [None, b"t0ken", ("t0ken",), ("t0ken", "soon"), (1, 2), "two\x01parts", ""])
def test_what_is_not_a_token_is_refused_and_not_shown(module, returned):
    module.returns = returned
    with pytest.raises(TokenRefused, match="own_tokens:get returned") as refused:
        TokenCache().get(LOGIN, deadline())
    assert "t0ken" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [("not_there:get", "not_there.* must be on the path of driver and executors"), ("own_tokens:gte", "has no gte")],
)
def test_a_function_that_does_not_exist_is_named(module, path, words):
    with pytest.raises(TokenRefused, match=words):
        TokenCache().get(oauth_login(callback=path), deadline())
