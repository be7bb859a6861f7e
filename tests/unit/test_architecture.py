"""Arrows point one way: what may import what, proved on the source text."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted(SOURCE.rglob("*.py"))

PLANNING = {
    "plan",
    "startup",
    "topics",
    "ranges",
    "options",
    "option_values",
    "kafka_options",
    "stream_options",
    "stream",
    "discovery",
    "ending",
    "limits",
    "truncation",
    "report_listener",
}
VALUES = {"errors", "ranges", "topics", "options"}
"""What planning and fetching may both know: the frozen values that pass between them."""


def module_of(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache  # a file is read once, not once per rule
def imports_of(path: Path) -> set[str]:
    """Modules a file imports anywhere, also inside functions and for type checking."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            assert node.module
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers(package: str) -> set[str]:
    return {
        module_of(path)
        for path in FILES
        if any(name == package or name.startswith(package + ".") for name in imports_of(path))
    }


def within(modules: set[str], *packages: str) -> bool:
    return all(any(m == p or m.startswith(p + ".") for p in packages) for m in modules)


def test_the_walk_below_sees_the_code():
    assert len(FILES) > 30
    assert importers("kafka")
    assert importers("pyspark")


def test_only_wire_imports_kafka_python():
    assert within(importers("kafka"), "penstock.wire")


def test_only_spark_and_the_demo_import_pyspark():
    # The demo is a user's program.
    assert within(importers("pyspark"), "penstock.spark", "penstock.demo", "pyspark_penstock")


@pytest.mark.parametrize("front", ["spark", "cli", "arrow", "demo", "embedded"])
def test_wire_and_fetch_know_no_front_end(front):
    engine = {m for m in importers(f"penstock.{front}") if m.startswith(("penstock.wire", "penstock.fetch"))}
    assert engine == set()


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "fetch"], ids=module_of)
def test_fetching_imports_of_planning_only_values(path):
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("penstock.")}
    assert ours & PLANNING <= VALUES


@pytest.mark.parametrize("name", sorted(PLANNING))
def test_planning_does_not_import_fetching(name):
    assert f"penstock.{name}" not in importers("penstock.fetch")


@pytest.mark.parametrize(
    "name",
    [
        *("ranges", "topics", "startup", "limits", "ending", "spans"),
        *("consumer/assignors", "consumer/subscription", "consumer/membership_notes"),
    ],
)
def test_pure_modules_know_no_client(name):
    mine = imports_of(SOURCE / "penstock" / f"{name}.py")
    assert not {m for m in mine if m.startswith(("penstock.wire", "socket", "time", "pyarrow"))}


def test_the_kernel_knows_python_in_one_file_only():
    sources = (ROOT / "kernel" / "src").glob("*.rs")
    assert {path.name for path in sources if "pyo3" in path.read_text("utf-8")} <= {"ffi.rs", "lib.rs"}


def test_public_names_are_sorted_and_importable():
    assert penstock.__all__ == sorted(penstock.__all__)
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    assert dir(penstock) == penstock.__all__


def test_every_error_is_public():
    from penstock import errors

    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined <= set(penstock.__all__)


def test_importing_the_package_is_light():
    code = "import sys, penstock; print(*{'pyspark', 'kafka', 'pyarrow', 'penstock._kernel'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_the_streamer_is_a_user_of_the_consumer_and_not_the_other_way_round():
    users = importers("penstock.streamer") - {"penstock"}
    assert "penstock.cli.stream" in users
    assert within(users, "penstock.streamer", "penstock.cli")
    for front in ("penstock.cli", "penstock.spark"):
        assert not {module for module in importers(front) if module.startswith("penstock.streamer")}


def test_sinks_load_their_libraries_when_they_are_opened():
    code = (
        "import sys, penstock; penstock.Streamer, penstock.AdbcSink, penstock.ParquetSink; "
        "print(*{'pyarrow.parquet', 'adbc_driver_manager'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'consume'"):
        penstock.consume  # noqa: B018
