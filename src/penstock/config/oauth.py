"""Kafka's options for SASL mechanism OAUTHBEARER, and the OAuthLogin that they make up."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, fraction, http_proxy, milliseconds, number, text
from penstock.config.tls import TLS_OPTIONS, TLS_REFUSED, tls
from penstock.errors import OptionError, did_you_mean
from penstock.wire.transport.aws import JAAS_ENTRIES, OAUTH_CALLBACK
from penstock.wire.transport.http_address import sends_plaintext, without_login
from penstock.wire.transport.oauth import OAuthLogin, check_claim

OAUTH = "kafka.sasl.oauthbearer."
LOGIN = "kafka.sasl.login."
JAAS = "kafka.sasl.jaas.config"
ENDPOINT = f"{OAUTH}token.endpoint.url"
ENDPOINT_EXAMPLE = "https://login.example.org/oauth2/token"
CALLBACK = f"{LOGIN}callback.handler.class"
AWS_CALLBACK = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
JAVA_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_ALLOW_PLAINTEXT = f"{OAUTH}token.endpoint.allow.plaintext"
_ms = milliseconds


def endpoint(name: str, value: str) -> str:
    """An address, or file: and a path. Errors do not show it: it may contain a password."""
    value = value.strip()
    if value.startswith("file:"):
        if not re.fullmatch(r"file:(//)?/[^?#]+", value):
            raise OptionError(name, None, "must be file: and an absolute path", "Example: file:/var/run/token")
        return value
    address, login = without_login(name, value, ENDPOINT_EXAMPLE, query=True)
    if login is not None:
        raise OptionError(name, None, "contains a login", f"Put clientId and clientSecret into {JAAS}")
    return address


def header_text(name: str, value: str) -> str:
    if not value.strip() or any(character < " " or character == "\x7f" for character in value.strip()):
        raise OptionError(name, None, "is empty, or contains control characters")
    return value.strip()


OAUTH_OPTIONS = OptionTable(
    Option(
        ENDPOINT,
        endpoint,
        None,
        "Where OAUTHBEARER gets its token: an `https://` address (client credentials grant), or `file:/path` of a "
        "token. Redirects are not followed. I/O errors, HTTP 429 and 5xx are retried.",
        "endpoint",
    ),
    Option(
        _ALLOW_PLAINTEXT,
        flag,
        "false",
        "Whether the client's secret may be sent over `http://` to a token endpoint on another machine.",
    ),
    Option(
        f"{OAUTH}token.endpoint.proxy",
        http_proxy,
        None,
        "The HTTP proxy to the token endpoint, as `http://host:port` or `http://user:password@host:port`. Proxies of "
        "the environment (`HTTPS_PROXY`) are not used.",
        "proxy",
    ),
    Option(
        f"{OAUTH}client.credentials.client.id",
        header_text,
        None,
        f"The client's id. Default: `clientId` in `{JAAS}`.",
    ),
    Option(
        f"{OAUTH}client.credentials.client.secret",
        header_text,
        None,
        f"The client's secret. Default: `clientSecret` in `{JAAS}`.",
    ),
    Option(f"{OAUTH}scope", text, None, f"The scope of the token. Default: `scope` in `{JAAS}`."),
    Option(
        f"{OAUTH}header.urlencode",
        flag,
        "false",
        "Whether the client's id and secret are URL-encoded in the Authorization header.",
        "urlencode",
    ),
    Option(
        f"{LOGIN}connect.timeout.ms",
        _ms(1),
        None,
        "The longest time in milliseconds that connecting to the token endpoint may take. Default: "
        "`kafka.socket.connection.setup.timeout.ms`, which also limits the whole login, retries included.",
        "connect_timeout",
    ),
    Option(
        f"{LOGIN}read.timeout.ms",
        _ms(1),
        None,
        "The longest time in milliseconds that one response of the token endpoint may take, to its last byte. Default: "
        "`kafka.socket.connection.setup.timeout.ms`, which also limits the whole login, retries included.",
        "read_timeout",
    ),
    Option(
        f"{LOGIN}retry.backoff.ms",
        _ms(1),
        "100",
        "The pause in milliseconds before the first retry of a token request. It doubles with each further retry.",
        "retry_backoff",
    ),
    Option(
        f"{LOGIN}retry.backoff.max.ms",
        _ms(1),
        "10000",
        "The longest pause in milliseconds before a retry of a token request.",
        "retry_backoff_max",
    ),
    Option(
        f"{LOGIN}refresh.window.factor",
        fraction(0.5, 1.0),
        "0.8",
        "The fraction of its lifetime after which a token is replaced. Until then each process uses the same token.",
        "refresh_window",
    ),
    Option(
        f"{LOGIN}refresh.window.jitter",
        fraction(0.0, 0.25),
        "0.05",
        f"The largest random fraction of a token's lifetime that is added to `{LOGIN}refresh.window.factor`.",
        "refresh_jitter",
    ),
    Option(
        f"{LOGIN}refresh.buffer.seconds",
        number(0, 3600),
        "300",
        "The time in seconds before its expiry at which a token is replaced at the latest, if its lifetime is long "
        "enough.",
        "refresh_buffer",
    ),
    Option(
        f"{LOGIN}refresh.min.period.seconds",
        number(0, 900),
        "60",
        "The shortest time in seconds for which a token is used, if its lifetime is long enough.",
        "refresh_min_period",
    ),
)

_NO_ASSERTION = (
    "Penstock does not sign assertions: use clientId and clientSecret, or a token file (file:/path as endpoint)"
)
_BROKERS_CHECK = "Brokers check tokens, clients do not. Leave it out"

OAUTH_REFUSED = {
    **{
        f"{OAUTH}assertion.{name}": _NO_ASSERTION
        for name in (
            *("algorithm", "claim.aud", "claim.exp.seconds", "claim.iss", "claim.jti.include", "claim.nbf.seconds"),
            *("claim.sub", "file", "private.key.file", "private.key.passphrase", "template.file"),
        )
    },
    **{
        f"{OAUTH}{name}": _BROKERS_CHECK
        for name in (
            *("clock.skew.seconds", "expected.audience", "expected.issuer", "scope.claim.name", "sub.claim.name"),
            *("jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.max.ms", "jwks.endpoint.retry.backoff.ms"),
            "jwks.endpoint.url",
        )
    },
}
"""OAUTHBEARER settings of Java's clients that Penstock cannot support, each with the alternative."""

