"""The command line without a broker: usage, positions, properties, tables, exit codes."""

from __future__ import annotations

import argparse
import errno
import io
import json
import logging
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from penstock import cli, progress
from penstock.cli import doctor, output, steps, table
from penstock.cli.connection import (
    INTERACTIVE_OPTIONS,
    add_connection_arguments,
    connection_options,
    read_properties,
)
from penstock.cli.doctor.check import failed
from penstock.cli.positions import AtOffset, LastRecords, nearest, parse_position
from penstock.cli.records import RecordView, moment, shown
from penstock.cli.typed_records import typed_view
from penstock.errors import BrokerUnavailable, OptionError
from penstock.formats.plan import TypedSource
from penstock.formats.spec import Protobuf, RawBytes
from penstock.model.offset_spec import AtTimestamp, Earliest, GroupOffsets, Latest
from support.configs import format_options


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pytest looks after logging here


def connection(*arguments):
    parser = argparse.ArgumentParser()
    add_connection_arguments(parser)
    return {k: v for k, v in connection_options(parser.parse_args(arguments)).items() if k not in INTERACTIVE_OPTIONS}


# --- usage and exit codes -----------------------------------------------------------------------------------------


def test_without_a_command_it_shows_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert "penstock read" in shown
    assert "exit codes" in shown


