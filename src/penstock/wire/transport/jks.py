"""Java key stores in the format JKS, which was Java's default until Java 8. Pure: bytes in, DER out.

A file is a list of entries, and a digest over the store's password and all bytes before it:

    magic, version, number of entries
    tag 1, alias, created | sealed private key | length of chain | type, certificate ...      a private key entry
    tag 2, alias, created | type, certificate                                                 a trusted certificate
    SHA-1

A private key is XORed with a chain of SHA-1 digests over its password and a salt. Java's own code made that choice.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"

_PRIVATE_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_SEALED_BY_JKS = bytes.fromhex("060a2b060104012a02110101")
"""The object id 1.3.6.1.4.1.42.2.17.1.1, in DER: the only algorithm of this format."""


class JksDamaged(ValueError):
    """The bytes are not a whole JKS store."""


class WrongPassword(ValueError):
    """The password does not fit the store, or the private key."""


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A private key entry. The chain begins with the key's own certificate. Certificates are DER."""

    alias: str
    chain: tuple[bytes, ...]
    sealed: bytes = field(repr=False)

    def open(self, password: str) -> bytes:
        """The private key in PKCS 8, as DER. Raises WrongPassword, or JksDamaged."""
        protected = _protected_key(self.sealed)
        salt, mixed, check = protected[:20], protected[20:-20], protected[-20:]
        secret = password.encode("utf-16-be")
        stream, digest = bytearray(), salt
        while len(stream) < len(mixed):
            digest = hashlib.sha1(secret + digest).digest()  # noqa: S324 (the format's choice)
            stream += digest
        key = bytes(a ^ b for a, b in zip(mixed, stream, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):  # noqa: S324
            raise WrongPassword(self.alias)
        return key


@dataclass(frozen=True, slots=True)
class JksStore:
    keys: tuple[SealedKey, ...]
    trusted: tuple[bytes, ...]
    """The trusted certificates, as DER."""


def read_jks(data: bytes, password: str | None) -> JksStore:
    """The entries of a store. Without a password the digest is not checked, as in Java."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    store = _entries(body)  # first, so that a file that was cut off is not reported as a wrong password
    if password is not None:
        found = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()  # noqa: S324
        if not hmac.compare_digest(found, digest):
            raise WrongPassword("store")
    return store


def _entries(body: bytes) -> JksStore:
    reader = _Reader(body)
    if reader.take(4) != MAGIC:
        raise JksDamaged("it does not begin like a JKS store")
    version = reader.number()
    if version not in (1, 2):
        raise JksDamaged(f"its version {version} is unknown")
    keys, trusted = [], []
    for _ in range(reader.number()):
        tag = reader.number()
        alias = reader.text()
        reader.take(8)  # created
        if tag == _PRIVATE_KEY:
            sealed = reader.sized()
            chain = tuple(reader.certificate(version) for _ in range(reader.number()))
            keys.append(SealedKey(alias, chain, sealed))
        elif tag == _TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise JksDamaged(f"its entry {alias!r} is of the unknown kind {tag}")
    if reader.left:
        raise JksDamaged(f"{reader.left} bytes follow its last entry")
    return JksStore(tuple(keys), tuple(trusted))


class _Reader:
    """Java's DataInputStream over bytes. Never reads past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise JksDamaged("it ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        value: int = struct.unpack(">I", self.take(4))[0]
        return value

    def sized(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        (size,) = struct.unpack(">H", self.take(2))
        return self.take(size).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise JksDamaged(f"it has a certificate of the unknown type {kind!r}")
        return self.sized()


def _protected_key(sealed: bytes) -> bytes:
    """The octet string of an EncryptedPrivateKeyInfo: salt, mixed key and digest."""
    info = _der(sealed, 0x30)[0]
    algorithm, rest = _der(info, 0x30)
    if not algorithm.startswith(_SEALED_BY_JKS):
        raise JksDamaged("its private key is protected by an algorithm that JKS does not have")
    protected = _der(rest, 0x04)[0]
    if len(protected) < 2 * _DIGEST_BYTES:
        raise JksDamaged("its private key ends too early")
    return protected


def _der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first DER value, which must have this tag, and the bytes after it."""
    if len(data) < 2 or data[0] != tag:
        raise JksDamaged("its private key is not a DER structure")
    length, at = data[1], 2
    if length >= 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    if at + length > len(data):
        raise JksDamaged("its private key ends too early")
    return data[at : at + length], data[at + length :]
