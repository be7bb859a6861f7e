"""Fixtures: Spark's own Kafka source, in an environment of its own, to hold Penstock against and to change places with.

The environment (PySpark 4.2.0 and four jars) is made once and kept in the user's cache folder. Where it cannot be made
the tests are skipped, and the reason says what could not be fetched.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.processes import Driver, clean_environment

sys.path.insert(0, str(Path(__file__).parent.parent))  # for benchmarks, which is no package to install

from benchmarks.environments import EnvironmentMissing, Rival
from benchmarks.environments import jvm_source as make_environment

QUERY_SECONDS = 600

# Every query in one process: starting Spark takes longer than all of them together.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

order = json.load(sys.stdin)
builder = SparkSession.builder.master("local[2]").config("spark.jars", order["jars"])
for name, value in order["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
outcomes = {}
for name, options in order["queries"].items():
    try:
        frame = spark.read.format("kafka").options(**options).load()
        frame.write.parquet(order["folder"] + "/" + name)
        outcomes[name] = {"schema": frame.schema.json(), "error": None}
    except Exception as error:
        outcomes[name] = {"schema": None, "error": str(error)[:2000]}
with open(order["folder"] + "/outcomes.json", "w") as file:
    json.dump(outcomes, file)
spark.stop()
"""

SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one query: the schema and where the rows are, or the error."""

    schema: str | None
    rows: Path
    error: str | None


@pytest.fixture(scope="session")
def jvm_environment() -> Rival:
    try:
        return make_environment(lambda text: None)
    except EnvironmentMissing as missing:
        pytest.skip(f"Spark's own Kafka source cannot be had here: {missing}")


@pytest.fixture(scope="session")
def jvm_source(
    jvm_environment: Rival, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mapping[str, Mapping[str, str]]], dict[str, Outcome]]:
    """`jvm_source({"name": options})` runs every query with Spark's own source; outcomes by name."""

    def run(queries: Mapping[str, Mapping[str, str]]) -> dict[str, Outcome]:
        folder = tmp_path_factory.mktemp("jvm-source")
        order = {
            "queries": queries,
            "folder": str(folder),
            "jars": ",".join(str(jar) for jar in jvm_environment.jars),
            "settings": SETTINGS | {"spark.local.dir": str(folder / "local")},
        }
        # What says which Spark to run says it of the one under test.
        ran = subprocess.run(
            [str(jvm_environment.python), "-c", PROGRAM],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=QUERY_SECONDS,
            cwd=folder,
            env=clean_environment(),
        )
        assert ran.returncode == 0, f"Spark's own source did not run: {ran.stderr[-3000:]}"
        outcomes = json.loads((folder / "outcomes.json").read_text())
        return {name: Outcome(one["schema"], folder / name, one["error"]) for name, one in outcomes.items()}

    return run


@pytest.fixture(scope="session")
def both_sources(jvm_environment: Rival, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Driver]:
    """`both_sources(steps, folder)` is a driver on the PySpark of Spark's own source that has Penstock too.

    Installed there it would be built once more, and the benchmarks' rival would no longer be alone. So it is linked:
    the same interpreter made both environments.
    """
    linked = tmp_path_factory.mktemp("penstock-beside")
    for name in ("penstock", "pyspark_penstock", "pyarrow", "kafka"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        (linked / name).symlink_to(Path(found.origin).parent)

    def start(steps: Sequence[Mapping[str, Any]], folder: Path, name: str = "driver") -> Driver:
        jars = ",".join(str(jar) for jar in jvm_environment.jars)
        return Driver(
            steps,
            folder,
            name=name,
            python=jvm_environment.python,
            settings={"spark.jars": jars},
            environment={"PYTHONPATH": str(linked)},
        )

    return start
