"""`penstock top` as a process: once for scripts, and live in a terminal, against simulated brokers."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from penstock import cli
from penstock.model.topic_partition import TopicPartition
from support.simulated_cluster import Group, SimulatedCluster

A = TopicPartition("t", 0)
DEADLINE = 60.0


@pytest.fixture
def cluster():
    now = int(time.time() * 1000)
    groups = {"billing": Group({A: 900}), "evil\x1b[2J": Group({A: 1000}), "other": Group({A: 10})}
    with SimulatedCluster({"t": 1, "u": 2}, groups, brokers=1, time_of=lambda tp, offset: now - 120_000) as simulated:
        yield simulated


def once(cluster, capsys, *arguments):
    code = cli.main(["top", "-b", cluster.bootstrap, "--once", "--interval", "0.05", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_once_prints_a_table_of_groups_or_topics(cluster, capsys):
    code, out, err = once(cluster, capsys, "--exclude-groups", "other")
    assert (code, err) == (0, "")
    header, first, second = out.splitlines()
    assert header.split()[:5] == ["GROUP", "STATE", "MEMBERS", "LAG", "BEHIND"]
    assert first.split()[:4] == ["billing", "Stable", "1", "100"]
    assert "2m" in first
    assert second.startswith("evil\\x1b[2J")
    code, out, _ = once(cluster, capsys, "--topics", "--sort", "partitions")
    assert [line.split()[0] for line in out.splitlines()] == ["TOPIC", "u", "t"]


def test_once_as_json_has_everything(cluster, capsys):
    code, out, _ = once(cluster, capsys, "--json", "--include-groups", "billing|evil")
    found = json.loads(out)
    assert (code, found["is_reachable"], found["cluster_id"]) == (0, True, "simulated")
    assert [group["name"] for group in found["groups"]] == ["billing", "evil\x1b[2J"]
    billing = found["groups"][0]
    assert (billing["lag"], billing["certainty"], billing["trend"]) == (100, "exact", 0.0)
    assert billing["positions"][0]["committed"] == 900
    assert billing["members"][0]["partitions"] == [{"topic": "t", "partition": 0}]
    assert "\x1b" not in out


def test_once_without_brokers_fails_and_says_why(cluster, capsys):
    cluster.stop(0)
    code, out, err = once(cluster, capsys)
    assert (code, out) == (1, "")
    assert "connecting failed" in err
    assert "no broker answers" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sort", "nonsense"], "The columns are GROUP, STATE"),
        (["--include-topics", "("], "option --include-topics = '(': is not a regular expression"),
        (["--interval", "0"], "is not a number above 0"),
    ],
)
def test_wrong_arguments(arguments, said, capsys):
    try:
        code = cli.main(["top", "-b", "h:1", "--once", *arguments])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_a_pipe_is_no_terminal(capsys, monkeypatch):
    assert cli.main(["top", "-b", "h:1"]) == 1
    assert "add --once or --json" in capsys.readouterr().err


class Terminal:
    """`penstock top` in a terminal of its own."""

    def __init__(self, cluster):
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "penstock.cli", "top", "-b", cluster.bootstrap, "--interval", "0.2"]
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "30"}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.text = ""

    def until(self, wanted):
        """Wait for a text that is written from now on."""
        self.text = ""
        deadline = time.monotonic() + DEADLINE
        while wanted not in self.text:
            assert time.monotonic() < deadline, (wanted, self.text[-3000:])
            self._read(0.2)

    def _read(self, seconds):
        if select.select([self._ours], [], [], seconds)[0]:
            try:
                self.text += os.read(self._ours, 65536).decode("utf-8", "replace")
            except OSError:  # the process has ended
                return False
            return True
        return False

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def end(self):
        deadline = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(cluster):
    started = Terminal(cluster)
    yield started
    started.close()


LEAVE = "\x1b[?1049l"
"""Back to the screen that was there before."""


def test_keys_change_the_screen_and_q_ends_it(cluster, terminal):
    terminal.until("billing")
    terminal.press("/bill\r")
    terminal.until("with 'bill'")
    terminal.press("\r")
    terminal.until("partitions of group billing")
    terminal.press("t")
    terminal.until("topics: 2")
    cluster.stop(0)
    terminal.until("no broker answers since")
    terminal.press("q")
    assert terminal.end() == 0
    assert LEAVE in terminal.text
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signals_end_it_and_restore_the_screen(terminal, number, code):
    terminal.until("billing")
    terminal.process.send_signal(number)
    assert terminal.end() == code
    assert LEAVE in terminal.text
    assert "Traceback" not in terminal.text
