"""SCRAM servers that are not the broker: every exchange ends before the client sends a proof of the password, or before
it trusts the server."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import socket
import struct
import threading

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from penstock.errors import AuthenticationFailed
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.scram import MOST_ITERATIONS, ScramError, ScramLogin
from penstock.wire.transport.security import Security
from support.configs import client_config

SECONDS = 60.0
SALT = base64.b64encode(b"salt of the server").decode()


def login(password="pencil", user="user", mechanism="SCRAM-SHA-256", nonce=None):
    return ScramLogin(user, password, mechanism, nonce)


def nonce_of(first: bytes) -> str:
    return first.decode().rpartition(",r=")[2]


def server_first(one, iterations="4096", salt=SALT, more="", nonce=None):
    nonce = nonce_of(one.auth_bytes()) + "server" if nonce is None else nonce
    return f"{more}r={nonce},s={salt},i={iterations}".encode()


# --- a correct server -------------------------------------------------------------------------------------------------


def test_the_exchange_of_RFC_7677():
    one = login(nonce="rOprNGfwEbeRWgbNEkqO")
    assert one.auth_bytes() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    one.receive(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert one.auth_bytes() == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not one.is_done()
    one.receive(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert one.is_done()
    assert one.is_authenticated()


def test_a_user_name_cannot_add_attributes():
    assert login(user="me=you,r=chosen").auth_bytes().startswith(b"n,,n=me=3Dyou=2Cr=3Dchosen,r=")


def test_nonces_differ():
    assert nonce_of(login().auth_bytes()) != nonce_of(login().auth_bytes())


# --- a wrong server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", ["1", "0", "4095"])
def test_few_iterations_are_refused_by_name(iterations):
    one = login()
    with pytest.raises(ScramError, match=rf"{iterations} iterations.* 4096"):
        one.receive(server_first(one, iterations))


@pytest.mark.parametrize("iterations", [str(MOST_ITERATIONS + 1), str(2**31), "9" * 10_000])
def test_iterations_that_would_hang_the_client_are_refused_by_name(iterations):
    one = login()
    with pytest.raises(ScramError, match=rf"iterations.* {MOST_ITERATIONS}"):
        one.receive(server_first(one, iterations))


@pytest.mark.parametrize(
    "message",
    [
        lambda one: server_first(one, nonce="somebody-else"),
        lambda one: server_first(one, nonce=nonce_of(one.auth_bytes())),
        lambda one: server_first(one, more="m=extension,"),
        lambda one: server_first(one, iterations="4096,i=1"),
        lambda one: server_first(one, iterations="-4096"),
        lambda one: server_first(one, iterations="+4096"),
        lambda one: server_first(one, iterations="\u0664\u0660\u0669\u0666"),
        lambda one: server_first(one, salt="?"),
        lambda one: server_first(one, salt=""),
        lambda one: b"r=x",
        lambda one: b"",
        lambda one: b",",
        lambda one: b"\xff\xff",
        lambda one: b"e=other-error",
    ],
)
def test_an_invalid_first_message_is_rejected(message):
    one = login()
    with pytest.raises(ScramError):
        one.receive(message(one))


@pytest.mark.parametrize("message", [b"", b"v=", b"v=?", b"v=" + base64.b64encode(bytes(32)), b"e=invalid-proof", b"x"])
def test_a_server_that_does_not_know_the_password_is_not_trusted(message):
    one = login()
    one.receive(server_first(one))
    one.auth_bytes()
    with pytest.raises(ScramError):
        one.receive(message)
    assert not one.is_done()
    assert not one.is_authenticated()


def test_a_final_message_before_the_first_is_not_trusted():
    with pytest.raises(ScramError):
        login().receive(b"v=" + base64.b64encode(bytes(32)))


# --- over a socket ----------------------------------------------------------------------------------------------------


class Server:
    """A broker that speaks only SCRAM, and requests a given number of iterations."""

    def __init__(self, iterations: int, password: str) -> None:
        self._iterations, self._password = iterations, password
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(SECONDS)
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="test-scram", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.close()
        self._thread.join(SECONDS)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._socket.accept()
            with client, client.makefile("rb") as stream:
                client.settimeout(SECONDS)
                while length := stream.read(4):
                    frame = stream.read(struct.unpack(">i", length)[0])
                    key, version, correlation = struct.unpack_from(">hhi", frame)
                    body = self._answer(key, frame).encode(version=version)
                    client.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

    def _answer(self, key: int, frame: bytes):
        match key:
            case ApiVersionsResponse.API_KEY:
                version_class = ApiVersionsResponse.ApiVersion
                keys = [version_class(api_key=k, min_version=0, max_version=1) for k in (17, 18, 36)]
                return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
            case SaslHandshakeResponse.API_KEY:
                return SaslHandshakeResponse(error_code=0, mechanisms=["SCRAM-SHA-256"])
        self.heard.append(frame)
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=self._challenge(), session_lifetime_ms=0
        )

    def _challenge(self) -> bytes:
        bare = self.heard[0][self.heard[0].index(b"n,,") + 3 :]
        first = f"r={nonce_of(bare)}server,s={SALT},i={self._iterations}".encode()
        if len(self.heard) == 1:
            return first
        final = self.heard[1][self.heard[1].index(b"c=biws") :].rpartition(b",p=")[0]
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), base64.b64decode(SALT), self._iterations)
        key = hmac.digest(salted, b"Server Key", "sha256")
        return b"v=" + base64.b64encode(hmac.digest(key, b",".join([bare, first, final]), "sha256"))


@pytest.fixture
def connect():
    servers: list[Server] = []

    def make(iterations, password="pencil"):
        servers.append(Server(iterations, password))
        port = servers[-1].port
        security = Security(
            protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_username="user", sasl_password="pencil"
        )
        config = client_config(bootstrap=(("127.0.0.1", port),), security=security)
        return Connection("127.0.0.1", port, config, SECONDS), servers[-1]

    make.servers = servers
    yield make
    for each in servers:
        each.close()


def test_the_client_logs_in_to_a_server_with_enough_iterations(connect):
    connection, server = connect(4096)
    connection.close()
    assert len(server.heard) == 2


@pytest.mark.parametrize("iterations", [1, 2**31 - 1])
def test_a_server_with_too_few_or_too_many_iterations_never_sees_a_proof(connect, iterations):
    with pytest.raises(AuthenticationFailed, match=rf"127\.0\.0\.1:\d+: .*{iterations} iterations") as caught:
        connect(iterations)
    assert "pencil" not in str(caught.value)
    (server,) = connect.servers
    assert len(server.heard) == 1


def test_the_client_does_not_log_in_to_a_server_that_does_not_know_the_password(connect):
    with pytest.raises(AuthenticationFailed, match="could not prove that it knows the password"):
        connect(4096, password="another")
