"""Downloads from a Maven repository with the Ivy jar that PySpark ships.

PENSTOCK_MAVEN_REPOSITORY      the address of a mirror, instead of Maven Central
PENSTOCK_IVY_SETTINGS          an Ivy settings file, for a login or several mirrors
HTTPS_PROXY, NO_PROXY, ...     as for pip
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from penstock.errors import EmbeddedBrokerError

FETCH_SECONDS = 900.0  # measured: 40-80 s for 47 jars, which are downloaded one after the other

# Without a root this resolver uses Maven Central.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="repository"/>
  <property name="ivy.checksums" value="sha1"/>
  <timeout-constraints>
    <timeout-constraint name="timeouts" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="repository" m2compatible="true" timeoutConstraint="timeouts"{options}/></resolvers>
</ivysettings>
"""

# Ivy prints a page; the first match in it is the reason.
_REASONS = (
    r"(?:Connection refused|UnknownHost|Server access error|[Tt]imed out|SSLHandshake|PKIX)[^\n]*",
    r"(?:invalid sha1|FAILED DOWNLOAD|\[FAILED)[^\n]*",
    r"[^\n]*: not found",
    r"(?:Error|Exception|error)[^\n]*",
)


def retrieve(
    what: str,
    modules: str,
    into: Path,
    work_dir: Path,
    java: Path,
    tick: Callable[[int], None],
    *,
    read_poms: bool = True,
) -> None:
    """Copy the jars of an ivy.xml (`modules`) `into` a folder, with their dependencies unless `read_poms` is false.

    `tick` is called several times a second with the number of jars so far. `work_dir` has Ivy's cache: with the same
    folder an interrupted download continues.
    """
    mirror = os.environ.get("PENSTOCK_MAVEN_REPOSITORY", "")
    settings = work_dir / "ivysettings.xml"
    options = f" root={quoteattr(mirror)}" if mirror else ""
    options += "" if read_poms else ' usepoms="false"'
    settings.write_text(_SETTINGS.format(options=options), "utf-8")
    settings_chosen = os.environ.get("PENSTOCK_IVY_SETTINGS")
    module_file = work_dir / "ivy.xml"
    module_file.write_text(modules, "utf-8")
    cache = work_dir / "ivy"
    command = [str(java), *_proxy_options(), "-jar", str(_find_ivy())]
    command += ["-settings", settings_chosen or str(settings), "-cache", str(cache)]
    command += ["-ivy", str(module_file), "-confs", "default"]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    log = work_dir / "ivy.log"
    with log.open("wb") as output:
        ended = _run(command, output.fileno(), lambda: tick(sum(1 for _ in cache.rglob("*.jar"))))
    if ended is None:
        raise EmbeddedBrokerError(
            f"downloading {what} took more than {FETCH_SECONDS:g} s. The files so far are kept: try again, "
            "or set PENSTOCK_MAVEN_REPOSITORY to a nearer mirror"
        )
    if ended != 0 or not any(into.iterdir()):
        where = settings_chosen or without_credentials(mirror) or "Maven Central"
        raise EmbeddedBrokerError(
            f"{what} could not be downloaded from {where}: {_reason(log)}. Check the network, or set "
            "PENSTOCK_MAVEN_REPOSITORY to a mirror's address (PENSTOCK_IVY_SETTINGS to an Ivy settings file)"
        )


def without_credentials(text: str) -> str:
    return re.sub(r"//[^/@\s]+@", "//", text)


def _run(command: list[str], output: int, tick: Callable[[], None]) -> int | None:
    """The exit code; None after the time-out."""
    end = time.monotonic() + FETCH_SECONDS
    ivy = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )
    try:
        while ivy.poll() is None and time.monotonic() < end:
            tick()
            with contextlib.suppress(subprocess.TimeoutExpired):
                ivy.wait(0.2)
        return ivy.poll()
    finally:
        if ivy.poll() is None:
            ivy.kill()
            ivy.wait()


def _reason(log: Path) -> str:
    text = log.read_text("utf-8", errors="replace")
    for pattern in _REASONS:
        if match := re.search(pattern, text):
            return without_credentials(" ".join(match[0].split()))[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_credentials(lines[-1])[:300] if lines else "Ivy printed nothing"


def _proxy_options() -> list[str]:
    """The proxies of the environment as Java options: Java does not read these variables."""
    options = []
    proxies = urllib.request.getproxies()
    for scheme in ("http", "https"):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    if options and (direct := proxies.get("no")):
        hosts = [f"*{host}" if host.startswith(".") else host for host in direct.replace(" ", "").split(",")]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def _find_ivy() -> Path:
    """Find the Ivy jar without importing PySpark: the import is slow, and only `spark/` may."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if spark_home := os.environ.get("SPARK_HOME"):
        homes.append(Path(spark_home))
    for home in homes:
        if jars := sorted((home / "jars").glob("ivy-*.jar")):
            return jars[-1]
    raise EmbeddedBrokerError(
        "the embedded broker is downloaded with the Ivy jar of PySpark, and PySpark is not installed. "
        "Install it with: pip install 'penstock[spark]'"
    )
