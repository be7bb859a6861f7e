"""Apicurio Registry, a schema registry with Confluent's API, for tests. Downloaded like the embedded Kafka.

    <cache>/apicurio-3.0.9/        its jars, unpacked; 115 MB
    <cache>/apicurio-3.0.9.lock    held by the process that downloads it

One archive with a pinned SHA-256. The folder appears by a rename once it is complete.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.progress import Progress
from penstock.testing import ivy
from penstock.testing.distribution import cache_folder, fetch_lock
from penstock.testing.java import find_java

APICURIO_VERSION = "3.0.9"
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_NAME = f"Apicurio Registry {APICURIO_VERSION}"
_RUNNER = f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar"

# Without its POM: a repository that lacks the parent POM fails to resolve it, and the archive has no dependencies.
_MODULES = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="penstock" module="registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{APICURIO_VERSION}" conf="default->default"
                transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def get_apicurio() -> Path:
    """The jar to run, from the cache; downloaded first if it is missing (104 MB)."""
    folder = cache_folder() / f"apicurio-{APICURIO_VERSION}"
    runner = folder / _RUNNER
    if not runner.is_file():
        with Progress() as progress, fetch_lock(folder.with_name(folder.name + ".lock"), _NAME, progress):
            if not runner.is_file():  # otherwise another process downloaded it
                _fetch(folder, progress)
    return runner


def _fetch(folder: Path, progress: Progress) -> None:
    """Download and unpack into a temporary folder, then rename. The caller holds the lock."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    fetched, unpacked = partial / "fetched", partial / "unpacked"
    fetched.mkdir(parents=True)
    try:
        ivy.retrieve(
            _NAME,
            _MODULES,
            fetched,
            partial,
            find_java(),
            lambda _: progress.show(f"fetching {_NAME}, once"),
            read_poms=False,
        )
        [archive] = fetched.iterdir()
        with archive.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
                raise EmbeddedBrokerError(
                    f"the SHA-256 of {_NAME} differs from the pinned one. Check "
                    "PENSTOCK_MAVEN_REPOSITORY; the file may have been changed on its way"
                )
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        if folder.exists():
            shutil.rmtree(folder)
        unpacked.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
