"""Key stores and trust stores: PEM, and Java's formats JKS and PKCS12. What a file is, its content says.

Java also opens a store by its content, whether its type is given as JKS or as PKCS12. JKS is read here (`jks`), because
no maintained package reads it. PKCS12 is read by `cryptography`, an optional package.
"""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.wire.transport.jks import MAGIC, JksDamaged, WrongPassword, read_jks

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

STORE_TYPES = ("PEM", "JKS", "PKCS12")
FILE_BYTES = 64 << 20
"""The most that is read of a store. Java's own list of authorities has 0.2 MB."""

KEY_STORE, TRUST_STORE = "ssl.keystore", "ssl.truststore"
KEY_PASSWORD = "ssl.key.password"  # noqa: S105 (a name)

_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_CONVERT = "keytool -importkeystore -srckeystore OLD -srcstoretype {} -destkeystore NEW.p12 -deststoretype PKCS12"


class KeyStoreError(OSError):
    """A store cannot be used. `setting` is Kafka's name of the setting to change. Shows no password."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(reason)
        self.setting = setting


def store_type(path: str, declared: str | None, has_password: bool, store: str) -> str:
    """One of STORE_TYPES, by the file's content. Raises KeyStoreError if the user's settings do not fit it.

    `store` is KEY_STORE or TRUST_STORE, for errors.
    """
    found = _type_of(path, _read(path, store), store)
    if declared is not None and (found == "PEM") != (declared == "PEM"):
        raise KeyStoreError(f"{store}.type", f"{path} is a {found} file, not {declared}. Leave the type out")
    if found == "PEM" and has_password:
        more = f"The password of its private key is {KEY_PASSWORD}" if store == KEY_STORE else "Leave it out"
        raise KeyStoreError(f"{store}.password", f"{path} is a PEM file, which has no password of its own. {more}")
    return found


def load_trusted(path: str, password: str | None) -> bytes:
    """The certificates of a JKS or PKCS12 trust store, as concatenated DER: those of its key entries too, like Java."""
    data = _read(path, TRUST_STORE)
    if _type_of(path, data, TRUST_STORE) == "JKS":
        with _explained(path, TRUST_STORE):
            store = read_jks(data, password)
        found = [*store.trusted, *(key.chain[0] for key in store.keys if key.chain)]
    else:
        opened = _open_pkcs12(path, data, password, TRUST_STORE)
        from cryptography.hazmat.primitives.serialization import Encoding

        own = [opened.cert] if opened.cert is not None else []
        found = [one.certificate.public_bytes(Encoding.DER) for one in (*own, *opened.additional_certs)]
    if not found:
        raise KeyStoreError(f"{TRUST_STORE}.location", f"{path} has no certificate")
    return b"".join(found)


def load_key(path: str, password: str | None, key_password: str | None) -> str:
    """Certificate chain and private key of a JKS or PKCS12 store, as PEM. The key is not encrypted: show it nowhere."""
    data = _read(path, KEY_STORE)
    kind = _type_of(path, data, KEY_STORE)
    if password is None:
        raise KeyStoreError(f"{KEY_STORE}.password", f"the password of the {kind} store {path} is missing")
    if kind == "JKS":
        return _key_of_jks(path, data, password, key_password)
    if key_password not in (None, password):
        raise KeyStoreError(
            KEY_PASSWORD, f"{path} is a PKCS12 store, whose private key has the password of the store. Leave it out"
        )
    opened = _open_pkcs12(path, data, password, KEY_STORE)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if opened.key is None or opened.cert is None:
        raise _no_key(path, KEY_STORE)
    others = [one.certificate for one in opened.additional_certs]
    chain = [one.public_bytes(Encoding.PEM).decode() for one in _chain(opened.cert.certificate, others)]
    key = opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return "".join((*chain, key))


@contextlib.contextmanager
def private_file(text: str) -> Iterator[str]:
    """The name of a file with this text, for as long as it takes to read it: the ssl module loads keys from files only.

    On Linux the file is in memory and has a name in this process alone, so that a process that is killed leaves no key
    behind. Elsewhere it is a file that only this user can read.
    """
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("penstock-key", os.MFD_CLOEXEC), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink()


def pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _read(path: str, store: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        raise KeyStoreError(f"{store}.location", f"there is no file {path} on this machine") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise KeyStoreError(f"{store}.location", f"{path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES:
        raise KeyStoreError(f"{store}.location", f"{path} is not a store: it has more than {FILE_BYTES >> 20} MB")
    return data


def _type_of(path: str, data: bytes, store: str) -> str:
    if data.startswith(MAGIC):
        return "JKS"
    if b"-----BEGIN " in data:  # a PEM file may begin with any text
        return "PEM"
    if data.startswith(b"\x30"):  # the tag of a DER sequence
        return "PKCS12"
    if data.startswith(_JCEKS_MAGIC):
        raise KeyStoreError(
            f"{store}.location",
            f"{path} is a JCEKS store, which is not supported. Convert it: {_CONVERT.format('JCEKS')}",
        )
    raise KeyStoreError(f"{store}.location", f"{path} is neither a PEM file nor a JKS or PKCS12 store")


def _key_of_jks(path: str, data: bytes, password: str, key_password: str | None) -> str:
    with _explained(path, KEY_STORE):
        store = read_jks(data, password)
    if not store.keys:
        raise _no_key(path, KEY_STORE)
    if len(store.keys) > 1:
        # Kafka has no setting for an alias. Java picks one by the broker's list of authorities.
        aliases = ", ".join(sorted(key.alias for key in store.keys))
        raise KeyStoreError(
            f"{KEY_STORE}.location",
            f"{path} has {len(store.keys)} private keys ({aliases}). Make a store of one: keytool -importkeystore "
            "-srcalias ALIAS",
        )
    (entry,) = store.keys
    try:
        key = entry.open(password if key_password is None else key_password)
    except WrongPassword:
        password_of = "the store's password" if key_password is None else "it"
        reason = f"{password_of} does not open the private key {entry.alias} in {path}"
        raise KeyStoreError(KEY_PASSWORD, reason) from None
    except JksDamaged as error:
        raise KeyStoreError(f"{KEY_STORE}.location", f"{path} is damaged: {error}") from None
    return "".join((*(pem("CERTIFICATE", one) for one in entry.chain), pem("PRIVATE KEY", key)))


def _open_pkcs12(path: str, data: bytes, password: str | None, store: str) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise KeyStoreError(
            f"{store}.location",
            f"{path} is a PKCS12 store, and the package cryptography is missing. Install it on driver and executors: "
            'pip install "penstock[keystores]"',
        ) from None
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except Exception as error:  # ValueError by its documentation; other types for strange files
        if not str(error).startswith("Invalid password"):
            reason = f"{path} is not a PKCS12 store, or is damaged: {str(error) or type(error).__name__}"
            raise KeyStoreError(f"{store}.location", reason) from None
        reason = f"it does not open {path}" if password else f"the password of the PKCS12 store {path} is missing"
        raise KeyStoreError(f"{store}.password", reason) from None


def _chain(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The leaf and its issuers, in this order: a PKCS12 store has its certificates in any."""
    chain = [leaf]
    left = [one for one in others if one != leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in left if one.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return chain


def _no_key(path: str, store: str) -> KeyStoreError:
    reason = f"{path} has no private key. Is it the trust store? The key store has the client's key and certificate"
    return KeyStoreError(f"{store}.location", reason)


@contextlib.contextmanager
def _explained(path: str, store: str) -> Iterator[None]:
    try:
        yield
    except WrongPassword:
        raise KeyStoreError(f"{store}.password", f"it does not open {path}") from None
    except JksDamaged as error:
        raise KeyStoreError(f"{store}.location", f"{path} is damaged: {error}") from None
