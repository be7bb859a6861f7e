"""Brokers of older Kafka versions, started like the embedded one."""

from __future__ import annotations

import shutil
from pathlib import Path

from fixtures.broker import SETTINGS
from penstock.progress import Progress
from penstock.testing import Distribution, EmbeddedKafka, ivy
from penstock.testing.distribution import cache_folder, fetch_lock, make_checkpoint
from penstock.testing.java import find_java

OLD_VERSIONS = ("3.3.2", "3.9.1", "4.0.0")
"""The first minor version with KRaft for production, the last Kafka 3, the first Kafka 4. In Kafka 2.8 KRaft is only a
preview: it would need a ZooKeeper."""

# Kafka 3 calls log4j 1 by name: the bridge accepts that, so all versions log by the configuration of the embedded one.
_MODULES = """\
<ivy-module version="2.0">
  <info organisation="penstock" module="old-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-1.2-api" rev="2.25.4" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def old_distribution(version: str) -> Distribution:
    """The jars of this version from the cache; downloaded first if they are missing (40 to 50 MB)."""
    name, java = f"Apache Kafka {version}", find_java()
    folder = cache_folder() / f"kafka-{version}"
    with Progress() as progress, fetch_lock(folder.with_name(folder.name + ".lock"), name, progress):
        if not folder.is_dir():
            partial = folder.with_name(folder.name + ".partial")
            jars = partial / "jars"
            shutil.rmtree(jars, ignore_errors=True)
            jars.mkdir(parents=True)
            modules = _MODULES.format(version=version)
            ivy.retrieve(name, modules, jars, partial, java, lambda done: progress.show(f"fetching {name}: {done}"))
            make_checkpoint(Distribution(jars, java, _jars_in(jars)), partial)
            jars.rename(folder)
            shutil.rmtree(partial, ignore_errors=True)
    return Distribution(folder, java, _jars_in(folder))


def _jars_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jar"))


def old_broker(version: str) -> EmbeddedKafka:
    """One node of this version, PLAINTEXT. Starts as a `with` block."""
    settings = SETTINGS | {"broker.session.timeout.ms": 120_000}
    return EmbeddedKafka(settings=settings, distribution=old_distribution(version))
