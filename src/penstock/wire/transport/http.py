"""The HTTP client of token endpoints and schema registries.

Both answer over a network and may be hostile, and both are sent secrets. So, for both:
- No redirect is followed: it would carry log-ins to another host.
- A try ends with its time-out, however slowly bytes drip in, and a call with its deadline.
- A body is read in pieces, and no further than its limit. Nothing is decompressed.
- I/O errors, HTTP 408, 429 and 5xx are retriable. Every other answer is the caller's to judge.
- The environment's proxies are not used.

http.client parses responses. Connecting, TLS, tunnels and kept connections are done here. Importing this module loads
http.client with the email package: import it where a request is made.
"""

from __future__ import annotations

import base64
import contextlib
import io
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from penstock.errors import PenstockError
from penstock.wire.transport.http_address import shown, without_login
from penstock.wire.transport.tls import Tls

if TYPE_CHECKING:
    from socket import SocketIO

    from _typeshed import WriteableBuffer

CONNECTIONS_KEPT = 4
"""Idle connections that are kept per host."""

SHORT_TRY = 1.0
"""Seconds. A time-out says nothing about the endpoint if the deadline left the try less than this: the error then tells
the failure before it, for example a refused connection."""

LONGEST_RETRY_AFTER = 30.0
"""The longest pause that an endpoint may ask for (Retry-After)."""

_PIECE_BYTES = 1 << 16
_SAFE = "/%:@!$&'()*+,;=~?"
"""Characters that are not escaped in a path and a query. Spaces and letters beyond ASCII are escaped."""


class HttpUnavailable(PenstockError):
    """No usable answer within the tries and the deadline. Retriable. `history` lists the tries, oldest first."""

    def __init__(self, history: Sequence[str]) -> None:
        self.history = tuple(history)
        super().__init__(self.history[-1] if history else "the time was up before the first try")


class HttpRefused(PenstockError):
    """TLS failed, or a proxy wants a log-in. Not retriable."""

    def __init__(self, url: str, reason: str, *, by_proxy: bool = False) -> None:
        self.url = url
        self.reason = reason
        self.by_proxy = by_proxy
        super().__init__(f"{url}: {reason}")


class AnswerTooSlow(TimeoutError):
    """The time is up, and a part of the answer had come."""


