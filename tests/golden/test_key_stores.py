"""Key stores and trust stores that Java's keytool wrote. See capture_key_stores.py."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates

from penstock.errors import AuthenticationFailed
from penstock.wire.transport.key_store import load_key, load_trusted
from penstock.wire.transport.security import Security
from penstock.wire.transport.tls import Tls

STORES = Path(__file__).parent / "key_stores"
PASSWORD = "store password"
KEY_PASSWORD = "other password"
PEM = ssl.DER_cert_to_PEM_cert((STORES / "client.der").read_bytes())


def path(name: str) -> str:
    return str(STORES / name)


def failure(**settings: str | None) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        Security("SSL", Tls(**settings)).tls_context()
    assert PASSWORD not in str(caught.value)
    assert KEY_PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("store", "key_password"),
    [
        ("client.jks", None),
        ("client.jks", PASSWORD),
        ("other-key-password.jks", KEY_PASSWORD),
        ("client.p12", None),
        ("client.p12", PASSWORD),
        ("client-legacy.p12", None),
    ],
)
def test_the_private_key_fits_the_first_certificate(store, key_password):
    text = load_key(path(store), PASSWORD, key_password).encode()
    (certificate,) = load_pem_x509_certificates(text)
    keys = (load_pem_private_key(text, None).public_key(), certificate.public_key())
    first, second = (key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for key in keys)
    assert first == second
    assert certificate.subject.rfc4514_string() == "CN=client"
    tls = Tls(certificate_file=path(store), certificate_password=PASSWORD, key_password=key_password)
    tls.context()
    assert PASSWORD not in repr(tls)


@pytest.mark.parametrize(
    ("store", "password"),
    [
        ("trust.jks", PASSWORD),
        ("trust.jks", None),  # not checked, as in Java
        ("trust.p12", PASSWORD),
        ("trust-legacy.p12", PASSWORD),
        ("trust-open.p12", None),
        ("client.jks", PASSWORD),  # a store with a key: its certificate is trusted, as in Java
    ],
)
@pytest.mark.parametrize("declared", [None, "JKS", "PKCS12"])
def test_a_trust_store_is_opened_by_its_content(store, password, declared):
    assert load_trusted(path(store), password) == (STORES / "client.der").read_bytes()
    context = Tls(ca_file=path(store), ca_password=password, ca_type=declared).context()
    assert len(context.get_ca_certs() or context.cert_store_stats()) > 0
    assert context.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("store", "settings", "words"),
    [
        (
            "client.jks",
            {"certificate_password": "no"},
            r"kafka\.ssl\.keystore\.password: it does not open .*client\.jks",
        ),
        (
            "client.p12",
            {"certificate_password": "no"},
            r"kafka\.ssl\.keystore\.password: it does not open .*client\.p12",
        ),
        ("client.jks", {}, r"kafka\.ssl\.keystore\.password: the password of the JKS store .* is missing"),
        ("client.p12", {}, r"kafka\.ssl\.keystore\.password: the password of the PKCS12 store .* is missing"),
        (
            "other-key-password.jks",
            {"certificate_password": PASSWORD},
            r"kafka\.ssl\.key\.password: the store's password does not open the private key client",
        ),
        (
            "other-key-password.jks",
            {"certificate_password": PASSWORD, "key_password": "no"},
            r"kafka\.ssl\.key\.password: it does not open the private key client",
        ),
        (
            "client.p12",
            {"certificate_password": PASSWORD, "key_password": "no"},
            r"kafka\.ssl\.key\.password: .* has the password of the store",
        ),
        ("trust.jks", {"certificate_password": PASSWORD}, r"kafka\.ssl\.keystore\.location: .* has no private key"),
        ("trust.p12", {"certificate_password": PASSWORD}, r"kafka\.ssl\.keystore\.location: .* has no private key"),
        ("two-keys.jks", {"certificate_password": PASSWORD}, r"2 private keys \(first, second\)"),
        ("client.jceks", {"certificate_password": PASSWORD}, r"location: .* JCEKS store, .* Convert it: keytool"),
        (
            "client.der",
            {"certificate_password": PASSWORD},
            r"location: .*client\.der is not a PKCS12 store, or is damaged",
        ),
        ("missing.jks", {"certificate_password": PASSWORD}, r"location: there is no file .*missing\.jks"),
        (".", {"certificate_password": PASSWORD}, r"location: .* cannot be read: Is a directory"),
        (
            "client.jks",
            {"certificate_password": PASSWORD, "certificate_type": "PEM"},
            r"kafka\.ssl\.keystore\.type: .* is a JKS file, not PEM",
        ),
    ],
)
def test_a_key_store_that_cannot_be_used_names_the_option(store, settings, words):
    import re

    assert re.search(words, failure(certificate_file=path(store), **settings))


@pytest.mark.parametrize(
    ("store", "password", "words"),
    [
        ("trust.jks", "no", r"kafka\.ssl\.truststore\.password: it does not open"),
        ("trust.p12", "no", r"kafka\.ssl\.truststore\.password: it does not open"),
        ("trust.p12", None, r"kafka\.ssl\.truststore\.password: the password of the PKCS12 store .* is missing"),
        ("missing.p12", None, r"kafka\.ssl\.truststore\.location: there is no file"),
        ("../capture.py", None, r"kafka\.ssl\.truststore\.location: .* neither a PEM file nor"),
    ],
)
def test_a_trust_store_that_cannot_be_used_names_the_option(store, password, words):
    import re

    assert re.search(words, failure(ca_file=path(store), ca_password=password))


def test_the_password_of_a_pem_file_is_refused(tmp_path):
    file = tmp_path / "ca.jks"  # the name does not count
    file.write_text(PEM)
    assert Tls(ca_file=str(file)).context().cert_store_stats()["x509"] == 1
    assert "ssl.truststore.password: " in failure(ca_file=str(file), ca_password=PASSWORD)


def test_a_missing_package_is_named_with_the_extra_that_has_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert 'pip install "penstock[keystores]"' in failure(ca_file=path("trust.p12"), ca_password=PASSWORD)
    assert Tls(ca_file=path("trust.jks")).context().cert_store_stats()["x509"] == 1, "JKS needs no package"


def test_consumers_are_told_the_names_without_prefix():
    tls = Tls(ca_file=path("missing.jks"))
    with pytest.raises(AuthenticationFailed, match=r": ssl\.truststore\.location: there is no file"):
        Security("SSL", tls).tls_context("")
