"""What `penstock doctor` says about addresses and certificates, without a broker."""

import socket
from datetime import UTC, datetime, timedelta

import pytest

from penstock.cli.doctor.cluster import _until, check_reachable, client_certificate
from penstock.wire.transport.tls import Tls

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("left", "state", "words"),
    [
        (timedelta(days=400), "ok", "is valid until 2027-02-05"),
        (timedelta(days=9), "warning", "expires on 2026-01-10 00:00 UTC, in 9 days"),
        (timedelta(seconds=-1), "failed", "expired on 2025-12-31"),
    ],
)
def test_a_certificate_that_expires(left, state, words):
    found = _until("the certificate", NOW + left, NOW)
    assert found.state == state
    assert words in found.found
    assert ("Renew it" in found.remedy) == (state != "ok")


def test_a_client_without_a_certificate_and_one_that_cannot_be_read(tmp_path):
    assert client_certificate(Tls()).state == "ok"
    missing = client_certificate(Tls(certificate_file=str(tmp_path / "none.pem")))
    assert (missing.state, "ssl.keystore.location" in missing.remedy) == ("failed", True)


def test_an_address_is_reachable_refused_or_unknown():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert check_reachable("127.0.0.1", port).state == "ok"
    refused = check_reachable("127.0.0.1", port)
    assert (refused.state, "refuses connections" in refused.found) == ("failed", True)
    unknown = check_reachable("no-such-host.invalid", 9092)
    assert (unknown.state, "no-such-host.invalid" in unknown.found) == ("failed", True)
