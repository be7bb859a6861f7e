"""OAUTHBEARER: access tokens for a login. They come by the client credentials grant, as in Kafka's Java client, from a
file, from a function of the user, or are unsigned for development.

Tokens of an endpoint and of a function are kept per process until shortly before they expire: a read opens many
connections, and each logs in. Spark's workers fork, and a fork begins without tokens.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import os
import random
import re
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus as form_quoted
from urllib.parse import unquote, urlencode, urlsplit

from penstock.errors import BrokerError
from penstock.masking import MASK, get_logger
from penstock.wire.transport.http_address import shown
from penstock.wire.transport.key_store import KeyStoreError
from penstock.wire.transport.tls import Tls

if TYPE_CHECKING:
    from penstock.wire.transport.http import Answer

log = get_logger(__name__)

TOKEN_BYTES = 1 << 20
"""The most that a token endpoint may answer: Java's limit, within 5%."""

LOGINS_KEPT = 100
REASON_CHARACTERS = 300

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""What RFC 6750 allows. Anything else could end the SASL message early."""

_NUMBER_CLAIM, _LIST_CLAIM, _STRING_CLAIM = (f"unsecuredLogin{kind}Claim_" for kind in ("Number", "List", "String"))
_LIFETIME = "unsecuredLoginLifetimeSeconds"


class TokenUnavailable(BrokerError):
    """The token endpoint, or the user's function, gave no usable answer in time. Retriable."""


class TokenRefused(BrokerError):
    """The token endpoint, or the user's function, refused, or its answer is not a token. Not retriable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """Everything that identifies a login by OAUTHBEARER. Times in seconds. Hashable: tokens are kept by it."""

    endpoint: str | None = field(default=None, repr=False)
    """An http(s) address, or file: with the path of a token. None: by the callback, or unsigned with `claims`."""
    callback: str | None = None
    """The import path of a function that returns tokens, as module:name. It is imported at the first login."""
    entries: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the callback gets."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    audience: str | None = None
    urlencode: bool
    """Whether id and secret are encoded before they go into the header: RFC 6749 says so, many endpoints do not."""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    claims: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls = field(default_factory=Tls)
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float = float("inf")
    read_timeout: float = float("inf")
    retry_backoff: float
    retry_backoff_max: float
    refresh_window: float
    refresh_jitter: float
    refresh_min_period: float
    refresh_buffer: float

    def refresh_after(self, lifetime: float) -> float:
        """Seconds after which a token of this lifetime is replaced, by the rule of Java's client."""
        window = lifetime * min(1.0, self.refresh_window + random.uniform(0, self.refresh_jitter))  # noqa: S311
        if self.refresh_min_period + self.refresh_buffer > lifetime:
            return window
        return max(min(window, lifetime - self.refresh_buffer), self.refresh_min_period)


@dataclass(frozen=True, slots=True)
class AccessToken:
    text: str = field(repr=False)
    is_new: bool = True
    """Whether it was fetched for this login, and not taken from memory."""


@dataclass(slots=True)
class _Kept:
    """The token of one login. `fetching` is held by the thread that asks the endpoint."""

    fetching: threading.Lock = field(default_factory=threading.Lock)
    token: AccessToken | None = None
    refresh_at: float = 0.0
    expires_at: float = 0.0


