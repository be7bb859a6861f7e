"""By which addresses executors reach the driver."""

from __future__ import annotations

import socket

import pytest

from penstock.planner import driver_address
from penstock.planner.driver_address import reachable_hosts


def test_SPARK_LOCAL_IP_is_the_address():
    assert reachable_hosts([("127.0.0.1", 9)], {"SPARK_LOCAL_IP": "10.1.2.3"}) == ("10.1.2.3",)


@pytest.mark.parametrize("every", ["0.0.0.0", "::", ""])
def test_a_wildcard_address_is_ignored(every):
    assert reachable_hosts([("127.0.0.1", 9)], {"SPARK_LOCAL_IP": every}) == ("127.0.0.1",)


def test_elsewhere_this_machine_is_tried_by_every_address_it_may_have(monkeypatch):
    monkeypatch.setattr(driver_address, "_address_towards", lambda host, port: {"kafka": "10.1.2.3"}.get(host))
    monkeypatch.setattr(driver_address, "_own_addresses", lambda: ["127.0.1.1", "10.1.2.3", "fd00::5"])
    found = reachable_hosts([("kafka", 9092), ("gone", 9092)], {"SPARK_LOCAL_HOSTNAME": "driver.example"})
    assert found == ("127.0.0.1", "10.1.2.3", "driver.example", "fd00::5")


def test_a_broker_whose_name_does_not_resolve_is_not_our_business():
    assert driver_address._address_towards("no such host.invalid", 9092) is None


def test_an_address_that_this_machine_does_not_have_is_one_behind_a_translation(monkeypatch):
    bound = []
    monkeypatch.setattr(socket, "create_server", lambda address, **_: bound.append(address[0]) or refuse(address[0]))

    def refuse(host):
        if host:
            raise OSError(99, "Cannot assign requested address")
        return "a socket"

    assert driver_address.listening_socket(["203.0.113.7"], 1) == "a socket"
    assert bound == ["203.0.113.7", ""]
