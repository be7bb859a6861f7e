"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), the client's side. Pure.

    client  n,,n=<user>,r=<nonce>
    server  r=<nonce><more>,s=<salt>,i=<iterations>
    client  c=biws,r=<nonce><more>,p=<proof>
    server  v=<signature>

The proof is a hash of the password, and the server chooses its cost. A server that is not the broker could ask for one
iteration and then try millions of passwords per second against the proof, or ask for two billion and hang the client.
Both are refused before a proof is computed. kafka-python's own client accepts one iteration, and does not escape ","
and "=" in user names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

LEAST_ITERATIONS = 4096
"""The limit of Kafka's own clients and brokers: RFC 7677 requires at least this many."""

MOST_ITERATIONS = 1_000_000
"""Half a second of SHA-512 on one core, at every login. Brokers store credentials of at most 16,384."""

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING = "c=biws"  # "n,,"
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")


class ScramError(Exception):
    """The login must not go on. The message says why, and has no secrets."""


class ScramLogin:
    """One login. `auth_bytes` is the next message; `receive` takes the answer and may raise ScramError."""

    def __init__(
        self, user: str, password: str, mechanism: str, nonce: str | None = None, *, is_token: bool = False
    ) -> None:
        """`is_token`: user and password are the id and the HMAC of a delegation token (KIP-48)."""
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_hex(16)
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}" + (",tokenauth=true" if is_token else "")
        self._final: str | None = None
        self._signature = b""
        self._verified = False

    def auth_bytes(self) -> bytes:
        return ("n,," + self._first if self._final is None else self._final).encode()

    def receive(self, answer: bytes) -> None:
        if self._final is None:
            self._prove(answer)
        else:
            self._verify(answer)

    def is_done(self) -> bool:
        return self._verified

    def is_authenticated(self) -> bool:
        return self._verified

    def _prove(self, answer: bytes) -> None:
        found = _attributes(answer, "r", "s", "i")
        nonce = found["r"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not _PRINTABLE.fullmatch(nonce):
            raise ScramError("the server's nonce does not continue ours: it answers another login")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _binary(found["s"]), _iterations(found["i"]))
        without_proof = f"{_NO_CHANNEL_BINDING},r={nonce}"
        exchange = b",".join([self._first.encode(), answer, without_proof.encode()])
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, exchange), strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), exchange)
        self._final = f"{without_proof},p={base64.b64encode(proof).decode()}"

    def _verify(self, answer: bytes) -> None:
        if not hmac.compare_digest(_binary(_attributes(answer, "v")["v"]), self._signature):
            raise ScramError("the server could not prove that it knows the password: it is not the broker")
        self._verified = True

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)


def _attributes(message: bytes, *names: str) -> dict[str, str]:
    """The attributes of a server's message. It must begin with these, in this order; extensions may follow."""
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        pairs = []
    if pairs and pairs[0][0] == "e":
        raise ScramError(f"the server ended the exchange: {pairs[0][2][:200]!r}")
    found = {name: value for name, _, value in pairs}
    if tuple(name for name, *_ in pairs[: len(names)]) != names or len(found) < len(pairs):
        raise ScramError("the server's message is not one of SCRAM")
    return found


def _binary(text: str) -> bytes:
    try:
        if text:
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise ScramError("the server's message is not one of SCRAM")


def _iterations(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ScramError("the server's message is not one of SCRAM")
    shown = text if len(text) < 20 else "10^" + str(len(text) - 1)
    if len(text) >= 20 or int(text) > MOST_ITERATIONS:
        raise ScramError(
            f"the server asks for {shown} iterations, and Penstock computes at most {MOST_ITERATIONS}: more would hang "
            "it. Is that the broker? If it is, store the user's password again with fewer"
        )
    if int(text) < LEAST_ITERATIONS:
        raise ScramError(
            f"the server asks for {shown} iterations, and fewer than {LEAST_ITERATIONS} would let it guess the "
            "password from the answer. Is that the broker? If it is, store the user's password again with more"
        )
    return int(text)
