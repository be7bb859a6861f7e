"""Peers that are not a broker, or a faulty one: every connection ends in a named error, in time, without using
memory."""

import contextlib
import socket
import struct
import threading

import pytest

import penstock.wire.transport.broker_wait as wait_module
from penstock.errors import BrokerError, ProtocolError
from penstock.wire.api.metadata import METADATA
from penstock.wire.transport.connection import FRAME_LIMIT, GROWTH, BrokerSilent, Connection, ConnectionLost
from support.configs import client_config

SECONDS = 60.0


@pytest.fixture
def peer():
    """`peer(script)` listens on a port and runs `script(connection)` for one client."""
    threads: list[threading.Thread] = []
    servers: list[socket.socket] = []

    def make(script):
        server = socket.create_server(("127.0.0.1", 0))
        server.settimeout(SECONDS)
        servers.append(server)

        def serve():
            with contextlib.suppress(OSError):
                client, _ = server.accept()
                with client:
                    client.settimeout(SECONDS)
                    client.recv(4096)
                    script(client)

        threads.append(threading.Thread(target=serve, name="test-peer", daemon=True))
        threads[-1].start()
        return server.getsockname()[1]

    yield make
    for server in servers:
        server.close()
    for thread in threads:
        thread.join(SECONDS)


def config(port, **more):
    return client_config(bootstrap=(("127.0.0.1", port),), **more)


def connect(port, timeout=SECONDS):
    return Connection("127.0.0.1", port, config(port), timeout)


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_LIMIT + 1, 2**31 - 1])
def test_an_impossible_length_is_rejected(peer, size):
    port = peer(lambda client: client.sendall(struct.pack(">i", size)))
    with pytest.raises(ProtocolError, match=f"announced a response of {size} bytes"):
        connect(port)


def test_a_web_server_on_that_port_gets_its_own_error(peer):
    port = peer(lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ProtocolError, match="Is that port a Kafka listener"):
        connect(port)


def test_garbage_instead_of_api_versions_is_refused(peer):
    port = peer(lambda client: client.sendall(struct.pack(">ii", 20, 1) + b"\xff" * 16))
    with pytest.raises(BrokerError):
        connect(port)


def test_an_answer_to_another_request_is_refused(peer):
    port = peer(lambda client: client.sendall(struct.pack(">iihi", 10, 77, 0, 0)))
    with pytest.raises(ProtocolError, match="answers request 77, not 1"):
        connect(port)


def test_a_peer_that_hangs_up_is_a_lost_connection(peer):
    port = peer(lambda client: None)
    with pytest.raises(ConnectionLost, match=r"closed by the broker|reset"):
        connect(port)


def test_a_silent_peer_times_out(peer):
    done = threading.Event()
    port = peer(lambda client: done.wait(SECONDS))
    with pytest.raises(ConnectionLost, match="timed out"):
        connect(port, timeout=0.3)
    done.set()


def test_a_slow_peer_does_not_extend_the_deadline(peer):
    done = threading.Event()

    def trickle(client):
        client.sendall(struct.pack(">i", 1000))
        while not done.wait(0.05):
            client.sendall(b"\0")

    port = peer(trickle)
    with pytest.raises(ConnectionLost, match="timed out"):
        connect(port, timeout=0.5)
    done.set()


def test_a_large_claim_takes_memory_only_as_bytes_arrive(peer):
    """The peer announces half a gigabyte and sends a few bytes: the buffer grows by one step, not to that size."""
    port = peer(lambda client: client.sendall(struct.pack(">i", 500 << 20) + b"abc"))
    buffer = bytearray(1000)
    connection = Connection.__new__(Connection)
    connection.host, connection.port = "127.0.0.1", port
    connection.config = config(port)
    connection._unanswered, connection.overdue_check = 1, None
    connection._by_kernel, connection._flags = False, 0
    connection._socket = socket.create_connection(("127.0.0.1", port), SECONDS)
    connection._socket.sendall(b"anything")
    with pytest.raises(ConnectionLost):
        connection.receive_into(buffer, SECONDS)
    assert len(buffer) <= 1000 + GROWTH


def negotiating(then):
    """A peer that answers ApiVersions of version 0, and then runs `then`."""

    def script(client):
        versions = struct.pack(">ihi", 1, 35, 0) + struct.pack(">hhh", 18, 0, 0)
        client.sendall(struct.pack(">i", len(versions)) + versions)
        client.recv(4096)
        versions = struct.pack(">ihi", 2, 0, 2) + struct.pack(">hhhhhh", 18, 0, 0, 3, 0, 1)
        client.sendall(struct.pack(">i", len(versions)) + versions)
        client.recv(4096)
        then(client)

    return script


@pytest.fixture
def hasty(monkeypatch):
    """Shortens the time after which an answer is overdue."""
    monkeypatch.setattr(wait_module, "OVERDUE_SECONDS", 0.05)


def test_a_silent_broker_is_left_when_other_brokers_name_a_new_leader(peer, hasty):
    done = threading.Event()
    port = peer(negotiating(lambda client: done.wait(SECONDS)))
    connection = connect(port)
    reasons = iter([None, None, "h2:9092 leads t-0 now"])
    connection.overdue_check = lambda: next(reasons)
    with pytest.raises(BrokerSilent, match="and h2:9092 leads t-0 now"):
        connection.call(METADATA.request(1, topics=[]), SECONDS)
    done.set()
    assert not connection.reusable


def test_a_broker_is_left_during_the_connection_attempt_too(peer, hasty):
    done = threading.Event()
    port = peer(lambda client: done.wait(SECONDS))
    with pytest.raises(BrokerSilent, match="and h2:9092 leads t-0 now"):
        Connection("127.0.0.1", port, config(port), SECONDS, lambda: "h2:9092 leads t-0 now")
    done.set()


def test_an_answer_that_arrives_while_other_brokers_are_asked_is_used(peer, hasty):
    """It may be the answer to a commit: using it is better than asking another broker again."""
    checked, sent = threading.Event(), threading.Event()

    def late(client):
        checked.wait(SECONDS)
        client.sendall(struct.pack(">iiiii", 16, 3, 0, -1, 0))
        sent.set()

    connection = connect(peer(negotiating(late)))

    def overdue_check():
        checked.set()
        sent.wait(SECONDS)
        return "h2:9092 leads t-0 now"

    connection.overdue_check = overdue_check
    assert connection.call(METADATA.request(1, topics=[]), SECONDS).topics == []
    connection.close()


def test_a_silent_broker_is_left_while_a_request_is_sent_too(peer, hasty):
    """The peer reads nothing, so that a large request fills all buffers in between."""
    done = threading.Event()
    connection = connect(peer(negotiating(lambda client: done.wait(SECONDS))))
    connection.overdue_check = lambda: "h2:9092 leads t-0 now"
    names = [{"name": "t" * 30_000} for _ in range(1000)]
    with pytest.raises(BrokerSilent, match=r"sending failed: .* and h2:9092 leads t-0 now"):
        connection.call(METADATA.request(1, topics=names), SECONDS)
    done.set()
