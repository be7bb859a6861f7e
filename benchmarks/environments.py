"""The environments of Penstock's rivals: created once, kept, and separate from the project's own environment.

    <user's cache>/jvm-source-4.2.0/    PySpark 4.2.0 and the jars of Spark's Kafka source; tests use it, too
    <user's cache>/pyspark-*/           another PySpark alone; for tests
    <user's cache>/sail-*/              Sail, and PySpark's client for it; tests use it, too
    <user's cache>/duckdb-*/            DuckDB with its extensions for Delta Lake and Iceberg; for tests
    benchmarks/.envs/avro-source-*/     the same with PySpark 4.1.1 and spark-avro
    benchmarks/.envs/confluent-*/       confluent-kafka and pyarrow
    benchmarks/.envs/kafka-python-*/    kafka-python, with its optional C libraries
    benchmarks/.envs/aiokafka-*/        aiokafka, with its optional C libraries
    benchmarks/.envs/flink-*/           Flink and its Kafka connector: jars alone

kcat and jq are packages of the system.

A stamp file, written last, marks an environment as complete. One process creates it while others wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.testing import ivy
from penstock.testing.distribution import cache_folder
from penstock.testing.java import find_java

Say = Callable[[str], None]

JVM_SOURCE_VERSION = "4.2.0"
DELTA_VERSION = "4.4.0"
"""The first one for the Spark of the source."""

ICEBERG_VERSION, ICEBERG_SPARK_VERSION = "1.12.0", "4.1.1"
"""The newest Spark for which Iceberg has a release."""

AVRO_SOURCE_VERSION = "4.1.1"
"""The newest version for which spark-avro is available."""

CONFLUENT_VERSION = "2.16.1"
KAFKA_PYTHON_VERSION = "3.0.12"
AIOKAFKA_VERSION = "0.14.0"
FLINK_VERSION = "2.2.0"
DUCKDB_VERSION = "1.5.5"
"""The newest one for which packages with these extensions are published."""
SAIL_VERSION = "0.7.2"
SAIL_CLIENT_VERSION = "4.1.1"
PYARROW_VERSION = "26.0.1"

# Dependencies are either in PySpark or listed here: Spark's POMs would bring Spark itself. The token provider is the
# newest one available; without Kerberos delegation tokens none of it is called.
_BESIDE_THE_SOURCE = (
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_JVM_SOURCE_JARS = (("org.apache.spark", "spark-sql-kafka-0-10_2.13", JVM_SOURCE_VERSION), *_BESIDE_THE_SOURCE)
_AVRO_SOURCE_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", AVRO_SOURCE_VERSION),
    ("org.apache.spark", "spark-avro_2.13", AVRO_SOURCE_VERSION),
    *_BESIDE_THE_SOURCE,
)
_DELTA_JARS = (
    ("io.delta", f"delta-spark_{JVM_SOURCE_VERSION.rpartition('.')[0]}_2.13", DELTA_VERSION),
    ("io.delta", "delta-storage", DELTA_VERSION),
)
_ICEBERG_SPARK = ICEBERG_SPARK_VERSION.rpartition(".")[0]
_ICEBERG_JARS = (("org.apache.iceberg", f"iceberg-spark-runtime-{_ICEBERG_SPARK}_2.13", ICEBERG_VERSION),)
# With all dependencies: kafka-clients comes with the connector.
_FLINK_JARS = (
    ("org.apache.flink", "flink-connector-kafka", f"5.0.0-{FLINK_VERSION.rpartition('.')[0]}"),
    ("org.apache.flink", "flink-connector-base", FLINK_VERSION),
    ("org.apache.flink", "flink-streaming-java", FLINK_VERSION),
    ("org.apache.flink", "flink-clients", FLINK_VERSION),
)
_PENSTOCK_PACKAGES = ("penstock", "pyspark_penstock", "pyarrow", "kafka")
# Without compression and compilation: pip unpacks the wheel of PySpark at once.
_QUICK_INSTALL = ("--no-compile", "--config-settings=--build-option=--compression=stored")
_PIP_SECONDS = 1200.0  # PySpark is a source distribution of 450 MB, from which pip builds a wheel
_LOCK_SECONDS = 1800.0
_APT_SECONDS = 300.0
_STAMP = "made-of"


class EnvironmentMissing(Exception):
    """An environment could not be created: no network, or no such version. The message says why."""


@dataclass(frozen=True, slots=True)
class Rival:
    """An interpreter with the packages of a rival, and the jars for Spark's class path."""

    python: Path
    jars: tuple[Path, ...] = ()


def jvm_source(say: Say) -> Rival:
    """Spark's Kafka source."""
    folder = cache_folder() / f"jvm-source-{JVM_SOURCE_VERSION}"
    return _spark("Spark's Kafka source", folder, JVM_SOURCE_VERSION, _JVM_SOURCE_JARS, say)


