"""Makes brokers start faster: a run of all tests starts about two hundred nodes, most of them for seconds.

Brokers load their classes from a class data sharing archive, as Spark's JVMs do (spark_jvm.py): 1.6 s of CPU time until
a node is ready, instead of 2.5 s.

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
    """Let a broker archive its loaded classes. Not every JVM can: an empty archive marks a failed attempt."""
    from penstock import EmbeddedKafka
    from penstock.errors import PenstockError
    from penstock.testing.cluster import QUICK_START

    unfinished = ARCHIVE.with_suffix(".partial")
    unfinished.unlink(missing_ok=True)
    options = (*QUICK_START, f"-XX:ArchiveClassesAtExit={unfinished}", *SILENT)
    # With a folder of its own: only then the broker is stopped cleanly, and the archive is written at its exit.
    reason = "the broker wrote none"
    try:
        with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(data_dir=folder, jvm_options=options) as kafka:
            kafka.create_topic("classes", 3)
    except PenstockError as error:  # the archive only saves time; if no broker starts, tests fail anyway
        reason = str(error)
    if not unfinished.exists():
        sys.stderr.write(f"No archive of Kafka's classes, so tests take longer: {reason}\n")
        unfinished.touch()
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    main()
