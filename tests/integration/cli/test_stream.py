"""`penstock stream` against a real broker, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from fixtures.consumer import eventually
from fixtures.produce import Rec
from penstock import TopicPartition


def command(*arguments):
    return [sys.executable, "-m", "penstock.cli", "stream", *arguments]


@pytest.fixture
def environment(kafka):
    return os.environ | {"PENSTOCK_BOOTSTRAP": kafka.bootstrap_servers, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def stream(environment, tmp_path):
    """Runs `penstock stream ...` in a folder of its own; returns exit code, output and errors."""

    def run(*arguments):
        ran = subprocess.run(
            command(*arguments), capture_output=True, text=True, timeout=140, env=environment, cwd=tmp_path
        )
        return ran.returncode, ran.stdout, ran.stderr

    return run


@pytest.fixture
def words(topic, produce, cluster):
    name = topic(2)
    cluster.committed("nobody", [TopicPartition(name, 0)])  # a new cluster has no groups yet, and says so
    produce(name, [Rec(b"word %d" % n, b"k", partition=n % 2, timestamp=1_738_324_800_000 + n) for n in range(100)])
    return name


def test_topics_become_a_table_and_the_same_command_continues_from_it(stream, words, topic, produce, tmp_path):
    other = topic(1)
    produce(other, [Rec(b'{"n": 1}')])
    order = (f"{words},{other}", "--to", "delta:lake?partition_by=topic", "--until-end")
    code, out, err = stream(*order)
    assert (code, err) == (0, "")
    assert f"101 records of {words},{other}" in out
    produce(words, [Rec(b"one more")])
    code, out, err = stream(*order)
    assert (code, err) == (0, "")
    assert "1 rows to delta:lake" in out
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    assert (rows.num_rows, len(set(rows.column("value").to_pylist()))) == (102, 102)

    code, out, err = stream(words[:-1] + "[" + words[-1] + "]", "--pattern", "--to", "delta:by-pattern", "--until-end")
    assert (code, err) == (0, "")
    assert DeltaTable(tmp_path / "by-pattern").to_pyarrow_table().num_rows == 101


def test_a_topic_becomes_parquet_and_the_same_command_goes_on_where_it_stopped(stream, words, produce, tmp_path):
    order = (words, "--to", "parquet:data", "--until-end", "--threads", "2")
    code, out, err = stream(*order)
    assert (code, err) == (0, "")
    assert f"100 records of {words}" in out
    assert "100 rows to parquet:data" in out
    produce(words, [Rec(b"one more")])
    code, out, err = stream(*order)
    assert (code, err) == (0, "")
    assert f"1 records of {words}" in out
    assert ds.dataset(tmp_path / "data").count_rows() == 101


def test_a_topic_becomes_a_table_with_text_and_other_records_are_dead_lettered(
    stream, words, topic, produce, postgres, kafka
):
    dead = topic(1)
    produce(words, [Rec(b"\xff\xfe")])
    target = f"adbc:{postgres.uri}?table={words.replace('-', '_')}"
    code, out, err = stream(
        words, "--to", target, "--until-end", "--text", "--columns", "value,partition,offset", "--dead-letter", dead
    )
    assert code == 0, err
    assert "101 records" in out
    assert "1 failed, 1 of them dead-lettered" in out
    assert f"{words}-0, offset 50, was dead-lettered" in err
    assert postgres.uri.split(":")[2].split("@")[0] not in out + err, "the password"
    found = postgres.execute(f"SELECT * FROM {words.replace('-', '_')} WHERE value = 'word 7'")
    assert found == [("word 7", 1, 3)]


def test_sqlite(stream, words, tmp_path):
    code, _, err = stream(words, "--to", "adbc:sqlite:words.db?table=words", "--until-end", "--flush-rows", "10")
    assert (code, err) == (0, "")
    with sqlite3.connect(tmp_path / "words.db") as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT value) FROM words").fetchone() == (100, 100)
    connection.close()


@pytest.mark.parametrize(
    ("start", "count"),
    [
        ("-3", 6),
        *(
            pytest.param(*each, marks=pytest.mark.extended)
            for each in [("earliest", 100), ("45", 10), ("latest", 0), ("2025-01-31T12:00:00.090Z", 10)]
        ),
    ],
)
def test_json_lines_from_where_one_likes(stream, words, start, count):
    code, out, err = stream(words, "--to", "stdout", "--until-end", "--from", start, "--columns", "value,offset")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == count
    assert all(line.keys() == {"topic", "offset", "value"} for line in lines)


@pytest.mark.extended
def test_quiet_prints_nothing(stream, words):
    assert stream(words, "--to", "parquet:data", "--until-end", "--quiet") == (0, "", "")


def test_a_limit_is_kept(stream, words):
    order = (words, "--to", "stdout", "--limit", "30", "--group", f"{words}-limited")
    assert len(stream(*order)[1].splitlines()) == 30
    code, out, _ = stream(words, "--to", "stdout", "--until-end", "--group", f"{words}-limited")
    assert code == 0
    assert len(out.splitlines()) == 70, "the rest is still there"


def test_what_cannot_work_is_an_error_of_one_line(stream, words, postgres):
    code, _, err = stream("no-such-topic", "--to", "parquet:x", "--until-end")
    assert code == 1
    assert "penstock stream: topic 'no-such-topic' does not exist" in err
    code, _, err = stream(words, "--to", f"{postgres.uri}?table=missing&mode=append", "--until-end")
    assert code == 1
    assert "penstock stream: table 'missing' does not exist" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.extended)]
)
def test_I4_a_signal_lets_it_write_and_commit_what_it_has(environment, words, produce, tmp_path, number, code):
    order = command(words, "--to", "parquet:data", "--group", f"{words}-{code}")
    with subprocess.Popen(
        order, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as process:
        # A line every five seconds, and the first of them may be too early. Files are due after sixty.
        said = [process.stdout.readline()]
        while not said[-1].startswith("read 100 ("):
            assert re.match(r"read [0-9]+ \(", said[-1]), said
            said.append(process.stdout.readline())
        assert re.search(r"written 0, committed 0, lag .*, next flush in [0-9]+ s, group ", said[-1])
        assert not list((tmp_path / "data").glob("part-*"))
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (code, "")
    assert f"100 records of {words}" in out
    assert ds.dataset(tmp_path / "data").count_rows() == 100
    again = subprocess.run(
        [*order, "--until-end"], capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path
    )
    assert f"0 records of {words}" in again.stdout


def test_on_a_terminal_a_line_moves(environment, words, tmp_path):
    ours, theirs = pty.openpty()
    order = command(words, "--to", "parquet:data", "--flush-interval", "0.5")
    able = environment | {"TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(order, stdout=theirs, stderr=subprocess.PIPE, env=able, cwd=tmp_path) as process:
        os.close(theirs)
        seen = b""
        deadline = time.monotonic() + 120
        # Not the first "lag 0": one of the two partitions may be there before the other.
        done = rb"read 100 \([0-9,]+ per second\), written 100, committed 100, lag 0, group "
        while not re.search(done, seen) and time.monotonic() < deadline:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        while chunk := read_some(ours):
            seen += chunk
        assert process.wait(120) == 130
    os.close(ours)
    assert b"\r\x1b[Kread 100 (" in seen
    assert b"committed 100, lag 0" in seen
    assert f"\r\x1b[K100 records of {words}".encode() in seen


def read_some(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def test_a_pipe_that_is_closed_ends_it_quietly(environment, words, produce):
    order = command(words, "--to", "stdout", "--flush-rows", "1")
    with subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline()
        process.stdout.close()
        eventually(lambda: produce(words, [Rec(b"more")]) and process.poll() is not None, "it ends")
        assert (process.returncode, process.stderr.read()) == (0, "")
