"""SASL logins: the client's side of each mechanism.

PLAIN and OAUTHBEARER are here, SCRAM in `scram`, AWS in `aws`, Kerberos in `gssapi_login`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.wire.transport.aws import MskIamLogin
from penstock.wire.transport.oauth import AccessToken
from penstock.wire.transport.scram import HASHES, ScramLogin
from penstock.wire.transport.security import Security


class SaslLogin(Protocol):
    """One login: send `auth_bytes`, pass the answer to `receive`, and repeat until it is done."""

    def auth_bytes(self) -> bytes: ...

    def receive(self, auth_bytes: bytes) -> None: ...

    def is_done(self) -> bool: ...

    def is_authenticated(self) -> bool: ...


class PlainLogin:
    """User and password in one message (RFC 4616)."""

    def __init__(self, user: str, password: str) -> None:
        self._message = "\0".join((user, user, password)).encode()
        self._answer: bytes | None = None

    def auth_bytes(self) -> bytes:
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        self._answer = auth_bytes

    def is_done(self) -> bool:
        return self._answer is not None

    def is_authenticated(self) -> bool:
        return self._answer == b""


class OAuthBearerLogin:
    """An access token in one message (RFC 7628)."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = (f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items()))
        self._message = ("n,,\x01" + "\x01".join(pairs) + "\x01\x01").encode()
        self._done = False

    def auth_bytes(self) -> bytes:
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        if auth_bytes:
            # A refusal. The server waits for this byte, and then ends the login with an error code.
            self._message = b"\x01"
        else:
            self._done = True

    def is_done(self) -> bool:
        return self._done

    def is_authenticated(self) -> bool:
        return self._done


def new_login(security: Security, host: str, token: AccessToken | None, deadline: float) -> SaslLogin:
    """A login by the mechanism of these settings. OAUTHBEARER needs a token. Raises TokenRefused or TokenUnavailable.

    The deadline (time.monotonic) is for a KDC, which Kerberos asks for tickets.
    """
    name = security.sasl_mechanism
    if name in HASHES or name == "PLAIN":
        user, password = security.sasl_username or "", security.sasl_password or ""
        if name == "PLAIN":
            return PlainLogin(user, password)
        return ScramLogin(user, password, name, is_token=security.is_delegation_token)
    if name == "OAUTHBEARER" and security.oauth is not None and token is not None:
        return OAuthBearerLogin(token.text, dict(security.oauth.extensions))
    if security.aws is not None:
        return MskIamLogin(security.aws, host)
    assert security.kerberos is not None, f"the options of {name} make up a login"
    from penstock.wire.transport.gssapi_login import gssapi_login

    return gssapi_login(security.kerberos, host, deadline)
