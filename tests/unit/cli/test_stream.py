"""`penstock stream` without a broker: targets, usage, status line."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest

from penstock import AdbcSink, DeltaSink, IcebergSink, OptionError, ParquetSink, SinkError, cli
from penstock.cli.live_line import LiveLine, status, summary
from penstock.cli.targets import broken_pipe, parse_target
from penstock.streamer.counters import Counters, summed


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pytest looks after logging here


def target(text, columns=None):
    return parse_target(text, "clicks", columns)


# --- targets --------------------------------------------------------------------------------------------------------


def test_parquet():
    found = target("parquet:/data/clicks?partition_by=topic,date")
    assert isinstance(found.sink, ParquetSink)
    assert str(found.sink.path) == "/data/clicks"
    assert found.sink.partition_by == ("topic", "date")
    assert found.shown == "parquet:/data/clicks"


@pytest.mark.parametrize("prefix", ["adbc:", ""])
def test_databases(prefix):
    found = target(f"{prefix}postgresql://me:geheim@host:5433/shop?table=clicks&sslmode=require&schema=raw")
    assert isinstance(found.sink, AdbcSink)
    assert (found.sink.driver, found.sink.table, found.sink.creates) == ("postgresql", "clicks", True)
    assert found.shown == "postgresql://me@host:5433/shop?table=raw.clicks"
    assert not found.sink.skips_duplicates
    sqlite = target(f"{prefix}sqlite:clicks.db?table=clicks&mode=append&duplicates=skip")
    assert sqlite.sink.skips_duplicates
    assert (sqlite.sink.driver, sqlite.sink.creates, sqlite.shown) == ("sqlite", False, "sqlite:clicks.db?table=clicks")


def test_tables():
    delta = target("delta:s3://bucket/clicks?partition_by=topic,date&create=false&AWS_SECRET_ACCESS_KEY=geheim")
    assert isinstance(delta.sink, DeltaSink)
    assert (delta.sink.table, delta.sink.partition_by) == ("s3://bucket/clicks", ("topic", "date"))
    assert not delta.sink.creates
    assert delta.sink.storage_options == {"AWS_SECRET_ACCESS_KEY": "geheim"}
    assert (delta.shown, delta.place) == ("delta:s3://bucket/clicks", None)
    iceberg = target("iceberg:shop.clicks?catalog=prod&type=sql&uri=postgresql://me:geheim@host/catalog")
    assert isinstance(iceberg.sink, IcebergSink)
    assert (iceberg.sink.table, iceberg.sink.creates) == ("shop.clicks", True)
    uri = "postgresql://me:geheim@host/catalog"
    assert iceberg.sink.catalog == {"name": "prod", "type": "sql", "uri": uri}
    assert iceberg.shown == "iceberg:shop.clicks?catalog=prod"
    assert "geheim" not in f"{delta} {iceberg}"
    other = target("iceberg:shop.clicks?catalog=prod&type=sql&uri=sqlite:///x.db")
    assert other.group("clicks") != iceberg.group("clicks")


def test_what_belongs_to_the_database_reaches_it(monkeypatch):
    seen = []
    monkeypatch.setattr("penstock.streamer.sinks.adbc.open_connection", lambda *given: seen.append(given) or 1 / 0)
    found = target("adbc:postgresql://me:pw@host/shop?table=clicks&sslmode=require&options=-c%20work_mem%3D1MB")
    with pytest.raises(ZeroDivisionError):
        found.sink.open("0")
    assert seen == [("postgresql", "postgresql://me:pw@host/shop?sslmode=require&options=-c+work_mem%3D1MB")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clicks", "is not a target"),
        ("parquet:", "is not a target"),
        ("s3:bucket", "is not a target"),
        ("stdout:x", "is not a target"),
        ("parquet:x?by=date", "unknown parameter 'by'"),
        ("adbc:sqlite:x.db", "names no table"),
        ("delta:", "is not a target"),
        ("delta:x?create=maybe", "create must be true or false"),
        ("iceberg:clicks", "must be a name with its namespace"),
        ("adbc:sqlite:x.db?table=t&mode=replace", "append or create_append"),
        ("adbc:x.db?table=t", "option driver: is missing"),
        ("adbc:sqlite:x.db?table=t&duplicates=drop", "must be skip"),
    ],
)
def test_an_invalid_target_is_refused_with_examples(text, said):
    with pytest.raises(OptionError, match=said):
        target(text)


@pytest.mark.parametrize(
    ("columns", "said"), [(["vallue"], r"Did you mean value\?"), (["timestampType"], "not a column that stdout shows")]
)
def test_a_column_that_stdout_does_not_show_is_refused(columns, said):
    target("stdout", ["topic", "offset", "headers"])
    with pytest.raises(OptionError, match=said):
        target("stdout", columns)


@pytest.mark.parametrize(
    "text",
    [
        "mysql://me:geheim@host/x?table=t",
        "mysql://host/x?user=me&password=geheim",
        "adbc:postgresql://me:geheim@host/x",
    ],
)
def test_a_password_is_not_shown(text):
    with pytest.raises(OptionError) as raised:
        target(text)
    assert "geheim" not in str(raised.value)


def test_the_same_command_has_the_same_group_and_another_target_another():
    one, same = target("parquet:a"), target("parquet:a")
    assert one.group("clicks") == same.group("clicks")
    others = {target("parquet:b").group("clicks"), target("sqlite:a?table=t").group("clicks"), one.group("orders")}
    assert len(others | {one.group("clicks")}) == 4
    with_password, without = target("postgresql://me:pw@h/d?table=t"), target("postgresql://me@h/d?table=t")
    assert with_password.group("clicks") == without.group("clicks")


@pytest.mark.parametrize("text", ["parquet:a", "delta:a", "sqlite:a.db?table=t"])
def test_the_same_path_from_another_folder_is_another_target(text, tmp_path, monkeypatch):
    groups = []
    for folder in (tmp_path / "x", tmp_path / "y"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        groups.append(target(text).group("clicks"))
    assert groups[0] != groups[1]
    kind, _, name = text.partition(":")
    assert target(f"{kind}:{tmp_path}/y/../y/{name}").group("clicks") == groups[1]


def test_a_reader_that_has_seen_enough_ends_it_quietly(monkeypatch):
    import pyarrow as pa

    from fixtures.streamer import batch_of

    def broken(*_, **__):
        raise BrokenPipeError

    writer = target("stdout").sink.open("0")
    monkeypatch.setattr("builtins.print", broken)
    with pytest.raises(SinkError) as raised:
        writer.write(pa.Table.from_batches([batch_of("clicks", 0, 0, [b"a"])]))
    assert broken_pipe(raised.value) is not None
    assert broken_pipe(SinkError("other")) is None


# --- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["t"],
        ["t", "--to"],
        ["t", "--to", "stdout", "--threads", "0"],
        ["t", "--to", "stdout", "--flush-interval", "x"],
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["stream", *arguments])
    assert ended.value.code == 2
    assert "usage: penstock stream" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "stdout"], "--bootstrap-server: is missing"),
        (["--to", "nowhere", "-b", "h:1"], "is not a target"),
        (["--to", "stdout", "-b", "h:1", "-o", "sesion.timeout.ms=1"], "session.timeout.ms?"),
    ],
)
def test_a_wrong_option_ends_with_2_and_says_what_to_do(arguments, said, capsys):
    assert cli.main(["stream", "t", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("penstock stream: ")


# --- what it says ---------------------------------------------------------------------------------------------------


def metrics(lag=None, next_flush=None, **counts):
    return summed([Counters(**counts), Counters(records=1)], lag, None, next_flush)


def test_the_status_line_shows_what_is_read_written_and_committed_the_next_flush_and_the_group():
    assert (
        status(metrics(records=1_233_999, rows=900, committed=800, next_flush=12.3), 1e5, "g")
        == "read 1,234,000 (100,000 per second), written 900, committed 800, lag unknown, next flush in 12 s, group g"
    )
    troubled = metrics(records=9, lag=12_345, failed=2, retries=1)
    assert (
        status(troubled, 0, "g")
        == "read 10 (0 per second), written 0, committed 0, lag 12,345, 2 failed, 1 retries, group g"
    )


def test_the_summary_counts_failed_and_dead_lettered_records():
    assert (
        summary(metrics(records=9, rows=8), "t", "parquet:x", 1.23) == "10 records of t in 1.2 s, 8 rows to parquet:x"
    )
    assert summary(metrics(failed=2), "t", "x", 1).endswith("; 2 failed and were skipped")
    assert summary(metrics(failed=2, dead_lettered=2), "t", "x", 1).endswith("; 2 failed, 2 of them dead-lettered")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_moves_on_a_terminal_stays_elsewhere_and_is_silent_on_demand(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    now = [100.0]
    monkeypatch.setattr("penstock.cli.live_line.time", SimpleNamespace(monotonic=lambda: now[0]))
    terminal, log, silent = Terminal(), io.StringIO(), Terminal()
    with (
        LiveLine(terminal, "g") as moving,
        LiveLine(log, "g") as plain,
        LiveLine(silent, "g", quiet=True) as quiet,
    ):
        for seconds in (0.1, 0.5, 0.5, 4.5):
            now[0] += seconds
            for line in (moving, plain, quiet):
                line.show(metrics(records=int(now[0]), lag=0))
    assert terminal.getvalue().count("\r\x1b[K") == 4  # three times shown, and gone at the end
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert log.getvalue() == "read 106 (19 per second), written 0, committed 0, lag 0, group g\n"
    assert silent.getvalue() == ""
