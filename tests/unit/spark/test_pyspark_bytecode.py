"""Bytecode in the zip file from which Spark's Python processes import PySpark."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from penstock.spark import pyspark_bytecode

SOURCES = {"pyspark/__init__.py": "ANSWER = 42\n", "pyspark/tests/broken.py": "not Python\n", "pyspark/notes.txt": "a"}


@pytest.fixture
def home(tmp_path):
    """A SPARK_HOME with a zip file."""
    folder = tmp_path / "python" / "lib"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "pyspark.zip", "w") as archive:
        for name, text in SOURCES.items():
            archive.writestr(name, text)
    return tmp_path


@pytest.fixture
def path(home):
    [path] = pyspark_bytecode.zip_files({"SPARK_HOME": str(home)})
    return path


def imported_from(path):
    program = "import pyspark; assert pyspark.ANSWER == 42; print(pyspark.__file__)"
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(
        command, env={"PYTHONPATH": str(path)}, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_a_process_imports_the_bytecode_and_after_its_removal_the_source(path, capsys):
    path.chmod(0o640)
    pyspark_bytecode.main([str(path)])
    assert imported_from(path) == f"{path}/pyspark/__init__.pyc"
    pyspark_bytecode.main(["--remove", str(path)])
    assert imported_from(path) == f"{path}/pyspark/__init__.py"
    assert path.stat().st_mode & 0o777 == 0o640
    assert capsys.readouterr().out == f"{path}\n{path}\n"


def test_all_entries_stay_and_a_second_run_adds_nothing(path):
    for _ in range(2):
        pyspark_bytecode.add_bytecode(path)
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == [*SOURCES, "pyspark/__init__.pyc"]
            assert {name: archive.read(name).decode() for name in SOURCES} == SOURCES


def test_a_file_that_is_no_zip_file_is_left_as_it_is(tmp_path):
    path = tmp_path / "pyspark.zip"
    path.write_text("not a zip file")
    with pytest.raises(SystemExit, match="was left as it is"):
        pyspark_bytecode.main(["--remove", str(path)])
    assert path.read_text() == "not a zip file"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_without_zip_files_is_named(tmp_path):
    with pytest.raises(SystemExit, match="has no zip files"):
        pyspark_bytecode.zip_files({"SPARK_HOME": str(tmp_path)})
