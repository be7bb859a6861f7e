"""Checks of this machine: interpreter, kernel, PySpark and its workers, Java."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.doctor.check import Check, failed, ok, skipped
from penstock.errors import EmbeddedBrokerError
from penstock.testing.java import find_java, java_version

OLDEST_PYTHON = (3, 11)
OLDEST_PYSPARK, PYSPARK_BEFORE = (4, 0), (5, 0)

WORKER_SECONDS = 30.0
"""For starting an interpreter that imports Penstock: a tenth of a second on an idle machine."""

WORKER_PROGRAM = "import sys, pyarrow, penstock, penstock._kernel; print(*sys.version_info[:2], sep='.')"


def check_environment() -> Iterator[Check]:
    yield interpreter(platform.python_implementation(), sys.version_info[:3])
    yield kernel()
    found = pyspark_version()
    yield pyspark(found)
    if found is not None:
        yield workers(os.environ.get("PYSPARK_PYTHON", "python3"))
        if (python := os.environ.get("PYSPARK_DRIVER_PYTHON")) is not None:
            yield planner(python)
    yield java(is_needed=found is not None)


def interpreter(implementation: str, version: tuple[int, ...]) -> Check:
    text = f"{implementation} {'.'.join(map(str, version))}"
    if implementation == "CPython" and version >= OLDEST_PYTHON:
        return ok("interpreter", f"{text} at {sys.executable}")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return failed("interpreter", f"{text} is not supported", f"Use CPython {oldest} or newer")


def kernel() -> Check:
    try:
        from penstock._kernel import __version__
    except ImportError as error:
        remedy = f"Install Penstock again: {sys.executable} -m pip install --force-reinstall penstock"
        return failed("kernel", f"the compiled part of Penstock does not load: {error}", remedy)
    return ok("kernel", f"Penstock {__version__}")


def pyspark_version() -> str | None:
    for name in ("pyspark", "pyspark-client"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def pyspark(version: str | None) -> Check:
    install = 'pip install "penstock[spark]"'
    if version is None:
        return skipped("pyspark", "PySpark is not installed", f"For Spark: {install}")
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if OLDEST_PYSPARK <= numbers < PYSPARK_BEFORE:
        return ok("pyspark", f"PySpark {version}")
    return failed("pyspark", f"PySpark {version} is not supported, 4.0 and newer 4.x are", install)


def workers(python: str) -> Check:
    """The interpreter of Spark's Python workers. Spark takes `python3` from the PATH unless PYSPARK_PYTHON names one:
    in an environment that is not activated, and in cron, that is another one."""
    remedy = f"Activate the environment, or set PYSPARK_PYTHON={sys.executable}"
    return _interpreter_of("workers", python, "the interpreter of Spark's Python workers", remedy)


def planner(python: str) -> Check:
    """Spark plans Python sources with PYSPARK_DRIVER_PYTHON if it is set. For notebooks it is often `jupyter`."""
    remedy = "Unset PYSPARK_DRIVER_PYTHON, and start the notebook without it"
    return _interpreter_of("planner", python, "with which Spark plans reads (PYSPARK_DRIVER_PYTHON)", remedy)


def _interpreter_of(check: str, python: str, which: str, remedy: str) -> Check:
    path = shutil.which(python)
    if path is None:
        return failed(check, f"{python}, {which}, does not exist", remedy)
    try:
        ran = subprocess.run(  # noqa: S603
            [path, "-c", WORKER_PROGRAM],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WORKER_SECONDS,
            check=False,
            cwd=Path.home(),  # a worker does not start in this folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return failed(check, f"{path}, {which}, does not run: {error}", remedy)
    if ran.returncode != 0:
        reason = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        return failed(check, f"{path}, {which}, cannot import Penstock and pyarrow: {reason}", remedy)
    mine, version = ".".join(map(str, sys.version_info[:2])), ran.stdout.strip()
    if version != mine:
        return failed(check, f"{path}, {which}, is Python {version}, and this is Python {mine}", remedy)
    return ok(check, f"{path}, {which}, has Penstock")


def java(is_needed: bool) -> Check:
    try:
        path = find_java()
    except EmbeddedBrokerError as error:
        # The text ends with its remedy.
        return failed("java", error) if is_needed else skipped("java", f"{error} (for `penstock broker`)")
    return ok("java", f"Java {java_version(path)} at {path}")