class _NoConnection(TimeoutError):
    """The time is up, and there was no connection yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that is not worth a retry."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes
    whole: bool = True
    """Whether all of the body is here; if not, it is longer than the limit."""

    @property
    def redirect(self) -> str | None:
        """Where a redirect leads, in words."""
        if not 300 <= self.status < 400:
            return None
        where = self.headers.get("location", "")
        return f"HTTP {self.status}, redirect to {shown(where)}" if where else f"HTTP {self.status}, a redirect"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str = ""
    """Follows the address."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long and how often to try. Times in seconds."""

    timeout: float
    """For one try, from connecting to the last byte."""
    connect_timeout: float = float("inf")
    tries: int | None = None
    """None: until the deadline."""
    deadline: float = float("inf")
    """Of the whole call, by time.monotonic."""
    backoff: float = 0.2
    backoff_max: float = 5.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why there was no answer, and the pause in seconds that the endpoint asks for."""

    reason: str
    pause: float = 0.0
    timed_out: bool = False


class HttpClient:
    """Sends requests, and keeps connections for the next ones until it is closed. Any thread calls it; a forked process
    must make its own. Raises OSError if there are TLS files that cannot be loaded."""

    def __init__(self, *, tls: Tls | None, body_limit: int, proxy: str | None = None) -> None:
        self._tls = tls
        self._context = None if tls is None else tls.context()
        self._body_limit = body_limit
        self._proxy: str | None = None
        self._proxy_headers: dict[str, str] = {}
        if proxy is not None:
            self._proxy, login = without_login("proxy", proxy)
            self._proxy_headers = {} if login is None else {"Proxy-Authorization": basic(*login)}
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str, int], list[HTTPConnection]] = {}

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def call(self, urls: Sequence[str], request: Request, policy: RetryPolicy) -> tuple[str, Answer]:
        """The address that answered, and its answer. Addresses are tried in turn."""
        history: list[str] = []
        backoff, tried = policy.backoff, 0
        while True:
            pause = 0.0
            for url in urls:
                timeout = min(policy.timeout, policy.deadline - time.monotonic())
                if timeout <= 0:
                    raise HttpUnavailable(history)
                answer = self._try(url, request, timeout, policy.connect_timeout)
                if isinstance(answer, Answer):
                    return url, answer
                if answer.timed_out and timeout < min(SHORT_TRY, policy.timeout) and history:
                    raise HttpUnavailable(history)
                history.append(f"{shown(url)}: {answer.reason}")
                pause = max(pause, answer.pause)
            tried += 1
            if tried == policy.tries:
                raise HttpUnavailable(history)
            # Executors ask all at once: jitter keeps them from asking again all at once.
            pause = max(backoff * random.uniform(0.5, 1.0), pause)  # noqa: S311
            time.sleep(max(0.0, min(pause, policy.deadline - time.monotonic())))
            backoff = min(backoff * 2, policy.backoff_max)

    def _try(self, url: str, request: Request, timeout: float, connect_timeout: float) -> Answer | _Failure:
        end = time.monotonic() + timeout
        try:
            answer = self._exchange(url, request, end, min(end, time.monotonic() + connect_timeout))
        except (OSError, HTTPException) as error:
            return self._failure(url, error, timeout)
        if answer.status == 407:
            raise HttpRefused(shown(url), "the proxy wants a log-in (407)", by_proxy=True)
        if answer.status in (408, 429) or answer.status >= 500:
            return _Failure(f"HTTP {answer.status}", _retry_after(answer.headers.get("retry-after", "")))
        return answer

    def _exchange(self, url: str, request: Request, end: float, connect_end: float) -> Answer:
        parts = urlsplit(url + request.path)
        secure = parts.scheme == "https"
        key = (parts.scheme, parts.hostname or "", parts.port or (443 if secure else 80))
        target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        headers = dict(request.headers)
        if self._proxy is not None and not secure:
            target = f"http://{parts.netloc}{target}"
            headers |= self._proxy_headers
        connection = self._take(key) or self._open(key, connect_end)
        try:
            # It is only ever called.
            connection.response_class = partial(_TimedResponse, end=end)  # type: ignore[assignment]
            assert connection.sock is not None
            connection.sock.settimeout(max(0.001, end - time.monotonic()))
            connection.request(request.method, target, request.body, headers)
            with contextlib.closing(connection.getresponse()) as response:
                answer = self._read(response)
        except BaseException:
            connection.close()
            raise
        if not answer.whole or connection.sock is None:
            connection.close()
        else:
            self._keep(key, connection)
        return answer

    def _read(self, response: HTTPResponse) -> Answer:
        body = bytearray()
        while len(body) <= self._body_limit:
            piece = response.read(_PIECE_BYTES)
            if not piece:
                break
            body += piece
        whole = len(body) <= self._body_limit
        if whole and response.length:
            raise ConnectionResetError("the answer breaks off")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, bytes(body[: self._body_limit]), whole)

    def _take(self, key: tuple[str, str, int]) -> HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(key, [])
            while idle:
                connection = idle.pop()
                # Bytes (or an end) without a request: the server has closed the connection meanwhile.
                poll = select.poll()
                poll.register(connection.sock, select.POLLIN)
                if not poll.poll(0):
                    return connection
                connection.close()
        return None

    def _keep(self, key: tuple[str, str, int], connection: HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) < CONNECTIONS_KEPT:
                idle.append(connection)
                return
        connection.close()

    def _open(self, key: tuple[str, str, int], end: float) -> HTTPConnection:
        scheme, host, port = key
        if self._proxy is None:
            connected = _connect(host, port, end)
        else:
            proxy = urlsplit(self._proxy)
            assert proxy.hostname is not None
            try:
                connected = _connect(proxy.hostname, proxy.port or 80, end)
                if scheme == "https":
                    self._tunnel(connected, host, port, end)
            except OSError as error:
                error.add_note(_THROUGH_PROXY)
                raise
        if scheme == "https":
            assert self._tls is not None
            assert self._context is not None
            connected.settimeout(max(0.001, end - time.monotonic()))
            connected = self._tls.connect(connected, host, self._context)
        connection = HTTPConnection(host, port)
        connection.default_port = 443 if scheme == "https" else 80
        connection.sock = connected
        connection.auto_open = 0
        return connection

    def _tunnel(self, connected: socket.socket, host: str, port: int, end: float) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        lines += [f"{name}: {value}" for name, value in self._proxy_headers.items()]
        try:
            connected.settimeout(max(0.001, end - time.monotonic()))
            connected.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii"))
            with contextlib.closing(_TimedResponse(connected, method="CONNECT", end=end)) as response:
                response.begin()
                if response.status == 407:
                    raise HttpRefused(place, "the proxy wants a log-in (407)", by_proxy=True)
                if response.status != 200:
                    raise ConnectionError(f"the proxy answers HTTP {response.status}")
        except BaseException:
            connected.close()
            raise

    def _failure(self, url: str, error: OSError | HTTPException, timeout: float) -> _Failure:
        """Why there was no answer, in a few words; raises HttpRefused if it is not retriable."""
        through = "through the proxy: " if _THROUGH_PROXY in getattr(error, "__notes__", ()) else ""
        if isinstance(error, _HUNG_UP):
            # In TLS 1.3 the handshake ends before the server asks for a certificate, and the alert may get lost.
            anonymous = url.startswith("https:") and self._tls is not None and self._tls.certificate_file is None
            return _Failure(
                f"{through}it closed the connection{', perhaps for want of a client certificate' if anonymous else ''}"
            )
        if isinstance(error, ssl.SSLError):
            reason = getattr(error, "verify_message", "") or (error.reason or str(error)).replace("_", " ").lower()
            raise HttpRefused(shown(url), f"TLS failed: {reason}") from None
        if isinstance(error, _NoConnection):
            return _Failure(f"{through}no connection within {timeout:g} s", timed_out=True)
        if isinstance(error, AnswerTooSlow):
            return _Failure(f"{through}the answer took longer than {timeout:g} s", timed_out=True)
        if isinstance(error, TimeoutError):
            return _Failure(f"{through}no answer within {timeout:g} s", timed_out=True)
        if isinstance(error, OSError):
            return _Failure(through + (error.strerror or str(error) or type(error).__name__).lower())
        return _Failure(f"{through}the answer is broken ({type(error).__name__})")


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


_THROUGH_PROXY = "on the way to the proxy"
_HUNG_UP = (
    *(ssl.SSLEOFError, ssl.SSLZeroReturnError),
    *(ConnectionResetError, ConnectionAbortedError, BrokenPipeError),
)


def _connect(host: str, port: int, end: float) -> socket.socket:
    """Connect to the first address of a host that accepts. Each gets its share of the time that is left."""
    last: OSError = OSError(f"the name {host} has no address")
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for at, (family, kind, protocol, _, address) in enumerate(addresses):
        left = (end - time.monotonic()) / (len(addresses) - at)
        if left <= 0:
            raise _NoConnection("timed out")
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(left)
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError:
            plain.close()
            last = _NoConnection("timed out")
        except OSError as error:
            plain.close()
            last = error
        except BaseException:
            plain.close()
            raise
        else:
            return plain
    raise last


class _Incoming(io.RawIOBase):
    """Reads from a socket until a deadline. A socket's own time-out restarts with each byte, so that a slow server
    could hold its client forever."""

    def __init__(self, connected: socket.socket, end: float) -> None:
        self._socket = connected
        # Not the socket itself: a file also keeps it open while a response is read from it.
        self._pieces: SocketIO = connected.makefile("rb", buffering=0)
        self._end = end
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._end - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError("the time for the answer is up")
            self._socket.settimeout(left)
            count = self._pieces.readinto(buffer)
        except TimeoutError as error:
            if self._has_begun:
                raise AnswerTooSlow(str(error)) from error
            raise
        self._has_begun = True
        return count

    def close(self) -> None:
        self._pieces.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, connected: socket.socket, *args: Any, end: float, **named: Any) -> None:
        super().__init__(connected, *args, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Incoming(connected, end))


def _retry_after(text: str) -> float:
    """Seconds. The header's other form, a date, is ignored: it would need a clock that agrees with the endpoint's."""
    return min(float(text), LONGEST_RETRY_AFTER) if text.isascii() and text.isdigit() and len(text) < 20 else 0.0