class TokenCache:
    """The tokens of this process. Any thread calls it."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Start empty. Also after a fork, during which another thread may have held a lock."""
        self._lock = threading.Lock()
        self._kept: dict[OAuthLogin, _Kept] = {}

    def get(self, login: OAuthLogin, deadline: float) -> AccessToken:
        """A token that is valid now. Raises TokenUnavailable when the deadline (time.monotonic) passes before."""
        if login.endpoint is None and login.callback is None:
            return AccessToken(unsecured_token(dict(login.claims)))
        if login.endpoint is not None and login.endpoint.startswith("file:"):
            return AccessToken(_from_file(login.endpoint))
        kept = self._of(login)
        now = time.monotonic()
        known = kept.token if now < kept.expires_at else None
        if known is not None and now < kept.refresh_at:
            return known
        # A token that is due but still valid is good enough while another thread fetches the next one.
        if not kept.fetching.acquire(timeout=0 if known else max(0.0, deadline - now)):
            if known is not None:
                return known
            source = login.callback or shown(login.endpoint or "")
            raise TokenUnavailable(f"{source}: no answer to another thread's request yet")
        try:
            now = time.monotonic()
            if kept.token is not None and now < kept.refresh_at:
                return kept.token  # another thread was quicker
            try:
                found, lifetime = fetch_token(login, now + (deadline - now) / 2 if known else deadline)
            except TokenUnavailable as error:
                if known is None:
                    raise
                log.warning("the access token is not renewed yet: %s. The old one is still valid", error)
                kept.refresh_at = time.monotonic() + login.retry_backoff_max
                return known
            kept.token = replace(found, is_new=False)
            kept.expires_at, kept.refresh_at = now + lifetime, now + login.refresh_after(lifetime)
            return found
        finally:
            kept.fetching.release()

    def forget(self, login: OAuthLogin, token: AccessToken) -> None:
        """Drop a token that the broker has refused: the next login fetches another one."""
        kept = self._of(login)
        if kept.token is not None and kept.token.text == token.text:
            kept.token, kept.expires_at = None, 0.0

    def _of(self, login: OAuthLogin) -> _Kept:
        with self._lock:
            if login not in self._kept:
                while len(self._kept) >= LOGINS_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[login] = _Kept()
            return self._kept[login]


TOKENS = TokenCache()
os.register_at_fork(after_in_child=TOKENS.forget_all)


def fetch_token(login: OAuthLogin, deadline: float) -> tuple[AccessToken, float]:
    """A new token of the login, and for how many seconds it is valid (0 if that is not known)."""
    if login.callback is not None:
        return _from_callback(login.callback, dict(login.entries))
    from penstock.wire.transport.http import HttpClient, HttpRefused, HttpUnavailable, Request, RetryPolicy, basic

    assert login.endpoint is not None
    encoded = form_quoted if login.urlencode else str
    form = {"grant_type": "client_credentials"}
    form |= {name: value for name, value in (("scope", login.scope), ("audience", login.audience)) if value}
    headers = {
        "Authorization": basic(encoded(login.client_id), encoded(login.client_secret)),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "User-Agent": "penstock",
    }
    policy = RetryPolicy(
        login.connect_timeout + login.read_timeout,
        connect_timeout=login.connect_timeout,
        deadline=deadline,
        backoff=login.retry_backoff,
        backoff_max=login.retry_backoff_max,
    )
    try:
        client = HttpClient(
            tls=login.tls if login.endpoint.startswith("https:") else None, body_limit=TOKEN_BYTES, proxy=login.proxy
        )
    except OSError as error:
        setting = f"{error.setting}: " if isinstance(error, KeyStoreError) else ""
        where = shown(login.endpoint)
        raise TokenRefused(f"the TLS files for {where} cannot be loaded ({setting}{error})") from None
    try:
        request = Request("POST", "", headers, urlencode(form).encode())
        _, answer = client.call([login.endpoint], request, policy)
    except HttpUnavailable as error:
        tries = f" ({len(error.history)} tries)" if len(error.history) > 1 else ""
        raise TokenUnavailable(f"{error}{tries}") from None
    except HttpRefused as error:
        raise TokenRefused(str(error)) from None
    finally:
        client.close()
    return _token_in(login, answer)


