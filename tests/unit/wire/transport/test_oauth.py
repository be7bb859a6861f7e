"""OAUTHBEARER against token endpoints that redirect, fail, drip, swell and lie."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest

from penstock.wire.transport import http, oauth
from penstock.wire.transport.oauth import AccessToken, OAuthLogin, TokenCache, TokenRefused, TokenUnavailable
from support.configs import oauth_login
from support.http_server import WAIT, Answer, Server, answer
from support.own_logs import own_records

SECRET = "hush:with/odd@signs"
NOT_IN_TIME = r"took longer than|no (answer|connection) within|the time was up"
"""Either error: which one depends on how busy the machine is."""
GOOD = answer({"access_token": "t0ken", "expires_in": 3600})


@pytest.fixture
def serve() -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def start() -> Server:
        started.append(Server())
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def endpoint(serve) -> Server:
    server: Server = serve()
    server.answers["/token"] = GOOD
    return server


def login_at(server: Server, **more: Any) -> OAuthLogin:
    settings = {"client_id": "me", "client_secret": SECRET, "retry_backoff": 0.001, "retry_backoff_max": 0.01} | more
    return oauth_login(endpoint=f"{server.url}/token", **settings)


def get(login: OAuthLogin, seconds: float = WAIT, cache: TokenCache | None = None) -> str:
    return (cache or TokenCache()).get(login, time.monotonic() + seconds).text


# What is sent


def test_the_grant_is_that_of_client_credentials(endpoint):
    assert get(login_at(endpoint, scope="one two")) == "t0ken"
    [request] = endpoint.requests
    assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["one two"]}
    assert request.headers["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    get(login_at(endpoint, urlencode=True))
    sent = base64.b64decode(endpoint.requests[-1].headers["authorization"].removeprefix("Basic ")).decode()
    assert sent == "me:hush%3Awith%2Fodd%40signs"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_named(serve, endpoint, status):
    elsewhere = serve()
    elsewhere.answers["/token"] = GOOD
    endpoint.answers["/token"] = Answer(b"", status, {"Location": f"{elsewhere.url}/token?key=hush"})
    with pytest.raises(TokenRefused, match=rf"HTTP {status}, redirect to {elsewhere.url}/token\. Redirects") as refused:
        get(login_at(endpoint))
    assert elsewhere.requests == []
    assert "hush" not in str(refused.value)


def test_the_environment_names_no_proxy(endpoint, monkeypatch):
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://127.0.0.1:9")
    assert get(login_at(endpoint)) == "t0ken"


def test_a_proxy_may_stand_in_between(serve):
    proxy = serve()
    proxy.proxy_login = "Basic Ym9iOnB3"
    proxy.answers["http://login.invalid/token"] = GOOD
    login = oauth_login(
        endpoint="http://login.invalid/token",
        client_id="me",
        client_secret=SECRET,
        proxy=proxy.url.replace("//", "//bob:pw@"),
    )
    assert get(login) == "t0ken"
    with pytest.raises(TokenRefused, match=r"\(407\)"):
        get(replace(login, proxy=proxy.url))


# What is tried again


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_retried(endpoint, status):
    endpoint.answers["/token"] = [Answer(b"", status), Answer(b'{"acc', promised=100), GOOD]
    assert get(login_at(endpoint)) == "t0ken"
    assert len(endpoint.requests) == 3


def test_a_refused_connection_is_retried_until_the_deadline(refused_port):
    login = oauth_login(
        endpoint=f"http://127.0.0.1:{refused_port}/t",
        client_id="me",
        client_secret=SECRET,
        retry_backoff=0.001,
        retry_backoff_max=0.001,
    )
    with pytest.raises(TokenUnavailable, match=r"connection refused \(\d+ tries\)") as gone:
        get(login, 0.2)
    assert "hush" not in str(gone.value)


def test_a_try_that_the_deadline_cuts_short_does_not_hide_the_cause(endpoint):
    endpoint.answers["/token"] = [Answer(b"", 503), Answer(b" " * 10_000, pause=0.02)]
    with pytest.raises(TokenUnavailable, match="HTTP 503"):
        get(login_at(endpoint), 0.5)


@pytest.mark.parametrize(
    "trickle",
    [
        Answer(b" " * 10_000, pause=0.02),
        Answer(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000 + b"\r\nContent-Length: 0\r\n\r\n", pause=0.02, head=False),
    ],
    ids=["body", "headers"],
)
def test_an_answer_that_drips_ends_with_the_deadline(endpoint, trickle):
    endpoint.answers["/token"] = trickle  # for 200 s
    with pytest.raises(TokenUnavailable, match=NOT_IN_TIME):
        get(login_at(endpoint), 0.3)


def test_an_endpoint_that_says_nothing_ends_with_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = oauth_login(
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}/t", client_id="me", client_secret=SECRET
        )
        with pytest.raises(TokenUnavailable, match=NOT_IN_TIME):
            get(login, 0.2)
        with pytest.raises(TokenUnavailable, match=NOT_IN_TIME):
            get(replace(login, connect_timeout=0.005, read_timeout=0.005), 0.2)


def test_no_more_of_a_body_is_read_than_a_token_needs(endpoint, monkeypatch):
    read: list[int] = []
    real = http.HTTPResponse.read

    def counted(self: Any, amount: int | None = None) -> bytes:
        piece: bytes = real(self, amount)
        read.append(len(piece))
        return piece

    monkeypatch.setattr(http._TimedResponse, "read", counted)
    endpoint.answers["/token"] = Answer(b" " * (8 << 20))
    with pytest.raises(TokenRefused, match=r"no access_token \(more than 1048576 bytes\)"):
        get(login_at(endpoint))
    assert sum(read) <= (1 << 20) + (1 << 16)
    assert max(read) <= 1 << 16


# What is final


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            answer({"error": "invalid_client", "error_description": "no such client"}, 401),
            "401: invalid_client: no such",
        ),
        (
            answer({"error": "invalid_client", "error_description": f"wrong secret {SECRET}"}, 400),
            r"wrong secret \*\*\*",
        ),
        (Answer(b"<html>\x1b[31mno\nsuch page</html>", 404), r"404: <html> \[31mno such page</html>$"),
        (Answer(b"x" * 2000, 403), r"403: x{300}\.\.\.$"),
        (Answer(b"", 410), "HTTP 410$"),
    ],
    ids=["error", "echo", "html", "long", "empty"],
)
def test_a_refusal_is_final_and_says_what_the_endpoint_said(endpoint, refusal, said):
    endpoint.answers["/token"] = refusal
    with pytest.raises(TokenRefused, match=said) as refused:
        get(login_at(endpoint))
    assert len(endpoint.requests) == 1
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "bad",
    [
        Answer(b"<html>"),
        Answer(b"[" * 100_000),
        answer(["access_token"]),
        answer({"access_token": ""}),
        answer({"access_token": 7}),
        answer({"access_token": "x\x01auth=Bearer other"}),
    ],
    ids=["html", "deep", "list", "empty", "number", "control"],
)
def test_an_answer_without_a_token_is_final(endpoint, bad):
    endpoint.answers["/token"] = bad
    with pytest.raises(TokenRefused, match="has no access_token"):
        get(login_at(endpoint))
    assert len(endpoint.requests) == 1


# What is kept


def jwt(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.c2ln"


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Time as the cache and the client see it: `clock.now` seconds later than it is."""
    fake = SimpleNamespace(now=0.0, sleep=time.sleep)
    fake.monotonic = lambda: time.monotonic() + fake.now
    fake.time = lambda: time.time() + fake.now
    monkeypatch.setattr(oauth, "time", fake)
    monkeypatch.setattr(http, "time", fake)
    return fake


