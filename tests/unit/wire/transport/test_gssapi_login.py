"""The exchange of GSSAPI with a context that stands in for the Kerberos library's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.wire.transport.gssapi_login import GssapiLogin, Peer
from penstock.wire.transport.kerberos_credentials import package
from penstock.wire.transport.oauth import TokenRefused


class GssapiError(Exception):
    maj_code, min_code = 6 << 16, 0

    def get_all_statuses(self, code, is_major):
        return ["A token had an invalid MIC"] if is_major else []


class Context:
    """Wraps by reversing. Complete after one token of the broker."""

    complete = False

    def step(self, token):
        if token != b"broker's token":
            raise GssapiError
        self.complete = True

    def wrap(self, message, encrypt):
        assert not encrypt
        return SimpleNamespace(message=message[::-1])

    def unwrap(self, message):
        if message == b"forged":
            raise GssapiError
        return SimpleNamespace(message=message[::-1])


@pytest.fixture
def login():
    return GssapiLogin(Context(), b"my token", Peer("kafka", "h"), GssapiError, lambda: False)


def test_the_exchange_ends_with_authentication_only(login):
    assert login.auth_bytes() == b"my token"
    login.receive(b"broker's token")
    assert login.auth_bytes() == b"", "the broker waits for it"
    login.receive(b"\xff\xff\0\x07")
    assert login.auth_bytes() == b"\0\0\0\x01"
    assert not login.is_done()
    assert not login.is_authenticated()
    login.receive(b"")
    assert login.is_done()
    assert login.is_authenticated()


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (b"\0\0\0\x02", "demands the security layer integrity, .*use SASL_SSL"),
        (b"\0\0\0\x06", "demands the security layer integrity or confidentiality"),
        (b"\0\0\0\0", "demands the security layer none that is known"),
        (b"\0\0\x01", "has 3 bytes, not 4"),
        (b"", "has 0 bytes, not 4"),
        (b"forged", "offer of security layers cannot be verified: A token had an invalid MIC"),
    ],
)
def test_other_offers_of_security_layers_are_refused(login, offer, words):
    login.receive(b"broker's token")
    with pytest.raises(TokenRefused, match=words):
        login.receive(offer)
    assert not login.is_authenticated()


def test_a_broker_without_the_services_key_is_refused(login):
    with pytest.raises(TokenRefused, match="the broker could not prove that it is kafka/h: A token had"):
        login.receive(b"another's token")


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(TokenRefused, match=r'pip install "penstock\[kerberos\]"'):
        package()
