"""Servers that are not the broker, over TLS: the client sends them nothing."""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import socket
import ssl
import struct
import threading
import warnings
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kafka.protocol.metadata import ApiVersionsResponse

from fixtures.descriptors import no_descriptors
from penstock.errors import AuthenticationFailed, BrokerError
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.security import Security
from penstock.wire.transport.tls import Tls
from support.configs import client_config

SECONDS = 60.0
DAY = timedelta(days=1)
LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class Authority:
    """Signs certificates; clients trust its own."""

    def __init__(self, name):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = self.sign(self.name, self.key, ca=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, name, key, *, ca=False, names=(LOOPBACK,), since=-DAY, until=DAY):
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(self.name, name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now + since).not_valid_after(now + until)
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if not ca:
            made = made.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
        return made.sign(self.key, hashes.SHA256())


@pytest.fixture(scope="module")
def trusted():
    return Authority("the one we trust")


@pytest.fixture
def server(tmp_path):
    """`server(authority, **certificate)` answers one client's TLS handshake and ApiVersions. `heard` is its input."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    heard: list[bytes] = []

    def make(authority, highest=None, **certificate):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = tmp_path / "server.pem"
        file.write_bytes(pem + authority.sign(name, key, **certificate).public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if highest is not None:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the test needs the old protocol
                context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, highest
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(SECONDS)
        sockets.append(listener)
        threads.append(threading.Thread(target=serve, args=(listener, context), name="test-tls", daemon=True))
        threads[-1].start()
        return listener.getsockname()[1]

    def serve(listener, context):
        with contextlib.suppress(OSError):
            plain, _ = listener.accept()
            plain.settimeout(SECONDS)
            with plain, context.wrap_socket(plain, server_side=True) as client:
                heard.append(client.recv(4096))
                (correlation,) = struct.unpack_from(">i", heard[0], 8)
                version = struct.unpack_from(">h", heard[0], 6)[0]
                body = ApiVersionsResponse(error_code=0, api_keys=[], throttle_time_ms=0).encode(version=version)
                client.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)
                client.recv(4096)

    make.heard = heard
    yield make
    for each in sockets:
        each.close()
    for each in threads:
        each.join(SECONDS)


def connect(port, trusted, **tls):
    security = Security(protocol="SSL", tls=Tls(ca_pem=trusted.pem, **tls))
    config = client_config(bootstrap=(("127.0.0.1", port),), security=security)
    return Connection("127.0.0.1", port, config, SECONDS)


def test_a_trusted_broker_is_connected(server, trusted):
    connect(server(trusted), trusted).close()
    assert server.heard


@pytest.mark.parametrize(
    "certificate",
    [
        {"names": [x509.DNSName("elsewhere.example")]},
        {"names": [x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]},
        {"since": -3 * DAY, "until": -DAY},
        {"since": DAY, "until": 3 * DAY},
    ],
    ids=["another name", "another address", "expired", "not yet valid"],
)
def test_a_certificate_of_another_host_or_another_time_is_rejected(server, trusted, certificate):
    with pytest.raises(AuthenticationFailed, match=r"TLS handshake failed.*ssl\.truststore\.location"):
        connect(server(trusted, **certificate), trusted)
    assert not server.heard


def test_another_authority_of_the_same_name_is_not_trusted(server, trusted):
    with pytest.raises(AuthenticationFailed, match="TLS handshake failed"):
        connect(server(Authority("the one we trust")), trusted)
    assert not server.heard


def test_without_a_truststore_a_self_signed_certificate_is_rejected(server):
    port = server(Authority("nobody knows"))
    config = client_config(bootstrap=(("127.0.0.1", port),), security=Security(protocol="SSL"))
    with pytest.raises(AuthenticationFailed, match="TLS handshake failed"):
        Connection("127.0.0.1", port, config, SECONDS)
    assert not server.heard


def test_tls_below_1_2_is_refused(server, trusted):
    with pytest.raises(BrokerError, match="TLS handshake"):
        connect(server(trusted, highest=ssl.TLSVersion.TLSv1_1), trusted)
    assert not server.heard


def test_without_hostname_checks_only_the_name_is_unchecked(server, trusted):
    connect(server(trusted, names=[x509.DNSName("elsewhere.example")]), trusted, check_hostname=False).close()
    with pytest.raises(AuthenticationFailed):
        connect(server(Authority("another")), trusted, check_hostname=False)


def test_without_a_descriptor_for_the_certificates_the_connection_is_lost_not_refused(trusted, tmp_path, monkeypatch):
    authority = tmp_path / "ca.pem"
    authority.write_text(trusted.pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        dialled = socket.create_connection(address)
        monkeypatch.setattr(Connection, "_dial", lambda self, wait: dialled)  # it has the last descriptor
        config = client_config(bootstrap=(address,), security=Security(protocol="SSL", tls=Tls(ca_file=str(authority))))
        with no_descriptors(), pytest.raises(ConnectionLost, match="Too many open files"):
            Connection(*address, config, SECONDS)
        assert dialled.fileno() < 0, "it is closed"


def test_an_admin_client_leaves_no_socket_of_a_failed_handshake_open(trusted):
    """kafka-python does: each attempt leaves one behind, until the garbage is collected."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    clients: list[int] = []

    def end_handshakes():
        while not ended.is_set():
            with contextlib.suppress(OSError):
                client, (_, port) = listener.accept()
                client.recv(4096)
                client.close()
                clients.append(port)

    thread = threading.Thread(target=end_handshakes, name="test-tls", daemon=True)
    thread.start()
    gc.collect()
    gc.disable()
    try:
        security = Security(protocol="SSL", tls=Tls(ca_pem=trusted.pem))
        with pytest.raises(BrokerError):
            Admin(f"127.0.0.1:{listener.getsockname()[1]}", security, seconds=1.0).describe()
        assert len(clients) > 1, "it retries"
        left = [each for each in gc.get_objects() if isinstance(each, ssl.SSLSocket) and each.fileno() >= 0]
        assert left == []
    finally:
        gc.enable()
        ended.set()
        thread.join(SECONDS)
        listener.close()
