"""Errors of Kerberos in plain words: the step that failed, the library's reason, and what to do."""

from __future__ import annotations

from typing import Any

from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable

_BASE = -1765328384
"""The first of MIT's and Heimdal's error codes: the others are counted from it. RFC 4120 defines those up to 127."""

_EXPIRED_CREDENTIALS = 11 << 16
_ROUTINE_ERRORS = 0xFF << 16

NO_TICKETS = (141, 195)
"""There is no ticket cache, or no key for a new ticket: KRB5_CC_NOTFOUND, KRB5_FCC_NOFILE."""

_UNREACHABLE = (29, 156)
"""Retriable: KDC_ERR_SVC_UNAVAILABLE, KRB5_KDC_UNREACH."""

_CLOCK = "Set the clocks of this machine, the KDC and the brokers by NTP: they may differ by five minutes"
_KEY = "The keytab's key is not the principal's current one: have a new keytab exported"
_REALM = "Check the realm in the principal, and [realms] in krb5.conf (KRB5_CONFIG names another file)"
_KINIT = "Run kinit again, or use a keytab, from which Penstock renews tickets itself"

_HINTS = {
    1: "The principal has expired: have it extended",
    6: "The KDC does not have this principal: check its spelling and its realm",
    7: "Check sasl.kerberos.service.name, and that the host is the one in the brokers' principal; "
    "sasl.kerberos.domain.name sets another",
    12: "A policy of the KDC forbids it",
    14: "The KDC and this machine have no encryption type in common: check permitted_enctypes in krb5.conf, and the "
    "keys in the keytab",
    18: "The principal is locked: have it unlocked",
    23: "The principal's password has expired: have it changed, and a new keytab exported",
    24: _KEY,
    29: "The KDC is not available: it is tried again",
    31: _KEY,
    32: _KINIT,
    33: _CLOCK,
    37: _CLOCK,
    148: _CLOCK,
    152: _KEY,
    154: _REALM,
    156: "Check that the KDC in krb5.conf runs and is reachable from this machine: port 88, UDP and TCP",
    194: "Check the permissions of the ticket cache",
    220: "Check the names of the KDCs in krb5.conf, and DNS",
    224: "Set default_realm in krb5.conf, or a principal with its realm",
}


def code_of(error: Any) -> int | None:
    """The number of an error in Kerberos' own table; None for an error of another one."""
    minor = int(error.min_code) & 0xFFFFFFFF
    number = minor - (_BASE & 0xFFFFFFFF)
    return number if 0 <= number < 256 else None


def is_expired(error: Any) -> bool:
    return int(error.maj_code) & _ROUTINE_ERRORS == _EXPIRED_CREDENTIALS


def explained(what: str, error: Any) -> TokenRefused | TokenUnavailable:
    """The error of a step that failed: `what` says which. It is retriable if the KDC cannot be reached."""
    code = code_of(error)
    if is_expired(error):
        return TokenRefused(f"{what}: the ticket has expired. {_KINIT}")
    hint = _HINTS.get(-1 if code is None else code)
    text = f"{what}: {_reason(error)}" + (f". {hint}" if hint else "")
    return TokenUnavailable(text) if code in _UNREACHABLE else TokenRefused(text)


def _reason(error: Any) -> str:
    """The text of the mechanism, else the general one of GSSAPI."""
    of_mechanism = " ".join(error.get_all_statuses(error.min_code, False)).strip()
    if of_mechanism and of_mechanism != "Success" and not of_mechanism.startswith("Unknown"):
        return of_mechanism.rstrip(".")
    return " ".join(error.get_all_statuses(error.maj_code, True)).strip().rstrip(".")
