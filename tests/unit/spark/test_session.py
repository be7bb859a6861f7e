"""What `configure` sets, and what a planner advises."""

from __future__ import annotations

import importlib.util
import logging
import zipfile
import zipimport

import pytest
from pyspark.sql import SparkSession

from penstock.spark import api, pyspark_bytecode, session


class Builder:
    """A builder that keeps its settings."""

    def __init__(self):
        self.settings = {}

    def config(self, name, value):
        self.settings[name] = value
        return self


class Running:
    """A session that runs, with these settings."""

    def __init__(self, **settings):
        self.conf = settings


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, logger="penstock")
    return caplog


def test_a_new_session_gets_unix_sockets_and_a_later_setting_wins(monkeypatch, logged):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    builder = session.configure(Builder())
    assert builder.settings == {session.UNIX_SOCKETS: "true"}
    assert builder.config(session.UNIX_SOCKETS, "false").settings == {session.UNIX_SOCKETS: "false"}
    assert not logged.messages


def test_a_session_that_already_runs_is_named(monkeypatch, logged):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: Running())
    session.configure(Builder())
    assert logged.messages == [
        f"the session already runs, and keeps its {session.UNIX_SOCKETS}: configure it before it starts"
    ]


def test_a_session_that_runs_with_the_settings_is_no_problem(monkeypatch, logged):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: Running(**session.SETTINGS))
    session.configure(Builder())
    assert not logged.messages


def test_nothing_is_set_before_pyspark_41(monkeypatch, logged):
    monkeypatch.setattr(api, "HAS_UNIX_SOCKETS", False)
    assert session.configure(Builder()).settings == {}
    session.advise({"PYTHON_WORKER_FACTORY_PORT": "4711"})
    assert not logged.messages


@pytest.mark.parametrize(
    ("environment", "lines"),
    [
        ({"PYTHON_WORKER_FACTORY_PORT": "4711"}, 1),
        ({"PYTHON_WORKER_FACTORY_SOCK_PATH": "/tmp/a.sock"}, 0),
        ({}, 0),
    ],
    ids=["TCP", "a Unix socket", "no planner of Spark's"],
)
def test_a_planner_advises_unix_sockets_only_over_tcp(environment, lines, logged):
    session.advise(environment)
    assert len(logged.messages) == lines
    assert all(session.UNIX_SOCKETS in message for message in logged.messages)


def imported_from(path):
    importer = zipimport.zipimporter(str(path))
    importer.invalidate_caches()
    return importlib.util.module_from_spec(importer.find_spec("pyspark"))


def test_a_planner_advises_bytecode_only_while_pyspark_comes_from_a_zip_file_without_it(tmp_path, logged):
    path = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    session.advise({}, imported_from(path))
    assert ["pyspark_bytecode" in message for message in logged.messages] == [True]
    pyspark_bytecode.add_bytecode(path)
    session.advise({}, imported_from(path))
    assert len(logged.messages) == 1
