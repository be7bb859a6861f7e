"""Adds bytecode to the zip file from which Spark's Python processes import PySpark.

Python compiles what it imports from a zip file each time, because it cannot keep the bytecode there. A process that
plans or runs a Python source took 2.0 s of CPU for its imports on a busy machine, and takes 0.7 s with bytecode. The
tests start hundreds of them. Run it with the interpreter of Spark's workers.

`--remove` takes the bytecode out again: benchmarks measure PySpark as users have it.
"""

from __future__ import annotations

import importlib.util
import marshal
import shutil
import sys
import warnings
import zipfile
from pathlib import Path

TESTS = "/tests/"
HEADER = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Of bytecode that Python does not compare with its source (PEP 552)."""


def main() -> None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("PySpark is not installed in this environment")
    change = remove_bytecode if sys.argv[1:] == ["--remove"] else add_bytecode
    for path in (Path(spec.origin).parent / "python" / "lib").glob("*.zip"):
        change(path)


def add_bytecode(path: Path) -> None:
    """Replaces the file by a copy with more entries. Processes that have the old one open can read on: the entries that
    they know stay where they were."""
    copy = path.with_suffix(".partial")
    shutil.copyfile(path, copy)
    with zipfile.ZipFile(copy, "a", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SyntaxWarnings of PySpark's own code
        known = set(archive.namelist())
        for name in sorted(known):
            if name.endswith(".py") and TESTS not in name and name + "c" not in known:
                code = compile(archive.read(name), str(path / name), "exec", dont_inherit=True)
                archive.writestr(name + "c", HEADER + marshal.dumps(code))
    copy.replace(path)


def remove_bytecode(path: Path) -> None:
    copy = path.with_suffix(".partial")
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as cleaned:
        for entry in archive.infolist():
            if not entry.filename.endswith(".pyc"):
                cleaned.writestr(entry, archive.read(entry))
    copy.replace(path)


if __name__ == "__main__":
    main()
