"""WHO we are to the broker: TLS and SASL settings as one value whose repr shows no secret."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import AuthenticationFailed

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings. Frozen, hashable (connections are cached by it) and picklable."""

    protocol: str = "PLAINTEXT"
    check_hostname: bool = True
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_claims: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oauth_endpoint: str | None = None
    kerberos_service: str = "kafka"
    kerberos_domain: str | None = None

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def tls_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        try:
            if self.ca_file or self.ca_pem:
                context.load_verify_locations(cafile=self.ca_file, cadata=self.ca_pem)
            else:
                context.load_default_certs()
            if self.key_file:
                context.load_cert_chain(self.key_file, password=self.key_password)
            elif self.key_pem:
                _load_inline_key(context, self.key_pem, self.key_password)
        except (OSError, ssl.SSLError) as error:
            raise AuthenticationFailed(
                f"the TLS certificates cannot be loaded ({error}). Penstock reads PEM files: check "
                "kafka.ssl.truststore.location and kafka.ssl.keystore.location"
            ) from error
        return context

    def sasl_settings(self) -> dict[str, Any]:
        """The settings under the names kafka-python's mechanisms expect."""
        settings: dict[str, Any] = {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.sasl_password,
            "sasl_kerberos_service_name": self.kerberos_service,
            "sasl_kerberos_domain_name": self.kerberos_domain,
            "sasl_kerberos_name": None,
        }
        if self.sasl_mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _token_provider(self)
        return settings


def _load_inline_key(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    # The ssl module loads a key from a file only: a private one, gone again before this returns.
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        context.load_cert_chain(name, password=password)
    finally:
        Path(name).unlink()


JAAS_ENTRY = re.compile(r"""([A-Za-z_][\w.]*)\s*=\s*("((?:[^"\\]|\\.)*)"|'([^']*)'|[^\s;]+)""")


def parse_jaas(text: str) -> dict[str, str]:
    """The key="value" pairs of a sasl.jaas.config line."""
    pairs = {}
    for match in JAAS_ENTRY.finditer(text):
        name, raw, quoted, single = match.groups()
        if quoted is not None:
            pairs[name] = re.sub(r"\\(.)", r"\1", quoted)
        else:
            pairs[name] = single if single is not None else raw
    return pairs


def _token_provider(security: Security) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    claims = dict(security.sasl_claims)

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            if security.oauth_endpoint:
                return _client_credentials_token(security.oauth_endpoint, claims)
            return _unsecured_token(claims)

    return TokenProvider()


def _client_credentials_token(endpoint: str, claims: dict[str, str]) -> str:
    """OAuth 2 client credentials grant, as Java's OAuthBearerLoginCallbackHandler does it."""
    import urllib.parse
    import urllib.request  # only for who gets a token: it brings http and email along

    if not endpoint.startswith(("https://", "http://")):
        raise AuthenticationFailed(f"kafka.sasl.oauthbearer.token.endpoint.url {endpoint!r} is no http(s) address")
    form = {"grant_type": "client_credentials"} | ({"scope": claims["scope"]} if "scope" in claims else {})
    login = f"{claims.get('clientId', '')}:{claims.get('clientSecret', '')}".encode()
    request = urllib.request.Request(  # noqa: S310 (scheme checked above)
        endpoint,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": "Basic " + base64.b64encode(login).decode()},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return str(json.loads(response.read())["access_token"])
    except (OSError, ValueError, KeyError) as error:
        raise AuthenticationFailed(f"no access token from {endpoint}: {error}") from error


def _unsecured_token(claims: dict[str, str]) -> str:
    """An unsigned token from the unsecuredLogin* entries of the JAAS line: for development, as in Java's client."""
    prefix = "unsecuredLoginStringClaim_"
    now = int(time.time())
    payload: dict[str, Any] = {"iat": now, "exp": now + 3600}
    payload |= {name.removeprefix(prefix): value for name, value in claims.items() if name.startswith(prefix)}

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(payload)}."
