"""Keys and certificates for TLS, created at every start by Java's `keytool`.

An identity is one self-signed certificate, which clients trust directly. All files are PEM, which Kafka, Java's clients
and OpenSSL read, and which needs no store password.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.testing.java import find_keytool

_VALID_DAYS = 30
_STORE_PASSWORD = "only-until-read"  # noqa: S105 (the store is removed before the key is used)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key with its certificate in one file, and the certificate alone in another, for trust stores."""

    key_file: Path
    certificate_file: Path


def make_identity(directory: Path, name: str, java: Path, *, subject_alternative: str = "") -> Identity:
    """Create `name`.key.pem and `name`.pem in the directory. Takes about half a second."""
    store = directory / f"{name}.jks"
    command: list[str | Path] = [
        *(
            find_keytool(java),
            "-genkeypair",
            "-alias",
            name,
            "-dname",
            f"CN={name}",
            "-validity",
            str(_VALID_DAYS),
        ),
        *("-keyalg", "EC", "-groupname", "secp256r1", "-sigalg", "SHA256withECDSA"),
        *(
            "-storetype",
            "JKS",
            "-keystore",
            store,
            "-storepass",
            _STORE_PASSWORD,
            "-keypass",
            _STORE_PASSWORD,
        ),
        *(("-ext", f"san={subject_alternative}") if subject_alternative else ()),
    ]
    try:
        ran = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddedBrokerError("keytool did not create a certificate within 60 s") from error
    if ran.returncode != 0:
        raise EmbeddedBrokerError(f"keytool could not create a certificate: {(ran.stdout or ran.stderr).strip()}")
    key, certificate = _read_key_store(store.read_bytes(), _STORE_PASSWORD)
    store.unlink()
    identity = Identity(directory / f"{name}.key.pem", directory / f"{name}.pem")
    certificate_text = _pem("CERTIFICATE", certificate)
    identity.key_file.touch(mode=0o600)
    identity.key_file.write_text(_pem("PRIVATE KEY", key) + certificate_text, "ascii")
    identity.certificate_file.write_text(certificate_text, "ascii")
    return identity


def _pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _read_key_store(store: bytes, password: str) -> tuple[bytes, bytes]:
    """Read the key (PKCS 8) and the certificate (X.509), both DER, from a JKS store with one entry.

    keytool creates a private key but cannot export it. Of its formats only this old one can be read with the standard
    library: the key is XORed with a chain of SHA-1 digests over password and salt.

        magic, version, entries | tag, alias, created | sealed key | chain length | type, certificate
    """
    at = 12
    at += 4  # the tag of a private key entry
    at += 2 + struct.unpack_from(">H", store, at)[0]  # alias
    at += 8  # created
    sealed, at = _sized(store, at)
    at += 4  # chain length: 1, self-signed
    at += 2 + struct.unpack_from(">H", store, at)[0]  # "X.509"
    certificate, _ = _sized(store, at)

    # EncryptedPrivateKeyInfo is a sequence of the algorithm and an octet string: the last thing in it.
    _, at = _der_header(sealed, 0)
    length, at = _der_header(sealed, at)
    length, at = _der_header(sealed, at + length)
    protected = sealed[at : at + length]
    salt, mixed, check = protected[:20], protected[20:-20], protected[-20:]
    secret = password.encode("utf-16-be")
    stream, digest = b"", salt
    while len(stream) < len(mixed):
        digest = hashlib.sha1(secret + digest).digest()  # noqa: S324 (the format's choice)
        stream += digest
    key = bytes(a ^ b for a, b in zip(mixed, stream, strict=False))
    if hashlib.sha1(secret + key).digest() != check:  # noqa: S324
        raise EmbeddedBrokerError("the store of keytool could not be read: it may not be in JKS format")
    return key, certificate


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", data, at)
    return data[at + 4 : at + 4 + length], at + 4 + length


def _der_header(data: bytes, at: int) -> tuple[int, int]:
    """The length of the value at `at`, and the position of its content."""
    length = data[at + 1]
    if length < 0x80:
        return length, at + 2
    size = length & 0x7F
    return int.from_bytes(data[at + 2 : at + 2 + size], "big"), at + 2 + size
