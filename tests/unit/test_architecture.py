"""Arrows point one way: what may import what, proved on the source text.

A module's layer follows from its folder. A module outside of these folders fails the test.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
KERNEL = ROOT / "kernel" / "src"
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = (
    {"masking", "progress"},
    {"errors"},
    {"_kernel"},
    {"model"},
    {"wire", "eventtime", "predicate"},
    {"config"},
    {"formats", "dead_letters", "metrics", "serving", "testing"},
    {"planner", "reader", "writer", "monitor"},
    {"sampling", "watch"},
    {"consumer", "spark", "arrow"},
    {"streamer"},
    {"cli"},
)
"""Low to high. A module imports from lower layers and from its own folder, never from a neighbour in its layer.

`config` stands above `wire` and `eventtime` because it parses texts into the values that these define."""

PURE = ("model", "eventtime", "predicate")
PURE_MODULES = (
    *("planner/starting_offsets", "planner/stopping_offsets", "planner/rate_limit", "planner/range_splitting"),
    *("planner/partition_diff", "planner/partition_state", "planner/checkpoint", "dead_letters/written_offsets"),
    *("writer/columns", "writer/names", "writer/note", "writer/decision"),
    *(
        "serving/hosts",
        "monitor/rate",
        "watch/access",
        "watch/rows",
        "watch/timeline",
        "watch/search",
        "watch/query_report",
    ),
    "cli/newest_first",
    *("consumer/subscription", "consumer/group/assignors", "consumer/group/user_data"),
    *("consumer/share/acquired_records", "consumer/share/share_session"),
)


def module_of(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


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


def folder_of(module: str) -> str:
    """`penstock.wire.api.fetch` -> `wire`; the package itself -> ``."""
    return module.split(".")[1] if "." in module else ""


def layer_of(folder: str) -> int | None:
    return next((number for number, folders in enumerate(LAYERS) if folder in folders), None)


OURS = sorted(module for module in MODULES if module.startswith("penstock."))


def test_the_walk_below_sees_the_code():
    assert len(FILES) > 30
    assert importers("kafka")
    assert importers("pyspark")


@pytest.mark.parametrize("module", OURS)
def test_every_module_has_a_layer_and_imports_from_lower_ones_only(module):
    folder = folder_of(module)
    layer = layer_of(folder)
    assert layer is not None, f"{module} is in no layer: put it into a folder of LAYERS, or argue for a new one"
    imported = {folder_of(name) for name in imports_of(MODULES[module]) if name.startswith("penstock.")}
    upward = set()
    for other in imported - {folder}:
        theirs = layer_of(other)
        if theirs is not None and theirs >= layer:
            upward.add(other)
    assert not upward, f"{module} ({folder}) imports {sorted(upward)}, which are not below it"


def children_imported(package: str) -> dict[str, set[str]]:
    """Per module or sub-package directly in a package, the others that it imports: `{"fetch": set(), "stream":
    {"fetch"}}`."""

    def child(name: str) -> str:
        return name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else ""

    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if own := child(module):
            imported = {
                child(name) for name in imports_of(path) if name in MODULES or name.rpartition(".")[0] in MODULES
            }
            found.setdefault(own, set()).update(imported - {own, ""})
    return found


PACKAGES = sorted(module for module, path in MODULES.items() if path.name == "__init__.py")
CYCLIC = {"penstock.wire"}
"""Its `api` and `transport` import each other: a connection logs in with API requests, which need a connection."""


@pytest.mark.parametrize("package", [package for package in PACKAGES if package not in CYCLIC])
def test_modules_and_sub_packages_of_a_package_form_no_cycle(package):
    """Also for type checking: what two folders need of each other belongs into a third, or into a Protocol."""
    left = children_imported(package)
    while free := {child for child, imported in left.items() if not imported & left.keys()}:
        left = {child: imported for child, imported in left.items() if child not in free}
    assert not left, f"in {package} these import each other: {left}"


def test_only_wire_imports_kafka_python():
    assert within(importers("kafka"), "penstock.wire")


def test_only_spark_imports_pyspark():
    assert within(importers("pyspark"), "penstock.spark", "pyspark_penstock")


def test_only_the_parser_of_predicates_imports_sqlglot():
    parser = ("parse", "bind", "grammar", "scope", "source_text")
    assert within(importers("sqlglot"), *(f"penstock.predicate.{name}" for name in parser))
    code = (
        "import sys, penstock.predicate.row_filter, penstock.reader.task, penstock.formats.typed; "
        "print('sqlglot' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False", "tasks need no parser"


def test_planning_and_typed_reads_do_not_import_pyarrow_compute():
    code = (
        "import sys, penstock.sampling.typed_source, penstock.planner.batch, penstock.reader.task, "
        "penstock.formats.typed; print('pyarrow.compute' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False", "it takes 55 ms of CPU time"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if module_of(path).split(".")[1:2] and module_of(path).split(".")[1] in PURE]
    + [SOURCE / "penstock" / f"{name}.py" for name in PURE_MODULES],
    ids=module_of,
)
def test_pure_modules_know_no_client_and_no_clock(path):
    assert not {m for m in imports_of(path) if m.startswith(("penstock.wire", "socket", "ssl", "threading"))}
    assert "time" not in imports_of(path)


def test_the_kernel_knows_python_in_one_folder_only():
    known = {path.relative_to(KERNEL) for path in KERNEL.rglob("*.rs") if "pyo3" in path.read_text("utf-8")}
    assert known
    assert {path.as_posix() for path in known if path.parts[0] != "ffi"} <= {"ffi.rs", "lib.rs"}


# --- tests mirror the packages ----------------------------------------------------------------------------------------

TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
MIRRORS = ("unit", "integration", "spark")
OF_THE_WHOLE = {
    *("unit/test_architecture.py", "unit/test_clocks.py", "unit/test_secrets.py", "unit/test_semantics.py"),
    *("integration/test_consumer_docs.py", "integration/test_old_brokers.py", "integration/test_streamer_example.py"),
}
"""Tests of a rule that every module keeps, or of the product from outside."""


@pytest.mark.parametrize(
    "path",
    [path for path in TEST_FILES if path.relative_to(ROOT / "tests").parts[0] in ("unit", "integration")],
    ids=lambda path: path.relative_to(ROOT / "tests").as_posix(),
)
def test_a_test_is_named_after_the_module_it_tests(path):
    """`tests/unit/planner/test_stream_losses.py` tests `penstock/planner/stream.py`."""
    below = path.relative_to(ROOT / "tests")
    if below.as_posix() in OF_THE_WHOLE:
        return
    folder = Path(*below.parts[1:-1])
    name = below.stem.removeprefix("test_")
    if folder.as_posix() == "kernel":
        modules = {each.stem for each in KERNEL.rglob("*.rs")}
    elif folder.as_posix() in ("tools", "benchmarks"):
        modules = {each.stem for each in (ROOT / folder).rglob("*.py")}
    else:
        package = SOURCE / "penstock" / folder
        assert package.is_dir(), f"there is no package {folder}"
        modules = {each.stem for each in package.glob("*.py")} | {package.name}
        if folder.as_posix() == "watch":
            modules.add("page")  # its files, in a real browser
    assert any(name == module or name.startswith(f"{module}_") for module in modules), f"{folder} has no such module"


def test_the_file_map_names_every_module():
    """docs/file-map.md: a heading for each folder, a row for each module."""
    mapped: set[str] = set()
    folder = ""
    for line in (ROOT / "docs" / "file-map.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            folder = line.removeprefix("## ").removeprefix("src/penstock/")
        elif found := re.match(r"\| `(\w+)` \|", line):
            mapped.add(f"{folder}{found[1]}")
    tree = {
        path.relative_to(SOURCE / "penstock").with_suffix("").as_posix()
        for path in (SOURCE / "penstock").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {name for name in mapped if not name.startswith("kernel/") and not name.endswith("__init__")} == tree


# --- the contract -----------------------------------------------------------------------------------------------------


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


def test_monitors_of_groups_and_topics_do_not_load_pyarrow():
    """It takes 60 MB, and more time to load than the rest of the command."""
    code = (
        "import sys, penstock.cli.watch, penstock.cli.exporter, penstock.cli.top, penstock.watch.server, "
        "penstock.monitor.collector, penstock.monitor.exporter\n"
        "from penstock.config.source import parse_options\n"
        "parse_options({'bootstrap.servers': 'localhost:9092', 'subscribePattern': '.*'})\n"
        "print(*{'pyarrow', 'numpy', 'kafka'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_sinks_load_their_libraries_when_they_are_opened():
    code = (
        "import sys, penstock; penstock.Streamer, penstock.AdbcSink, penstock.ParquetSink, "
        "penstock.DeltaSink, penstock.IcebergSink; "
        "print(*{'pyarrow.parquet', 'adbc_driver_manager', 'deltalake', 'pyiceberg'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'consume'"):
        penstock.consume  # noqa: B018
