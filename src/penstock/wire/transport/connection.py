"""One blocking connection to one broker.

Life of a connection: connect (TCP, TLS) -> ApiVersions -> SASL -> requests -> close. `call` is for single requests, and
`ask` for requests to several brokers at once. `send` and `receive_into` are the two halves of a fetch: the next request
is sent before the last response is decoded. One thread uses a connection at a time; only `abort` may come from another.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from penstock.errors import AuthenticationFailed, BrokerError, ProtocolError
from penstock.masking import get_logger
from penstock.wire.api.api_versions import API_VERSIONS
from penstock.wire.api.error_codes import UNSUPPORTED_VERSION
from penstock.wire.api.frame import READ_ERRORS
from penstock.wire.api.message import Api, EncodedRequest
from penstock.wire.api.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.broker_wait import BrokerWait, OverdueCheck, WaitEnded
from penstock.wire.transport.oauth import TOKENS, AccessToken, OAuthLogin, TokenRefused, TokenUnavailable
from penstock.wire.transport.tls import CipherRefused

if TYPE_CHECKING:
    from penstock.wire.transport.sasl import SaslLogin

log = get_logger(__name__)

FRAME_LIMIT = 1 << 30
"""No response of Kafka is nearly this large: a larger length is garbage, or another protocol on that port."""

Answer = TypeVar("Answer")
Pending: TypeAlias = Callable[[float], Answer]
"""The second half of a request: called with the seconds to wait, it returns the response."""

LENGTH = 4
"""Bytes of the length before each frame."""

READ_AHEAD = 64 << 10

GROWTH = 4 << 20
"""The buffer grows by this many bytes at a time, as the bytes of a larger frame arrive."""


class ConnectionLost(BrokerError):
    """The connection broke or timed out. Always worth a retry on a new one."""


class BrokerSilent(ConnectionLost):
    """The broker did not answer before the deadline, or before another broker replaced it."""


class Connection:
    def __init__(
        self, host: str, port: int, config: ClientConfig, timeout: float, overdue_check: OverdueCheck | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.config = config
        self.overdue_check = overdue_check
        """Called while an answer is overdue; set by the current user, see penstock.wire.transport.broker_wait."""
        self._correlation = itertools.count(1)
        self._unanswered = 0
        self._versions: dict[int, tuple[int, int]] = {}
        """By API key: the lowest and the highest version that the broker speaks. Empty until it has answered."""
        self._agreed: dict[tuple[Api, int | None], int] = {}
        self._features: dict[str, int] = {}
        self._session_ends = float("inf")
        self.last_used = time.monotonic()
        deadline = time.monotonic() + min(timeout, config.connect_timeout)
        self._socket = self._connect(deadline)
        self._by_kernel = not config.security.uses_tls
        self._limits: dict[int, float] = {}
        """By socket option: the last time-out that was set in the kernel."""
        self._flags = socket.MSG_WAITALL if self._by_kernel else 0
        if self._by_kernel:
            self._socket.settimeout(None)
        try:
            self._negotiate(deadline)
            if config.security.uses_sasl:
                self._authenticate(deadline)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Connection({self.host}:{self.port})"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Any thread may ask."""
        return self._socket.fileno() >= 0

    @property
    def peer_certificate(self) -> bytes | None:
        """The broker's certificate in DER; None without TLS."""
        return self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def session_over(self) -> bool:
        """Whether the SASL session is about to end: the next request needs a new connection."""
        return time.monotonic() >= self._session_ends

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used again: open, nothing unread, and time left in the SASL session."""
        if self._unanswered or self._socket.fileno() < 0 or self.session_over:
            return False
        # Bytes (or an end) without a request: the broker has closed the connection meanwhile.
        return not self.has_input()

    def fileno(self) -> int:
        """For `select`. Bytes that TLS has decrypted already do not show there: ask `has_input` first."""
        return self._socket.fileno()

    def has_input(self) -> bool:
        """Whether bytes of an answer, or the end of the connection, can be read at once."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def version(self, api: Api, at_most: int | None = None) -> int:
        """The highest version of an API that this broker, Penstock and the caller (`at_most`) speak."""
        key = (api, at_most)
        if key not in self._agreed:
            self._agreed[key] = self._agree(api, at_most)
        return self._agreed[key]

    def _agree(self, api: Api, at_most: int | None) -> int:
        limit = api.highest if at_most is None else min(at_most, api.highest)
        lowest, highest = self._versions.get(api.key, (0, -1))
        agreed = min(highest, limit)
        if agreed < max(lowest, api.lowest):
            raise BrokerError(f"{self.address} {self._disagreement(api.name, lowest, highest, limit)}")
        return agreed

    @staticmethod
    def _disagreement(name: str, lowest: int, highest: int, limit: int) -> str:
        if highest < 0:
            return f"does not know {name}: its Kafka is too old for that, or does not offer it"
        if lowest > limit:
            return f"takes {name} from version {lowest} on, Penstock sends up to {limit}. Use a newer Penstock"
        return f"takes {name} up to version {highest}, which is too old. Penstock needs Kafka 1.0 or newer"

    def speaks(self, api: Api, version: int) -> bool:
        """Whether this broker knows at least that version of an API."""
        return self._versions.get(api.key, (0, -1))[1] >= version

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has enabled, when this connection was made. 0 if it is unknown."""
        return self._features.get(name, 0)

    # --- requests -------------------------------------------------------------------------------------------------

    def call(self, request: EncodedRequest, timeout: float) -> Any:
        """Send a request and wait for its response: the fields as attributes."""
        return self.ask(request, timeout)(timeout)

    def ask(self, request: EncodedRequest, timeout: float) -> Pending[Any]:
        """Send a request. The returned function waits for its response."""
        expected = self.send(request, timeout)

        def read(timeout: float) -> Any:
            frame = self.receive_into(bytearray(64 * 1024), timeout)
            try:
                return request.api.read_response(frame, request.version, expected)
            except READ_ERRORS as error:
                self.close()  # out of step: the next response cannot be found
                raise ProtocolError(
                    f"{self.address} sent a response to {request.name} (version {request.version}) that cannot be "
                    f"read: {error}"
                ) from error

        return read

    def tell(self, request: EncodedRequest, timeout: float) -> None:
        """Send a request that the broker does not answer: a Produce with acks=0."""
        self.send(request, timeout)
        self._unanswered -= 1

    def send(self, request: EncodedRequest, timeout: float) -> int:
        """Send a request without waiting; returns its correlation id."""
        if timeout <= 0:
            self.close()
            raise BrokerSilent(f"{self.address}: timed out")
        correlation_id = next(self._correlation) & 0x7FFFFFFF
        frame = request.encode(correlation_id, self.config.client_id)
        self._unanswered += 1  # before sending: a signal may end the call after the bytes are out
        wait = BrokerWait(time.monotonic() + timeout, self.overdue_check)
        rest = memoryview(frame)
        try:
            while rest:
                self._within(wait.seconds_left(), socket.SO_SNDTIMEO)
                try:
                    rest = rest[self._socket.send(rest) :]
                except (BlockingIOError, TimeoutError):
                    continue
                wait.progressed()
        except OSError as error:
            self.close()
            raise self._lost("sending failed", error) from error
        self.last_used = time.monotonic()
        return correlation_id

    def hold_back(self, held: bool) -> None:
        """Keep small requests in the kernel until `held` is False, or for 200 ms. If the process is killed meanwhile,
        the kernel sends them. Only Linux can."""
        if hasattr(socket, "TCP_CORK"):
            with contextlib.suppress(OSError):  # closed: the next call says so
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, held)

    def receive_into(self, buffer: bytearray, timeout: float, allowed: float = 0.0) -> memoryview:
        """Read one response frame into `buffer`, which grows if the frame is larger, and return a view of the frame.

        `allowed`: seconds for which the broker may hold its answer back. It is overdue only after that.
        """
        wait = BrokerWait(
            time.monotonic() + timeout, None if self.overdue_check is None else self._check_overdue, allowed
        )
        # One call reads the length and the bytes that arrived with it: most responses are small, and need no second
        # call. Nothing is read ahead while another response is to come.
        ahead = READ_AHEAD if self._unanswered == 1 else LENGTH
        if len(buffer) < LENGTH:
            buffer.extend(bytes(LENGTH - len(buffer)))
        with memoryview(buffer) as view:
            received = self._fill(view[:ahead], wait, LENGTH)
        whole = LENGTH + struct.unpack_from(">i", buffer)[0]
        if not LENGTH + 4 <= whole <= FRAME_LIMIT or received > whole:
            self.close()
            raise ProtocolError(
                f"{self.address} announced a response of {whole - LENGTH} bytes"
                + (f" and sent {received - LENGTH}" if received > whole else "")
                + f". Is that port a Kafka listener, and does {self.config.option('security.protocol')} match it?"
            )
        while received < whole:
            if len(buffer) < whole:
                # Do not simplify to one resize: the length is the peer's claim, and memory must grow with real bytes.
                buffer.extend(bytes(min(whole - len(buffer), GROWTH)))
            with memoryview(buffer) as view:
                received += self._fill(view[received : min(whole, len(buffer))], wait)
        self._unanswered -= 1
        self.last_used = time.monotonic()
        return memoryview(buffer)[LENGTH:whole]

    def _fill(self, view: memoryview, wait: BrokerWait, least: int | None = None) -> int:
        """Fill the view from the socket, or read at least `least` bytes. Returns the number of bytes read."""
        done, wanted = 0, len(view) if least is None else least
        flags = self._flags if least is None else 0
        try:
            while done < wanted:
                self._within(wait.seconds_left(), socket.SO_RCVTIMEO)
                try:
                    count = self._socket.recv_into(view[done:], 0, flags)
                except (BlockingIOError, TimeoutError):  # a time-out of the kernel, and one of Python
                    continue
                if count == 0:
                    raise ConnectionResetError("closed by the broker")
                done += count
                wait.progressed()
        except OSError as error:
            self.close()
            if isinstance(error, ssl.SSLError) and not self._versions and not isinstance(error, ssl.SSLEOFError):
                # TLS 1.3 refuses a client's certificate, or a missing one, only with the first response.
                raise AuthenticationFailed(
                    f"{self.address} refused this client after the TLS handshake: {error}. It wants a client "
                    f"certificate: set {self.config.option('ssl.keystore.location')}"
                ) from error
            raise self._lost("reading failed", error) from error
        return done

    def _lost(self, what: str, error: Exception) -> ConnectionLost:
        kind = BrokerSilent if isinstance(error, WaitEnded) else ConnectionLost
        return kind(f"{self.address}: {what}: {error}")

    def _check_overdue(self) -> str | None:
        """The reason to stop waiting for an answer, unless it has arrived during the check."""
        reason = None if self.overdue_check is None else self.overdue_check()
        return None if reason is None or self.has_input() else reason

    def _within(self, seconds: float, option: int) -> None:
        """Limit the next calls of the socket to this time; `option` is the kernel's for sending or for receiving.

        Without TLS the kernel's own time-out is used. Python's makes three system calls of one, and releases the GIL in
        each. Beside a thread that is busy in Python each release may cost 5 ms (CPython's switch interval), and a
        fetcher is then too slow. The time-out is set again only if it is off by more than a tenth.
        """
        if not self._by_kernel:
            self._socket.settimeout(seconds)
        elif not 0.9 * seconds <= self._limits.get(option, 0.0) <= 1.1 * seconds:
            limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000) or 1)
            self._socket.setsockopt(socket.SOL_SOCKET, option, limit)
            self._limits[option] = seconds

    # --- life -----------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Wake a thread blocked in this connection; it gets ConnectionLost. May be called by any thread."""
        with contextlib.suppress(OSError):  # no longer connected: no thread is blocked
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _connect(self, deadline: float) -> socket.socket:
        wait = BrokerWait(deadline, self.overdue_check)
        try:
            plain = self._dial(wait)
        except (OSError, ValueError) as error:  # ValueError: an advertised name that cannot be a host name
            raise self._lost("connecting failed", error) from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.config.receive_buffer > 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.config.receive_buffer)
        if not self.config.security.uses_tls:
            return plain
        try:
            return self._encrypted(plain, wait)
        except CipherRefused as error:
            plain.close()
            raise AuthenticationFailed(
                f"{self.address}: the TLS handshake failed: {error}. Set {self.config.option('ssl.cipher.suites')} to "
                f"suites that the broker prefers, or {self.config.option('ssl.enabled.protocols')} to TLSv1.2: Python "
                "cannot choose among those of TLSv1.3"
            ) from error
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            # A broker that starts or stops closes the connection like this, and so does a listener without TLS.
            plain.close()
            raise ConnectionLost(
                f"{self.address}: closed the connection in the TLS handshake ({error}). Does "
                f"{self.config.option('security.protocol')} match that port?"
            ) from error
        except ssl.SSLError as error:
            plain.close()
            raise AuthenticationFailed(
                f"{self.address}: the TLS handshake failed: {error}. Check "
                f"{self.config.option('ssl.truststore.location')} (the CA that signed the broker's certificate), "
                f"{self.config.option('ssl.enabled.protocols')}, {self.config.option('security.protocol')} and the port"
            ) from error
        except OSError as error:
            plain.close()
            raise self._lost("the TLS handshake failed", error) from error
        except BaseException:
            plain.close()
            raise

    def _dial(self, wait: BrokerWait) -> socket.socket:
        while True:
            seconds = wait.seconds_left()
            with contextlib.suppress(TimeoutError):
                return socket.create_connection((self.host, self.port), seconds)

    def _encrypted(self, plain: socket.socket, wait: BrokerWait) -> socket.socket:
        security = self.config.security
        context = security.tls_context(self.config.option_prefix)
        encrypted = context.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
        try:
            while True:
                encrypted.settimeout(wait.seconds_left())
                with contextlib.suppress(TimeoutError):
                    encrypted.do_handshake()
                    security.tls.check_suite(encrypted)
                    return encrypted
        except BaseException:
            encrypted.close()
            raise

    def _negotiate(self, deadline: float) -> None:
        """Ask which versions the broker speaks. One that does not know our version says which it knows."""
        from penstock._kernel import __version__

        version = API_VERSIONS.highest
        while True:
            request = API_VERSIONS.request(
                version, client_software_name="penstock", client_software_version=__version__
            )
            response = self.call(request, deadline - time.monotonic())
            spoken = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            if response.error_code == 0:
                break
            if response.error_code != UNSUPPORTED_VERSION or version == 0:
                raise ProtocolError(f"{self.address}: ApiVersions failed with error code {response.error_code}")
            _, known = spoken.get(API_VERSIONS.key, (0, 0))
            version = max(0, min(known, version - 1))
        self._versions, self._features = spoken, response.features

    def _authenticate(self, deadline: float) -> None:
        # Imported only by clients that log in.
        from penstock.wire.transport.sasl import new_login
        from penstock.wire.transport.scram import ScramError

        security, name = self.config.security, self.config.security.sasl_mechanism
        assert name is not None, "the options of a SASL protocol name a mechanism"
        handshake = SASL_HANDSHAKE.request(SASL_HANDSHAKE.highest, mechanism=name)
        chosen = self.call(handshake, deadline - time.monotonic())
        if chosen.error_code != 0:
            offered = ", ".join(chosen.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.address} does not take SASL mechanism {name}; it offers {offered}. Set "
                f"{self.config.option('sasl.mechanism')}"
            )
        token = None if security.oauth is None else self._token(security.oauth, deadline)
        lifetime = 0
        try:
            login = new_login(security, self.host, token, deadline)
            while not login.is_done():
                request = SASL_AUTHENTICATE.request(self.version(SASL_AUTHENTICATE), auth_bytes=login.auth_bytes())
                answer = self.call(request, deadline - time.monotonic())
                if answer.error_code != 0:
                    raise self._refused_login(answer.error_message, token, login)
                login.receive(answer.auth_bytes)
                lifetime = answer.session_lifetime_ms
        except TokenUnavailable as error:
            raise ConnectionLost(f"{self.address}: SASL {name}: {error}") from error
        except TokenRefused as error:
            raise AuthenticationFailed(f"{self.address}: SASL {name}: {error}") from error
        except BrokerError:
            raise
        except ScramError as error:
            raise AuthenticationFailed(f"{self.address}: SASL {name}: {error}") from None
        except Exception as error:  # a mechanism may need a package, and fails in many ways on a strange answer
            raise AuthenticationFailed(
                f"{self.address}: SASL {name} failed: {type(error).__name__}: {error}"
            ) from error
        if not login.is_authenticated():
            raise AuthenticationFailed(f"{self.address} could not prove that it knows the password (SASL {name})")
        if lifetime > 0:
            # The broker closes the connection when its session ends (KIP-368): log in again a little before.
            self._session_ends = time.monotonic() + lifetime / 1000 * 0.85

    def _refused_login(self, message: str | None, token: AccessToken | None, login: SaslLogin) -> BrokerError:
        security = self.config.security
        if security.oauth is not None and token is not None:
            TOKENS.forget(security.oauth, token)
            if not token.is_new:  # it may have been revoked: retry with a new one
                return ConnectionLost(f"{self.address} refused an access token that was used before")
        check = f"Check {self.config.option('sasl.jaas.config')}"
        if security.kerberos is not None:
            from penstock.wire.transport.gssapi_login import GssapiLogin

            assert isinstance(login, GssapiLogin)
            if login.forget_tickets():  # the broker may have a new key, or the principal a new ticket
                return ConnectionLost(f"{self.address} refused Kerberos tickets that were used before")
            check = "Its log has the reason. Check its keytab, which must have the service's current key, and its clock"
        return AuthenticationFailed(
            f"{self.address} refused the login of {security.user} by {security.sasl_mechanism}: {message}. {check}"
        )

    def _token(self, login: OAuthLogin, deadline: float) -> AccessToken:
        try:
            return TOKENS.get(login, deadline)
        except TokenUnavailable as error:
            # Retriable, like a broker that does not answer: the endpoint may return in a moment.
            raise ConnectionLost(f"{self.address}: no access token for the login: {error}") from error
        except TokenRefused as error:
            source = "sasl.oauthbearer.token.endpoint.url"
            if login.callback is not None:
                source = "sasl.login.callback.handler.class"
            raise AuthenticationFailed(
                f"{self.address}: no access token for the login: {error}. Check {self.config.option(source)} and "
                f"{self.config.option('sasl.jaas.config')}"
            ) from error
