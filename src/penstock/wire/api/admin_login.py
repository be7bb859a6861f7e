"""Lets kafka-python's admin client log in like every other connection of Penstock.

kafka-python finds the class of a mechanism by its name. Those of Penstock take their place for clients that pass a
`Security` in their settings; other programs' clients in the same process get kafka-python's own.
"""

from __future__ import annotations

import time
from typing import Any

import kafka.errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism

from penstock.errors import AuthenticationFailed, BrokerUnavailable, PenstockError
from penstock.wire.transport.oauth import TOKENS, TokenRefused, TokenUnavailable
from penstock.wire.transport.sasl import SaslLogin, new_login
from penstock.wire.transport.scram import ScramError
from penstock.wire.transport.security import MECHANISMS, Security

_CARRIER = "sasl_oauth_token_provider"
"""The setting that carries the Security: kafka-python passes it on and looks at it for OAUTHBEARER only."""

TOKEN_SECONDS = 30.0


def login_settings(security: Security, seconds: float = TOKEN_SECONDS) -> dict[str, Any]:
    """Settings of kafka-python's clients for a login by Penstock.

    Tokens and tickets are there on return, and kept: kafka-python repeats a login that fails until its own time-out,
    and then says no more than that.
    """
    deadline = time.monotonic() + seconds
    try:
        if security.oauth is not None:
            TOKENS.get(security.oauth, deadline)
        if security.kerberos is not None:
            from penstock.wire.transport.kerberos_credentials import CREDENTIALS

            CREDENTIALS.get(security.kerberos, deadline)
    except TokenRefused as error:
        raise AuthenticationFailed(f"SASL {security.sasl_mechanism}: {error}") from error
    except TokenUnavailable as error:
        raise BrokerUnavailable(f"SASL {security.sasl_mechanism}: {error}") from error
    _register()
    return {"sasl_mechanism": security.sasl_mechanism, _CARRIER: security}


class _Login:
    """A mechanism as kafka-python calls it, with its errors."""

    def __init__(self, security: Security, host: str) -> None:
        self._login: SaslLogin = _checked(_new_login, security, host)

    def auth_bytes(self) -> bytes:
        return self._login.auth_bytes()

    def receive(self, auth_bytes: bytes) -> None:
        _checked(self._login.receive, auth_bytes)

    def is_done(self) -> bool:
        return self._login.is_done()

    def is_authenticated(self) -> bool:
        return self._login.is_authenticated()

    def auth_details(self) -> str:
        return "Authenticated by Penstock"


def _new_login(security: Security, host: str) -> SaslLogin:
    deadline = time.monotonic() + TOKEN_SECONDS
    token = None if security.oauth is None else TOKENS.get(security.oauth, deadline)
    return new_login(security, host, token, deadline)


def _checked(step: Any, *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except (PenstockError, ScramError) as error:
        raise kafka_errors.SaslAuthenticationFailedError(str(error)) from error


def _register() -> None:
    for name in MECHANISMS:
        registered = get_sasl_mechanism(name)
        if not getattr(registered, "is_penstocks", False):
            register_sasl_mechanism(name, _chosen(registered), overwrite=True)


def _chosen(others: Any) -> Any:
    def mechanism(**config: Any) -> Any:
        security = config.get(_CARRIER)
        return _Login(security, config["host"]) if isinstance(security, Security) else others(**config)

    mechanism.is_penstocks = True  # type: ignore[attr-defined]
    return mechanism