@pytest.mark.parametrize(
    "expires",
    [
        {"access_token": "t0ken", "expires_in": 1000},
        {"access_token": "t0ken", "expires_in": "1000"},
        {"access_token": ""},
        {"id_token": ""},
    ],
    ids=["number", "text", "jwt", "id"],
)
def test_a_token_is_kept_until_shortly_before_it_expires(endpoint, clock, expires):
    now = int(time.time())
    endpoint.answers["/token"] = answer({name: value or jwt(exp=now + 1000) for name, value in expires.items()})
    cache, login = TokenCache(), login_at(endpoint, refresh_jitter=0.0)

    def ask() -> AccessToken:
        return cache.get(login, clock.monotonic() + WAIT)

    assert [ask().is_new, ask().is_new] == [True, False]
    clock.now = 600.0  # 1000 less the 300 of sasl.login.refresh.buffer.seconds, and a test's slowness
    assert not ask().is_new
    clock.now = 701.0
    assert ask().is_new
    assert len(endpoint.requests) == 2


def test_a_token_of_unknown_lifetime_is_not_kept(endpoint):
    endpoint.answers["/token"] = answer({"access_token": "opaque"})
    cache, login = TokenCache(), login_at(endpoint)
    get(login, cache=cache)
    get(login, cache=cache)
    assert len(endpoint.requests) == 2


