"""The environments that Penstock's rivals run in: made once, kept, never mixed with the project's own.

    <user's cache>/jvm-source-4.2.0/    PySpark 4.2.0 and the jars of Spark's own Kafka source; the tests use it too
    benchmarks/.envs/confluent-*/       confluent-kafka and pyarrow

An environment is whole when its stamp says so, and the stamp is written last. One process makes it, others wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import ivy
from penstock.embedded.distribution import cache_folder
from penstock.embedded.java import find_java
from penstock.errors import EmbeddedBrokerError

Say = Callable[[str], None]

JVM_SOURCE_VERSION = "4.2.0"
CONFLUENT_VERSION = "2.16.1"
PYARROW_VERSION = "26.0.1"

# What these depend on is either in PySpark or listed: Spark's POMs would bring Spark itself along. The token provider
# is the newest that resolves; nothing in it is called without Kerberos delegation tokens.
_JVM_SOURCE_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", JVM_SOURCE_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_PIP_SECONDS = 1200.0  # PySpark is 450 MB and comes as source, with a wheel to be built of it
_LOCK_SECONDS = 1800.0
_STAMP = "made-of"


class EnvironmentMissing(Exception):
    """An environment could not be made: no network, or no such version. Says why."""


@dataclass(frozen=True, slots=True)
class Rival:
    """An interpreter with a rival's packages, and the jars it wants on Spark's class path."""

    python: Path
    jars: tuple[Path, ...] = ()


def jvm_source(say: Say) -> Rival:
    """Spark's own Kafka source, ready to run."""
    folder = cache_folder() / f"jvm-source-{JVM_SOURCE_VERSION}"
    made_of = [f"pyspark=={JVM_SOURCE_VERSION}", *(":".join(jar) for jar in _JVM_SOURCE_JARS)]

    def fill(python: Path) -> None:
        say("fetching the jars of Spark's Kafka source, once")
        _fetch_jars(folder)
        _install(python, [f"pyspark=={JVM_SOURCE_VERSION}"], say)

    python = _make(folder, made_of, fill, say)
    return Rival(python, tuple(sorted((folder / "jars").glob("*.jar"))))


def confluent(say: Say) -> Rival:
    """confluent-kafka, with the pyarrow that its messages are filled into."""
    wanted = [f"confluent-kafka=={CONFLUENT_VERSION}", f"pyarrow=={PYARROW_VERSION}"]
    folder = Path(__file__).parent / ".envs" / f"confluent-{CONFLUENT_VERSION}"
    return Rival(_make(folder, wanted, lambda python: _install(python, wanted, say), say))


def _make(folder: Path, made_of: Sequence[str], fill: Callable[[Path], None], say: Say) -> Path:
    """The interpreter of the environment in `folder`, made first where its stamp is missing or says otherwise."""
    python = folder / "venv" / "bin" / "python"
    # The interpreter that made it belongs to the stamp: a venv does not outlive the one it links to.
    stamp_text = "\n".join([*made_of, sys.version, str(Path(sys.executable).resolve())])
    stamp = folder / _STAMP
    digest = hashlib.sha256(stamp_text.encode()).hexdigest()

    def whole() -> bool:
        return stamp.is_file() and stamp.read_text("ascii") == digest and python.exists()

    if whole():
        return python
    with _lock(folder.with_name(folder.name + ".lock"), say):
        if not whole():  # else another process was quicker
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            venv.create(folder / "venv", with_pip=True, symlinks=True)
            fill(python)
            stamp.write_text(digest, "ascii")
    return python


def _install(python: Path, wanted: Sequence[str], say: Say) -> None:
    say(f"installing {', '.join(wanted)} into an environment of its own, once: a minute or two")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentMissing(f"pip did not install {wanted[0]} within {_PIP_SECONDS:g} s") from None
    if ran.returncode != 0:
        said = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
        reason = ivy.without_credentials(said[-1].strip())[:300] if said else f"pip ended with {ran.returncode}"
        raise EnvironmentMissing(f"{wanted[0]} could not be installed: {reason}")


def _fetch_jars(folder: Path) -> None:
    wanted = "\n".join(
        f'<dependency org="{org}" name="{name}" rev="{revision}" conf="default->default" transitive="false"/>'
        for org, name, revision in _JVM_SOURCE_JARS
    )
    modules = (
        '<ivy-module version="2.0"><info organisation="penstock" module="jvm-source"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )
    jars = folder / "jars"
    jars.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as work_dir:
        try:
            ivy.retrieve("Spark's Kafka source", modules, jars, Path(work_dir), find_java(), lambda _: None)
        except EmbeddedBrokerError as error:
            raise EnvironmentMissing(str(error)) from error
    if len(list(jars.glob("*.jar"))) != len(_JVM_SOURCE_JARS):
        raise EnvironmentMissing(f"the repository served only {sorted(path.name for path in jars.iterdir())}")


@contextlib.contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Held by the process that makes the environment; the system drops it when that one dies."""
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
                    raise EnvironmentMissing(f"another process has held {path.name} too long") from None
                if not waiting:
                    say("waiting for another process that makes this environment")
                    waiting = True
                time.sleep(0.2)
        yield
