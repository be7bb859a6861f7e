"""Kafka's security options, behind `kafka.`: each of them has its effect here, or is refused by name.

None is ignored: a user who demands TLSv1.3, a cipher suite or a login of one's own relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.config.option import Option, flag, fraction, milliseconds, number, one_of, text
from penstock.errors import OptionError, did_you_mean
from penstock.wire.transport.http_address import check_proxy, sends_plaintext, without_login
from penstock.wire.transport.oauth import OAuthLogin, check_claim
from penstock.wire.transport.security import MECHANISMS, PROTOCOLS, Security, parse_jaas
from penstock.wire.transport.tls import TLS13_SUITES, TLS_VERSIONS, Tls, openssl_cipher

PROTOCOL = "kafka.security.protocol"
MECHANISM = "kafka.sasl.mechanism"
JAAS = "kafka.sasl.jaas.config"
ENDPOINT = "kafka.sasl.oauthbearer.token.endpoint.url"
ENDPOINT_EXAMPLE = "https://login.example.org/oauth2/token"
_OAUTH = "kafka.sasl.oauthbearer."
_LOGIN = "kafka.sasl.login."
_JAVA_OAUTH = "org.apache.kafka.common.security.oauthbearer."

JAVA_CLASSES = {
    "kafka.sasl.login.callback.handler.class": {
        f"{_JAVA_OAUTH}OAuthBearerLoginCallbackHandler": "OAUTHBEARER",
        f"{_JAVA_OAUTH}secured.OAuthBearerLoginCallbackHandler": "OAUTHBEARER",
        f"{_JAVA_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler": "OAUTHBEARER",
    },
    "kafka.sasl.client.callback.handler.class": {
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "AWS_MSK_IAM",
    },
    "kafka.sasl.oauthbearer.jwt.retriever.class": {
        f"{_JAVA_OAUTH}{kind}JwtRetriever": "OAUTHBEARER" for kind in ("Default", "ClientCredentials", "File")
    },
    "kafka.sasl.oauthbearer.jwt.validator.class": {
        f"{_JAVA_OAUTH}{kind}JwtValidator": "OAUTHBEARER" for kind in ("Default", "Client")
    },
}
"""Classes of Java whose work Penstock does itself, and the mechanism that they belong to."""


def java_class(name: str, value: str) -> str:
    known = JAVA_CLASSES["kafka." + name.removeprefix("kafka.")]  # a consumer's settings have no prefix
    if value.strip() not in known:
        raise OptionError(
            name,
            value,
            "Penstock cannot load Java classes. It does the work of "
            + ", ".join(each.rpartition(".")[2] for each in known),
            f"OAUTHBEARER can also take a token from a file: set {ENDPOINT} to file:/path",
        )
    return value.strip()


def tls_versions(name: str, value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    unknown = [part for part in found if part not in TLS_VERSIONS]
    if unknown or not found:
        reason = f"must be some of {', '.join(TLS_VERSIONS)}" + (f", and {unknown[0]!r} is not" if unknown else "")
        raise OptionError(name, value, reason, "Older versions are not secure, and Penstock does not speak them")
    return found


def cipher_suites(name: str, value: str) -> tuple[str, ...]:
    found = []
    for suite in filter(None, (part.strip() for part in value.split(","))):
        known = openssl_cipher(suite)
        if known is None:
            raise OptionError(
                name,
                value,
                f"{suite!r} is not a cipher suite of this machine's OpenSSL",
                "Example: TLS_AES_256_GCM_SHA384",
            )
        found.append(known)
    if not found:
        raise OptionError(name, value, "names no cipher suite", "Example: TLS_AES_256_GCM_SHA384")
    return tuple(found)


def endpoint(name: str, value: str) -> str:
    """An address, or file: and a path. Errors do not show it: it may hold a password."""
    value = value.strip()
    if value.startswith("file:"):
        if not re.fullmatch(r"file:(//)?/[^?#]+", value):
            raise OptionError(name, None, "must be file: and an absolute path", "Example: file:/var/run/token")
        return value
    address, login = without_login(name, value, ENDPOINT_EXAMPLE, query=True)
    if login is not None:
        raise OptionError(
            name, None, "has a log-in in it", "clientId and clientSecret belong into kafka.sasl.jaas.config"
        )
    return address


def proxy(name: str, value: str) -> str:
    check_proxy(name, value.strip())
    return value.strip()


def header_text(name: str, value: str) -> str:
    if not value.strip() or any(character < " " or character == "\x7f" for character in value.strip()):
        raise OptionError(name, None, "is empty, or has control characters in it")
    return value.strip()


_ms = milliseconds

SECURITY_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(PROTOCOL, one_of(*PROTOCOLS), "PLAINTEXT", "How to talk to the brokers."),
        Option(
            "kafka.ssl.truststore.location",
            text,
            None,
            "PEM file of the CAs to trust (default: the system's).",
        ),
        Option("kafka.ssl.truststore.certificates", text, None, "The same, as PEM text."),
        Option("kafka.ssl.truststore.type", text, "PEM", "PEM."),
        Option(
            "kafka.ssl.keystore.location",
            text,
            None,
            "PEM file with the client's certificate chain and key.",
        ),
        Option(
            "kafka.ssl.keystore.certificate.chain",
            text,
            None,
            "The client's certificate chain, as PEM text.",
        ),
        Option("kafka.ssl.keystore.key", text, None, "The client's private key, as PEM text."),
        Option("kafka.ssl.keystore.type", text, "PEM", "PEM."),
        Option("kafka.ssl.key.password", text, None, "The password of the client's private key."),
        Option(
            "kafka.ssl.endpoint.identification.algorithm",
            lambda name, value: value.strip() and one_of("https")(name, value),
            "https",
            "`https` checks the broker's host name against its certificate; empty does not.",
        ),
        Option(
            "kafka.ssl.enabled.protocols",
            tls_versions,
            ",".join(TLS_VERSIONS),
            "The versions of TLS that may be used, with commas between them.",
        ),
        Option(
            "kafka.ssl.protocol",
            one_of("TLS", *TLS_VERSIONS),
            "TLSv1.3",
            "The newest version of TLS that may be used. `TLS` is the newest of all.",
        ),
        Option(
            "kafka.ssl.cipher.suites",
            cipher_suites,
            None,
            "The cipher suites that may be used, by Java's names or by OpenSSL's, with commas between them (default: "
            "OpenSSL's). A version of TLS of which none is listed is not used. Python cannot offer a part of TLSv1.3's "
            "suites: if the broker chooses one that is not listed, the connection fails.",
        ),
        Option(MECHANISM, one_of(*MECHANISMS), None, f"One of {', '.join(MECHANISMS)}."),
        Option(
            JAAS,
            text,
            None,
            'Java\'s login line. `username="..."` and `password="..."` are read from it; for OAUTHBEARER `clientId`, '
            "`clientSecret`, `scope`, `extension_*` (SASL extensions) and `ssl.*` (TLS to the token endpoint).",
        ),
        Option(
            ENDPOINT,
            endpoint,
            None,
            "Where OAUTHBEARER gets its token: an `https://` address (client credentials grant), or `file:/path` of a "
            "token. Redirects are not followed. I/O errors, HTTP 429 and 5xx are retried.",
        ),
        Option(
            "kafka.sasl.oauthbearer.token.endpoint.allow.plaintext",
            flag,
            "false",
            "Whether the client's secret may be sent over `http://` to a token endpoint on another machine.",
        ),
        Option(
            "kafka.sasl.oauthbearer.token.endpoint.proxy",
            proxy,
            None,
            "An HTTP proxy on the way to the token endpoint: `http://host:port`, or `http://user:password@host:port`. "
            "The proxies of the environment (`HTTPS_PROXY`) are not used.",
        ),
        Option(
            "kafka.sasl.oauthbearer.client.credentials.client.id",
            header_text,
            None,
            "The client's id, instead of `clientId` in `kafka.sasl.jaas.config`.",
        ),
        Option(
            "kafka.sasl.oauthbearer.client.credentials.client.secret",
            header_text,
            None,
            "The client's secret, instead of `clientSecret` in `kafka.sasl.jaas.config`.",
        ),
        Option(
            "kafka.sasl.oauthbearer.scope",
            text,
            None,
            "The scope to ask for, instead of `scope` in `kafka.sasl.jaas.config`.",
        ),
        Option(
            "kafka.sasl.oauthbearer.header.urlencode",
            flag,
            "false",
            "Whether the client's id and secret are URL-encoded before they go into the Authorization header.",
        ),
        Option(
            "kafka.sasl.login.connect.timeout.ms",
            _ms(1),
            None,
            "How long connecting to the token endpoint may take. Default: `kafka.socket.connection.setup.timeout.ms`, "
            "which in any case limits the whole login, retries included.",
        ),
        Option(
            "kafka.sasl.login.read.timeout.ms",
            _ms(1),
            None,
            "How long one answer of the token endpoint may take, to its last byte. Default and limit as above.",
        ),
        Option(
            "kafka.sasl.login.retry.backoff.ms",
            _ms(1),
            "100",
            "The first pause before the token endpoint is asked again; it doubles.",
        ),
        Option(
            "kafka.sasl.login.retry.backoff.max.ms",
            _ms(1),
            "10000",
            "The longest pause before the token endpoint is asked again.",
        ),
        Option(
            "kafka.sasl.login.refresh.window.factor",
            fraction(0.5, 1.0),
            "0.8",
            "After which part of its lifetime a token is replaced. Until then each process uses the same one.",
        ),
        Option(
            "kafka.sasl.login.refresh.window.jitter",
            fraction(0.0, 0.25),
            "0.05",
            "The largest random part of its lifetime that is added to that.",
        ),
        Option(
            "kafka.sasl.login.refresh.buffer.seconds",
            number(0, 3600),
            "300",
            "How many seconds before its end a token is replaced at the latest, if it lives long enough for that.",
        ),
        Option(
            "kafka.sasl.login.refresh.min.period.seconds",
            number(0, 900),
            "60",
            "How many seconds a token is used at least, if it lives long enough for that.",
        ),
        Option("kafka.sasl.kerberos.service.name", text, "kafka", "The brokers' Kerberos service."),
        Option(
            "kafka.sasl.kerberos.domain.name",
            text,
            None,
            "The brokers' Kerberos host, if not their address.",
        ),
        *(
            Option(
                name,
                java_class,
                None,
                "Only Java's classes whose work Penstock does itself: "
                + ", ".join(f"`{known.rpartition('.')[2]}`" for known in classes)
                + ".",
            )
            for name, classes in JAVA_CLASSES.items()
        ),
    )
}

_NO_JAVA = "It names a part of Java's, which Penstock does not have. Leave it out"
_NO_KINIT = "Penstock renews no Kerberos tickets: run kinit or k5start beside it, and leave this out"
_NO_ASSERTION = "Penstock signs no assertions: use clientId and clientSecret, or a token file (file:/path as endpoint)"
_BROKERS_CHECK = "Brokers check tokens, clients do not. Leave it out"
_NO_PASSWORD = "PEM files have no password: leave it out. That of a private key is kafka.ssl.key.password"  # noqa: S105

SECURITY_REFUSED = {
    "kafka.config.providers": "Penstock does not resolve ${provider:path:key}: give the values themselves",
    "kafka.security.providers": _NO_JAVA,
    **{
        f"kafka.ssl.{name}": _NO_JAVA
        for name in (
            *("engine.factory.class", "keymanager.algorithm", "provider", "secure.random.implementation"),
            "trustmanager.algorithm",
        )
    },
    "kafka.ssl.keystore.password": _NO_PASSWORD,
    "kafka.ssl.truststore.password": _NO_PASSWORD,
    "kafka.sasl.login.class": "Penstock cannot load Java classes. Leave it out",
    **{
        f"kafka.sasl.kerberos.{name}": _NO_KINIT
        for name in ("kinit.cmd", "min.time.before.relogin", "ticket.renew.jitter", "ticket.renew.window.factor")
    },
    **{
        f"{_OAUTH}assertion.{name}": _NO_ASSERTION
        for name in (
            *("algorithm", "claim.aud", "claim.exp.seconds", "claim.iss", "claim.jti.include", "claim.nbf.seconds"),
            *("claim.sub", "file", "private.key.file", "private.key.passphrase", "template.file"),
        )
    },
    **{
        f"{_OAUTH}{name}": _BROKERS_CHECK
        for name in (
            *("clock.skew.seconds", "expected.audience", "expected.issuer", "scope.claim.name", "sub.claim.name"),
            *("jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.max.ms", "jwks.endpoint.retry.backoff.ms"),
            "jwks.endpoint.url",
        )
    },
}
"""Security settings of Java's clients that Penstock cannot honour, and what to do instead."""


