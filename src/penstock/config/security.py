"""Kafka's security options, with the prefix `kafka.`: each of them has an effect here, or is refused by name.

None is ignored: a user who requires TLSv1.3, a cipher suite or a certain login relies on it.
"""

from __future__ import annotations

from penstock.config.kerberos import KERBEROS_OPTIONS, kerberos_login
from penstock.config.oauth import JAAS, OAUTH_OPTIONS, OAUTH_REFUSED, oauth_login
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import one_of
from penstock.config.sasl import (
    JAVA_CLASS_OPTIONS,
    MECHANISM,
    SASL_OPTIONS,
    SASL_REFUSED,
    check_mechanism,
)
from penstock.config.tls import TLS_OPTIONS, TLS_REFUSED, tls
from penstock.errors import OptionError
from penstock.wire.transport.aws import aws_login
from penstock.wire.transport.security import PROTOCOLS, Security, parse_jaas

PROTOCOL = "kafka.security.protocol"

SECURITY_OPTIONS = OptionTable(
    Option(
        PROTOCOL,
        one_of(*PROTOCOLS),
        Security().protocol,
        f"The protocol of the connections to the brokers: one of {', '.join(PROTOCOLS)}.",
    ),
    *TLS_OPTIONS.values(),
    *SASL_OPTIONS.values(),
    *OAUTH_OPTIONS.values(),
    *KERBEROS_OPTIONS.values(),
    *JAVA_CLASS_OPTIONS.values(),
)

SECURITY_REFUSED = {
    "kafka.config.providers": "Penstock does not resolve ${provider:path:key}: set the values themselves",
    "kafka.security.providers": "It names a part of Java, which Penstock does not have. Leave it out",
    **TLS_REFUSED,
    **SASL_REFUSED,
    **OAUTH_REFUSED,
}
"""Security settings of Java's clients that Penstock cannot support, each with the alternative."""


def security(values: OptionValues) -> Security:
    protocol = values[PROTOCOL]
    mechanism = values[MECHANISM]
    jaas = parse_jaas(values[JAAS] or "")
    if protocol.startswith("SASL"):
        mechanism = mechanism or "GSSAPI"  # Kafka's default
        check_mechanism(values, mechanism, jaas)
        if mechanism == "AWS_MSK_IAM" and protocol != "SASL_SSL":
            raise OptionError(PROTOCOL, protocol, f"is not encrypted, which {mechanism} needs", "Set SASL_SSL")
    elif (given := _first_given(values, "kafka.sasl.")) is not None:
        raise OptionError(
            PROTOCOL, protocol, f"does not log in, but {given} is given", "Set SASL_SSL or SASL_PLAINTEXT"
        )
    tls_settings = tls(values)
    given = _first_given(values, "kafka.ssl.")
    if given is not None and not protocol.endswith("SSL"):
        raise OptionError(PROTOCOL, protocol, f"does not use TLS, but {given} is given", "Set SSL or SASL_SSL")
    return Security(
        protocol=protocol,
        tls=tls_settings,
        sasl_mechanism=mechanism,
        sasl_username=jaas.get("username"),
        sasl_password=jaas.get("password"),
        is_delegation_token=jaas.get("tokenauth", "").lower() == "true",
        oauth=oauth_login(values, jaas) if mechanism == "OAUTHBEARER" else None,
        aws=aws_login(jaas) if mechanism == "AWS_MSK_IAM" else None,
        kerberos=kerberos_login(values, jaas) if mechanism == "GSSAPI" else None,
    )


def _first_given(values: OptionValues, prefix: str) -> str | None:
    return next((name for name in SECURITY_OPTIONS if name in values.given and name.startswith(prefix)), None)
