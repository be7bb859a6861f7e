"""Key stores and trust stores as users of Java have them, written by Java's keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from penstock.testing import EmbeddedKafka
from penstock.testing.distribution import get_distribution
from penstock.testing.java import find_keytool

TYPES = {
    "JKS": ("-deststoretype", "JKS"),
    "PKCS12": ("-deststoretype", "PKCS12"),
    "PKCS12 of Java 8": ("-deststoretype", "PKCS12", "-J-Dkeystore.pkcs12.legacy"),
}


def store_options(
    kafka: EmbeddedKafka, kind: str, folder: Path, password: str, key_password: str | None = None
) -> dict[str, str]:
    """Options of a key store and a trust store of this type, for a broker that asks for the client's certificate. Only
    JKS has a password for the key alone."""
    given = kafka.client_options()
    keytool = [find_keytool(get_distribution().java), "-noprompt"]
    key, trust = folder / "key-store", folder / "trust-store"
    # keytool does not read PEM keys.
    source = folder / "source.p12"
    source.write_bytes(_pkcs12(Path(given["kafka.ssl.keystore.location"]).read_bytes(), password))
    passwords = ("-srcstorepass", password, "-deststorepass", password)
    importing = [*keytool, "-importkeystore", "-srckeystore", source, "-destkeystore", key, *passwords, *TYPES[kind]]
    if key_password is not None:
        importing += ["-srcalias", "client", "-srckeypass", password, "-destkeypass", key_password]
    subprocess.run(importing, check=True, capture_output=True, timeout=120)
    ca = given["kafka.ssl.truststore.location"]
    trusting = [*keytool, "-importcert", "-alias", "ca", "-file", ca, "-keystore", trust, "-storepass", password]
    subprocess.run([*trusting, "-storetype", *TYPES[kind][1:]], check=True, capture_output=True, timeout=120)
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.location": str(key),
        "kafka.ssl.keystore.password": password,
        "kafka.ssl.truststore.location": str(trust),
        "kafka.ssl.truststore.password": password,
    } | ({} if key_password is None else {"kafka.ssl.key.password": key_password})


def _pkcs12(pem: bytes, password: str) -> bytes:
    key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption)
