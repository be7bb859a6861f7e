"""Task reports over real sockets of loopback, with other peers at the same port."""

from __future__ import annotations

import errno
import json
import logging
import pickle
import random
import socket
import threading
import time
from dataclasses import replace

import pytest

from penstock.errors import PenstockError
from penstock.model import task_report
from penstock.model.task_report import ReportAddress, TaskReport
from penstock.model.worker_figures import WorkerFigures
from penstock.planner import report_server
from penstock.planner.driver_address import reachable_hosts
from penstock.planner.report_server import ReportServer
from penstock.reader import report_client as module
from penstock.reader.report_client import send_report
from penstock.testing.node import free_ports
from support.own_logs import own_records

SECONDS = 60.0
REPORT = TaskReport("orders", 3, 100, 200, malformed=5, dropped=2, dead_letters=3, skipped=7)


@pytest.fixture(autouse=True)
def a_worker_that_knows_nothing_yet(monkeypatch):
    monkeypatch.setattr(module, "_silent_until", {})
    monkeypatch.setattr(module, "_reached", {})


@pytest.fixture
def listen(monkeypatch):
    """`listen(take)`: a listener on loopback that tolerates tasks without a processor for seconds."""
    monkeypatch.setattr(report_server, "MESSAGE_SECONDS", SECONDS)
    made = []

    def make(take=None, hosts=("127.0.0.1",)):
        made.append(ReportServer(take or [].append, hosts))
        return made[-1]

    yield make
    for each in made:
        each.close(SECONDS)
        assert not each._thread.is_alive()


@pytest.fixture
def ended_planner(refused_port):
    """The address of a planner that has ended."""
    return ReportAddress(("127.0.0.1",), refused_port, "token")


def say(address: ReportAddress, message: bytes, more: bool = False) -> bytes:
    """The answer that a peer gets to some bytes."""
    with socket.create_connection((address.hosts[0], address.port), SECONDS) as connection:
        try:
            connection.sendall(message)
            if not more:
                connection.shutdown(socket.SHUT_WR)
            return connection.recv(1000)
        except OSError:  # hung up on in the middle of it
            return b""