def test_an_endpoint_that_is_down_does_not_matter_while_the_token_is_valid(endpoint, clock, caplog):
    cache, login = TokenCache(), login_at(endpoint)
    assert cache.get(login, clock.monotonic() + WAIT).is_new
    endpoint.answers["/token"] = Answer(b"", 503)
    clock.now = 3500.0
    for _ in range(3):
        assert cache.get(login, clock.monotonic() + 0.2).text == "t0ken"
    assert len([record for record in own_records(caplog) if "is not renewed yet" in record.getMessage()]) >= 1
    clock.now = 3601.0
    with pytest.raises(TokenUnavailable, match="HTTP 503"):
        cache.get(login, clock.monotonic() + 0.2)


def test_a_token_that_a_broker_refused_is_forgotten(endpoint):
    cache, login = TokenCache(), login_at(endpoint)
    first = cache.get(login, time.monotonic() + WAIT)
    kept = cache.get(login, time.monotonic() + WAIT)
    assert (first.is_new, kept.is_new) == (True, False)
    cache.forget(login, kept)
    assert cache.get(login, time.monotonic() + WAIT).is_new


def test_threads_share_one_request(endpoint):
    cache, login = TokenCache(), login_at(endpoint)
    together = threading.Barrier(8)

    def ask(_: int) -> str:
        together.wait(WAIT)
        return get(login, cache=cache)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"t0ken"}
    assert len(endpoint.requests) == 1


def test_logins_that_differ_in_anything_share_no_token(endpoint):
    cache, login = TokenCache(), login_at(endpoint)
    others = [
        replace(login, client_id="you"),
        replace(login, client_secret="other"),
        replace(login, scope="s"),
        replace(login, extensions=(("a", "b"),)),
        replace(login, endpoint=f"{endpoint.url}/token?x=1"),
        replace(login, tls=replace(login.tls, ca_file="ca.pem")),
    ]
    endpoint.answers["/token?x=1"] = GOOD
    for each in (login, *others):
        assert cache.get(each, time.monotonic() + WAIT).is_new
    assert len(endpoint.requests) == len(others) + 1
    assert SECRET not in repr(login)
    assert pickle.loads(pickle.dumps(login)) == login


def test_a_fork_asks_for_itself(endpoint):
    code = (
        "import os, pickle, sys, threading, time\nfrom penstock.wire.transport.oauth import TOKENS\n"
        "login = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "ask = lambda: TOKENS.get(login, time.monotonic() + 60).is_new\n"
        "ask()\nTOKENS._lock.acquire()\nchild = os.fork()\n"
        "if child == 0:\n    os._exit(0 if ask() and not ask() else 1)\n"
        "TOKENS._lock.release()\nprint(os.waitpid(child, 0)[1], ask())"
    )
    login = oauth_login(endpoint=f"{endpoint.url}/token", client_id="me", client_secret="x")
    command = [sys.executable, "-c", code, pickle.dumps(login).hex()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.stdout == "0 False\n", ran.stderr
    assert len(endpoint.requests) == 2


# Other sources of tokens


def test_a_token_in_a_file_is_read_each_time(tmp_path):
    file = tmp_path / "a token"
    login = oauth_login(endpoint=f"file://{tmp_path}/a%20token")
    with pytest.raises(TokenUnavailable, match="there is no file"):
        get(login)
    cache = TokenCache()
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        assert get(login, cache=cache) == text
    file.write_text("not a\x01token")
    with pytest.raises(TokenRefused, match="is not an access token"):
        get(login)


def test_unsigned_tokens_for_development_have_the_claims_of_the_jaas_line():
    claims = {
        "unsecuredLoginStringClaim_sub": "reader",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginListClaim_scope": ",a,b",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    token = get(oauth_login(claims=tuple(claims.items())))
    payload = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert payload["exp"] - payload.pop("iat") == 60
    assert payload | {"exp": 0} == {"sub": "reader", "n": 1.5, "scope": ["a", "b"], "exp": 0}
