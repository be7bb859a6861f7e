"""Passwords in options: in no event log (which Spark's UI is made of), no log, no checkpoint, no process's arguments
and no environment, while queries run with them and when they fail."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from chaos.processes import RUN_SECONDS, Driver
from fixtures.produce import DELIVERY_SECONDS, Rec, rdkafka, send
from penstock.testing import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.broker]

SECRETS = ("zanzibar-4711", "zanzibar-4712")

NO_REGISTRY = {
    "valueFormat": "avro",
    "schemaRegistry.url": "http://127.0.0.1:1",
    "schemaRegistry.basic.auth.user.info": f"me:{SECRETS[1]}",
}


def listed(pids: list[int]) -> set[str]:
    """What other users on the machine, or the same user, can see of these processes."""
    found = set()
    for pid in pids:
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):  # it has ended
                found.add(Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.fixture
def guarded():
    """A broker that asks for a password, with a topic `t` of a hundred records."""
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"me": SECRETS[0]}) as cluster:
        cluster.create_topic("t", 2)
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": SECRETS[0]}
        options = rdkafka(cluster.client_options(prefix=""), **login, **{"security.protocol": "SASL_PLAINTEXT"})
        producer = Producer(options)
        send(producer, "t", [Rec(b"value %d" % i, partition=i % 2) for i in range(100)])
        assert producer.flush(DELIVERY_SECONDS) == 0
        yield cluster


@pytest.mark.timeout(600)
def test_passwords_show_nowhere_while_queries_run_and_when_they_fail(guarded, tmp_path):
    options = guarded.client_options() | {"subscribe": "t", "startingOffsets": "earliest"}
    assert SECRETS[0] in options["kafka.sasl.jaas.config"]
    events = tmp_path / "events"
    events.mkdir()
    steps = [
        {"do": "read", "format": "penstock", "options": options, "path": str(tmp_path / "read")},
        {
            "do": "stream",
            "format": "penstock",
            "options": options | {"maxOffsetsPerTrigger": "20"},
            "path": str(tmp_path / "stream"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "trigger": {"availableNow": True},
        },
        {"do": "read", "format": "penstock", "options": options | NO_REGISTRY, "path": str(tmp_path / "none")},
    ]
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    processes: set[str] = set()
    deadline = time.monotonic() + RUN_SECONDS
    with Driver(steps, tmp_path, settings=settings) as driver:
        while driver.running:
            assert time.monotonic() < deadline, driver.log()[-3000:]
            processes |= listed(driver.members())
            time.sleep(0.02)
        read, batches = driver.answered()
        assert (read, sum(each["rows"] for each in batches)) == (100, 100)
        log = driver.log()
    assert "http://127.0.0.1:1: connection refused" in log, "the last query has failed"
    kept = "".join(path.read_text(errors="replace") for path in events.rglob("*") if path.is_file())
    kept += "".join(path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file())
    assert "physicalPlanDescription" in kept
    assert '{"t": {"0": ' in kept, "the checkpoint's offsets"
    assert any("pyspark.daemon" in each for each in processes)
    for secret in SECRETS:
        assert secret not in kept
        assert secret not in log
        assert not [each for each in processes if secret in each]
