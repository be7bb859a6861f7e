"""A task's command is acknowledged when its reader or writer is unpickled."""

from __future__ import annotations

import pickle
import socket
import struct
import sys

import pytest
from pyspark import TaskContext

from fixtures.consumer import eventually
from penstock.spark import prompt_ack
from penstock.spark.batch import BatchReader
from penstock.spark.prompt_ack import UnpickledInTask
from penstock.spark.sink import BatchWriter, StreamWriter
from penstock.spark.stream import StreamReader

COMMAND, INPUT, ANSWER = b"c" * 6000, b"i" * 300, b"a" * 2000

needs_quick_acks = pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is Linux's")


class Reader(UnpickledInTask):
    def __init__(self):
        self.topic = "clicks"


@pytest.fixture
def connection():
    """Both ends of a TCP connection on which requests and answers have alternated, as between Spark and a worker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        spark = socket.create_connection(server.getsockname(), timeout=10)
        worker, _ = server.accept()
    worker.settimeout(10)
    with spark, worker:
        for _ in range(8):
            spark.sendall(INPUT)
            receive(worker, len(INPUT))
            worker.sendall(ANSWER)
            receive(spark, len(ANSWER))
        yield spark, worker


def receive(end, size):
    while size:
        size -= len(end.recv(size))


def unacknowledged(end):
    """Packets that this end has sent and that are not acknowledged: `tcpi_unacked` of Linux's `tcp_info`."""
    (packets,) = struct.unpack_from("I", end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64), 24)
    return packets


@needs_quick_acks
def test_a_command_whose_acknowledgement_is_delayed_is_acknowledged_at_once(connection):
    spark, worker = connection
    after = []

    def has_delayed_five():
        """Linux does not delay after a pause, which a busy machine causes: such rounds do not count."""
        spark.sendall(COMMAND)
        receive(worker, len(COMMAND))
        if unacknowledged(spark):
            prompt_ack.acknowledge()
            after.append(unacknowledged(spark))
        worker.sendall(ANSWER)
        receive(spark, len(ANSWER))
        return len(after) == 5

    eventually(has_delayed_five, "five delayed acknowledgements")
    # Not in each round: on a busy machine the kernel may process the acknowledgement a moment later.
    assert 0 in after


def test_only_unpickling_in_a_task_acknowledges(monkeypatch):
    acknowledged = []
    monkeypatch.setattr(prompt_ack, "acknowledge", lambda: acknowledged.append(1))
    pickled = pickle.dumps(Reader())
    assert pickle.loads(pickled).topic == "clicks"
    assert not acknowledged
    monkeypatch.setattr(TaskContext, "get", lambda: TaskContext())
    assert pickle.loads(pickled).topic == "clicks"
    assert acknowledged


@pytest.mark.parametrize("shipped", [BatchReader, StreamReader, BatchWriter, StreamWriter])
def test_all_that_spark_ships_to_tasks_acknowledges(shipped):
    assert shipped.__setstate__ is UnpickledInTask.__setstate__


def test_files_and_other_sockets_are_left_alone(tmp_path):
    left, right = socket.socketpair()
    with (
        left, right, (tmp_path / "file").open("w"), socket.socket() as unconnected,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
    ):  # fmt: skip
        prompt_ack.acknowledge()
        assert unconnected.fileno() >= 0
        assert datagrams.fileno() >= 0
        left.sendall(b"open")
        assert right.recv(4) == b"open"


def test_a_system_without_the_option_or_the_list_of_files_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(prompt_ack, "OPEN_FILES", tmp_path / "missing")
    prompt_ack.acknowledge()
    monkeypatch.delattr(socket, "TCP_QUICKACK", raising=False)
    prompt_ack.acknowledge()
