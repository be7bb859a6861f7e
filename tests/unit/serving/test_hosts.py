"""Which names of this machine a request may use, as plain values."""

from __future__ import annotations

import pytest

from penstock.serving.hosts import is_loopback, refuses_host

ALLOWED = frozenset({"box.example"})


@pytest.mark.parametrize(
    "host", ["localhost:8765", "localhost", "127.0.0.1:9", "[::1]:8765", "10.1.2.3:80", "LOCALHOST:1"]
)
def test_localhost_and_addresses_are_hosts(host):
    assert refuses_host(host) is None


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example:8765"),
        *("user@localhost", "localhost/x", "localhost:x", "[::1", "box.example", "127.1", "localhost."),
    ],
)
def test_other_names_are_refused_because_dns_may_point_them_at_this_machine(host):
    assert refuses_host(host)


def test_a_name_can_be_allowed():
    assert refuses_host("Box.example:8765", ALLOWED) is None
    assert "--host-name" in refuses_host("other.example", ALLOWED)


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("box", False),
    ],
)
def test_addresses_of_this_machine_only(address, own):
    assert is_loopback(address) is own
