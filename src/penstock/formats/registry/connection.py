"""Requests to a schema registry over HTTP, and the meaning of its responses.

A response is hostile input, like everything from a network: at most RESPONSE_BYTES are read, within the request's
timeout (`wire/transport/http.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.config.registry_config import RegistryConfig
from penstock.errors import RegistryError, RegistryRefused, RegistryUnavailable, SchemaRefused

if TYPE_CHECKING:
    from penstock.wire.transport.http import Answer, HttpClient, Request

RESPONSE_BYTES = 16 << 20
"""Confluent's registry keeps a schema in one Kafka record, of 1 MB by default."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

_REFUSED = (409, 422)
"""HTTP codes of a schema that is incompatible with the subject's versions, or that is not valid."""

_CONTENT = "application/vnd.schemaregistry.v1+json"
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json;q=0.9"


@dataclass(frozen=True, slots=True)
class NotRegistered:
    """The registry does not have the requested schema. `code` is Confluent's error code."""

    url: str
    code: int


class RegistryConnection:
    """Sends requests to a registry. For any thread. Connections stay open for the next request."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._client = _open_client(config)
        self._headers = _headers(config)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, what: str) -> tuple[str, dict[str, Any]] | NotRegistered:
        """The URL that answered, and its JSON object. `what` describes the request in errors."""
        from penstock.wire.transport.http import Request

        return self._call(Request("GET", path, self._headers), what)

    def post(
        self, path: str, what: str, body: dict[str, Any], subject: str
    ) -> tuple[str, dict[str, Any]] | NotRegistered:
        """As `get`, with a schema of a subject. Raises SchemaRefused. It may be sent more than once: the id stays."""
        from penstock.wire.transport.http import Request

        headers = self._headers | {"Content-Type": _CONTENT}
        return self._call(Request("POST", path, headers, json.dumps(body).encode()), what, subject)

    def _call(
        self, request: Request, what: str, subject: str | None = None
    ) -> tuple[str, dict[str, Any]] | NotRegistered:
        from penstock.wire.transport.http import HttpRefused, HttpUnavailable, RetryPolicy

        config = self._config
        policy = RetryPolicy(config.timeout, tries=config.retries + 1, backoff=_FIRST_PAUSE, backoff_max=_LONGEST_PAUSE)
        try:
            url, answer = self._client.call(config.urls, request, policy)
        except HttpUnavailable as error:
            hint = " (schemaRegistry.ssl.certificate.location)"
            history = [line + (hint if line.endswith("certificate") else "") for line in error.history]
            raise RegistryUnavailable(what, history) from None
        except HttpRefused as error:
            advice = _PROXY_HINT if error.by_proxy else _TLS_HINT
            raise RegistryRefused(error.url, error.reason, advice) from None
        if subject is not None and answer.status in _REFUSED:
            raise SchemaRefused(url, subject, _message(answer), answer.status)
        return self._checked(url, what, answer, subject is not None)

    def _checked(
        self, url: str, what: str, response: Answer, writes: bool = False
    ) -> tuple[str, dict[str, Any]] | NotRegistered:
        status, body = response.status, response.body
        if status in (401, 403):
            known = self._config.user is not None or self._config.bearer_token is not None
            reason = "it does not accept the credentials" if known else "it requires credentials"
            if status == 403:
                reason = f"the user may not {'register' if writes else 'read'} {what}"
            raise RegistryRefused(url, f"{reason} ({status})", _LOGIN_HINT)
        if response.redirect is not None:
            raise RegistryError(
                f"the schema registry at {url} redirects ({response.redirect}). Redirects are not followed, because "
                "they would pass on the credentials. Set schemaRegistry.url to the registry's own URL"
            )
        answer = _parse(body) if response.whole and "content-encoding" not in response.headers else None
        if status == 404:
            code = answer.get("error_code") if answer else None
            if isinstance(code, int) and code in (404, 40401, 40402, 40403):
                return NotRegistered(url, code)
            raise RegistryError(
                f"there is no schema registry at {url}: the response to a request for {what} is 404, without an error "
                "code of a registry. Check the path in schemaRegistry.url (Apicurio's ends with /apis/ccompat/v7)"
            )
        if status != 200:
            raise RegistryError(f"the schema registry at {url} answers a request for {what} with HTTP {status}")
        if answer is None:
            size = str(len(body)) if response.whole else f"more than {RESPONSE_BYTES}"
            raise RegistryError(
                f"the response of {url} about {what} is not a JSON object of at most {RESPONSE_BYTES >> 20} MB ({size} "
                "bytes). Check that schemaRegistry.url is the URL of a schema registry"
            )
        return url, answer


_LOGIN_HINT = (
    "Set schemaRegistry.basic.auth.user.info, schemaRegistry.bearer.auth.token or "
    "schemaRegistry.ssl.certificate.location to credentials that it accepts"
)
_PROXY_HINT = "Put user and password into schemaRegistry.proxy, before the proxy's name: user:password@proxy:3128"
_TLS_HINT = (
    "Check schemaRegistry.ssl.ca.location (trusted certificates), schemaRegistry.ssl.certificate.location and "
    "schemaRegistry.ssl.key.location (the client's own), and whether schemaRegistry.url needs http:// or https://"
)


def _open_client(config: RegistryConfig) -> HttpClient:
    from penstock.wire.transport.http import HttpClient

    secure = any(url.startswith("https:") for url in config.urls)
    try:
        return HttpClient(tls=config.tls if secure else None, body_limit=RESPONSE_BYTES, proxy=config.proxy)
    except OSError as error:  # also ssl.SSLError
        raise RegistryError(
            f"the TLS files for the schema registry cannot be loaded ({error.strerror or error}). They are PEM files, "
            "and each executor needs them too: check schemaRegistry.ssl.ca.location, .certificate.location, "
            ".key.location and .key.password"
        ) from None


def _headers(config: RegistryConfig) -> dict[str, str]:
    from penstock.wire.transport.http import basic

    headers = {"Accept": _ACCEPT, "User-Agent": "penstock"}
    if config.bearer_token is not None:
        headers["Authorization"] = f"Bearer {config.bearer_token}"
    elif config.user is not None:
        headers["Authorization"] = basic(config.user, config.password or "")
    return headers | dict(config.headers)


def _message(answer: Answer) -> str:
    """The registry's own words."""
    found = (_parse(answer.body) or {}).get("message")
    return found[:2000] if isinstance(found, str) and found else f"HTTP {answer.status}"


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