_OF_ENDPOINT = (
    *(ENDPOINT, _ALLOW_PLAINTEXT, f"{OAUTH}token.endpoint.proxy", f"{OAUTH}header.urlencode"),
    *(f"{LOGIN}connect.timeout.ms", f"{LOGIN}read.timeout.ms", f"{LOGIN}retry.backoff.ms"),
)
"""Options that have an effect on requests to a token endpoint only."""

_EXTENSION = "extension_"
_EXAMPLE = f'Example: {JAVA_OAUTH}OAuthBearerLoginModule required clientId="me" clientSecret="...";'
_ENTRIES = ("clientId", "clientSecret", "scope", "audience", f"{_EXTENSION}NAME", "ssl.truststore.location")


def oauth_login(values: OptionValues, jaas: Mapping[str, str]) -> OAuthLogin:
    """`jaas`: the entries of the JAAS line."""
    callback = OAUTH_CALLBACK if values[CALLBACK] == AWS_CALLBACK else values[CALLBACK]
    if callback == OAUTH_CALLBACK and (unknown := next((name for name in jaas if name not in JAAS_ENTRIES), None)):
        raise OptionError(JAAS, None, f"its entry {unknown} is not supported", did_you_mean(unknown, JAAS_ENTRIES))
    if is_python(callback):
        return _by_callback(callback, values, jaas)
    _check_entries(jaas)
    url = values[ENDPOINT]
    client_id = values[f"{OAUTH}client.credentials.client.id"] or jaas.get("clientId", "")
    client_secret = values[f"{OAUTH}client.credentials.client.secret"] or jaas.get("clientSecret", "")
    if url is not None and not url.startswith("file:"):
        if not client_id or not client_secret:
            raise OptionError(JAAS, None, f"must name clientId and clientSecret for {ENDPOINT}", _EXAMPLE)
        if sends_plaintext(url) and not values[_ALLOW_PLAINTEXT]:
            raise OptionError(
                ENDPOINT,
                url,
                "would send the client's secret unencrypted over the network",
                f"Use https://. Where the network is trusted, set {_ALLOW_PLAINTEXT} to true",
            )
    elif url is None and any(name.startswith("client") for name in jaas):
        raise OptionError(ENDPOINT, None, "is missing, and there is a clientId", f"Example: {ENDPOINT_EXAMPLE}")
    return OAuthLogin(
        client_id=client_id,
        client_secret=client_secret,
        scope=values[f"{OAUTH}scope"] or jaas.get("scope"),
        audience=jaas.get("audience"),
        extensions=_extensions(jaas),
        claims=tuple((name, value) for name, value in jaas.items() if name.startswith("unsecuredLogin")),
        tls=tls(_endpoint_tls(jaas)),
        **values.fields(OAUTH_OPTIONS),
    )


