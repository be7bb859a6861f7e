"""Which requests of browsers are answered: by host, token and origin. No I/O."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from penstock.serving.hosts import is_loopback, refuses_host

COOKIE = "penstock-watch-"
"""Before a digest of the token. Cookies of one host are shared by all its ports: several commands need a name each."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer. The page has no inline script or style, and no text becomes markup: the policy forbids both."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must show. Each check returns the reason to refuse it, or None."""

    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    """Names of this machine that browsers may use, besides localhost and addresses."""

    def refuses_host(self, host: str | None) -> str | None:
        """Names of other sites, which DNS may point at this machine."""
        return refuses_host(host, self.hosts)

    def refuses_token(self, cookies: str | None) -> str | None:
        if self.token is None or self.is_token(_cookie(cookies, self.cookie)):
            return None
        return "a token is required: open the URL that penstock watch has printed"

    def is_token(self, given: str | None) -> bool:
        if self.token is None or given is None:
            return False
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def refuses_origin(self, headers: Mapping[str, str], *, required: bool = False) -> str | None:
        """Requests that another site's page makes. `required`: browsers send an origin with every POST."""
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "requests from other sites are refused"
        origin = headers.get("Origin")
        if origin is None:
            return "the request has no Origin header" if required else None
        if _netloc(origin) != headers.get("Host", "").lower():
            return "requests from other origins are refused"
        return None

    def refuses_report(self, client: str, headers: Mapping[str, str]) -> str | None:
        """Reports of streaming queries come from drivers. Browsers send an origin with every POST, and drivers none."""
        if "Origin" in headers or any(name.startswith("Sec-Fetch-") for name in headers):
            return "reports of queries come from their drivers, not from browsers"
        if self.token is None:
            return None if is_loopback(client) else "reports without a token come from this machine only"
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return None
        return "a token is required: give LagListener the URL that penstock watch has printed"

    @property
    def cookie(self) -> str:
        return COOKIE + hashlib.sha256((self.token or "").encode()).hexdigest()[:8]

    @property
    def set_cookie(self) -> str:
        """Lax: with Strict, the URL in a chat or a mail would lead to a page without its cookie. What another site's
        link can open with it is the page alone; `refuses_origin` keeps the data from other sites."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"


def _netloc(origin: str) -> str | None:
    """The host and port of an http origin."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") and parts.netloc else None


def _cookie(header: str | None, name: str) -> str | None:
    if header is None:
        return None
    cookies = SimpleCookie()
    try:
        cookies.load(header)
    except CookieError:
        return None
    found = cookies.get(name)
    return None if found is None else found.value
