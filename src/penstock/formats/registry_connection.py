"""A schema registry over HTTP, one question at a time.

urllib3 does connections, TLS and proxies. Trying again is done here, because it goes from one address to the next, and
because an answer whose body breaks off is to be asked for again like one that never came.

What a registry answers is hostile input like all that comes from a network: no more than ANSWER_BYTES are read, within
the time that a request has, nothing is unpacked, and no redirection is followed, which would carry log-ins elsewhere.
"""

from __future__ import annotations

import base64
import json
import random
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import RegistryError, RegistryRefused, RegistryUnavailable
from penstock.formats.registry_config import RegistryConfig, without_login

if TYPE_CHECKING:
    import urllib3

ANSWER_BYTES = 16 << 20
"""Confluent's registry keeps a schema in one Kafka message, 1 MB unless it was told otherwise."""

_PIECE_BYTES = 1 << 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_LONGEST_WISH = 30.0
"""A registry may ask for a longer pause (Retry-After), but not for any."""

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
        self._pools = _open_pools(config)
        self._headers = _headers(config)

    def close(self) -> None:
        # Do not simplify: clear() alone leaves connections open until nobody knows a response of theirs any more, and
        # the traceback of an error may.
        for key in self._pools.pools.keys():  # noqa: SIM118 (it has no iterator)
            pool = self._pools.pools.get(key)
            if pool is not None:
                pool.close()
        self._pools.clear()

    def get(self, path: str, what: str) -> tuple[str, dict[str, Any]] | NotThere:
        """The address that answered, and the JSON object it gave. `what` is asked for, in words, for errors."""
        history: list[str] = []
        pause = _FIRST_PAUSE
        for left in reversed(range(self._config.retries + 1)):
            wish = 0.0
            for url in self._config.urls:
                answer = self._ask(url, path, what)
                if not isinstance(answer, _Failure):
                    return answer
                history.append(f"{url}: {answer.reason}")
                wish = max(wish, answer.wish)
            if left:
                # Executors meet a new schema all at once: chance keeps them from coming back all at once.
                time.sleep(max(pause * random.uniform(0.5, 1.0), wish))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE)
        raise RegistryUnavailable(what, history)

    def _ask(self, url: str, path: str, what: str) -> tuple[str, dict[str, Any]] | NotThere | _Failure:
        import urllib3

        try:
            response = self._pools.request(
                "GET",
                url + path,
                headers=self._headers,
                timeout=urllib3.Timeout(total=self._config.timeout),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                body = _read(response)
            except BaseException:
                response.close()
                raise
            response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            return self._failure(url, error)
        return self._judge(url, what, response, body)

    def _failure(self, url: str, error: Exception) -> _Failure:
        """Why nothing came, in a few words; raises for what no second try makes better."""
        import urllib3

        from penstock.formats.registry_deadline import AnswerTooSlow

        causes = _causes(error)
        for cause in causes:
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, _HUNG_UP):
                reason = cause.reason or type(cause).__name__
                said = getattr(cause, "verify_message", "") or reason.replace("_", " ").lower()
                raise RegistryRefused(url, f"TLS failed: {said}", _TLS_ADVICE) from None
            if isinstance(cause, OSError) and "407" in str(cause) and "Tunnel" in str(cause):
                raise RegistryRefused(url, "the proxy wants a log-in (407)", _PROXY_ADVICE) from None
        through = "through the proxy: " if any(isinstance(c, urllib3.exceptions.ProxyError) for c in causes) else ""
        for cause in reversed(causes):  # from inside: urllib3 calls a refused connection one that timed out
            if isinstance(cause, _HUNG_UP):
                # TLS 1.3 has shaken hands before it asks for a certificate, and the alert may get lost on the way.
                stranger = url.startswith("https:") and self._config.certificate_file is None
                return _Failure(f"{through}it hung up{_STRANGER if stranger else ''}")
            if isinstance(cause, OSError) and not isinstance(cause, TimeoutError) and (cause.strerror or str(cause)):
                return _Failure(through + (cause.strerror or str(cause)).lower())
        if any(isinstance(cause, urllib3.exceptions.ConnectTimeoutError) for cause in causes):
            return _Failure(f"{through}no connection within {self._config.timeout:g} s")
        if any(isinstance(cause, AnswerTooSlow) for cause in causes):
            return _Failure(f"{through}the answer took longer than {self._config.timeout:g} s")
        if any(isinstance(cause, TimeoutError | urllib3.exceptions.ReadTimeoutError) for cause in causes):
            return _Failure(f"{through}no answer within {self._config.timeout:g} s")
        return _Failure(f"{through}the answer is broken ({type(causes[-1]).__name__})")

    def _judge(
        self, url: str, what: str, response: urllib3.BaseHTTPResponse, body: bytes
    ) -> tuple[str, dict[str, Any]] | NotThere | _Failure:
        status = response.status
        if status in (408, 429) or status >= 500:
            return _Failure(f"HTTP {status}", _retry_after(response.headers.get("Retry-After", "")))
        if status == 407:
            raise RegistryRefused(url, "the proxy wants a log-in (407)", _PROXY_ADVICE)
        if status in (401, 403):
            known = self._config.user is not None or self._config.bearer_token is not None
            reason = "it does not accept our log-in" if known else "it wants a log-in"
            if status == 403:
                reason = f"it does not allow us to read {what}"
            raise RegistryRefused(url, f"{reason} ({status})", _LOGIN_ADVICE)
        if 300 <= status < 400:
            raise RegistryError(
                f"the schema registry at {url} sends us elsewhere (HTTP {status}), and redirections are not followed: "
                "they would take log-ins along. Set schemaRegistry.url to where it really is"
            )
        answer = _parse(body) if "Content-Encoding" not in response.headers else None
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
            size = f"more than {ANSWER_BYTES}" if len(body) > ANSWER_BYTES else str(len(body))
            raise RegistryError(
                f"the answer of {url} about {what} is no JSON object of at most {ANSWER_BYTES >> 20} MB ({size} "
                "bytes). Check that schemaRegistry.url is a schema registry's"
            )
        return url, answer


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why there was no answer, and for how many seconds the registry would not be asked again."""

    reason: str
    wish: float = 0.0


_HUNG_UP = (
    *(ssl.SSLEOFError, ssl.SSLZeroReturnError),
    *(ConnectionResetError, ConnectionAbortedError, BrokenPipeError),
)
_STRANGER = ", perhaps for want of a certificate (schemaRegistry.ssl.certificate.location)"
_LOGIN_ADVICE = (
    "Set schemaRegistry.basic.auth.user.info, schemaRegistry.bearer.auth.token or "
    "schemaRegistry.ssl.certificate.location to what it accepts"
)
_PROXY_ADVICE = "Put user and password into schemaRegistry.proxy: http://user:password@proxy:3128"
_TLS_ADVICE = (
    "Check schemaRegistry.ssl.ca.location (whom to trust), schemaRegistry.ssl.certificate.location and "
    "schemaRegistry.ssl.key.location (who we are), and that schemaRegistry.url begins with the right http:// or https://"
)


def _open_pools(config: RegistryConfig) -> urllib3.PoolManager:
    try:
        import urllib3
    except ImportError:
        raise RegistryError(
            "a schema registry needs urllib3, which is not installed. Install it with: pip install 'penstock[registry]'"
        ) from None
    from penstock.formats.registry_deadline import use_deadlines

    settings: dict[str, Any] = {"num_pools": max(4, len(config.urls)), "maxsize": 4}
    if any(url.startswith("https:") for url in config.urls):
        settings["ssl_context"] = _tls_context(config)
        if not config.check_hostname:
            settings["assert_hostname"] = False
    pools = _proxied(config, settings) if config.proxy else urllib3.PoolManager(**settings)
    use_deadlines(pools)
    return pools


def _proxied(config: RegistryConfig, settings: dict[str, Any]) -> urllib3.PoolManager:
    import urllib3

    assert config.proxy is not None
    address, login = without_login("schemaRegistry.proxy", config.proxy)
    told = {} if login is None else {"proxy-authorization": _basic(*login)}
    if address.startswith("https:"):
        settings["proxy_ssl_context"] = _tls_context(config)
    return urllib3.ProxyManager(address, proxy_headers=told, **settings)


def _tls_context(config: RegistryConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.check_hostname
    # With a password of its own, else OpenSSL asks on the terminal for the one of a locked key.
    password = config.key_password or ""
    try:
        if config.ca_file:
            context.load_verify_locations(config.ca_file)
        else:
            context.load_default_certs()
        if config.certificate_file:
            context.load_cert_chain(config.certificate_file, config.key_file, lambda: password)
    except OSError as error:  # which ssl.SSLError is too
        raise RegistryError(
            f"the TLS files for the schema registry cannot be loaded ({error.strerror or error}). They are PEM files, "
            "and each executor needs them too: check schemaRegistry.ssl.ca.location, .certificate.location, "
            ".key.location and .key.password"
        ) from None
    return context


def _headers(config: RegistryConfig) -> dict[str, str]:
    headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity", "User-Agent": "penstock"}
    if config.bearer_token is not None:
        headers["Authorization"] = f"Bearer {config.bearer_token}"
    elif config.user is not None:
        headers["Authorization"] = _basic(config.user, config.password or "")
    return headers | dict(config.headers)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    """The body, or a little more than is allowed of it."""
    body = bytearray()
    while len(body) <= ANSWER_BYTES:
        piece = response.read1(_PIECE_BYTES, decode_content=False)
        if not piece:
            return bytes(body)
        body += piece
    response.close()
    return bytes(body)


def _parse(body: bytes) -> dict[str, Any] | None:
    if len(body) > ANSWER_BYTES:
        return None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _retry_after(text: str) -> float:
    """Seconds; the header's other form, a date, is not worth a clock that agrees with the registry's."""
    return min(float(text), _LONGEST_WISH) if text.isascii() and text.isdigit() else 0.0


def _causes(error: BaseException) -> list[BaseException]:
    """An error and what it came from, inwards."""
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in found:
        found.append(at)
        inner = getattr(at, "original_error", None) or getattr(at, "reason", None)
        at = inner if isinstance(inner, BaseException) else at.__cause__ or at.__context__
        if at is None:
            at = next((word for word in found[-1].args if isinstance(word, BaseException)), None)
    return found
