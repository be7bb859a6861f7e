"""Tickets of a real KDC: renewed, kept through its outages, one set for each process, and the security layer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid

import pytest

from chaos.processes import until
from penstock.testing.node import LOOPBACK
from penstock.wire.transport.gssapi_login import gssapi_login
from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.kerberos_credentials import CREDENTIALS
from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable
from support.kdc import REALM, Kdc
from support.own_logs import own_records

WAIT_SECONDS = 120.0


@pytest.fixture(autouse=True)
def environment(kdc: Kdc, monkeypatch):
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    CREDENTIALS.forget_all()
    yield
    CREDENTIALS.forget_all()


@pytest.fixture
def reader() -> str:
    return f"reader-{uuid.uuid4().hex[:8]}"


def by_keytab(kdc: Kdc, principal: str, *options: str, **more: object) -> KerberosLogin:
    return KerberosLogin(keytab=str(kdc.add(principal, *options)), principal=principal, use_ticket_cache=False, **more)


def ticket(login: KerberosLogin, seconds: float = WAIT_SECONDS):
    return CREDENTIALS.get(login, time.monotonic() + seconds)


AT_ONCE = {"renew_window": 0.0, "renew_jitter": 0.0, "renew_min_period": 0.0}
"""A ticket that is due as soon as it is there, long before it ends."""


def test_a_ticket_is_renewed_before_it_ends(kdc, reader):
    login = by_keytab(kdc, reader, **AT_ONCE)
    assert ticket(login).principal == f"{reader}@{REALM}"
    assert until(lambda: not ticket(login).is_new and kdc.logins_of(reader) >= 2, WAIT_SECONDS)


def test_a_kdc_that_is_away_does_not_end_a_valid_ticket(kdc, reader, caplog):
    login = by_keytab(kdc, reader, **AT_ONCE)
    ticket(login)
    kdc.stop()
    try:
        assert until(lambda: not ticket(login).is_new and own_records(caplog), WAIT_SECONDS)
        text = own_records(caplog)[0].getMessage()
        assert "the Kerberos ticket is not renewed yet" in text
        assert "Cannot contact any KDC" in text
        assert not ticket(login).is_new
    finally:
        kdc.start()


def test_a_ticket_cache_that_is_filled_again_is_read_again(kdc, reader, tmp_path):
    keytab, cache = kdc.add(reader), tmp_path / "cache"
    login = KerberosLogin(ticket_cache=str(cache), use_keytab=False, **AT_ONCE)
    kdc.kinit(keytab, reader, cache, "-l", "10m")
    assert ticket(login).lifetime <= 600
    kdc.kinit(keytab, reader, cache, "-l", "1h")
    assert until(lambda: ticket(login).lifetime > 600, WAIT_SECONDS)
    assert ticket(login).principal == f"{reader}@{REALM}"


def test_a_silent_kdc_does_not_outlast_the_deadline(kdc, reader, monkeypatch, tmp_path):
    login = by_keytab(kdc, reader)
    with socket.create_server((LOOPBACK, 0)) as silent:
        config = kdc.config.read_text().replace(f":{kdc.port}", f":{silent.getsockname()[1]}")
        (tmp_path / "krb5.conf").write_text(config)
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        began = time.monotonic()
        with pytest.raises(TokenUnavailable, match="the KDC has not answered yet"):
            ticket(login, 0.5)
        assert time.monotonic() - began < 10, "the library alone takes 27 seconds"


def test_a_forked_process_has_tickets_of_its_own(kdc, reader):
    login = by_keytab(kdc, reader)
    program = f"""
import os, sys, time
from penstock.wire.transport.kerberos_credentials import CREDENTIALS, KerberosLogin
login = {login!r}
CREDENTIALS.get(login, time.monotonic() + 60)
child = os.fork()
found = CREDENTIALS.get(login, time.monotonic() + 60)
if child == 0:
    os._exit(0 if found.is_new else 1)
assert not found.is_new
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert kdc.logins_of(reader) == 2


@pytest.mark.parametrize(("layers", "refused"), [(1, None), (7, None), (6, "integrity or confidentiality")])
def test_the_security_layer_of_a_real_acceptor(kdc, reader, layers, refused):
    """Kafka's broker always offers authentication only. Here the service is a context of the Kerberos library."""
    import gssapi

    service = f"svc-{uuid.uuid4().hex[:8]}"
    keytab = kdc.add(f"{service}/{LOOPBACK}")
    login = gssapi_login(by_keytab(kdc, reader, service=service), LOOPBACK, time.monotonic() + WAIT_SECONDS)
    acceptor = gssapi.SecurityContext(
        creds=gssapi.Credentials(usage="accept", store={"keytab": str(keytab)}), usage="accept"
    )
    login.receive(acceptor.step(login.auth_bytes()))
    assert login.auth_bytes() == b""
    offer = acceptor.wrap(bytes((layers, 0, 1, 0)), False).message
    if refused is not None:
        with pytest.raises(TokenRefused, match=f"demands the security layer {refused}"):
            login.receive(offer)
        return
    login.receive(offer)
    assert acceptor.unwrap(login.auth_bytes()).message == b"\x01\0\0\0"
    login.receive(b"")
    assert login.is_authenticated()
    assert str(acceptor.initiator_name) == f"{reader}@{REALM}"


def test_an_acceptor_without_the_services_key_cannot_prove_itself(kdc, reader):
    service = f"svc-{uuid.uuid4().hex[:8]}"
    kdc.add(f"{service}/{LOOPBACK}")
    login = gssapi_login(by_keytab(kdc, reader, service=service), LOOPBACK, time.monotonic() + WAIT_SECONDS)
    with pytest.raises(TokenRefused, match=f"the broker could not prove that it is {service}/{LOOPBACK}"):
        login.receive(os.urandom(120))
