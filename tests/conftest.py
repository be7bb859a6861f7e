"""Loads the fixtures, one plugin per subject, sorts long files first, and prints the versions under test.

Workers of pytest-xdist take whole files, or single tests of some.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support import kafka_jvm, spark_jvm

# No deadline per example: a busy machine is not a bug, and pytest-timeout ends tests that hang.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run, so that a failure comes from the change. `make test` tries a third of them, and
# `make test-all` all: `thorough`. `--hypothesis-profile=explore` finds new ones.
settings.register_profile("thorough", settings.get_profile("explore"), derandomize=True)
settings.register_profile("penstock", settings.get_profile("thorough"), max_examples=34)
settings.load_profile("penstock")

pytest_plugins = sorted(f"fixtures.{path.stem}" for path in (Path(__file__).parent / "fixtures").glob("[a-z]*.py"))


os.environ.update(spark_jvm.ENVIRONMENT | kafka_jvm.ENVIRONMENT)

# A runner in the background ignores SIGINT. The programs under test inherit that, but they must react to it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    from penstock import _kernel
    from penstock.testing import KAFKA_VERSION

    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("pyspark", "pyarrow", "kafka-python"))
    return [
        f"penstock: {metadata.version('penstock')}, kernel {_kernel.__version__} ({_kernel.__file__})",
        f"against: Apache Kafka {KAFKA_VERSION}, {java_version()}, {packages}, {platform.platform()}",
    ]


def java_version() -> str:
    from penstock.errors import PenstockError
    from penstock.testing.java import find_java

    try:
        ran = subprocess.run([find_java(), "-version"], capture_output=True, text=True, timeout=120, check=False)
    except (PenstockError, subprocess.TimeoutExpired) as error:
        return f"no Java ({error})"
    return ran.stderr.splitlines()[0]


TESTS = Path(__file__).parent

EXTENDED = (
    "chaos",
    "integration/consumer/group/test_membership_failures.py",
    "integration/consumer/group/test_membership_mixed.py",
    "integration/planner/test_truncation.py",
    "integration/reader/test_range_reader_failures.py",
    "integration/test_consumer_docs.py",
    "integration/test_streamer_example.py",
    "integration/wire/test_brokers_hanging.py",
    "integration/wire/transport/test_gssapi_login.py",
    "integration/wire/transport/test_kerberos_credentials.py",
    "spark/test_against_jvm_sink.py",
    "spark/test_against_jvm_source.py",
    "spark/test_against_to_avro.py",
    "spark/test_checkpoint_migration.py",
    "spark/test_connect.py",
    "spark/test_docs.py",
    "spark/test_logins.py",
    "spark/test_sail.py",
    "spark/test_standalone_cluster.py",
    "spark/test_tables_in_spark.py",
    "spark/test_tour.py",
    "spark/test_versions.py",
)
"""Folders and files that `make test-all` runs and `make test` skips. CONTRIBUTING.md lists them, too."""

LONG = (
    "spark/test_versions.py",
    "spark/test_checkpoint_migration.py",
    "chaos/test_exactly_once_steps.py",
    "chaos/test_consumer_rebalances.py",
    "spark/test_standalone_cluster.py",
    "chaos/test_consumer_brokers.py",
    "chaos/test_exactly_once_brokers.py",
    "chaos/test_exactly_once_tasks.py",
    "chaos/test_exactly_once_writer.py",
    "chaos/test_exactly_once.py",
    "chaos/test_killed_driver.py",
    "chaos/test_killed_workers.py",
    "chaos/test_atomic_writes.py",
    "chaos/test_brokers.py",
    "spark/test_docs.py",
    "spark/test_logins.py",
    "spark/test_stream.py",
    "spark/test_sink_restarts.py",
    "integration/testing/test_cluster.py",
    "spark/test_event_time.py",
    "spark/test_typed_source.py",
    "spark/test_secrets.py",
    "spark/test_connect.py",
    "spark/test_batch.py",
    "integration/wire/producer/test_producer.py",
    "spark/test_sink.py",
    "integration/planner/test_stream_losses.py",
    "integration/wire/test_cluster_offsets.py",
    "spark/test_sql.py",
    "integration/cli/test_stream.py",
    "spark/test_stream_reports.py",
    "integration/planner/test_stream.py",
    "spark/test_stream_restarts.py",
    "integration/streamer/test_streamer_tables.py",
    "integration/streamer/test_streamer.py",
)
"""Files that take half a minute or more run first. A worker takes a whole file: a long one at the end would leave the
other workers idle. Files that start several Sparks alternate with files that mostly wait for brokers, because two of
the first kind compete for the cores, and two of the second kind leave them idle."""

BY_TEST = (
    "chaos/test_atomic_writes.py",
    "chaos/test_consumer_rebalances.py",
    "chaos/test_consumer_topics.py",
    "chaos/test_exactly_once.py",
    "chaos/test_exactly_once_brokers.py",
    "chaos/test_exactly_once_steps.py",
    "chaos/test_exactly_once_writer.py",
    "chaos/test_killed_driver.py",
    "chaos/test_killed_workers.py",
)
"""Files of which workers take single tests: each takes minutes, and they share no fixture of a module."""


@cache
def is_extended(path: Path) -> bool:
    return any(TESTS / name in (path, *path.parents) for name in EXTENDED)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests before `-m` selects, and run long files first: after pytest-randomly has shuffled them."""
    for item in items:
        if is_extended(item.path):
            item.add_marker("extended")
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"kafka", "kafka_cluster"}:
            item.add_marker("broker")
        if "spark" in fixtures:
            item.add_marker("spark")
    yield
    turns = {TESTS / name: turn for turn, name in enumerate(LONG)}
    items.sort(key=lambda item: turns.get(item.path, len(LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, with the exceptions of BY_TEST."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return nodeid if file.removeprefix("tests/") in BY_TEST else file

    return Scheduling(config, log)
