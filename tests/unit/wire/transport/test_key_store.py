"""Certificate chains from stores, and the file that hands a private key to OpenSSL."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from penstock.wire.transport.key_store import load_key, private_file
from penstock.wire.transport.tls import Tls


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def signed(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey):
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name(issuer), name(subject), key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    return made.sign(by, hashes.SHA256())


def test_a_chain_begins_with_the_clients_certificate_and_has_only_its_issuers(tmp_path):
    client, middle, root = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    leaf = signed("client", "middle", client, middle)
    others = [signed("root", "root", root, root), signed("other", "other", root, root)]
    others.append(signed("middle", "root", middle, root))
    file = tmp_path / "store.p12"
    file.write_bytes(pkcs12.serialize_key_and_certificates(b"a", client, leaf, others, BestAvailableEncryption(b"pw")))
    found = x509.load_pem_x509_certificates(load_key(str(file), "pw", None).encode())
    assert [one.subject.rfc4514_string() for one in found] == ["CN=client", "CN=middle", "CN=root"]


def test_an_intermediate_authority_can_be_trusted_alone(tmp_path):
    """As in Java. OpenSSL would otherwise ask for the root."""
    import ssl

    key = ec.generate_private_key(ec.SECP256R1())
    middle = signed("middle", "root", key, key).public_bytes(Encoding.PEM).decode()
    assert Tls(ca_pem=middle).context().verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert not Tls().context().verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_file_of_a_private_key_is_for_this_user_alone_and_is_gone_afterwards(monkeypatch, tmp_path, in_memory):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    elif not hasattr(os, "memfd_create"):
        pytest.skip("files in memory: Linux only")
    with private_file("the key") as file:
        assert Path(file).read_text() == "the key"
        on_disk = list(tmp_path.iterdir())
        assert on_disk == ([] if in_memory else [Path(file)])
        if not in_memory:
            assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    assert not Path(file).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_file_is_gone_after_an_error_too(monkeypatch, tmp_path, in_memory):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ZeroDivisionError), private_file("the key") as file:
        raise ZeroDivisionError
    assert not Path(file).exists()
    assert list(tmp_path.iterdir()) == []