def pyspark(version: str, say: Say) -> Rival:
    """A version of PySpark. That of Spark's Kafka source shares its environment."""
    if version == JVM_SOURCE_VERSION:
        return Rival(jvm_source(say).python)
    folder, wanted = cache_folder() / f"pyspark-{version}", [f"pyspark=={version}"]

    def fill() -> None:
        _install(_make_venv(folder), wanted, say)
        # Python workers import PySpark from this archive, which holds no compiled files. Without it they import the
        # installed package, three times as fast. Spark waits 10 s for them, too short for many at once on two cores.
        for archive in folder.glob("venv/lib/python*/site-packages/pyspark/python/lib/pyspark.zip"):
            archive.unlink()

    _make(folder, [*wanted, "without pyspark.zip"], fill, _python(folder), say)
    return Rival(_python(folder))


def sail(say: Say) -> Rival:
    """Sail, with what Penstock needs beside itself and Arrow."""
    folder = cache_folder() / f"sail-{SAIL_VERSION}"
    wanted = [f"pysail=={SAIL_VERSION}", f"pyspark-client=={SAIL_CLIENT_VERSION}", "pandas>=2.2,<3", "sqlglot>=30,<31"]
    _make(folder, wanted, lambda: _install(_make_venv(folder), wanted, say), _python(folder), say)
    return Rival(_python(folder))


def duckdb(say: Say) -> Rival:
    """DuckDB, and its own extensions for tables."""
    folder = cache_folder() / f"duckdb-{DUCKDB_VERSION}"
    names = ("duckdb", *(f"duckdb-extension-{name}" for name in ("avro", "delta", "iceberg", "parquet")))
    wanted = [f"{name}=={DUCKDB_VERSION}" for name in names]
    _make(folder, wanted, lambda: _install(_make_venv(folder), wanted, say), _python(folder), say)
    return Rival(_python(folder))


def delta_jars(say: Say) -> tuple[Path, ...]:
    """The jars of Delta Lake for the Spark of Spark's Kafka source. Spark has their other dependencies."""
    return _only_jars("Delta Lake", f"delta-{DELTA_VERSION}", _DELTA_JARS, say)


def iceberg_jars(say: Say) -> tuple[Path, ...]:
    """The jar of Iceberg for ICEBERG_SPARK_VERSION, with all that it needs."""
    return _only_jars("Iceberg", f"iceberg-{ICEBERG_VERSION}", _ICEBERG_JARS, say)


def avro_source(say: Say) -> Rival:
    """Spark's Kafka source with `from_avro`."""
    folder = Path(__file__).parent / ".envs" / f"avro-source-{AVRO_SOURCE_VERSION}"
    return _spark("Spark's Kafka source and Avro", folder, AVRO_SOURCE_VERSION, _AVRO_SOURCE_JARS, say)


def confluent(say: Say) -> Rival:
    """confluent-kafka, and pyarrow for its messages."""
    wanted = [f"confluent-kafka=={CONFLUENT_VERSION}", f"pyarrow=={PYARROW_VERSION}"]
    return _python_client(f"confluent-{CONFLUENT_VERSION}", wanted, say)


def kafka_python(say: Say) -> Rival:
    """kafka-python with its optional C libraries."""
    wanted = [f"kafka-python[lz4,crc32c]=={KAFKA_PYTHON_VERSION}"]
    return _python_client(f"kafka-python-{KAFKA_PYTHON_VERSION}", wanted, say)


def aiokafka(say: Say) -> Rival:
    """aiokafka with its optional C libraries."""
    wanted = [f"aiokafka[lz4]=={AIOKAFKA_VERSION}"]
    return _python_client(f"aiokafka-{AIOKAFKA_VERSION}", wanted, say)


def flink(say: Say) -> tuple[Path, ...]:
    """The jars of Flink and its Kafka connector."""
    folder = Path(__file__).parent / ".envs" / f"flink-{FLINK_VERSION}"
    made_of = [":".join(jar) for jar in _FLINK_JARS]

    def fill() -> None:
        _fetch_jars("Flink", _FLINK_JARS, folder, say, with_dependencies=True)

    _make(folder, made_of, fill, folder / "jars", say)
    return _jars(folder)


def search(say: Say) -> tuple[Path, Path]:
    """kcat and jq, of Debian's packages. Installs them where this process may."""
    names = ("kcat", "jq")
    may_install = os.geteuid() == 0 and shutil.which("apt-get")
    if may_install and (missing := [name for name in names if shutil.which(name) is None]):
        say(f"installing {' and '.join(missing)} with apt-get")
        for words in (("update",), ("install", "--yes", *missing)):
            _run_apt(["apt-get", "--quiet", *words], missing)
    found = [shutil.which(name) for name in names]
    if missing := [name for name, path in zip(names, found, strict=True) if path is None]:
        raise EnvironmentMissing(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed. On Debian and Ubuntu: "
            f"sudo apt-get install {' '.join(missing)}; or measure without this side: --side penstock"
        )
    kcat, jq = (Path(path) for path in found if path is not None)
    return kcat, jq


