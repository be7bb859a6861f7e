"""Addresses of HTTP endpoints: checked, without a log-in in them, and whether they need TLS. Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit, urlunsplit

from penstock.errors import OptionError


def without_login(
    option: str, url: str, example: str = "https://registry:8081", *, query: bool = False
) -> tuple[str, tuple[str, str] | None]:
    """An address without its user and password, and these two. Errors do not show the address: it may have secrets."""
    example = f"Example: {example}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OptionError(option, None, "is not an address", example) from None
    if parts.scheme not in ("http", "https") or not host:
        raise OptionError(option, None, "must begin with http:// or https:// and a host's name", example)
    if parts.fragment or (parts.query and not query):
        raise OptionError(option, None, f"must be an address without {'#' if query else '? and #'}", example)
    if any(character <= " " or character == "\x7f" for character in url):
        raise OptionError(option, None, "has spaces or control characters in it", example)
    login = None
    if parts.username is not None:
        login = (unquote(parts.username), unquote(parts.password or ""))
    place = f"[{host}]" if ":" in host else host
    place += "" if port is None else f":{port}"
    return urlunsplit((parts.scheme, place, parts.path, parts.query, "")), login


def check_proxy(option: str, url: str) -> None:
    """Raise OptionError unless this is a proxy's address, with or without a log-in."""
    address, _ = without_login(option, url, "http://proxy:3128")
    if not address.startswith("http:"):
        raise OptionError(
            option,
            None,
            "must begin with http://: Penstock speaks no TLS to a proxy",
            "An https:// endpoint stays encrypted from end to end, in a tunnel through the proxy",
        )


def shown(url: str) -> str:
    """An address for errors and logs: scheme, host and path. A query may have a key."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "(not an address)"


def sends_plaintext(url: str) -> bool:
    """Whether requests cross a network unencrypted: http:// to another machine than this one.

    Decided by the name as written, not by what it resolves to: a resolver may be wrong.
    """
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    host = (parts.hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