def security(values: Mapping[str, Any]) -> Security:
    """Out of parsed options."""
    protocol = values.get(PROTOCOL, "PLAINTEXT")
    mechanism = values.get(MECHANISM)
    login = parse_jaas(values.get(JAAS, ""))
    if protocol.startswith("SASL"):
        mechanism = mechanism or "GSSAPI"  # Kafka's default
        _check_mechanism(values, mechanism, login)
    else:
        given = next(
            (name for name in (MECHANISM, JAAS, *SECURITY_OPTIONS) if name in values and ".sasl." in name), None
        )
        if given is not None:
            raise OptionError(
                PROTOCOL, protocol, f"does not log in, but {given} is given", "Set SASL_SSL or SASL_PLAINTEXT"
            )
    tls = _tls(values)
    given = next((name for name in SECURITY_OPTIONS if name in values and name.startswith("kafka.ssl.")), None)
    if given is not None and not protocol.endswith("SSL"):
        raise OptionError(PROTOCOL, protocol, f"does not use TLS, but {given} is given", "Set SSL or SASL_SSL")
    return Security(
        protocol=protocol,
        tls=tls,
        sasl_mechanism=mechanism,
        sasl_username=login.get("username"),
        sasl_password=login.get("password"),
        oauth=_oauth(values, login) if mechanism == "OAUTHBEARER" else None,
        kerberos_service=values.get("kafka.sasl.kerberos.service.name") or login.get("serviceName", "kafka"),
        kerberos_domain=values.get("kafka.sasl.kerberos.domain.name"),
    )


