"""SASL mechanism GSSAPI (RFC 4752): a login by Kerberos. python-gssapi, an optional package, calls the Kerberos library
of the machine.

Kafka uses GSSAPI for the login only: records are encrypted by TLS, or not at all. So the security layer is always
"authentication only".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.kerberos_credentials import CREDENTIALS, call_within, package
from penstock.wire.transport.kerberos_errors import explained
from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable

AUTHENTICATION_ONLY = 1
LAYERS = {AUTHENTICATION_ONLY: "authentication only", 2: "integrity", 4: "confidentiality"}
"""The bits of RFC 4752, section 3.3."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The service that the broker has to prove to be."""

    service: str
    host: str

    def __str__(self) -> str:
        return f"{self.service}/{self.host}"


class GssapiLogin:
    """One login by GSSAPI: the tokens of both sides, then the choice of a security layer."""

    def __init__(
        self, context: Any, message: bytes, peer: Peer, errors: type[Exception], forget: Callable[[], bool]
    ) -> None:
        """`context` is an initiator's security context, and `message` its first token. `errors` are those of GSSAPI.
        `forget` drops the tickets that are kept, and returns whether this login used such."""
        self._context = context
        self._message = message
        self._peer = peer
        self._errors = errors
        self.forget_tickets = forget
        self._has_chosen = False
        self._done = False

    def auth_bytes(self) -> bytes:
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        """Raises TokenRefused."""
        if self._has_chosen:
            self._done = True
        elif self._context.complete:
            self._message = self._choose_layer(auth_bytes)
            self._has_chosen = True
        else:
            try:
                # None after the broker's last token: the broker then waits for an empty message.
                self._message = self._context.step(auth_bytes) or b""
            except self._errors as error:
                raise explained(f"the broker could not prove that it is {self._peer}", error) from error

    def is_done(self) -> bool:
        return self._done

    def is_authenticated(self) -> bool:
        return self._done

    def _choose_layer(self, wrapped: bytes) -> bytes:
        try:
            offer: bytes = self._context.unwrap(wrapped).message
        except self._errors as error:
            raise explained("the broker's offer of security layers cannot be verified", error) from error
        if len(offer) != 4:
            raise TokenRefused(f"the broker's offer of security layers has {len(offer)} bytes, not 4")
        if not offer[0] & AUTHENTICATION_ONLY:
            wanted = " or ".join(name for bit, name in LAYERS.items() if offer[0] & bit) or "none that is known"
            raise TokenRefused(
                f"the broker demands the security layer {wanted}, and Kafka's clients have none. Set its sasl.qop to "
                "auth, and use SASL_SSL for encryption"
            )
        # No layer, so no buffer; and no other name to act for, so the broker takes that of the ticket.
        choice = bytes((AUTHENTICATION_ONLY, 0, 0, 0))
        answer: bytes = self._context.wrap(choice, False).message
        return answer


def gssapi_login(login: KerberosLogin, host: str, deadline: float) -> GssapiLogin:
    """A login to the broker on this host. Raises TokenRefused or TokenUnavailable."""
    gssapi = package()
    credential = CREDENTIALS.get(login, deadline)
    peer = Peer(login.service, login.domain or host)
    flag = gssapi.RequirementFlag
    context = gssapi.SecurityContext(
        name=gssapi.Name(f"{peer.service}@{peer.host}", gssapi.NameType.hostbased_service),
        creds=credential.handle,
        usage="initiate",
        mech=gssapi.MechType.kerberos,
        flags=flag.mutual_authentication | flag.integrity | flag.replay_detection | flag.out_of_sequence_detection,
    )
    errors = gssapi.exceptions.GSSError

    def forget() -> bool:
        CREDENTIALS.forget(login)
        return not credential.is_new

    try:
        first = call_within(deadline, context.step)
    except errors as error:
        failure = explained(f"{credential.principal} gets no ticket for the brokers' service {peer}", error)
        if isinstance(failure, TokenRefused) and forget():
            # Retriable: a new ticket may be accepted.
            raise TokenUnavailable(str(failure)) from error
        raise failure from error
    return GssapiLogin(context, first or b"", peer, errors, forget)
