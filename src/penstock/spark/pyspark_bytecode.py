"""Adds bytecode to the zip file from which Spark's Python processes import PySpark.

    python -m penstock.spark.pyspark_bytecode [--remove] [ZIP...]

Python compiles what it imports from a zip file each time, because it cannot keep the bytecode there. Spark starts a
process that plans for each query with a Python source, and four daemons in each session. Run this with the interpreter
of Spark's workers: another version of Python ignores the bytecode, and compiles as before.

Without arguments the file is that of SPARK_HOME, or else of the installed PySpark. `--remove` takes the bytecode out
again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TESTS = "/tests/"
HEADER = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Of bytecode that Python does not compare with its source (PEP 552)."""


def main(arguments: Sequence[str]) -> None:
    change = remove_bytecode if "--remove" in arguments else add_bytecode
    named = [Path(argument) for argument in arguments if argument != "--remove"]
    for path in named or zip_files(os.environ):
        try:
            change(path)
        except (OSError, zipfile.BadZipFile) as error:
            sys.exit(f"{path} was left as it is: {error}")
        sys.stdout.write(f"{path}\n")


def zip_files(environment: Mapping[str, str]) -> list[Path]:
    """The files that Spark's Python processes import PySpark and py4j from."""
    home = environment.get("SPARK_HOME")
    if home is not None:
        folder = Path(home) / "python" / "lib"
    else:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            sys.exit("PySpark is not installed in this environment: set SPARK_HOME, or name the zip files")
        folder = Path(spec.origin).parent / "python" / "lib"
    found = sorted(folder.glob("*.zip"))
    if not found:
        sys.exit(f"{folder} has no zip files")
    return found


def add_bytecode(path: Path) -> None:
    """Add the bytecode of all modules, except tests."""
    with _replacement(path) as copy, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SyntaxWarnings of PySpark's own code
        with zipfile.ZipFile(copy, "a", zipfile.ZIP_DEFLATED) as archive:
            known = set(archive.namelist())
            for name in sorted(known):
                if name.endswith(".py") and TESTS not in name and name + "c" not in known:
                    code = compile(archive.read(name), str(path / name), "exec", dont_inherit=True)
                    archive.writestr(name + "c", HEADER + marshal.dumps(code))


def remove_bytecode(path: Path) -> None:
    """Remove all bytecode."""
    with (
        _replacement(path) as copy,
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as cleaned,
    ):
        for entry in archive.infolist():
            if not entry.filename.endswith(".pyc"):
                cleaned.writestr(entry, archive.read(entry))


@contextlib.contextmanager
def _replacement(path: Path) -> Iterator[Path]:
    """A copy that replaces the file, unless the block raises. Processes that have the old file open can read on."""
    copy = path.with_suffix(".partial")
    try:
        shutil.copy(path, copy)  # with its permissions
        yield copy
        copy.replace(path)
    finally:
        copy.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
