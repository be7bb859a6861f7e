"""Brokers start quickly: a run of all tests starts some two hundred nodes, most of them for seconds.

As Spark's Java machines do (spark_jvm.py), they take their classes parsed and checked from an archive: 1.6 s of CPU
until a node is ready, where it was 2.5.

`python -m support.kafka_jvm` writes the archive; `make test` does that once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from support.spark_jvm import SILENT

ARCHIVE = Path(sys.prefix) / "kafka.jsa"
ENVIRONMENT = {"PENSTOCK_KAFKA_OPTS": " ".join([f'-XX:SharedArchiveFile="{ARCHIVE}"', *SILENT])}


def main() -> None:
    """Have a broker keep the classes that it has loaded. Not all can: an empty archive says that it was tried."""
    from penstock import EmbeddedKafka
    from penstock.errors import PenstockError
    from penstock.testing.cluster import QUICK_START

    unfinished = ARCHIVE.with_suffix(".partial")
    unfinished.unlink(missing_ok=True)
    options = (*QUICK_START, f"-XX:ArchiveClassesAtExit={unfinished}", *SILENT)
    # With a folder of its own: only then a broker is stopped in peace, and the archive is written when it ends.
    said = "the broker wrote none"
    try:
        with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(data_dir=folder, jvm_options=options) as kafka:
            kafka.create_topic("classes", 3)
    except PenstockError as error:  # it only saves time: if no broker starts at all, tests will say so
        said = str(error)
    if not unfinished.exists():
        sys.stderr.write(f"No archive of Kafka's classes, so tests take longer: {said}\n")
        unfinished.touch()
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    main()
