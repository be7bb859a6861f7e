"""Kafka's TLS options, and the Tls value that they make up."""

from __future__ import annotations

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import hostname_check, one_of, text
from penstock.errors import OptionError
from penstock.wire.transport.tls import TLS13_SUITES, TLS_VERSIONS, Tls, openssl_cipher

_SUITE_EXAMPLE = "Example: TLS_AES_256_GCM_SHA384"
_CONVERT = "Convert it: keytool -importkeystore to PKCS12, then openssl pkcs12 -in store.p12 -out store.pem"


def tls_versions(name: str, value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    unknown = [part for part in found if part not in TLS_VERSIONS]
    if unknown or not found:
        reason = f"must be some of {', '.join(TLS_VERSIONS)}" + (f", and {unknown[0]!r} is not" if unknown else "")
        raise OptionError(name, value, reason, "Older versions are not secure, and Penstock does not support them")
    return found


def cipher_suites(name: str, value: str) -> tuple[str, ...]:
    found = []
    for suite in filter(None, (part.strip() for part in value.split(","))):
        known = openssl_cipher(suite)
        if known is None:
            raise OptionError(name, value, f"{suite!r} is not a cipher suite of this machine's OpenSSL", _SUITE_EXAMPLE)
        found.append(known)
    if not found:
        raise OptionError(name, value, "names no cipher suite", _SUITE_EXAMPLE)
    return tuple(found)


TLS_OPTIONS = OptionTable(
    Option(
        "kafka.ssl.truststore.location",
        text,
        None,
        "The PEM file of the certificate authorities to trust. Default: the system's authorities.",
        "ca_file",
    ),
    Option(
        "kafka.ssl.truststore.certificates",
        text,
        None,
        "The certificate authorities to trust, as PEM text.",
        "ca_pem",
    ),
    Option("kafka.ssl.truststore.type", text, "PEM", "The type of the trust store. Only `PEM` is supported."),
    Option(
        "kafka.ssl.keystore.location",
        text,
        None,
        "The PEM file with the client's certificate chain and private key.",
        "certificate_file",
    ),
    Option("kafka.ssl.keystore.certificate.chain", text, None, "The client's certificate chain, as PEM text."),
    Option("kafka.ssl.keystore.key", text, None, "The client's private key, as PEM text."),
    Option("kafka.ssl.keystore.type", text, "PEM", "The type of the key store. Only `PEM` is supported."),
    Option("kafka.ssl.key.password", text, None, "The password of the client's private key.", "key_password"),
    Option(
        "kafka.ssl.endpoint.identification.algorithm",
        hostname_check,
        "https" if Tls().check_hostname else "",
        "`https` checks the broker's host name against its certificate. Empty does not.",
        "check_hostname",
    ),
    Option(
        "kafka.ssl.enabled.protocols",
        tls_versions,
        ",".join(TLS_VERSIONS),
        "The allowed versions of TLS, separated by commas.",
    ),
    Option(
        "kafka.ssl.protocol",
        one_of("TLS", *TLS_VERSIONS),
        list(TLS_VERSIONS)[-1],
        "The newest allowed version of TLS. `TLS` means the newest of all.",
    ),
    Option(
        "kafka.ssl.cipher.suites",
        cipher_suites,
        None,
        "The allowed cipher suites, by Java's or by OpenSSL's names, separated by commas. A TLS version of which no "
        "suite is listed is not used. Python cannot offer only some suites of TLSv1.3: if the broker chooses one that "
        "is not listed, the connection fails. Default: OpenSSL's.",
    ),
)

_NO_JAVA = "It names a part of Java, which Penstock does not have. Leave it out"
_NO_PASSWORD = "PEM files have no password. Leave it out. The password of a private key is kafka.ssl.key.password"  # noqa: S105

TLS_REFUSED = {
    **{
        f"kafka.ssl.{name}": _NO_JAVA
        for name in (
            *("engine.factory.class", "keymanager.algorithm", "provider", "secure.random.implementation"),
            "trustmanager.algorithm",
        )
    },
    "kafka.ssl.keystore.password": _NO_PASSWORD,
    "kafka.ssl.truststore.password": _NO_PASSWORD,
}
"""TLS settings of Java's clients that Penstock cannot support, each with the alternative."""


def tls(values: OptionValues) -> Tls:
    for store in ("truststore", "keystore"):
        kind = values[f"kafka.ssl.{store}.type"].upper()
        location = values[f"kafka.ssl.{store}.location"] or ""
        if kind != "PEM":
            raise OptionError(f"kafka.ssl.{store}.type", kind, "Penstock reads PEM files", _CONVERT)
        if location.lower().endswith((".jks", ".p12", ".pfx")):
            reason = "has the name of a Java key store; Penstock reads PEM files"
            raise OptionError(f"kafka.ssl.{store}.location", location, reason, _CONVERT)
    chain, key = values["kafka.ssl.keystore.certificate.chain"], values["kafka.ssl.keystore.key"]
    if (chain is None) != (key is None):
        given, missing = ("certificate.chain", "key") if chain else ("key", "certificate.chain")
        raise OptionError(f"kafka.ssl.keystore.{given}", "***", f"has no effect without kafka.ssl.keystore.{missing}")
    versions, suites = _versions(values)
    return Tls(
        key_pem=f"{chain}\n{key}" if chain and key else None,
        versions=versions,
        cipher_suites=suites,
        **values.fields(TLS_OPTIONS),
    )


def _versions(values: OptionValues) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The versions of TLS that all three options allow, and the cipher suites."""
    versions, newest = values["kafka.ssl.enabled.protocols"], values["kafka.ssl.protocol"]
    suites = values["kafka.ssl.cipher.suites"] or ()
    allowed = [name for name in TLS_VERSIONS if name in versions and (newest == "TLS" or name <= newest)]
    if not allowed:
        reason = f"allows none of kafka.ssl.enabled.protocols = {','.join(versions)}"
        raise OptionError("kafka.ssl.protocol", newest, reason, "Leave it out")
    with_suites = [
        name for name in allowed if not suites or any((s in TLS13_SUITES) == (name == "TLSv1.3") for s in suites)
    ]
    if not with_suites:
        reason = f"names no suite of {' or '.join(allowed)}, the only version that kafka.ssl.enabled.protocols allows"
        raise OptionError("kafka.ssl.cipher.suites", ",".join(suites), reason)
    return tuple(with_suites), suites
