"""PySpark's daemon prints nothing about a connection that Spark has closed, and everything else."""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from penstock.spark.early_end import expect_early_end

DAEMON = """
def flush(error):
    try:
        raise error
    except Exception:
        print("failed to flush:", traceback.format_exc(), file=sys.stderr)
        traceback.print_exc()
"""


@pytest.fixture
def daemon(monkeypatch):
    """A module that prints as pyspark/daemon.py does."""
    module = ModuleType("__main__")
    module.__spec__ = ModuleSpec("pyspark.daemon", None)
    vars(module).update(sys=sys, traceback=traceback)
    exec(DAEMON, vars(module))
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_closed_connection_is_not_printed(daemon, capsys, error):
    daemon.flush(error)
    assert type(error).__name__ in capsys.readouterr().err
    expect_early_end()
    expect_early_end()
    daemon.flush(error)
    assert capsys.readouterr().err == ""


def test_other_errors_are_printed(daemon, capsys):
    expect_early_end()
    daemon.flush(OSError(28, "No space left on device"))
    assert capsys.readouterr().err.count("No space left on device") == 2


def test_a_program_is_not_touched(monkeypatch):
    program = ModuleType("__main__")
    program.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", program)
    before = dict(vars(program))
    expect_early_end()
    assert vars(program) == before
    assert traceback.print_exc is sys.modules["traceback"].print_exc
