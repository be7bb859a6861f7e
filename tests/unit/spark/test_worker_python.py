"""Spark's Python workers should run the interpreter of the program."""

from __future__ import annotations

import pytest

from penstock.spark.worker_python import other_python


@pytest.fixture
def folder(tmp_path):
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python.parent


def test_an_activated_environment_is_right(folder):
    assert other_python({"PATH": f"{folder}:/usr/bin"}, str(folder / "python")) is None


def test_an_environment_that_is_not_activated_is_named_with_the_remedy(folder):
    advice = other_python({"PATH": str(folder)}, "/opt/app/bin/python")
    assert advice == (
        f"Spark's Python workers run {folder}/python3, not /opt/app/bin/python: "
        "set PYSPARK_PYTHON=/opt/app/bin/python before the session starts, or activate the environment"
    )
    assert other_python({"PATH": "/nowhere"}, "/opt/app/bin/python").startswith("no python3 is in the PATH: set")


def test_a_chosen_interpreter_is_left_to_the_user(folder):
    assert other_python({"PATH": str(folder), "PYSPARK_PYTHON": "python3.12"}, "/opt/app/bin/python") is None