def _token_in(login: OAuthLogin, answer: Answer) -> tuple[AccessToken, float]:
    assert login.endpoint is not None
    where = shown(login.endpoint)
    if answer.redirect is not None:
        raise TokenRefused(
            f"{where} answers {answer.redirect}. Redirects are not followed: they would carry the client's secret to "
            "another place"
        )
    if answer.status != 200:
        reason = _refusal_reason(login, answer)
        raise TokenRefused(f"{where} answers HTTP {answer.status}" + (f": {reason}" if reason else ""))
    document = _parsed(answer.body) if answer.whole else {}
    token = document.get("access_token") or document.get("id_token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        size = f"{len(answer.body)} bytes" if answer.whole else f"more than {TOKEN_BYTES} bytes"
        raise TokenRefused(f"the answer of {where} has no access_token ({size})")
    return AccessToken(token), _lifetime(document.get("expires_in"), token)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _refusal_reason(login: OAuthLogin, answer: Answer) -> str:
    """The endpoint's reason for a refusal, in one line, without the client's secret, which some endpoints echo."""
    document = _parsed(answer.body)
    words = [document[name] for name in ("error", "error_description") if isinstance(document.get(name), str)]
    reason = ": ".join(words) or answer.body[:1000].decode("utf-8", "replace")
    for secret in filter(None, (login.client_secret, form_quoted(login.client_secret))):
        reason = reason.replace(secret, MASK)
    reason = " ".join("".join(character if character.isprintable() else " " for character in reason).split())
    return reason if len(reason) <= REASON_CHARACTERS else reason[:REASON_CHARACTERS] + "..."


def _lifetime(expires_in: object, token: str) -> float:
    """The lifetime by the answer, else by the token itself if it is a JWT."""
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdigit():
        expires_in = int(expires_in)
    if isinstance(expires_in, int | float) and not isinstance(expires_in, bool):
        return max(0.0, float(min(expires_in, 10**9)))
    try:
        payload = token.split(".")[1]
        ends = _parsed(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).get("exp")
    except (IndexError, binascii.Error, ValueError):
        return 0.0
    return max(0.0, min(ends, 10**12) - time.time()) if isinstance(ends, int | float) else 0.0


def _from_callback(path: str, entries: dict[str, str]) -> tuple[AccessToken, float]:
    """The token of the user's function. An OSError, which the errors of most HTTP packages are, is retriable."""
    module, _, name = path.partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except ImportError as error:
        raise TokenRefused(
            f"{path} cannot be imported: {error}. The module must be on the path of driver and executors"
        ) from error
    except AttributeError:
        raise TokenRefused(f"{path} cannot be imported: the module {module} has no {name}") from None
    try:
        returned = function(entries)
    except (TokenUnavailable, TokenRefused):
        raise
    except OSError as error:
        raise TokenUnavailable(f"{path} failed: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise TokenRefused(f"{path} failed: {type(error).__name__}: {error}") from error
    match returned:
        case str() as token:
            lifetime = _lifetime(None, token)
        case (str() as token, int() | float() as expires_at):
            lifetime = max(0.0, float(expires_at) - time.time())
        case _:
            what = f"{type(returned).__name__}"
            raise TokenRefused(f"{path} returned a {what}, not a token, or a token and the time at which it expires")
    if not _TOKEN.fullmatch(token):
        raise TokenRefused(f"{path} returned a text that is not an access token")
    return AccessToken(token), lifetime


def _from_file(url: str) -> str:
    """The token in a file. Read each time, because the program that writes it also replaces it."""
    path = unquote(urlsplit(url).path)
    try:
        with Path(path).open("rb") as file:
            text = file.read(TOKEN_BYTES + 1).decode("ascii").strip()
    except FileNotFoundError:
        raise TokenUnavailable(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise TokenRefused(f"the token in {path} cannot be read: {reason}") from None
    if len(text) > TOKEN_BYTES or not _TOKEN.fullmatch(text):
        raise TokenRefused(f"the content of {path} is not an access token")
    return text


def unsecured_token(claims: dict[str, str]) -> str:
    """An unsigned token from the unsecuredLogin* entries of the JAAS line: for development, as in Java's client."""
    now = int(time.time())
    payload: dict[str, Any] = {"iat": now, "exp": now + int(claims.get(_LIFETIME, "3600"))}
    for name, value in claims.items():
        if name.startswith(_STRING_CLAIM):
            payload[name.removeprefix(_STRING_CLAIM)] = value
        elif name.startswith(_NUMBER_CLAIM):
            payload[name.removeprefix(_NUMBER_CLAIM)] = float(value)
        elif name.startswith(_LIST_CLAIM):  # the first character is the separator
            payload[name.removeprefix(_LIST_CLAIM)] = value[1:].split(value[:1]) if value else []

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(payload)}."


def check_claim(name: str, value: str) -> str | None:
    """What is wrong with an unsecuredLogin* entry; None if nothing is."""
    if name.startswith((_STRING_CLAIM, _LIST_CLAIM)):
        return None
    if name == _LIFETIME:
        return None if value.isascii() and value.isdigit() else "is not a whole number"
    if not name.startswith(_NUMBER_CLAIM):
        return "is not supported"
    try:
        float(value)
    except ValueError:
        return "is not a number"
    return None