@pytest.mark.parametrize(
    "command",
    [
        *("topics", "read", "write", "copy", "broker", "demo", "doctor", "groups", "stream", "top", "exporter"),
        "watch",
        *("topics list", "topics create", "topics describe", "topics delete"),
        *("groups list", "groups describe", "groups reset", "groups delete"),
    ],
)
def test_every_command_has_help_with_examples_and_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "example" in shown
    assert "exit code" in shown


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("penstock 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ["reed"],
        ["read"],
        ["read", "t", "--limit", "few"],
        ["read", "t", "-o", "x"],
        ["demo", "--events", "0"],
        ["read", "t", "--csv", "--json"],
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: penstock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics"], "penstock broker"),
        (["read", "t", "-b", "nowhere"], "is not host:port"),
        (["read", "t", "-b", "h:1", "--from", "yesterday"], "is not a position"),
        (["read", "t", "-b", "h:1", "--from", "group"], "-o group.id=NAME"),
        (["read", "t", "-b", "h:1", "--until", "group"], "where to start"),
        (["read", "t", "-b", "h:1", "--follow", "--until", "5"], "contradicts --follow"),
        (["read", "t", "-b", "h:1", "-o", "kafka.security.protocoll=SSL"], "kafka.security.protocol?"),
        (
            ["read", "t", "-b", "h:1", "--format", "avro"],
            "option --format = 'avro': needs a schema. Set --schema, or --registry",
        ),
        (["read", "t", "-b", "h:1", "--schema", "a INT"], "has no effect while --format is raw. Set --format"),
        (["read", "t", "-b", "h:1", "-o", "mode=FAILFAST"], "option --mode: has no effect"),
        (["topics", "-b", "h:1", "--options-file", "/no/such/file"], "cannot be read"),
        (["read", "t", "-b", "h:1", "--where", "key = 'a'", "--limit", "0", "--output", "a.csv"], "only counts"),
        (["read", "t", "-b", "h:1", "--where", "key = 'a'", "--limit", "0", "--csv"], "option --csv: contradicts"),
        (["copy", "t", "u", "-b", "h:1", "-o", "valueformat=json"], "option valueformat = 'json': has no effect"),
    ],
)
def test_a_wrong_option_ends_with_2_and_says_what_to_do(arguments, said, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith(f"penstock {arguments[0]}: ")
    assert "Traceback" not in error


def test_what_a_command_raises_becomes_a_line_and_a_code(monkeypatch, capsys):
    def run(error):
        def fail(_):
            raise error

        monkeypatch.setattr("penstock.cli.topics.run", fail)
        return cli.main(["topics", "-b", "h:1"]), capsys.readouterr().err

    assert run(BrokerUnavailable("no broker answers", ["after 1 s: refused"])) == (
        1,
        "penstock topics: no broker answers\ntried:\n  - after 1 s: refused\n",
    )
    assert run(KeyboardInterrupt()) == (130, "")
    code, said = run(ZeroDivisionError("oh"))
    assert code == 1
    assert "--debug" in said
    run(RuntimeError("cannot connect to postgresql://me:hush@host/db"))
    assert cli.main(["topics", "-b", "h:1", "--debug"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("RuntimeError: cannot connect to postgresql://***@host/db\n")


def test_a_full_disk_is_not_reported_as_a_bug(monkeypatch, capsys):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("penstock.cli.topics.run", fail)
    monkeypatch.setattr("penstock.cli._discard_output", lambda: None)  # pytest's output has no file
    assert cli.main(["topics", "-b", "h:1"]) == 1
    assert capsys.readouterr().err == "penstock topics: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    "given",
    [
        ["t", "a.jsonl", "b.jsonl", "-b", "h:1"],
        ["t", "-b", "h:1", "a.jsonl", "b.jsonl"],
        ["t", "a.jsonl", "-b", "h:1", "b.jsonl"],
        ["-b", "h:1", "t", "a.jsonl", "b.jsonl"],
    ],
)
def test_options_may_stand_between_the_arguments(given):
    arguments = cli.make_parser().parse_args(["write", *given, "--key", "user"])
    assert (arguments.topic, arguments.file) == ("t", ["a.jsonl", "b.jsonl"])
    assert (arguments.bootstrap_server, arguments.key) == ("h:1", "user")
    assert cli.make_parser().parse_args(["write", "t", "-b", "h:1"]).file == []


def test_what_is_wrong_with_intermixed_arguments_is_still_said(capsys):
    for given, said in ((["write", "-b", "h:1"], "TOPIC"), (["write", "t", "--no", "x"], "--no")):
        with pytest.raises(SystemExit) as ended:
            cli.make_parser().parse_args(given)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_a_closed_pipe_prints_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    # Short texts stay in Python's buffer until the end, as they do for every user.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with os.fdopen(write_end, "wb") as out:
        ran = subprocess.run(
            [sys.executable, "-m", "penstock.cli", "--help"],
            stdout=out, stderr=subprocess.PIPE, text=True, timeout=120, env=buffered, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


def test_ctrl_c_during_imports_prints_no_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "make_parser", interrupted)
    assert cli.main(["topics"]) == 130
    assert capsys.readouterr() == ("", "")
    # Slow imports happen there, not before.
    loaded = "import sys, penstock.cli; print('pyarrow' in sys.modules, 'kafka' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "False False\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_long_wait_shows_a_sign_of_life_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    monkeypatch.setattr(progress, "TICK", 0.001)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.waiting("starting it"):
        deadline = time.monotonic() + 60
        while "penstock: starting it (" not in sys.stderr.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert sys.stderr.getvalue().endswith("\r\x1b[K"), "and nothing is left of it"


def test_a_moving_line_does_not_wrap_in_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(steps, "TICK", 0.001)
    monkeypatch.setattr(sys, "stdout", Terminal())
    deadline = time.monotonic() + 60
    with steps.step("a step whose name alone is wider than that"):
        while "a step" not in sys.stdout.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)
    *moving, last = sys.stdout.getvalue().split("\r\x1b[K")[1:]
    assert max(map(table.columns_of, moving)) <= 30
    assert "wider than that" in last, "what stays is whole"


def test_a_dumb_terminal_gets_lines_and_no_escapes(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with steps.step("a step"):
        pass
    assert sys.stdout.getvalue().startswith("✓ a step (")
    assert not progress.can_move(sys.stdout)
    monkeypatch.setenv("TERM", "xterm")
    assert progress.can_move(sys.stdout)


def test_where_no_terminal_is_a_long_wait_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    monkeypatch.setattr(progress, "TICK", 0.001)
    with progress.waiting("starting it"):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_secret_given_by_mistake_is_not_shown(capsys):
    assert cli.main(["topics", "-b", "h:1", "-o", "kafka.ssl.key.passwords=geheim"]) == 2
    assert "geheim" not in capsys.readouterr().err


# --- connecting ---------------------------------------------------------------------------------------------------


def test_the_nearer_word_wins(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "environment:1")
    assert connection() == {"bootstrap.servers": "environment:1"}
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nsecurity.protocol=SSL\n")
    file = ("--options-file", str(path))
    assert connection(*file) == {"bootstrap.servers": "file:1", "security.protocol": "SSL"}
    option = (*file, "-o", "kafka.bootstrap.servers=option:1")
    assert connection(*option) == {"kafka.bootstrap.servers": "option:1", "security.protocol": "SSL"}
    assert connection(*option, "-b", "direct:1") == {"bootstrap.servers": "direct:1", "security.protocol": "SSL"}


def test_properties_are_read_as_java_does(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        "# a comment\n! another\n\n"
        "plain=value\n  indented : value two\nblank value three\nempty=\nalone\n"
        'sasl.jaas.config=org.example.Module required \\\n    username="me" \\\n    password="a=b:c";\n'
        "back\\:slash=tab\\there\\\\ \\u00e9\n"
    )
    assert read_properties(str(path)) == {
        "plain": "value",
        "indented": "value two",
        "blank": "value three",
        "empty": "",
        "alone": "",
        "sasl.jaas.config": 'org.example.Module required username="me" password="a=b:c";',
        "back:slash": "tab\there\\ é",
    }


# --- positions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Earliest()),
        ("Latest", Latest()),
        ("group", GroupOffsets()),
        ("0", AtOffset(0)),
        ("1234", AtOffset(1234)),
        ("-10", LastRecords(10)),
        ("1738324800000", AtTimestamp(1738324800000, "--from")),
        ("2025-01-31T12:00Z", AtTimestamp(1738324800000, "--from")),
        ("2025-01-31T13:00+01:00", AtTimestamp(1738324800000, "--from")),
        ("2025-01-31T12:00:00.000001Z", AtTimestamp(1738324800001, "--from")),  # what came before it is not meant
    ],
)
def test_positions(text, position):
    assert parse_position("--from", text) == position


