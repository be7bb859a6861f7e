"""Which names of this machine a request may use, against DNS rebinding. No I/O.

There another site's name leads to this machine, so that a page of that site may read the answers. The browser then
sends the name of that site, never an address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Set
from urllib.parse import urlsplit


def refuses_host(host: str | None, allowed: Set[str] = frozenset()) -> str | None:
    """Why a Host header is refused, or None. Addresses, localhost and the `allowed` names are accepted.

    The port is not compared: it differs behind `ssh -L`.
    """
    name = _host_name(host)
    if name is None:
        return "the request has no valid Host header"
    if name == "localhost" or name in allowed or _address(name) is not None:
        return None
    return "this host name is not allowed: --host-name NAME allows it"


def is_loopback(address: str) -> bool:
    """Whether a server that listens on this address is reachable from this machine only."""
    if address.lower() == "localhost":
        return True
    found = _address(address)
    return found is not None and found.is_loopback


def _host_name(host: str | None) -> str | None:
    """`[::1]:8765` -> `::1`, `localhost:8765` -> `localhost`."""
    if not host:
        return None
    try:
        parts = urlsplit(f"//{host}")
        valid = parts.port is None or parts.port >= 0
    except ValueError:
        return None
    if not valid or parts.path or parts.query or parts.fragment or "@" in host:
        return None
    return parts.hostname


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
