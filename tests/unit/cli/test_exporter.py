"""`penstock exporter` as a process, against simulated brokers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from penstock import cli
from penstock.model.topic_partition import TopicPartition
from support.simulated_cluster import Group, SimulatedCluster

A = TopicPartition("t", 0)
DEADLINE = 60.0


@pytest.fixture
def cluster():
    groups = {"billing": Group({A: 900}), "other\x1b[2J": Group({A: 1000})}
    with SimulatedCluster({"t": 1, "u": 1}, groups, brokers=1) as simulated:
        yield simulated


@pytest.fixture
def exporter(cluster):
    command = [sys.executable, "-m", "penstock.cli", "exporter", "-b", cluster.bootstrap, "--port", "0"]
    process = subprocess.Popen(
        [*command, "--interval", "0.1", "--include-topics", "t"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def get(url):
    """Status and text, as soon as brokers were asked."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                if b"asked yet" not in error.read():
                    return error.code, ""
        assert time.monotonic() < deadline


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_serves_metrics_until_a_signal(cluster, exporter, number, code):
    url = exporter.stdout.readline().strip()
    assert url.endswith("/metrics")
    assert exporter.stdout.readline() == "2 groups, 1 topic, 1 broker\n"
    status, text = get(url)
    assert status == 200
    assert 'penstock_group_pending_records{group="billing"} 100.0' in text
    assert 'topic="u"' not in text
    asked = cluster.requests["Metadata"]
    for _ in range(20):
        get(url)
    assert cluster.requests["Metadata"] == asked, "scrapes ask no broker"
    assert get(url.replace("metrics", "health"))[0] == 200
    exporter.send_signal(number)
    _, errors = exporter.communicate(timeout=DEADLINE)
    assert (exporter.returncode, errors) == (code, "")


def test_it_says_when_brokers_are_down_and_goes_on(cluster, exporter):
    url = exporter.stdout.readline().strip()
    exporter.stdout.readline()
    cluster.stop(0)
    assert "127.0.0.1" in exporter.stdout.readline()
    deadline = time.monotonic() + DEADLINE
    while "penstock_cluster_up 0.0" not in (text := get(url)[1]):
        assert time.monotonic() < deadline
    assert 'penstock_group_pending_records{group="billing"} 100.0' in text, "the last values stay"
    assert exporter.poll() is None


def test_a_port_in_use_is_one_line(cluster, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["exporter", "-b", cluster.bootstrap, "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_wrong_port_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["exporter", "-b", "h:1", "--port", "70000"])
    assert ended.value.code == 2
    assert "is not a port" in capsys.readouterr().err
