"""Which requests of browsers are answered: by host, token and origin. No I/O."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from penstock.serving.hosts import is_loopback, refuses_host

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

    def refuses_token(self, headers: Mapping[str, str]) -> str | None:
        """The page's scripts send the token, never a cookie. A browser sends the cookies of a host to all its ports, so
        another user's server on this machine would get it."""
        if self.token is None or self._has_token(headers):
            return None
        return "a token is required: open the URL that penstock watch has printed"

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        return secrets.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())

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
        if self._has_token(headers):
            return None
        return "a token is required: give LagListener the URL that penstock watch has printed"


def _netloc(origin: str) -> str | None:
    """The host and port of an http origin."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") and parts.netloc else None
