"""Kafka's own jars: fetched once, kept in the user's cache, checked before use.

    <cache>/kafka-4.3.1/           47 jars and the checkpoint that a fresh node begins with
    <cache>/kafka-4.3.1.lock       held by whoever is fetching
    <cache>/kafka-4.3.1.partial/   what an unfinished fetch has so far; a later one goes on from there

The folder appears by a rename when it is whole, so neither a crash nor a second process ever sees half of it.

Ivy does the fetching, because PySpark ships it and it knows Maven repositories, mirrors and proxies. It compares each
download with the SHA-1 that the repository states, which guards against the line but not against the repository. So the
SHA-256 of every jar is pinned beside this file (in the format of `sha256sum`): a mirror that serves something else is
refused by name, and the set cannot drift when a dependency's POM changes. The price is one file to renew with
`KAFKA_VERSION`.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from penstock.embedded.java import find_java
from penstock.errors import EmbeddedBrokerError

KAFKA_VERSION = "4.3.1"

# kafka-tools alone: with what it depends on (Connect, Jetty, Jersey) it would be 45 more jars, for no tool we run. The
# log4j binding is what Kafka's own archive has on top of its POM: without it a broker logs nothing at all.
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

# Without a root of its own, this resolver means Maven Central.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="repository"/>
  <property name="ivy.checksums" value="sha1"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="repository" m2compatible="true" timeoutConstraint="patience"{root}/></resolvers>
</ivysettings>
"""

_FETCH_SECONDS = 900.0  # measured: 60-80 s, nearly all of it one small file after the other
_PROGRESS_AFTER_SECONDS = 2.0
_CHECKPOINT = "bootstrap.checkpoint"


