"""Finds the addresses by which executors reach the driver. Spark does not tell them to a Python source."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping, Sequence

LOOPBACK = "127.0.0.1"


def reachable_hosts(brokers: Iterable[tuple[str, int]], environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The addresses by which executors may reach this machine, the likeliest first.

    SPARK_LOCAL_IP decides if it is set. Otherwise it is the address from which this machine reaches the brokers, which
    executors reach too. If that is loopback, all is on one machine, and nothing listens to the network.
    """
    if (configured := environment.get("SPARK_LOCAL_IP")) and not _is_any(configured):
        return (configured,)
    routes = [address for broker in brokers if (address := _address_towards(*broker)) is not None]
    if routes and all(_is_loopback(address) for address in routes):
        return (routes[0],)
    # Loopback first: tasks on this machine connect at once, and elsewhere it is refused at once.
    named = [name for name in (environment.get("SPARK_LOCAL_HOSTNAME"),) if name]
    own = [address for address in _own_addresses() if not _is_loopback(address)]
    return tuple(dict.fromkeys([LOOPBACK, *(a for a in routes if not _is_loopback(a)), *named, *own]))


def listening_socket(hosts: Sequence[str], backlog: int) -> socket.socket:
    """A socket that listens on the only address, or on all addresses of this machine."""
    if len(hosts) == 1:
        try:
            family = socket.getaddrinfo(hosts[0], 0, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((hosts[0], 0), family=family, backlog=backlog)
        except OSError:
            # With network address translation, executors may see an address that this machine does not have.
            if _is_loopback(hosts[0]):
                raise
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        except OSError:  # compiled in, but switched off
            pass
    return socket.create_server(("", 0), backlog=backlog)


def _address_towards(host: str, port: int) -> str | None:
    """This machine's address on the route to a host. Connecting a datagram socket sends nothing: it only asks the
    routing table."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                try:
                    probe.connect(address)
                except OSError:
                    continue
                return str(probe.getsockname()[0])
    except OSError:  # a name that does not resolve: the client raises an error for it
        pass
    return None


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def _is_any(host: str) -> bool:
    """Whether this is the wildcard address."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
