"""Kafka's TLS options, and the Tls value that they make up."""

from __future__ import annotations

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import hostname_check, one_of, password, text
from penstock.errors import OptionError
from penstock.wire.transport.key_store import STORE_TYPES
from penstock.wire.transport.tls import TLS13_SUITES, TLS_VERSIONS, Tls, openssl_cipher

_SUITE_EXAMPLE = "Example: TLS_AES_256_GCM_SHA384"
_CONVERT = "Convert it to PKCS12: keytool -importkeystore -deststoretype PKCS12"


def store_type(name: str, value: str) -> str:
    kind = value.strip().upper()
    if kind not in STORE_TYPES:
        raise OptionError(name, value, f"must be one of {', '.join(STORE_TYPES)}", _CONVERT)
    return kind


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


_TYPE_DOC = (
    "The type of the {} store: `PEM`, `JKS` or `PKCS12`. A store of the two latter types is opened by its content, as "
    "in Java. Default: by the content of the file."
)

TLS_OPTIONS = OptionTable(
    Option(
        "kafka.ssl.truststore.location",
        text,
        None,
        "The file of the certificate authorities to trust: PEM, JKS or PKCS12. PKCS12 needs `penstock[keystores]`. "
        "Default: the system's authorities.",
        "ca_file",
    ),
    Option(
        "kafka.ssl.truststore.password",
        password,
        None,
        "The password of a JKS or PKCS12 trust store. Without it, a JKS store is read unchecked, as in Java.",
        "ca_password",
    ),
    Option(
        "kafka.ssl.truststore.certificates",
        text,
        None,
        "The certificate authorities to trust, as PEM text.",
        "ca_pem",
    ),
    Option("kafka.ssl.truststore.type", store_type, None, _TYPE_DOC.format("trust"), "ca_type"),
    Option(
        "kafka.ssl.keystore.location",
        text,
        None,
        "The file with the client's certificate chain and private key: PEM, JKS or PKCS12. PKCS12 needs "
        "`penstock[keystores]`. A JKS store must have one private key; of a PKCS12 store the first is used.",
        "certificate_file",
    ),
    Option(
        "kafka.ssl.keystore.password",
        password,
        None,
        "The password of a JKS or PKCS12 key store.",
        "certificate_password",
    ),
    Option("kafka.ssl.keystore.certificate.chain", text, None, "The client's certificate chain, as PEM text."),
    Option("kafka.ssl.keystore.key", text, None, "The client's private key, as PEM text."),
    Option("kafka.ssl.keystore.type", store_type, None, _TYPE_DOC.format("key"), "certificate_type"),
    Option(
        "kafka.ssl.key.password",
        password,
        None,
        "The password of the client's private key. Default: for JKS and PKCS12 `kafka.ssl.keystore.password`.",
        "key_password",
    ),
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

TLS_REFUSED = {
    **{
        f"kafka.ssl.{name}": _NO_JAVA
        for name in (
            *("engine.factory.class", "keymanager.algorithm", "provider", "secure.random.implementation"),
            "trustmanager.algorithm",
        )
    },
}
"""TLS settings of Java's clients that Penstock cannot support, each with the alternative."""


def tls(values: OptionValues) -> Tls:
    for store, texts in (("truststore", ("certificates",)), ("keystore", ("certificate.chain", "key"))):
        _check_store(values, f"kafka.ssl.{store}.", [f"kafka.ssl.{store}.{name}" for name in texts])
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


def _check_store(values: OptionValues, store: str, texts: list[str]) -> None:
    """Refuse a store that is given twice, and settings of a file without the file. `texts`: the options of PEM text."""
    location, kind, secret = f"{store}location", f"{store}type", f"{store}password"
    written = [name for name in texts if values[name] is not None]
    if written and values[location] is not None:
        raise OptionError(location, values[location], f"is given, and {written[0]} too", "Keep one of them")
    if written and values[kind] not in (None, "PEM"):
        raise OptionError(kind, values[kind], f"is not the type of {written[0]}, which is PEM", "Leave it out")
    if values[secret] is not None and (written or values[location] is None or values[kind] == "PEM"):
        raise OptionError(secret, None, f"has no effect: it is the password of a JKS or PKCS12 store in {location}")


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
