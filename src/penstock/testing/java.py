"""Finds Java and checks its version."""

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

_HINT = f"Install Java {OLDEST_JAVA} or newer, or set JAVA_HOME to one"


def find_java() -> Path:
    """The `java` of JAVA_HOME, or the first on the PATH. Its version is checked once per process and path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise EmbeddedBrokerError(f"JAVA_HOME is {home}, which has no bin/java. {_HINT}")
    else:
        found = shutil.which("java")
        if found is None:
            raise EmbeddedBrokerError(f"there is no java on the PATH, and JAVA_HOME is not set. {_HINT}")
        java = Path(found)
    _check_version(java)
    return java


def find_keytool(java: Path) -> Path:
    """The `keytool` of this Java: every JRE and JDK has one."""
    for keytool in (java.parent / "keytool", java.resolve().parent / "keytool"):
        if os.access(keytool, os.X_OK):
            return keytool
    raise EmbeddedBrokerError(f"{java} has no keytool, which is needed for certificates. {_HINT}")


def _check_version(java: Path) -> None:
    found = java_version(java)
    release = int(found.removeprefix("1.").partition(".")[0])
    if release < OLDEST_JAVA:
        raise EmbeddedBrokerError(f"{java} is Java {release}, too old for Kafka 4. {_HINT}")


@functools.cache
def java_version(java: Path) -> str:
    """The version that this Java prints, such as 17.0.9. Asked once per process and path."""
    try:
        answer = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedBrokerError(f"{java} does not run: {error}. {_HINT}") from error
    output = (answer.stderr + answer.stdout).strip()
    # macOS has a /usr/bin/java that only prints that Java is missing: check the exit code, not the file.
    if answer.returncode != 0:
        raise EmbeddedBrokerError(f"{java} does not run: {output.splitlines()[0] if output else 'no output'}. {_HINT}")
    match = re.search(r'version "(\d+(?:\.\d+)*)', output)
    if match is None:
        raise EmbeddedBrokerError(f"{java} does not print its version. {_HINT}")
    return match[1]