def _run_apt(command: Sequence[str], wanted: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_APT_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentMissing(f"apt-get did not install {' and '.join(wanted)} within {_APT_SECONDS:g} s") from None
    if ran.returncode != 0:
        lines = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
        reason = ivy.without_credentials(lines[-1].strip())[:300] if lines else f"apt-get ended with {ran.returncode}"
        raise EnvironmentMissing(f"{' and '.join(wanted)} could not be installed: {reason}")


def linked_packages(scratch: Path) -> Path:
    """A folder for PYTHONPATH with links to Penstock and its packages, but not to this environment's PySpark.

    Installing Penstock into the other environment would build it again. The same interpreter created both.
    """
    folder = scratch / "penstock-packages"
    if not folder.exists():
        folder.mkdir()
        for name in _PENSTOCK_PACKAGES:
            found = importlib.util.find_spec(name)
            assert found is not None
            assert found.origin is not None
            (folder / name).symlink_to(Path(found.origin).parent)
        installed = Path(str(importlib.metadata.distribution("penstock").locate_file("")))
        for entry_points in installed.glob("penstock-*.dist-info"):
            (folder / entry_points.name).symlink_to(entry_points)
    return folder


def _spark(what: str, folder: Path, version: str, jars: Sequence[tuple[str, str, str]], say: Say) -> Rival:
    made_of = [f"pyspark=={version}", *(":".join(jar) for jar in jars)]

    def fill() -> None:
        _fetch_jars(what, jars, folder, say, with_dependencies=False)
        _install(_make_venv(folder), [f"pyspark=={version}"], say)

    _make(folder, made_of, fill, _python(folder), say)
    return Rival(_python(folder), _jars(folder))


def _only_jars(what: str, name: str, jars: Sequence[tuple[str, str, str]], say: Say) -> tuple[Path, ...]:
    folder = Path(__file__).parent / ".envs" / name

    def fill() -> None:
        _fetch_jars(what, jars, folder, say, with_dependencies=False)

    _make(folder, [":".join(jar) for jar in jars], fill, folder / "jars" / f"{jars[-1][1]}-{jars[-1][2]}.jar", say)
    return _jars(folder)


def _python_client(name: str, wanted: Sequence[str], say: Say) -> Rival:
    folder = Path(__file__).parent / ".envs" / name
    _make(folder, wanted, lambda: _install(_make_venv(folder), wanted, say), _python(folder), say)
    return Rival(_python(folder))


def _python(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _jars(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted((folder / "jars").glob("*.jar")))


def _make_venv(folder: Path) -> Path:
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    return _python(folder)


def _make(folder: Path, made_of: Sequence[str], fill: Callable[[], None], witness: Path, say: Say) -> None:
    """Create the environment in `folder` if its stamp is missing or different, or if `witness` is missing."""
    # The stamp includes the interpreter: a venv breaks when the interpreter it links to is removed.
    stamp_text = "\n".join([*made_of, sys.version, str(Path(sys.executable).resolve())])
    stamp = folder / _STAMP
    digest = hashlib.sha256(stamp_text.encode()).hexdigest()

    def whole() -> bool:
        return stamp.is_file() and stamp.read_text("ascii") == digest and witness.exists()

    if whole():
        return
    with _lock(folder.with_name(folder.name + ".lock"), say):
        if not whole():  # otherwise another process created it
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            fill()
            stamp.write_text(digest, "ascii")


def _install(python: Path, wanted: Sequence[str], say: Say) -> None:
    say(f"installing {', '.join(wanted)} into its own environment, once: a minute or two")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_QUICK_INSTALL, *wanted]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentMissing(f"pip did not install {wanted[0]} within {_PIP_SECONDS:g} s") from None
    if ran.returncode != 0:
        lines = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
        reason = ivy.without_credentials(lines[-1].strip())[:300] if lines else f"pip ended with {ran.returncode}"
        raise EnvironmentMissing(f"{wanted[0]} could not be installed: {reason}")


def _fetch_jars(
    what: str, wanted: Sequence[tuple[str, str, str]], folder: Path, say: Say, *, with_dependencies: bool
) -> None:
    say(f"fetching the jars of {what}, once: a minute or so")
    dependencies = "\n".join(
        f'<dependency org="{org}" name="{name}" rev="{revision}" conf="default->default" '
        f'transitive="{str(with_dependencies).lower()}"/>'
        for org, name, revision in wanted
    )
    modules = (
        '<ivy-module version="2.0"><info organisation="penstock" module="rival"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    jars = folder / "jars"
    jars.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as work_dir:
        try:
            ivy.retrieve(what, modules, jars, Path(work_dir), find_java(), lambda _: None)
        except EmbeddedBrokerError as error:
            raise EnvironmentMissing(str(error)) from error
    if missing := [name for _, name, revision in wanted if not (jars / f"{name}-{revision}.jar").is_file()]:
        raise EnvironmentMissing(f"the repository did not serve {', '.join(missing)}")


@contextlib.contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Held by the process that creates the environment. The system releases it when that process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        end = time.monotonic() + _LOCK_SECONDS
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise EnvironmentMissing(f"another process holds {path.name} for too long") from None
                if not waiting:
                    say("waiting for another process that creates this environment")
                    waiting = True
                time.sleep(0.2)
        yield
