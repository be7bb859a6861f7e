"""What `penstock doctor` says about this machine."""

import sys

import pytest

from penstock.cli.doctor import environment


def program(folder, text):
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("implementation", "version", "state"),
    [("CPython", (3, 11, 0), "ok"), ("CPython", (3, 10, 9), "failed"), ("PyPy", (3, 11, 2), "failed")],
)
def test_the_interpreter(implementation, version, state):
    assert environment.interpreter(implementation, version).state == state


def test_the_kernel_loads():
    assert environment.kernel().state == "ok"


@pytest.mark.parametrize(
    ("version", "state"),
    [
        (None, "skipped"),
        ("3.5.8", "failed"),
        ("4.0.0", "ok"),
        ("4.3.0.dev1", "ok"),
        ("4.10.0", "ok"),
        ("5.0.0", "failed"),
    ],
)
def test_the_version_of_pyspark(version, state):
    found = environment.pyspark(version)
    assert found.state == state
    assert ("penstock[spark]" in found.remedy) == (state != "ok")


def test_workers_that_run_this_interpreter(monkeypatch, tmp_path):
    path = program(tmp_path, f'PYTHONPATH={":".join(filter(None, sys.path))} exec {sys.executable} "$@"')
    assert environment.workers(path).state == "ok"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "echo \"ModuleNotFoundError: No module named 'penstock'\" >&2; exit 1",
            "cannot import Penstock and pyarrow: Module",
        ),
        ("echo 3.9", "is Python 3.9, and this is Python"),
        ("exit 3", "cannot import Penstock and pyarrow: no output"),
    ],
)
def test_workers_that_cannot_run_penstock(tmp_path, text, words):
    found = environment.workers(program(tmp_path, text))
    assert found.state == "failed"
    assert words in found.found
    assert f"PYSPARK_PYTHON={sys.executable}" in found.remedy


def test_workers_without_an_interpreter(tmp_path):
    found = environment.workers(str(tmp_path / "none"))
    assert (found.state, "does not exist" in found.found) == ("failed", True)


def test_the_interpreter_that_plans_is_checked_if_the_environment_names_one(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "pyspark_version", lambda: "4.3.0")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    assert "planner" not in [each.check for each in environment.check_environment()]
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", program(tmp_path, "echo no jupyter >&2; exit 1"))
    [found] = [each for each in environment.check_environment() if each.check == "planner"]
    assert (found.state, "cannot import Penstock and pyarrow: no jupyter" in found.found) == ("failed", True)
    assert found.remedy.startswith("Unset PYSPARK_DRIVER_PYTHON")


def test_java_is_needed_by_pyspark_only(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert environment.java(is_needed=True).state == "failed"
    assert "Install Java 17" in environment.java(is_needed=True).found
    assert environment.java(is_needed=False).state == "skipped"