_OF_MECHANISM = {_OAUTH: "OAUTHBEARER", _LOGIN: "OAUTHBEARER", "kafka.sasl.kerberos.": "GSSAPI"}
"""Options, by what they begin with, that mean something to one mechanism alone."""

_JAAS_REFUSED: dict[str, tuple[str, str]] = {
    "GSSAPI": (
        r"keyTab|useKeyTab|principal",
        "Penstock takes the ticket from the cache: run kinit -k -t KEYTAB PRINCIPAL, or set KRB5_CLIENT_KTNAME in the "
        "environment of driver and executors",
    ),
    "AWS_MSK_IAM": (
        r"aws\w*",
        "Penstock takes credentials as boto does: set AWS_PROFILE, AWS_ROLE_ARN or the like in the environment of "
        "driver and executors",
    ),
    "SCRAM-SHA-256": (r"tokenauth", "Penstock has no delegation tokens: use a user's name and password"),
    "SCRAM-SHA-512": (r"tokenauth", "Penstock has no delegation tokens: use a user's name and password"),
}
"""Entries of a JAAS line that would be ignored, by mechanism, and what to do instead."""


def _check_mechanism(values: Mapping[str, Any], mechanism: str, login: Mapping[str, str]) -> None:
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not {"username", "password"} <= set(login):
        raise OptionError(
            JAAS,
            "***" if JAAS in values else None,
            f"must name username and password for {MECHANISM} {mechanism}",
            'Example: org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="...";',
        )
    for name in values:
        wanted = next((of for prefix, of in _OF_MECHANISM.items() if name.startswith(prefix)), mechanism)
        if name in JAVA_CLASSES:
            wanted = JAVA_CLASSES[name][values[name]]
        if wanted != mechanism:
            raise OptionError(name, None, f"has no effect with {MECHANISM} {mechanism}", f"Set that to {wanted}")
    pattern, hint = _JAAS_REFUSED.get(mechanism, ("", ""))
    for name, value in login.items():
        if pattern and re.fullmatch(pattern, name) and value.lower() != "false":
            raise OptionError(JAAS, None, f"its entry {name} is not supported", hint)


