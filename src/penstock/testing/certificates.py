"""Keys and certificates for TLS, created at every start by Java's `keytool`.

An identity is one self-signed certificate, which clients trust directly. All files are PEM, which Kafka, Java's clients
and OpenSSL read, and which needs no store password.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.testing.java import find_keytool
from penstock.wire.transport.key_store import load_key

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
    # keytool creates a private key but cannot export it.
    text = load_key(str(store), _STORE_PASSWORD, None)
    store.unlink()
    identity = Identity(directory / f"{name}.key.pem", directory / f"{name}.pem")
    identity.key_file.touch(mode=0o600)
    identity.key_file.write_text(text, "ascii")
    identity.certificate_file.write_text(text[: text.index("-----BEGIN PRIVATE KEY")], "ascii")
    return identity
