"""Kafka's jars: downloaded once, cached for the user, checked before use.

    <cache>/kafka-4.3.1/           47 jars and the checkpoint of a new node
    <cache>/kafka-4.3.1.lock       held by the process that downloads
    <cache>/kafka-4.3.1.partial/   the files of an unfinished download, which the next one continues

A complete folder is renamed into place, so no process ever sees an incomplete one, also after a crash.

Ivy downloads, because PySpark ships it and it supports Maven repositories, mirrors and proxies. It compares each file
with the SHA-1 of the repository, which detects damage on the network but not a wrong repository. So the SHA-256 of
every jar is pinned in a file beside this one (in the format of `sha256sum`): other jars are refused by name, and a
changed POM of a dependency cannot change the set. The file must be updated with `KAFKA_VERSION`.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.progress import Progress
from penstock.testing import ivy
from penstock.testing.java import find_java

KAFKA_VERSION = "4.3.1"

# kafka-tools without its dependencies (Connect, Jetty, Jersey): 45 more jars that our tools do not need. Kafka's own
# archive adds the log4j binding to its POM: without it a broker does not log.
_MODULES = f"""\
<ivy-module version="2.0">
  <info organisation="penstock" module="embedded"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}" conf="default->default"
                transitive="false"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
_CHECKPOINT = "bootstrap.checkpoint"


def cache_folder() -> Path:
    """The folder of Penstock's downloads for this user."""
    if chosen := os.environ.get("PENSTOCK_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "penstock"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


@functools.cache
def pinned() -> dict[str, str]:
    """File name -> SHA-256 of every jar of this Kafka version."""
    text = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.sha256").read_text("ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


class Distribution:
    """Kafka's jars on disk, by default the pinned ones, and the Java that runs them."""

    def __init__(self, folder: Path, java: Path, jars: Sequence[str] | None = None) -> None:
        self.folder = folder
        self.java = java
        self._jars = tuple(pinned() if jars is None else jars)

    def classpath(self) -> str:
        return os.pathsep.join(str(self.folder / name) for name in self._jars)

    def run_tool(
        self, main_class: str, *arguments: str, seconds: float = 60.0, jvm_options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's command line tools by its Java class. The exit code is not checked."""
        command = [str(self.java), *jvm_options, "-cp", self.classpath(), main_class, *arguments]
        try:
            return subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedBrokerError(f"{main_class} did not end within {seconds:g} s") from error

    def bootstrap_checkpoint(self) -> bytes:
        """The first metadata of any cluster (feature levels), as `kafka-storage format` writes it."""
        return (self.folder / _CHECKPOINT).read_bytes()


def get_distribution() -> Distribution:
    """Kafka's jars from the cache. They are downloaded if they are missing or damaged."""
    java = find_java()
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if damage(folder) is None:
        return Distribution(folder, java)
    lock_file = folder.with_name(folder.name + ".lock")
    with Progress() as progress, fetch_lock(lock_file, f"Apache Kafka {KAFKA_VERSION}", progress):
        if damage(folder) is not None:  # else another process has downloaded it
            _fetch(folder, java, progress)
    return Distribution(folder, java)


def damage(folder: Path) -> str | None:
    """What is wrong with a cached distribution, in words; None if it is intact.

    Hashing 43 MB takes 0.16 s, so it is done once per process and state of the files.
    """
    if not folder.is_dir():
        return "it does not exist"
    try:
        stats = [(name, (folder / name).stat()) for name in (*pinned(), _CHECKPOINT)]
    except OSError as error:
        return f"{Path(str(error.filename)).name} is missing"
    if stats[-1][1].st_size == 0:
        return f"{_CHECKPOINT} is empty"
    return _wrong_jar_of(folder, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


@functools.lru_cache(maxsize=8)
def _wrong_jar_of(folder: Path, state: tuple[tuple[str, int, int], ...]) -> str | None:
    return _wrong_jar(folder)


def _wrong_jar(folder: Path) -> str | None:
    for name, digest in pinned().items():
        try:
            with (folder / name).open("rb") as jar:
                if hashlib.file_digest(jar, "sha256").hexdigest() != digest:
                    return f"{name} is not the pinned one"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _fetch(folder: Path, java: Path, progress: Progress) -> None:
    """Download into a temporary folder, check, format, rename into place. The caller holds the lock."""
    partial = folder.with_name(folder.name + ".partial")
    jars = partial / "jars"
    shutil.rmtree(jars, ignore_errors=True)
    jars.mkdir(parents=True)
    name = f"Apache Kafka {KAFKA_VERSION}"

    def tick(done: int) -> None:
        progress.show(f"downloading {name}, once: {done} of {len(pinned())} files")

    ivy.retrieve(name, _MODULES, jars, partial, java, tick)
    found = {path.name for path in jars.iterdir()}
    if wrong := _wrong_set(jars, found):
        shutil.rmtree(partial, ignore_errors=True)  # else the next try would use the same files
        raise EmbeddedBrokerError(
            f"the repository served another {name} than the pinned one: {wrong}. Check PENSTOCK_MAVEN_REPOSITORY. If "
            "it is right, the files were changed on the way"
        )
    make_checkpoint(Distribution(jars, java), partial)
    old = folder.with_name(f"{folder.name}.old-{os.getpid()}")
    if folder.exists():
        folder.rename(old)
    jars.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)


def _wrong_set(jars: Path, found: set[str]) -> str | None:
    if missing := sorted(pinned().keys() - found):
        return f"{missing[0]} is missing"
    if extra := sorted(found - pinned().keys()):
        return f"{extra[0]} does not belong to it"
    return _wrong_jar(jars)


def make_checkpoint(fetched: Distribution, partial: Path) -> None:
    """Format a temporary node with Kafka's own tool, and keep the one file that is the same for every cluster."""
    scratch = partial / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    properties = scratch / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
        "listeners=CLIENT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=CLIENT\n"
        f"log.dirs={(scratch / 'data').as_posix()}\n",
        "utf-8",
    )
    ran = fetched.run_tool("kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", str(properties))
    made = scratch / "data" / _CHECKPOINT
    if ran.returncode != 0 or not made.is_file():
        raise EmbeddedBrokerError(f"kafka-storage could not format a node: {(ran.stderr or ran.stdout).strip()[-300:]}")
    shutil.copyfile(made, fetched.folder / _CHECKPOINT)


@contextlib.contextmanager
def fetch_lock(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """A lock against two downloads at once. The system releases it when its holder ends: it is never stale."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise EmbeddedBrokerError(
            f"the cache folder {path.parent} is not writable: {error.strerror}. Set PENSTOCK_CACHE to a writable folder"
        ) from error
    with file:
        end = time.monotonic() + ivy.FETCH_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.show(f"waiting for another process to download {what}")
                if time.monotonic() > end:
                    raise EmbeddedBrokerError(
                        f"another process has held {path} for {ivy.FETCH_SECONDS:g} s. End it and try again"
                    ) from None
                time.sleep(0.1)
        yield
