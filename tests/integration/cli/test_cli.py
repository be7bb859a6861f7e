"""The command line against a real broker, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from fixtures.members import wait_for
from fixtures.produce import Rec

BASE = 1_738_324_800_000  # 2025-01-31T12:00Z


@pytest.fixture
def penstock(kafka):
    """Runs `penstock ...` with the broker in the environment; returns exit code, output and errors."""

    def run(*arguments, **environment):
        ran = subprocess.run(
            command(*arguments), capture_output=True, text=True, timeout=120, env=surroundings(kafka) | environment
        )
        return ran.returncode, ran.stdout, ran.stderr

    return run


def command(*arguments):
    return [sys.executable, "-m", "penstock.cli", *arguments]


def surroundings(kafka):
    return os.environ | {"PENSTOCK_BOOTSTRAP": kafka.bootstrap_servers, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def words(topic, produce):
    """Two partitions of ten records, a minute apart."""
    name = topic(partitions=2, **{"retention.ms": "-1"})
    produce(
        name,
        [
            Rec(b'{"n": %d}' % i, b"key %d" % i, [("h", b"%d" % i)], timestamp=BASE + i // 2 * 60_000, partition=i % 2)
            for i in range(20)
        ],
    )
    return name


def numbers(lines):
    return sorted(json.loads(json.loads(line)["value"])["n"] for line in lines.splitlines())


def test_topics_lists_partitions_and_records(penstock, words):
    code, out, _ = penstock("topics")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith(words)]
    assert line.split() == [words, "2", "20"]
    assert out.splitlines()[0].split() == ["TOPIC", "PARTITIONS", "RECORDS"]


def test_topics_as_json(penstock, words):
    _, out, _ = penstock("topics", "--json")
    listed = {each["topic"]: each for each in map(json.loads, out.splitlines())}
    assert listed[words] == {"topic": words, "partitions": 2, "records": 20, "internal": False, "leaderless": []}


def test_read_from_and_until_relative_times(penstock, topic, produce):
    name = topic(**{"retention.ms": "-1"})
    produce(name, [Rec(b'{"n": 0}', timestamp=BASE), Rec(b'{"n": 1}')])
    assert numbers(penstock("read", name, "--from", "-1h")[1]) == [1]
    assert numbers(penstock("read", name, "--until", "-1h")[1]) == [0]


def test_read_writes_json_lines_into_a_pipe(penstock, words):
    code, out, err = penstock("read", words, "--headers", "--value-format", "json")
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 20
    assert records[0] == {
        "topic": words,
        "partition": 0,
        "offset": 0,
        "timestamp": "2025-01-31T12:00:00.000Z",
        "key": "key 0",
        "value": {"n": 0},
        "headers": [["h", "0"]],
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "8"], [16, 17, 18, 19]),
        (["--from", "-1"], [18, 19]),
        (["--from", "latest"], []),
        (["--from", "7", "--until", "8"], [14, 15]),
        (["--until", "-9"], [0, 1]),
        (["--partition", "1", "--from", "8"], [17, 19]),
        (["--partition", "1", "--limit", "2"], [1, 3]),
        (["--limit", "0"], []),
        (["--from", "2025-01-31T12:08Z"], [16, 17, 18, 19]),
        (["--from", str(BASE + 480_000), "--until", "2025-01-31T12:09Z"], [16, 17]),
        (["--from", "group", "-o", "kafka.group.id=nobody", "-o", "kafka.auto.offset.reset=earliest"], list(range(20))),
    ],
)
def test_read_from_and_until(penstock, words, arguments, expected):
    code, out, err = penstock("read", words, *arguments)
    assert (code, err) == (0, "")
    assert numbers(out) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("key = 'key 3'", [3]),
        ("value LIKE '%7}' OR headers['h'] IN ('1', '2')", [1, 2, 7, 17]),
        ("offset < 1 AND timestamp >= '2025-01-31T12:00:00Z'", [0, 1]),
    ],
)
def test_F28_read_where(penstock, words, where, expected):
    code, out, err = penstock("read", words, "--where", where)
    assert (code, err) == (0, "")
    assert numbers(out) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [("value:n >= 18", [18, 19]), ("value:n IN (3, '4') AND key LIKE 'key%'", [3, 4]), ("value:m IS NOT NULL", [])],
)
def test_F28_read_where_by_a_path_into_json(penstock, words, where, expected):
    code, out, err = penstock("read", words, "--where", where)
    assert (code, err) == (0, "")
    assert numbers(out) == expected


def test_a_limit_of_0_counts_the_matches(penstock, kafka, words):
    code, out, err = penstock("read", words, "--where", "value:n >= 15", "--limit", "0")
    assert (code, json.loads(out), err) == (0, {"matches": 5, "records": 20}, "")
    code, out = on_a_terminal(kafka, "read", words, "--where", "value:n = 15", "--limit", "0")
    assert code == 0
    assert re.fullmatch(r"1 match among 20 records in \d+\.\d s", out.strip())


def test_read_into_a_csv_file(penstock, words, tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("replaced")
    code, out, err = penstock(
        "read", words, "--from", "9", "--partition", "1", "--headers", "--value-format", "json", "--output", str(path)
    )
    assert (code, out, err) == (0, f"1 record to {path}\n", "")
    assert path.read_text() == (
        "partition,offset,timestamp,key,value,headers\n"
        '1,9,2025-01-31T12:09:00.000Z,key 19,"{""n"": 19}","[[""h"", ""19""]]"\n'
    )
    assert list(tmp_path.iterdir()) == [path]


def test_read_as_lines_of_csv(penstock, topic, produce):
    name = topic()
    produce(name, [Rec(b'two\nlines, "\x1b[31m"', b"k", headers=[("h", b"1")]), Rec(None)])
    code, out, err = penstock("read", name, "--csv", "--headers")
    header, first, second = out.splitlines()
    assert (code, header, err) == (0, "partition,offset,timestamp,key,value,headers", "")
    assert first.endswith(r''',k,"two\nlines, ""\x1b[31m""","[[""h"", ""1""]]"''')
    assert second.endswith("Z,,,")


def test_standard_output_as_the_file_has_json_lines(penstock, words):
    assert penstock("read", words, "--limit", "3", "--output", "-") == penstock("read", words, "--limit", "3", "--json")


@pytest.mark.parametrize("typed", [[], ["--format", "json", "--schema", "n INT"]], ids=["raw", "typed"])
def test_read_into_a_parquet_file(penstock, words, tmp_path, typed):
    path = tmp_path / "words.parquet"
    code, out, err = penstock("read", words, *typed, "--where", "offset < 2", "--output", str(path))
    assert (code, out, err) == (0, f"4 records to {path}\n", "")
    rows = pq.read_table(path).to_pylist()
    assert sorted(row["value"]["n"] if typed else json.loads(row["value"])["n"] for row in rows) == [0, 1, 2, 3]
    assert {row["key"] for row in rows} == {b"key 0", b"key 1", b"key 2", b"key 3"}


def test_read_into_a_file_of_json_lines(penstock, words, tmp_path):
    path = tmp_path / "words.jsonl"
    assert penstock("read", words, "--limit", "3", "--output", str(path))[0] == 0
    assert path.read_text() == penstock("read", words, "--limit", "3")[1]


@pytest.mark.parametrize("name", ["words.txt", "none/words.csv"])
def test_a_file_that_cannot_be_written_is_refused_at_once(penstock, words, tmp_path, name):
    code, _, err = penstock("read", words, "--output", str(tmp_path / name))
    assert code == 2
    assert ("ends with none of .csv, .jsonl, .parquet" in err) or ("does not exist" in err)


def test_ctrl_c_ends_a_search_and_keeps_what_it_found(kafka, topic, produce, tmp_path):
    name, path = topic(), tmp_path / "found.jsonl"
    produce(name, [Rec(b'{"n": 0}'), Rec(b'{"n": 1}')])
    arguments = ("read", name, "--follow", "--where", "value:n > 0", "--output", str(path))
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings(kafka)
    ) as process:
        wait_for(lambda: any(part.stat().st_size for part in tmp_path.glob(".*.part")), "a match is in the file")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130, f"1 record to {path}\n", "")
    assert numbers(path.read_text()) == [1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_search_on_a_terminal_shows_each_row_and_a_summary(kafka, words):
    code, out = on_a_terminal(kafka, "read", words, "--where", "value:n = 7", both=True)
    assert code == 0
    lines = out.replace("\r", "").strip().splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["VALUE", "7}"]
    assert re.fullmatch(r"1 match among 20 records in \d+\.\d s", lines[2])


def test_read_explains_a_wrong_predicate(penstock, words):
    code, _, err = penstock("read", words, "--where", "ky = 'a'")
    assert code == 2
    assert "character 1: column ky does not exist. Did you mean key?" in err


def test_read_shows_a_table_on_a_terminal(kafka, words):
    code, out = on_a_terminal(kafka, "read", words, "--partition", "0", "--limit", "3")
    assert code == 0
    lines = out.replace("\r", "").strip().splitlines()
    assert lines[0].split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert re.fullmatch(r" +0 +0  2025-01-31T12:00:00.000Z  key 0 +\{\"n\": 0\}", lines[1])
    assert len(lines) == 4


def on_a_terminal(kafka, *arguments, both=False):
    """Run a command whose output is a pseudo terminal. `both`: also its errors."""
    ours, theirs = pty.openpty()
    environment = surroundings(kafka) | {"COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(command(*arguments), stdout=theirs, stderr=theirs if both else None, env=environment)
    os.close(theirs)
    out = b""
    try:
        while piece := os.read(ours, 65536):
            out += piece
    except OSError:
        pass  # Linux: the other side has closed
    finally:
        os.close(ours)
    return process.wait(60), out.decode()


def test_follow_goes_on_until_ctrl_c(kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b'{"n": 0}')])
    with subprocess.Popen(
        command("read", name, "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(kafka),
    ) as process:
        try:
            assert numbers(process.stdout.readline()) == [0]
            produce(name, [Rec(b'{"n": 1}')])
            assert numbers(process.stdout.readline()) == [1]
            produce(name, [Rec(b'{"n": 2}')])
            assert numbers(process.stdout.readline()) == [2]
        finally:
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (130, "", "")


def test_follow_ends_at_its_limit(penstock, words):
    code, out, _ = penstock("read", words, "--follow", "--limit", "20")
    assert code == 0
    assert numbers(out) == list(range(20))


def test_a_closed_pipe_is_not_an_error(kafka, topic, produce):
    name = topic()
    produce(name, [Rec(b"x" * 100)] * 20_000)
    with subprocess.Popen(
        command("read", name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings(kafka)
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_an_unknown_topic_ends_with_1_and_the_nearest_name(penstock, words):
    code, out, err = penstock("read", words[:-1])
    assert (code, out) == (1, "")
    assert words in err
    assert "Traceback" not in err
    code, _, err = penstock("read", words, "--partition", "7")
    assert code == 1
    assert "the topic has 2 partitions" in err


def test_a_broker_that_does_not_answer_ends_with_1_soon(penstock, unused_port):
    code, _, err = penstock("topics", "-b", f"127.0.0.1:{unused_port}", "-o", "kafka.default.api.timeout.ms=1500")
    assert code == 1
    assert "kafka.bootstrap.servers" in err
    assert "refused" in err
    assert "not done within 1.5 s" in err


@pytest.fixture
def unused_port():
    from penstock.testing.node import free_ports

    return free_ports(1)[0]


# --- typed values -----------------------------------------------------------------------------------------------------


@pytest.fixture
def prices(topic, produce):
    name = topic()
    produce(name, [Rec(b'{"item": "tea", "price": 2.5}', b"k", timestamp=BASE), Rec(b"tea?", b"k", timestamp=BASE)])
    return name


def test_read_shows_typed_values_and_what_is_wrong_with_them(penstock, prices):
    arguments = ["read", prices, "--format", "json", "--schema", "item STRING, price DECIMAL(6,2)"]
    code, out, err = penstock(*arguments)
    assert code == 0, err
    first, second = map(json.loads, out.splitlines())
    assert first["value"] == {"item": "tea", "price": "2.50"}
    assert "_error" not in first
    assert second["value"] == {"item": None, "price": None}
    assert second["_error"].startswith("value: ")
    code, out, _ = penstock(*arguments, "--where", "value.price > 2 AND key = 'k'")
    assert (code, len(out.splitlines())) == (0, 1)
    code, out, _ = penstock(*arguments, "--mode", "DROPMALFORMED")
    assert (code, len(out.splitlines())) == (0, 1)
    code, _, err = penstock(*arguments, "--mode", "FAILFAST")
    assert code == 1
    assert f"{prices}-0, offset 1" in err


def test_read_shows_fields_as_columns_on_a_terminal(kafka, prices):
    arguments = ["read", prices, "--format", "json", "--schema", "item STRING, price DOUBLE"]
    _, out = on_a_terminal(kafka, *arguments)
    header, first, second = [line.split() for line in out.replace("\r", "").strip().splitlines()]
    assert header == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "item", "price", "ERROR"]
    assert first[-2:] == ["tea", "2.5"]
    assert second[4:7] == ["∅", "∅", "value:"]


ENDS_WITH_A_DOT = """
class EndsWithADot:
    def schema(self):
        return "text STRING"

    def deserialize_record(self, record):
        return {"text": record.value.decode()}

    def is_end_of_stream(self, row):
        return row["text"] == "."
"""


def test_F4_follow_reads_no_partition_behind_its_end_and_stops_at_the_last_one(kafka, topic, produce, tmp_path):
    (tmp_path / "own_class.py").write_text(ENDS_WITH_A_DOT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    name = topic(partitions=2)
    produce(name, [Rec(b"a", partition=0), Rec(b".", partition=0), Rec(b"not this", partition=0)])
    with subprocess.Popen(
        command("read", name, "--follow", "--format", "own_class:EndsWithADot"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(kafka) | {"PYTHONPATH": path},
    ) as process:

        def text():
            return json.loads(process.stdout.readline())["value"]["text"]

        try:
            assert text() == "a"
            produce(name, [Rec(b"nor this", partition=0)])
            produce(name, [Rec(b"b", partition=1)])
            assert text() == "b", "the other partition goes on, and only it"
            produce(name, [Rec(b".", partition=1)])
            rest, errors = process.communicate(timeout=60)
        finally:
            process.kill()  # unless it has ended by itself, as it should
    assert (process.returncode, rest, errors) == (0, "", "")


def test_read_explains_a_format_that_lacks_its_schema(penstock, prices):
    code, _, err = penstock("read", prices, "--format", "avro")
    assert code == 2
    assert "Set --schema, or --registry" in err
    code, out, _ = penstock("read", prices, "--format", "json", "--limit", "1")
    assert json.loads(out)["value"] == {"item": "tea", "price": 2.5}, "json needs none to be shown"
