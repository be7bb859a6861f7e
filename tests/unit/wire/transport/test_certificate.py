"""When a certificate expires, read from its bytes."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.wire.transport.certificate import expiry, expiry_in_pem


def pem(end, *, names=1):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 60)] * names)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    signed = made.not_valid_after(end).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("names", [1, 10])  # lengths of one byte, and of several
@pytest.mark.parametrize(
    "end",
    [datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC), datetime(2051, 1, 2, tzinfo=UTC)],
)
def test_the_end_of_a_certificate(end, names):
    assert expiry(ssl.PEM_cert_to_DER_cert(pem(end, names=names))) == end


def test_of_a_chain_the_first_end_counts():
    later = datetime(2040, 1, 1, tzinfo=UTC)
    key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    assert expiry_in_pem(key + pem(later) + pem(later - timedelta(days=9))) == later - timedelta(days=9)
    assert expiry_in_pem(key) is None


def test_a_damaged_certificate_is_a_value_error_or_a_time():
    der = ssl.PEM_cert_to_DER_cert(pem(datetime(2031, 5, 6, tzinfo=UTC)))
    for length in range(len(der)):
        with pytest.raises(ValueError):  # noqa: PT011 (of any text)
            expiry(der[:length])
    for at in range(len(der)):
        for value in (0x00, 0x7F, 0x80, 0x84, 0xFF):
            with contextlib.suppress(ValueError):
                assert isinstance(expiry(der[:at] + bytes([value]) + der[at + 1 :]), datetime)