def is_closed(connection: socket.socket) -> bool:
    """Wait for the other end; returns whether it has closed."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": ""},
        {"topic": None},
        {"partition": -1},
        {"start": True},
        {"malformed": 1.0},
        {"skipped": -1},
        {"dropped": 2**63},
        {"dead_letters": "1"},
        {"ended_at": 99},
        {"ended_at": 200},
        {"ended_at": "150"},
        {"late": -1},
        {"late": None},
        {"event_time": 1.0},
        {"event_time": True},
        {"event_time": 2**63},
        {"event_time": -(2**63) - 1},
        {"has_event_time": 1},
        {"lost_start": 100},
        {"lost_stop": 200},
        {"lost_start": 99, "lost_stop": 150},
        {"lost_start": 150, "lost_stop": 150},
        {"lost_start": 150, "lost_stop": 201},
        {"lost_start": True, "lost_stop": 150},
        {"worker": {"worker": "a:1"}},
    ],
    ids=str,
)
def test_a_report_of_nonsense_cannot_be_made(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 # the words differ, the kind is what a listener goes by
        replace(REPORT, **wrong)


def test_an_address_crosses_to_executors_and_its_token_does_not_print(listen):
    address = listen().address
    assert pickle.loads(pickle.dumps(address)) == address
    assert address.token not in repr(address)


def test_a_report_survives_its_bytes():
    times = {"has_event_time": True, "event_time": -(2**63), "late": 2**63 - 1}
    for report in (
        REPORT,
        replace(REPORT, ended_at=150),
        replace(REPORT, worker=WorkerFigures("w" * 300, 2**53, 2**53, 1.5, 0.25, 2.0, 2**53, 2**53)),
        TaskReport("t" * 249, 2**31, 0, 2**63 - 1, malformed=1),
        replace(REPORT, **times),
        replace(REPORT, lost_start=100, lost_stop=200),
    ):
        message = task_report.encode(report, "token")
        assert task_report.decode(message, "token") == report
        assert len(message) < task_report.LARGEST_MESSAGE


# --- from a task to its planner ---------------------------------------------------------------------------------------


def test_a_report_arrives_before_the_task_goes_on(listen):
    taken = []
    address = listen(taken.append).address
    assert send_report(address, REPORT, SECONDS)
    assert taken == [REPORT]


def test_a_task_with_an_empty_report_does_not_connect(ended_planner):
    assert send_report(ended_planner, TaskReport("orders", 0, 0, 10), SECONDS)


def test_F19_that_no_record_has_an_event_time_is_news_too(listen):
    taken = []
    report = TaskReport("orders", 0, 0, 10, has_event_time=True)
    assert send_report(listen(taken.append).address, report, SECONDS)
    assert taken == [report]


def test_many_tasks_report_at_once(listen):
    taken = []
    address = listen(taken.append).address
    sent = [replace(REPORT, partition=number) for number in range(64)]
    threads = [threading.Thread(target=send_report, args=(address, each, SECONDS)) for each in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(each.partition for each in taken) == list(range(64))


def test_counts_that_do_not_arrive_are_logged_once_and_cost_nothing_more(ended_planner, caplog, monkeypatch):
    assert not send_report(ended_planner, REPORT, SECONDS)
    assert "orders-3 [100, 200)" in caplog.text
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("it asked again"))
    assert not send_report(ended_planner, REPORT, SECONDS)
    assert len(own_records(caplog)) == 1


def test_F19_event_times_that_do_not_arrive_are_tried_again_sooner_than_counts(ended_planner, caplog, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    asked = []
    monkeypatch.setattr(module, "_send_to_any", lambda *_: asked.append(now) or ["no"])
    times = replace(REPORT, has_event_time=True, event_time=5)
    for report, silence in ((times, module.EVENT_TIME_SILENCE_SECONDS), (REPORT, module.SILENCE_SECONDS)):
        asked.clear()
        began = now
        for waited in (0.0, silence - 0.5, silence + 0.5):
            now = began + waited
            assert not send_report(ended_planner, report, SECONDS)
        assert asked == [began, began + silence + 0.5]
        now += module.SILENCE_SECONDS + 1
    assert "looks up the event times itself" in caplog.messages[0]


def test_F4_an_end_that_does_not_arrive_fails_the_task(ended_planner):
    assert not send_report(
        ended_planner, REPORT, SECONDS
    )  # and that this was in vain does not keep an end from being tried
    with pytest.raises(PenstockError, match=r"ended orders-3 at offset 150.*SPARK_LOCAL_IP") as caught:
        send_report(ended_planner, replace(REPORT, ended_at=150), 0.3)
    assert str(ended_planner.port) in str(caught.value)
    assert ended_planner.token not in str(caught.value)


def test_F4_an_end_is_sent_until_a_server_answers(listen, monkeypatch):
    taken = []
    address = listen(taken.append).address
    connect, tries = socket.create_connection, []

    def refused_at_first(*args):
        tries.append(args)
        if len(tries) < 3:
            raise ConnectionRefusedError("not yet")
        return connect(*args)

    monkeypatch.setattr(socket, "create_connection", refused_at_first)
    ended = replace(REPORT, ended_at=150)
    assert send_report(address, ended, SECONDS)
    assert taken == [ended]
    assert len(tries) == 3


def test_hosts_are_tried_in_turn_and_the_one_that_answered_is_the_first_from_then_on(listen, monkeypatch):
    taken = []
    address = listen(taken.append).address
    address = replace(address, hosts=("127.0.0.2", "127.0.0.1"))  # no server listens at the first
    asked = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda to, *rest: (asked.append(to[0]), connect(to, *rest))[1])
    for _ in range(2):
        assert send_report(address, REPORT, SECONDS)
    assert asked == ["127.0.0.2", "127.0.0.1", "127.0.0.1"]
    assert taken == [REPORT, REPORT]


def test_a_foreign_server_at_that_port_is_not_believed(listen, monkeypatch):
    monkeypatch.setattr(module, "RETRY_SECONDS", SECONDS)  # sent once, with all the time for the answer
    impostor = listen()  # a planner of another query, say
    address = replace(impostor.address, token="of the real one")
    with pytest.raises(PenstockError, match="closed without an acknowledgement"):
        send_report(address, replace(REPORT, ended_at=150), SECONDS)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b"\n", b"0" * 64 + b"\n"], ids=len)
def test_an_answer_that_is_not_the_planners_is_none(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(5000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = ReportAddress(("127.0.0.1",), server.getsockname()[1], "token")
        assert not send_report(address, REPORT, SECONDS)
        thread.join(SECONDS)


def test_a_silent_host_leaves_time_for_the_next(listen, monkeypatch):
    taken, allowed = [], []
    honest = socket.create_connection

    class Impatient(socket.socket):
        """Waits for a moment only, and notes for how long it might have."""

        def settimeout(self, seconds):
            allowed.append(seconds)
            super().settimeout(0.1)

    def connect(to, seconds):
        if to[0] == "127.0.0.1":
            return honest(to, seconds)
        connection = Impatient()
        connection.connect(to)
        return connection

    monkeypatch.setattr(socket, "create_connection", connect)
    [port] = free_ports(1)  # not a port that some client may have on the other address
    with socket.create_server(("127.0.0.2", port)), socket.create_server(("127.0.0.1", port)) as bound:
        real = listen(taken.append)  # the first accepts, and says nothing
        threading.Thread(target=pass_on, args=(bound, real.address), daemon=True).start()
        address = ReportAddress(("127.0.0.2", "127.0.0.1"), port, real.address.token)
        assert send_report(address, REPORT, SECONDS)
    assert taken == [REPORT]
    assert 0 < max(allowed) <= SECONDS / 2


def pass_on(server, address):
    connection, _ = server.accept()
    with connection, socket.create_connection((address.hosts[0], address.port), SECONDS) as onward:
        onward.sendall(connection.recv(5000))
        connection.sendall(onward.recv(5000))


# --- foreign peers ----------------------------------------------------------------------------------------------------


def hostile_messages():
    """Deterministic, so that every test process has the same."""
    dice = random.Random(4)
    good = task_report.encode(REPORT, "another token")
    yield b""
    yield b"\n"
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield good
    yield good[:-1]
    yield good[64:]
    yield b"0" * 64 + good[64:]
    yield b"\x16\x03\x01" + dice.randbytes(300)
    yield dice.randbytes(100_000)
    yield b"[" * 4000 + b"\n"
    yield b"\xff" * 4096
    for _ in range(20):
        yield dice.randbytes(dice.randrange(1, 5000)) + b"\n"


def test_messages_of_foreign_peers_are_not_answered_and_stop_nothing(listen, caplog):
    taken = []
    address = listen(taken.append).address
    for message in hostile_messages():
        assert say(address, message) == b""
    assert send_report(address, REPORT, SECONDS)
    assert taken == [REPORT]
    warned = [each for each in own_records(caplog) if each.levelno == logging.WARNING]
    assert len(warned) == 1
    assert address.token not in caplog.text


@pytest.mark.parametrize("document", [b"[]", b"{}", b"1", b'{"topic": "t"}', b'{"unheard": 1}', b"[" * 3000], ids=len)
def test_a_signed_message_of_another_version_is_not_answered(listen, document):
    taken = []
    address = listen(taken.append).address
    assert say(address, task_report._signature(document, address.token) + document + b"\n") == b""
    assert send_report(address, REPORT, SECONDS)
    assert taken == [REPORT]


def test_a_changed_report_is_not_taken(listen):
    address = listen().address
    message = task_report.encode(REPORT, address.token)
    assert say(address, message.replace(b'"malformed":5', b'"malformed":6')) == b""
    assert say(address, message) == task_report.acknowledgement(message, address.token)


def test_a_report_in_pieces_is_a_report(listen):
    taken = []
    address = listen(taken.append).address
    message = task_report.encode(REPORT, address.token)
    with socket.create_connection((address.hosts[0], address.port), SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in message[:20]:
            connection.sendall(bytes([byte]))
            time.sleep(0.001)
        connection.sendall(message[20:])
        assert connection.recv(1000) == task_report.acknowledgement(message, address.token)
    assert taken == [REPORT]


def test_silent_connections_do_not_keep_out_tasks(listen, monkeypatch):
    monkeypatch.setattr(report_server, "MOST_CONNECTIONS", 5)
    taken = []
    address = listen(taken.append).address
    idle = [socket.create_connection((address.hosts[0], address.port), SECONDS) for _ in range(12)]
    try:
        assert send_report(address, REPORT, SECONDS)
        assert taken == [REPORT]
        assert is_closed(idle[0]), "the oldest was closed for the newest"
    finally:
        for each in idle:
            each.close()


def test_silent_connections_are_closed(listen, monkeypatch):
    monkeypatch.setattr(report_server, "MESSAGE_SECONDS", 0.05)
    address = listen().address
    assert say(address, b"half a ", more=True) == b""


def test_a_process_without_file_descriptors_says_so_once_and_hears_again_later(listen, caplog, monkeypatch):
    listener = listen()
    assert send_report(listener.address, REPORT, SECONDS)  # so its thread listens by now

    class Exhausted:
        def accept(self):
            raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(listener, "_socket", Exhausted())
        for _ in range(3):
            listener._accept(None)
    assert caplog.text.count("Too many open files") == 1
    assert send_report(listener.address, REPORT, SECONDS)


def test_F17_a_closed_listener_leaves_no_thread_and_no_socket(listen):
    listener = listen()
    with socket.create_connection((listener.address.hosts[0], listener.address.port), SECONDS) as held:
        held.sendall(b"half a ")
        listener.close(SECONDS)
        assert not listener._thread.is_alive()
        assert is_closed(held)
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((listener.address.hosts[0], listener.address.port), SECONDS)
    assert not send_report(listener.address, REPORT, SECONDS)


def test_brokers_on_this_machine_mean_that_nothing_listens_to_the_network(listen):
    hosts = reachable_hosts([("127.0.0.1", 9092), ("localhost", 9093)], {})
    assert hosts == ("127.0.0.1",)
    assert listen(hosts=hosts)._socket.getsockname()[0] == "127.0.0.1"


def test_a_report_is_small_json():
    assert json.loads(task_report.encode(REPORT, "t")[64:]) == {
        "topic": "orders",
        "partition": 3,
        "start": 100,
        "stop": 200,
        "malformed": 5,
        "dropped": 2,
        "dead_letters": 3,
        "skipped": 7,
        "read": 0,
        "passed": 0,
        "ended_at": None,
        "has_event_time": False,
        "event_time": None,
        "late": 0,
        "lost_start": None,
        "lost_stop": None,
        "worker": None,
    }
