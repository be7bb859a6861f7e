"""Brokers of older Kafka versions, started like the embedded one.

`python -m support.old_brokers` fetches those that are missing, with a line for each: pytest would hide the progress.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from fixtures.broker import SETTINGS
from penstock.progress import Progress
from penstock.testing import KAFKA_VERSION, Distribution, EmbeddedKafka, get_distribution, ivy
from penstock.testing.distribution import cache_folder, fetch_lock, make_checkpoint
from penstock.testing.java import find_java
from support.zookeeper import ZooKeeperKafka

OLD_VERSIONS = ("2.8.2", "3.3.2", "3.9.1", "4.0.0")
"""The last Kafka 2, the first minor version with KRaft for production, the last Kafka 3, the first Kafka 4."""

VERSIONS = (*OLD_VERSIONS, KAFKA_VERSION)

BEFORE_KRAFT = frozenset({"2.8.2"})
"""They start with a ZooKeeper, which is among their jars."""

# Kafka 2 and 3 call log4j 1 by name: the bridge accepts that, so all versions log by the configuration of the embedded
# one.
_MODULES = """\
<ivy-module version="2.0">
  <info organisation="penstock" module="old-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-1.2-api" rev="2.25.4" conf="default->default"/>
    <exclude org="log4j" module="log4j"/>
    <exclude org="ch.qos.reload4j"/>
    <exclude org="org.slf4j" module="slf4j-log4j12"/>
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
  </dependencies>
</ivy-module>
"""


def old_distribution(version: str) -> Distribution:
    """The jars of this version from the cache; downloaded first if they are missing (40 to 50 MB)."""
    if version == KAFKA_VERSION:
        return get_distribution()
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
            if version in BEFORE_KRAFT:
                (jars / "bootstrap.checkpoint").touch()  # nodes need none
            else:
                make_checkpoint(Distribution(jars, java, _jars_in(jars)), partial)
            jars.rename(folder)
            shutil.rmtree(partial, ignore_errors=True)
    return Distribution(folder, java, _jars_in(folder))


def _jars_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jar"))


def old_broker(version: str) -> EmbeddedKafka:
    """One node of this version, PLAINTEXT. Starts as a `with` block."""
    settings = SETTINGS | {
        "broker.session.timeout.ms": 120_000,
        # Tests wait for transactions that time out.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }
    kind = ZooKeeperKafka if version in BEFORE_KRAFT else EmbeddedKafka
    return kind(settings=settings, distribution=old_distribution(version))


def main() -> None:
    for version in OLD_VERSIONS:
        if not (cache_folder() / f"kafka-{version}").is_dir():
            sys.stdout.write(f"\n==> Apache Kafka {version}, about 40 MB, once for this user\n")
            sys.stdout.flush()
            old_distribution(version)


if __name__ == "__main__":
    main()