def _tls(values: Mapping[str, Any]) -> Tls:
    for store in ("truststore", "keystore"):
        kind = values.get(f"kafka.ssl.{store}.type", "PEM").upper()
        location = values.get(f"kafka.ssl.{store}.location", "")
        advice = "Convert it: keytool -importkeystore to PKCS12, then openssl pkcs12 -in store.p12 -out store.pem"
        if kind != "PEM":
            raise OptionError(f"kafka.ssl.{store}.type", kind, "Penstock reads PEM files", advice)
        if location.lower().endswith((".jks", ".p12", ".pfx")):
            reason = "is a Java key store by its name; Penstock reads PEM files"
            raise OptionError(f"kafka.ssl.{store}.location", location, reason, advice)
    chain, key = values.get("kafka.ssl.keystore.certificate.chain"), values.get("kafka.ssl.keystore.key")
    if (chain is None) != (key is None):
        given, missing = ("certificate.chain", "key") if chain else ("key", "certificate.chain")
        raise OptionError(f"kafka.ssl.keystore.{given}", "***", f"is of no use without kafka.ssl.keystore.{missing}")
    versions, suites = _versions(values)
    return Tls(
        check_hostname=bool(values.get("kafka.ssl.endpoint.identification.algorithm", "https")),
        ca_file=values.get("kafka.ssl.truststore.location"),
        ca_pem=values.get("kafka.ssl.truststore.certificates"),
        certificate_file=values.get("kafka.ssl.keystore.location"),
        key_pem=f"{chain}\n{key}" if chain and key else None,
        key_password=values.get("kafka.ssl.key.password"),
        versions=versions,
        cipher_suites=suites,
    )