def test_a_time_without_a_zone_is_local():
    local = datetime(2025, 1, 31, 12).astimezone()
    milliseconds = int((local - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    assert parse_position("--from", "2025-01-31T12:00") == AtTimestamp(milliseconds, "--from")


def test_a_relative_position_counts_back_from_now():
    before = time.time_ns() // 1_000_000
    position = parse_position("--from", "-1h")
    assert before <= position.timestamp + 3_600_000 <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    "words",
    [
        "read t --from -1h --until -30m",
        "read t --from=-1h --until=-30m",
        "read --until -30m --from -1h t",
        "copy a b --from -1h --until -30m",
    ],
)
def test_a_relative_time_is_a_value_and_not_an_option(words):
    arguments = cli.make_parser().parse_args(cli.with_relative_times(words.split()))
    assert (arguments.start, arguments.until) == ("-1h", "-30m")


def test_only_relative_times_are_attached_to_their_arguments():
    for words in ("read t --from -b host:1", "read t --from -10", "read t --limit -1h", "read -- --from -1h"):
        assert cli.with_relative_times(words.split()) == words.split()


@pytest.mark.parametrize("text", ["", "yesterday", "1.5", "1969-01-01T00:00Z", "--5", "9" * 20, "-1w"])
def test_an_invalid_position_is_refused(text):
    with pytest.raises(OptionError):
        parse_position("--from", text)


def test_an_offset_is_held_within_what_a_partition_has():
    begin, end = {0: 0, 1: 50, 2: 100}, {0: 40, 1: 90, 2: 100}
    assert nearest(AtOffset(60), begin, end) == {0: 40, 1: 60, 2: 100}
    assert nearest(LastRecords(45), begin, end) == {0: 0, 1: 50, 2: 100}


# --- looks --------------------------------------------------------------------------------------------------------


def test_tables_are_aligned_and_cut():
    lines = list(
        table.lines(("NAME", "N", "VALUE"), [("a", "1", "x"), ("日本", "22", "y" * 50)], right=("N",), width=20)
    )
    assert lines == ["NAME   N  VALUE", "a      1  x", "日本  22  yyyyyyyyy…"]
    assert all(table.columns_of(line) <= 20 for line in lines)


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard output a terminal. In the test, because pytest replaces it after the fixtures."""

    def use(columns):
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setenv("COLUMNS", str(columns))
        return out

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield use
    output.set_colour_mode(output.ColourMode.AUTO)


WIDE = ("GROUP", "LAG", "MEMBER"), [("words", "1,234", "penstock-" + "x" * 60 + "-7f3a"), ("日本", "0", "-")]


def test_a_table_fits_the_terminal_and_keeps_its_numbers(terminal):
    terminal(40)
    output.set_colour_mode(output.ColourMode.NEVER)
    lines = list(table.shown(*WIDE, right=("LAG",)))
    assert max(map(table.columns_of, lines)) == 40
    assert lines[1].startswith("words  1,234  penstock-")
    assert lines[1].endswith("-7f3a")
    assert "…" in lines[1]
    assert lines[2] == "日本       0  -"


def test_a_table_in_a_pipe_is_complete_and_has_no_colours(capsys):
    lines = list(table.shown(*WIDE, right=("LAG",), colour=lambda *_: output.Colour.RED))
    assert lines[1] == "words  1,234  penstock-" + "x" * 60 + "-7f3a"


def test_a_table_is_coloured_on_a_terminal_unless_the_user_says_no(terminal, monkeypatch):
    out = terminal(80)

    def lines():
        colour = lambda column, row: output.Colour.YELLOW if column == "LAG" else output.Colour.NONE  # noqa: E731
        for line in table.shown(("GROUP", "LAG"), [("a\x1b[2J", "7")], right=("LAG",), colour=colour):
            output.say(line)
        found, _ = out.getvalue(), out.truncate(out.seek(0))
        return found.splitlines()

    coloured = ["\x1b[1mGROUP\x1b[0m     \x1b[1mLAG\x1b[0m", "a\\x1b[2J    \x1b[33m7\x1b[0m"]
    assert lines() == coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert lines() == ["GROUP     LAG", "a\\x1b[2J    7"]
    output.set_colour_mode(output.ColourMode.ALWAYS)
    assert lines() == coloured
    monkeypatch.delenv("NO_COLOR")
    output.set_colour_mode(output.ColourMode.NEVER)
    assert lines() == ["GROUP     LAG", "a\\x1b[2J    7"]


@pytest.mark.parametrize(
    "given", [["--color", "never", "topics"], ["topics", "--color", "never"], ["topics", "list", "--color", "never"]]
)
def test_colour_is_chosen_before_or_after_the_command(given):
    assert cli.make_parser().parse_args(given).color == "never"


def test_a_check_of_doctor_is_wrapped_on_a_terminal_and_one_line_in_a_pipe(terminal, monkeypatch):
    check = failed("workers", "the interpreter cannot import Penstock", "Set PYSPARK_PYTHON=/opt/app/bin/python")
    out = terminal(60)
    doctor.show(check)
    lines = out.getvalue().splitlines()
    assert lines[0] == "\x1b[31mFAILED \x1b[0m  workers       the interpreter cannot import"
    assert [line.strip() for line in lines[1:]] == ["Penstock. Set", "PYSPARK_PYTHON=/opt/app/bin/python"]
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    doctor.show(check)
    assert len(sys.stdout.getvalue().splitlines()) == 1


def test_a_table_that_follows_prints_every_row_as_it_comes():
    seen = []

    def rows():
        for n in range(3):
            seen.append(n)
            yield (str(n), "v")

    lines = table.lines(("N", "V"), rows(), sample=0)
    assert next(lines) == "N  V"
    assert seen == []
    assert next(lines) == "0  v"
    assert seen == [0]


def test_a_record_cannot_steer_the_terminal():
    assert table.printable("a\x1b]0;title\x07\n\u202eb") == "a\\x1b]0;title\\x07\\n\\u202eb"


@pytest.mark.parametrize(
    ("form", "data", "text"),
    [
        ("text", b"caf\xc3\xa9", "café"),
        ("text", b"\xff\x00a", "\\xff\x00a"),
        ("hex", b"\xff\x00", "ff00"),
        ("base64", b"\xff\x00", "/wA="),
        ("json", b'{"a": [1]}', {"a": [1]}),
        ("json", b"not json", "not json"),
        ("json", b"\xff", "\\xff"),
        ("text", None, None),
        ("json", None, None),
    ],
)
def test_bytes_as_text(form, data, text):
    assert shown(data, form) == text


def test_moments():
    assert moment(1_738_324_800_123_000) == "2025-01-31T12:00:00.123Z"
    assert moment(-1_000) == "1969-12-31T23:59:59.999Z"
    assert moment(None) is None
    assert moment(2**62) == f"{2**62 // 1000} ms"


def test_records_as_json_lines_and_rows():
    look = RecordView("t", headers=True, value_format="json")
    batch = pa.record_batch(
        {
            "partition": pa.array([3], pa.int32()),
            "offset": pa.array([7], pa.int64()),
            "timestamp": pa.array([1_738_324_800_000_000], pa.timestamp("us", "UTC")),
            "key": pa.array([None], pa.binary()),
            "value": pa.array([b'{"a":1}'], pa.binary()),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    assert batch.schema.names == look.columns
    (record,) = look.records(batch)
    assert json.loads(look.json_line(record)) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": "2025-01-31T12:00:00.000Z",
        "key": None,
        "value": {"a": 1},
        "headers": [["h", "x"]],
    }
    assert look.header == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "HEADERS", "VALUE"]
    assert look.row(record) == ["3", "7", "2025-01-31T12:00:00.000Z", "∅", '[["h", "x"]]', '{"a": 1}']


def test_a_length_of_time_in_a_typed_value_is_shown():
    lengths = pa.array([{"took": timedelta(minutes=1, microseconds=5)}], pa.struct([("took", pa.duration("us"))]))
    source = TypedSource(RawBytes(), Protobuf(b"", "M", lengths.type), format_options())
    look = typed_view("t", source, keys=False, headers=False)
    columns = {field.name: pa.nulls(1, field.type) for field in look.plan.layout.schema}
    [record] = look.records(pa.record_batch(columns | {"value": lengths}))
    assert json.loads(look.json_line(record))["value"] == {"took": "0:01:00.000005"}
    assert look.row(record)[-2] == "0:01:00.000005"
