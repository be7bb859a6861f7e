"""A schema registry over HTTP, one question at a time: what its answers mean.

What a registry answers is hostile input like all that comes from a network: no more than ANSWER_BYTES are read, within
the time that a request has (`wire/http.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.config.registry_config import RegistryConfig
from penstock.errors import RegistryError, RegistryRefused, RegistryUnavailable

if TYPE_CHECKING:
    from penstock.wire.transport.http import Answer, HttpClient

ANSWER_BYTES = 16 << 20
"""Confluent's registry keeps a schema in one Kafka message, 1 MB unless it was told otherwise."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json;q=0.9"


@dataclass(frozen=True, slots=True)
class NotThere:
    """A registry's answer that it does not have what was asked for, with Confluent's error code."""

    url: str
    code: int


class RegistryConnection:
    """Asks a registry. Used by any thread. Connections are kept for the next question until it is closed."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._client = _open_client(config)
        self._headers = _headers(config)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, what: str) -> tuple[str, dict[str, Any]] | NotThere:
        """The address that answered, and the JSON object it gave. `what` is asked for, in words, for errors."""
        from penstock.wire.transport.http import HttpRefused, HttpUnavailable, Patience, Request

        config = self._config
        patience = Patience(config.timeout, tries=config.retries + 1, backoff=_FIRST_PAUSE, backoff_max=_LONGEST_PAUSE)
        try:
            url, answer = self._client.call(config.urls, Request("GET", path, self._headers), patience)
        except HttpUnavailable as error:
            hint = " (schemaRegistry.ssl.certificate.location)"
            history = [line + (hint if line.endswith("certificate") else "") for line in error.history]
            raise RegistryUnavailable(what, history) from None
        except HttpRefused as error:
            advice = _PROXY_ADVICE if error.by_proxy else _TLS_ADVICE
            raise RegistryRefused(error.url, error.reason, advice) from None
        return self._judge(url, what, answer)

    def _judge(self, url: str, what: str, response: Answer) -> tuple[str, dict[str, Any]] | NotThere:
        status, body = response.status, response.body
        if status in (401, 403):
            known = self._config.user is not None or self._config.bearer_token is not None
            reason = "it does not accept our log-in" if known else "it wants a log-in"
            if status == 403:
                reason = f"it does not allow us to read {what}"
            raise RegistryRefused(url, f"{reason} ({status})", _LOGIN_ADVICE)
        if response.redirect is not None:
            raise RegistryError(
                f"the schema registry at {url} sends us elsewhere ({response.redirect}), and redirects are not "
                "followed: they would take log-ins along. Set schemaRegistry.url to where it really is"
            )
        answer = _parse(body) if response.whole and "content-encoding" not in response.headers else None
        if status == 404:
            code = answer.get("error_code") if answer else None
            if isinstance(code, int) and code in (404, 40401, 40402, 40403):
                return NotThere(url, code)
            raise RegistryError(
                f"there is no schema registry at {url}: asked for {what}, it answers 404 and none of a registry's "
                "error codes. Check the path in schemaRegistry.url (Apicurio's ends with /apis/ccompat/v7)"
            )
        if status != 200:
            raise RegistryError(f"the schema registry at {url}, asked for {what}, answers HTTP {status}")
        if answer is None:
            size = str(len(body)) if response.whole else f"more than {ANSWER_BYTES}"
            raise RegistryError(
                f"the answer of {url} about {what} is not a JSON object of at most {ANSWER_BYTES >> 20} MB ({size} "
                "bytes). Check that schemaRegistry.url is a schema registry's"
            )
        return url, answer


_LOGIN_ADVICE = (
    "Set schemaRegistry.basic.auth.user.info, schemaRegistry.bearer.auth.token or "
    "schemaRegistry.ssl.certificate.location to what it accepts"
)
_PROXY_ADVICE = "Put user and password into schemaRegistry.proxy, before the proxy's name: user:password@proxy:3128"
_TLS_ADVICE = (
    "Check schemaRegistry.ssl.ca.location (whom to trust), schemaRegistry.ssl.certificate.location and "
    "schemaRegistry.ssl.key.location (who we are), and that schemaRegistry.url begins with the right http:// or https://"
)


def _open_client(config: RegistryConfig) -> HttpClient:
    from penstock.wire.transport.http import HttpClient

    secure = any(url.startswith("https:") for url in config.urls)
    try:
        return HttpClient(tls=config.tls if secure else None, body_limit=ANSWER_BYTES, proxy=config.proxy)
    except OSError as error:  # which ssl.SSLError is too
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


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
