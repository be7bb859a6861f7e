"""Where Java is and whether it is new enough."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.errors import EmbeddedBrokerError

OLDEST_JAVA = 17
"""Kafka 4 brokers are compiled for Java 17, as is Spark 4."""

_WAY_OUT = f"Install Java {OLDEST_JAVA} or newer, or point JAVA_HOME at one"


def find_java() -> Path:
    """The `java` of JAVA_HOME, or the first on the PATH; checked once per process and path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise EmbeddedBrokerError(f"JAVA_HOME is {home}, and there is no bin/java in it. {_WAY_OUT}")
    else:
        found = shutil.which("java")
        if found is None:
            raise EmbeddedBrokerError(f"no java on the PATH and JAVA_HOME is not set. {_WAY_OUT}")
        java = Path(found)
    _check_version(java)
    return java


def find_keytool(java: Path) -> Path:
    """The `keytool` that belongs to this Java: every JRE and JDK has one."""
    for keytool in (java.parent / "keytool", java.resolve().parent / "keytool"):
        if os.access(keytool, os.X_OK):
            return keytool
    raise EmbeddedBrokerError(f"{java} has no keytool beside it, and certificates need one. {_WAY_OUT}")


@functools.cache
def _check_version(java: Path) -> None:
    try:
        answer = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedBrokerError(f"{java} does not run: {error}. {_WAY_OUT}") from error
    said = (answer.stderr + answer.stdout).strip()
    # macOS ships a /usr/bin/java that only says that there is none: the exit code decides, not the file.
    if answer.returncode != 0:
        raise EmbeddedBrokerError(f"{java} does not run: {said.splitlines()[0] if said else '?'}. {_WAY_OUT}")
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise EmbeddedBrokerError(f"{java} does not tell its version. {_WAY_OUT}")
    if int(match[1]) < OLDEST_JAVA:
        raise EmbeddedBrokerError(f"{java} is Java {match[1]}, too old for Kafka 4. {_WAY_OUT}")