def is_python(callback: str | None) -> bool:
    """Whether the name of a callback is an import path. The name of a Java class never contains a colon."""
    return callback is not None and ":" in callback


def _by_callback(callback: str, values: OptionValues, jaas: Mapping[str, str]) -> OAuthLogin:
    """A login with the tokens of the user's function, which gets all entries but the SASL extensions."""
    for name in _OF_ENDPOINT:
        if name in values.given:
            raise OptionError(name, None, f"has no effect: the function in {CALLBACK} gets the token", "Leave it out")
    _check_entries({name: value for name, value in jaas.items() if name.startswith(_EXTENSION)})
    entries = {name: value for name, value in jaas.items() if not name.startswith(_EXTENSION)}
    for entry, option in (
        ("clientId", "client.credentials.client.id"),
        ("clientSecret", "client.credentials.client.secret"),
        ("scope", "scope"),
    ):
        if values[OAUTH + option] is not None:
            entries[entry] = values[OAUTH + option]
    return OAuthLogin(
        callback=callback,
        entries=tuple(entries.items()),
        extensions=_extensions(jaas),
        **values.fields(OAUTH_OPTIONS),
    )


def _extensions(jaas: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.removeprefix(_EXTENSION), v) for name, v in jaas.items() if name.startswith(_EXTENSION))


def _check_entries(jaas: Mapping[str, str]) -> None:
    """Refuse entries of an OAUTHBEARER line that would have no effect."""
    for name, value in jaas.items():
        if name.startswith("unsecuredLogin"):
            if (wrong := check_claim(name, value)) is not None:
                raise OptionError(JAAS, None, f"its entry {name} {wrong}")
        elif name.startswith(_EXTENSION):
            # Kafka's own rule. `auth` is the name of the token itself.
            key = name.removeprefix(_EXTENSION)
            if not re.fullmatch(r"[A-Za-z]+", key) or key == "auth" or not re.fullmatch(r"[\t\n\r -~]+", value):
                raise OptionError(
                    JAAS, None, f"its entry {name} is not a SASL extension", "Example: extension_logicalCluster"
                )
        elif not name.startswith("ssl.") and name not in _ENTRIES:
            raise OptionError(JAAS, None, f"its entry {name} is not supported", did_you_mean(name, _ENTRIES))


def _endpoint_tls(jaas: Mapping[str, str]) -> OptionValues:
    """The TLS options of the token endpoint: like Java, the ssl.* entries of the JAAS line."""
    given = {f"kafka.{entry}": value for entry, value in jaas.items() if entry.startswith("ssl.")}
    for name in given:
        if name not in TLS_OPTIONS:
            hint = TLS_REFUSED.get(name, did_you_mean(name, TLS_OPTIONS))
            raise OptionError(JAAS, None, f"its entry {name.removeprefix('kafka.')} is not supported", hint)
    return TLS_OPTIONS.parse(given)