def cache_folder() -> Path:
    """Where Penstock keeps what it has fetched for this user."""
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
    """A checked set of Kafka's jars on disk, and the Java to run them with."""

    def __init__(self, folder: Path, java: Path) -> None:
        self.folder = folder
        self.java = java

    def classpath(self) -> str:
        return os.pathsep.join(str(self.folder / name) for name in pinned())

    def run_tool(
        self, main_class: str, *arguments: str, seconds: float = 60.0, jvm_options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's command line tools by its Java class and return its output, whatever its exit code."""
        command = [
            str(self.java),
            "-XX:+UseSerialGC",
            *jvm_options,
            "-cp",
            self.classpath(),
            main_class,
            *arguments,
        ]
        try:
            return subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedBrokerError(f"{main_class} did not end within {seconds:g} s") from error

    def bootstrap_checkpoint(self) -> bytes:
        """The first metadata of a cluster (feature levels), as `kafka-storage format` writes it for any cluster."""
        return (self.folder / _CHECKPOINT).read_bytes()


def distribution() -> Distribution:
    """Kafka's jars from the cache; fetched first where they are not there or not what they should be."""
    java = find_java()
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if damage(folder) is None:
        return Distribution(folder, java)
    with _progress() as progress, _lock(folder.with_name(folder.name + ".lock"), progress):
        if damage(folder) is not None:  # else another process was quicker
            _fetch(folder, java, progress)
    return Distribution(folder, java)


def damage(folder: Path) -> str | None:
    """What is wrong with a cached distribution, in words; None when all of it is what it should be.

    Hashing 43 MB takes 0.16 s, so it is done once per process and state of the files.
    """
    if not folder.is_dir():
        return "not there"
    try:
        stats = [(name, (folder / name).stat()) for name in (*pinned(), _CHECKPOINT)]
    except OSError as error:
        return f"{Path(str(error.filename)).name} is missing"
    if stats[-1][1].st_size == 0:
        return f"{_CHECKPOINT} is empty"
    return _wrong_jar(folder, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


@functools.lru_cache(maxsize=8)
def _wrong_jar(folder: Path, state: tuple[tuple[str, int, int], ...]) -> str | None:
    for name, digest in pinned().items():
        try:
            with (folder / name).open("rb") as jar:
                if hashlib.file_digest(jar, "sha256").hexdigest() != digest:
                    return f"{name} is not the one that was pinned"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _fetch(folder: Path, java: Path, progress: _Progress) -> None:
    """Fetch into a folder aside, check, format, rename into place. The caller holds the lock."""
    partial = folder.with_name(folder.name + ".partial")
    jars = partial / "jars"
    shutil.rmtree(jars, ignore_errors=True)
    jars.mkdir(parents=True)
    _run_ivy(partial, jars, java, progress)
    found = {path.name for path in jars.iterdir()}
    if wrong := _wrong_set(jars, found):
        shutil.rmtree(partial, ignore_errors=True)  # else the next try would find the same again
        raise EmbeddedBrokerError(
            f"the repository served another Kafka {KAFKA_VERSION} than the one that was pinned: {wrong}. Check "
            "PENSTOCK_MAVEN_REPOSITORY, or take it as a sign that somebody sits in between"
        )
    _make_checkpoint(Distribution(jars, java), partial)
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
    return _wrong_jar(jars, ())


def _run_ivy(partial: Path, jars: Path, java: Path, progress: _Progress) -> None:
    repository = os.environ.get("PENSTOCK_MAVEN_REPOSITORY", "")
    root = f" root={quoteattr(repository)}" if repository else ""
    settings = partial / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(root=root), "utf-8")
    modules = partial / "ivy.xml"
    modules.write_text(_MODULES, "utf-8")
    command: list[str | Path] = [
        *(java, *_proxy_options(), "-jar", _find_ivy()),
        *("-settings", os.environ.get("PENSTOCK_IVY_SETTINGS") or settings, "-cache", partial / "ivy"),
        *("-ivy", modules, "-confs", "default"),
        *("-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log = partial / "ivy.log"
    end = time.monotonic() + _FETCH_SECONDS
    with log.open("wb") as output:
        ivy = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while ivy.poll() is None:
                done = sum(1 for _ in (partial / "ivy").rglob("*.jar"))
                progress.show(f"fetching Apache Kafka {KAFKA_VERSION}, once: {done} of {len(pinned())} files")
                if time.monotonic() > end:
                    raise EmbeddedBrokerError(
                        f"fetching Apache Kafka {KAFKA_VERSION} took more than {_FETCH_SECONDS:g} s. What has come so "
                        "far is kept: try again, or set PENSTOCK_MAVEN_REPOSITORY to a nearer mirror"
                    )
                with contextlib.suppress(subprocess.TimeoutExpired):
                    ivy.wait(0.2)
        finally:
            if ivy.poll() is None:
                ivy.kill()
                ivy.wait()
    if ivy.returncode != 0 or not any(jars.iterdir()):
        where = _without_credentials(repository) or "Maven Central"
        raise EmbeddedBrokerError(
            f"Apache Kafka {KAFKA_VERSION} could not be fetched from {where}: {_ivy_reason(log)}. Check the network, or "
            "set PENSTOCK_MAVEN_REPOSITORY to a mirror's address (or PENSTOCK_IVY_SETTINGS to an Ivy settings file)"
        )


def _ivy_reason(log: Path) -> str:
    """Ivy's first line that says why; it prints a page."""
    text = log.read_text("utf-8", errors="replace")
    for pattern in (
        r"(?:Connection refused|UnknownHostException|Server access error|[Tt]imed out|SSLHandshake|PKIX)[^\n]*",
        r"(?:invalid sha1|FAILED DOWNLOAD|\[FAILED)[^\n]*",
        r"UNRESOLVED[^\n]*\n[^\n]*\n[^\n]*",
    ):
        if match := re.search(pattern, text):
            return _without_credentials(" ".join(match[0].replace(":", " ", 0).split()))[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _without_credentials(lines[-1])[:300] if lines else "Ivy said nothing"


def _without_credentials(text: str) -> str:
    return re.sub(r"//[^/@\s]+@", "//", text)


def _proxy_options() -> list[str]:
    """Java does not read HTTPS_PROXY and the like, which pip and so the user's shell go by."""
    options = []
    proxies = urllib.request.getproxies()
    for scheme in ("http", "https"):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    if options and (direct := proxies.get("no")):
        hosts = "|".join(
            f"*{host}" if host.startswith(".") else host for host in direct.replace(" ", "").split(",")
        )
        options.append(f"-Dhttp.nonProxyHosts={hosts}")
    return options


def _find_ivy() -> Path:
    """The Ivy jar inside PySpark. It is looked up, not imported: importing PySpark costs a second and starts things."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if spark_home := os.environ.get("SPARK_HOME"):
        homes.append(Path(spark_home))
    for home in homes:
        if jars := sorted((home / "jars").glob("ivy-*.jar")):
            return jars[-1]
    raise EmbeddedBrokerError(
        "the embedded broker is fetched with the Ivy jar that PySpark ships, and PySpark is not installed. Install it "
        "with: pip install 'penstock[spark]'"
    )


def _make_checkpoint(fetched: Distribution, partial: Path) -> None:
    """Let Kafka's own tool format a throw-away node, and keep the one file that is the same for every cluster."""
    scratch = partial / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    properties = scratch / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
        "listeners=CLIENT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=CLIENT\n"
        f"log.dirs={(scratch / 'data').as_posix()}\n",
        "utf-8",
    )
    ran = fetched.run_tool("kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", str(properties))
    made = scratch / "data" / _CHECKPOINT
    if ran.returncode != 0 or not made.is_file():
        raise EmbeddedBrokerError(
            f"kafka-storage could not format a node: {(ran.stderr or ran.stdout).strip()[-300:]}"
        )
    shutil.copyfile(made, fetched.folder / _CHECKPOINT)


class _Progress:
    """One line on a terminal's standard error, from the moment that the wait gets long; nothing elsewhere."""

    def __init__(self) -> None:
        self._from = time.monotonic() + _PROGRESS_AFTER_SECONDS
        self._shown = ""

    def show(self, text: str) -> None:
        if text != self._shown and time.monotonic() >= self._from and sys.stderr.isatty():
            self._shown = text
            sys.stderr.write(f"\r\x1b[Kpenstock: {text}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def _progress() -> Iterator[_Progress]:
    progress = _Progress()
    try:
        yield progress
    finally:
        progress.clear()


@contextlib.contextmanager
def _lock(path: Path, progress: _Progress) -> Iterator[None]:
    """One fetching process per cache. The system drops the lock when its holder dies, so it is never stale."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise EmbeddedBrokerError(
            f"the cache folder {path.parent} cannot be written: {error.strerror}. Set PENSTOCK_CACHE to one that can"
        ) from error
    with file:
        end = time.monotonic() + _FETCH_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.show(f"waiting for another process to fetch Apache Kafka {KAFKA_VERSION}")
                if time.monotonic() > end:
                    raise EmbeddedBrokerError(
                        f"another process has held {path} for {_FETCH_SECONDS:g} s. End it and try again"
                    ) from None
                time.sleep(0.1)
        yield