def _versions(values: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The versions of TLS that all three options allow, and the cipher suites."""
    versions = values.get("kafka.ssl.enabled.protocols", tuple(TLS_VERSIONS))
    newest = values.get("kafka.ssl.protocol", "TLS")
    suites = values.get("kafka.ssl.cipher.suites", ())
    allowed = [name for name in TLS_VERSIONS if name in versions and (newest == "TLS" or name <= newest)]
    if not allowed:
        reason = f"allows none of kafka.ssl.enabled.protocols = {','.join(versions)}"
        raise OptionError("kafka.ssl.protocol", newest, reason, "Leave it out")
    with_suites = [
        name for name in allowed if not suites or any((s in TLS13_SUITES) == (name == "TLSv1.3") for s in suites)
    ]
    if not with_suites:
        reason = f"names no suite of {' or '.join(allowed)}, which is all that kafka.ssl.enabled.protocols allows"
        raise OptionError("kafka.ssl.cipher.suites", ",".join(suites), reason)
    return tuple(with_suites), suites


_EXTENSION = "extension_"


def _oauth(values: Mapping[str, Any], login: Mapping[str, str]) -> OAuthLogin:
    _check_entries(login)
    url = values.get(ENDPOINT)
    credentials: dict[str, Any] = {
        "client_id": values.get(f"{_OAUTH}client.credentials.client.id") or login.get("clientId", ""),
        "client_secret": values.get(f"{_OAUTH}client.credentials.client.secret") or login.get("clientSecret", ""),
        "scope": values.get(f"{_OAUTH}scope") or login.get("scope"),
    }
    if url is not None and not url.startswith("file:"):
        if not credentials["client_id"] or not credentials["client_secret"]:
            raise OptionError(JAAS, None, f"must name clientId and clientSecret for {ENDPOINT}", _OAUTH_EXAMPLE)
        allow = f"{_OAUTH}token.endpoint.allow.plaintext"
        if sends_plaintext(url) and not values.get(allow, False):
            raise OptionError(
                ENDPOINT,
                url,
                "would send the client's secret unencrypted over the network",
                f"Use https://. Where the network is trusted, set {allow} to true",
            )
    elif url is None and any(name.startswith("client") for name in login):
        raise OptionError(ENDPOINT, None, "is missing, and there is a clientId", f"Example: {ENDPOINT_EXAMPLE}")
    fields = {option: values[name] for name, option in _OAUTH_FIELDS.items() if name in values}
    return OAuthLogin(
        endpoint=url,
        extensions=tuple(
            (name.removeprefix(_EXTENSION), v) for name, v in login.items() if name.startswith(_EXTENSION)
        ),
        claims=tuple((name, value) for name, value in login.items() if name.startswith("unsecuredLogin")),
        tls=_tls(_endpoint_tls(login)),
        **credentials,
        **fields,
    )


_OAUTH_EXAMPLE = f'Example: {_JAVA_OAUTH}OAuthBearerLoginModule required clientId="me" clientSecret="...";'
_OAUTH_ENTRIES = ("clientId", "clientSecret", "scope", f"{_EXTENSION}NAME", "ssl.truststore.location")
_OAUTH_FIELDS = {
    f"{_OAUTH}token.endpoint.proxy": "proxy",
    f"{_OAUTH}header.urlencode": "urlencode",
    f"{_LOGIN}connect.timeout.ms": "connect_timeout",
    f"{_LOGIN}read.timeout.ms": "read_timeout",
    f"{_LOGIN}retry.backoff.ms": "retry_backoff",
    f"{_LOGIN}retry.backoff.max.ms": "retry_backoff_max",
    f"{_LOGIN}refresh.window.factor": "refresh_window",
    f"{_LOGIN}refresh.window.jitter": "refresh_jitter",
    f"{_LOGIN}refresh.buffer.seconds": "refresh_buffer",
    f"{_LOGIN}refresh.min.period.seconds": "refresh_min_period",
}


def _check_entries(login: Mapping[str, str]) -> None:
    """No entry of an OAUTHBEARER line goes unheard."""
    for name, value in login.items():
        if name.startswith("unsecuredLogin"):
            if (wrong := check_claim(name, value)) is not None:
                raise OptionError(JAAS, None, f"its entry {name} {wrong}")
        elif name.startswith(_EXTENSION):
            # Kafka's own rule; `auth` would stand for the token itself.
            key = name.removeprefix(_EXTENSION)
            if not re.fullmatch(r"[A-Za-z]+", key) or key == "auth" or not re.fullmatch(r"[\t\n\r -~]+", value):
                raise OptionError(
                    JAAS, None, f"its entry {name} is not a SASL extension", "Example: extension_logicalCluster"
                )
        elif not name.startswith("ssl.") and name not in _OAUTH_ENTRIES:
            raise OptionError(JAAS, None, f"its entry {name} is not supported", did_you_mean(name, _OAUTH_ENTRIES))


def _endpoint_tls(login: Mapping[str, str]) -> dict[str, Any]:
    """Options out of the ssl.* entries of a JAAS line: Java takes TLS to the token endpoint from there."""
    values = {}
    for entry, value in login.items():
        if entry.startswith("ssl."):
            name = f"kafka.{entry}"
            if name not in SECURITY_OPTIONS:
                hint = SECURITY_REFUSED.get(name, did_you_mean(name, SECURITY_OPTIONS))
                raise OptionError(JAAS, None, f"its entry {entry} is not supported", hint)
            values[name] = SECURITY_OPTIONS[name].parse(name, value)
    return values
