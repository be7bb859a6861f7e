"""The arguments of `penstock watch`, and what it opens in the browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.cli.watch import page_url
from support.simulated_cluster import SimulatedCluster

DEADLINE = 60.0
USAGE = 2


@pytest.mark.parametrize(
    ("address", "token", "url"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8765/"),
        ("0.0.0.0", "t", "http://127.0.0.1:8765/?token=t"),
        ("::", "t", "http://[::1]:8765/?token=t"),
        ("box.example", None, "http://box.example:8765/"),
    ],
)
def test_the_url_is_one_that_a_browser_here_can_open(address, token, url):
    assert page_url(address, 8765, token) == url


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--cluster", "a"], "is not NAME=FILE"),
        (["--cluster", "=x"], "is not NAME=FILE"),
        (["--cluster", "a={file}", "--cluster", "a={file}"], "is given twice"),
        (["--cluster", "a={file}", "-b", "x:1"], "contradicts --cluster"),
        (["--cluster", "a={file}", "--name", "b"], "contradicts --cluster"),
        (["--cluster", "a={file}", "--options-file", "{file}"], "contradicts --cluster"),
        (["--cluster", "a={empty}"], "has no bootstrap.servers"),
        (["--cluster", "a={file}.gone"], "cannot be read"),
    ],
)
def test_wrong_clusters_are_errors_that_name_the_argument(arguments, reason, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:1")
    (tmp_path / "a").write_text("bootstrap.servers=127.0.0.1:1\n")
    (tmp_path / "empty").write_text("security.protocol=PLAINTEXT\n")
    given = [each.format(file=tmp_path / "a", empty=tmp_path / "empty") for each in arguments]
    try:
        code = main(["watch", "--port", "0", *given])
    except SystemExit as ended:
        code = ended.code
    text = capsys.readouterr().err
    assert code == USAGE
    assert "--cluster" in text
    assert reason in text


@contextmanager
def watched(cluster, browser, *arguments):
    """Its URL, and the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "watch", "-b", cluster.bootstrap, "--port", "0", "--open", *arguments],
        env=os.environ | {"BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def browser(tmp_path):
    """A program that writes its argument to a file, as the list of processes would show it."""
    program = tmp_path / "browser"
    written, shown = tmp_path / "written", tmp_path / "opened"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {written}\nmv {written} {shown}\n')
    program.chmod(0o755)
    return program


def opened(browser) -> str:
    path, deadline = browser.parent / "opened", time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < deadline, "no browser was started"
        time.sleep(0.02)
    return path.read_text()


def test_open_opens_the_url(browser):
    with SimulatedCluster({"t": 1}, {}) as cluster, watched(cluster, browser) as (url, _):
        assert opened(browser) == url


def test_open_hides_the_token_from_the_list_of_processes(browser):
    with SimulatedCluster({"t": 1}, {}) as cluster, watched(cluster, browser, "--allow-writes") as (url, process):
        address, _, token = url.partition("?token=")
        assert address
        assert token, "writes always require the token"
        shown = opened(browser)
        assert token not in shown
        path = Path(shown.removeprefix("file://"))
        assert f'url={url}"' in path.read_text()
        assert path.parent.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
        assert not path.exists()
