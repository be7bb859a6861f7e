"""Kafka's options for SASL mechanism GSSAPI, and the KerberosLogin that they make up."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.config.oauth import JAAS
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import fraction, milliseconds, text
from penstock.errors import OptionError, did_you_mean
from penstock.wire.transport.kerberos import KerberosLogin

KERBEROS = "kafka.sasl.kerberos."

_SERVICE = f"{KERBEROS}service.name"
_PRINCIPAL = f"{KERBEROS}principal"
_KEYTAB = f"{KERBEROS}keytab"

KERBEROS_OPTIONS = OptionTable(
    Option(
        _SERVICE,
        text,
        "kafka",
        f"The name of the brokers' Kerberos service. It takes precedence over `serviceName` in `{JAAS}`.",
    ),
    Option(
        f"{KERBEROS}domain.name",
        text,
        None,
        "The host in the brokers' Kerberos principal. Default: the address of each broker.",
        "domain",
    ),
    Option(
        _PRINCIPAL,
        text,
        None,
        f"The Kerberos principal of this client. Default: `principal` in `{JAAS}`, else that of the ticket cache, or "
        "the first one of the keytab.",
    ),
    Option(
        _KEYTAB,
        text,
        None,
        f"The keytab with the principal's key, a file on driver and executors. Default: `keyTab` in `{JAAS}`, else the "
        "user's ticket cache.",
    ),
    Option(
        f"{KERBEROS}ticket.renew.window.factor",
        fraction(0.0, 1.0),
        "0.8",
        "The fraction of its lifetime after which a Kerberos ticket is renewed: by the keytab, or from the ticket "
        "cache.",
        "renew_window",
    ),
    Option(
        f"{KERBEROS}ticket.renew.jitter",
        fraction(0.0, 1.0),
        "0.05",
        f"The largest random fraction of a ticket's lifetime that is added to `{KERBEROS}ticket.renew.window.factor`.",
        "renew_jitter",
    ),
    Option(
        f"{KERBEROS}min.time.before.relogin",
        milliseconds(0),
        "60000",
        "The shortest time in milliseconds for which a Kerberos ticket is used, if its lifetime is long enough.",
        "renew_min_period",
    ),
)

KERBEROS_REFUSED = {
    f"{KERBEROS}kinit.cmd": "Penstock renews the tickets of a keytab itself, and starts no program. A ticket cache is "
    "renewed by kinit or k5start beside it. Leave it out"
}

_FLAGS = ("useKeyTab", "useTicketCache")
_ENTRIES = (*_FLAGS, "keyTab", "ticketCache", "principal", "serviceName")

_ALWAYS = {"storeKey": None, "doNotPrompt": "true", "refreshKrb5Config": None, "debug": None, "isInitiator": "true"}
"""Entries of Java's module that change nothing here, each with the only value that is true of Penstock; None: any."""

_EXAMPLE = (
    "Example: com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/etc/security/me.keytab" principal="me@EXAMPLE.ORG";'
)


def kerberos_login(values: OptionValues, jaas: Mapping[str, str]) -> KerberosLogin:
    """`jaas`: the entries of the JAAS line. The options take precedence."""
    _check_entries(jaas)
    uses = {name: jaas.get(name, "").lower() == "true" for name in _FLAGS}
    for flag, entry in (("useKeyTab", "keyTab"), ("useTicketCache", "ticketCache")):
        if entry in jaas and not uses[flag]:
            raise OptionError(JAAS, None, f"its entry {entry} has no effect without {flag}=true", _EXAMPLE)
    keytab = values[_KEYTAB] or jaas.get("keyTab")
    from_keytab, from_cache = uses["useKeyTab"] or keytab is not None, uses["useTicketCache"]
    if not from_keytab and not from_cache:
        from_keytab = from_cache = True
    service = values.given.get(_SERVICE) or jaas.get("serviceName") or values[_SERVICE]
    return KerberosLogin(
        service=service,
        principal=values[_PRINCIPAL] or jaas.get("principal"),
        use_keytab=from_keytab,
        keytab=keytab,
        use_ticket_cache=from_cache,
        ticket_cache=jaas.get("ticketCache"),
        **values.fields(KERBEROS_OPTIONS),
    )


def _check_entries(jaas: Mapping[str, str]) -> None:
    """Refuse entries that would have no effect."""
    for name, value in jaas.items():
        if name in _FLAGS and value.lower() not in ("true", "false"):
            raise OptionError(JAAS, None, f"its entry {name} must be true or false", _EXAMPLE)
        if name in _ENTRIES or (name in _ALWAYS and _ALWAYS[name] in (None, value.lower())):
            continue
        if value.lower() == "false" and name not in _ALWAYS:
            continue  # it asks for nothing
        raise OptionError(
            JAAS, None, f"its entry {name} is not supported", did_you_mean(name, [*_ENTRIES, *_ALWAYS]) or _EXAMPLE
        )
