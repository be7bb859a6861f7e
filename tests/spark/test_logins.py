"""Logins in all processes of Spark, over several lifetimes of their tokens and tickets: Java's stores with the user's
own token function, and Kerberos. No secret shows in a plan, an event log, a log, a checkpoint or a process list."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import penstock
from chaos.processes import Driver
from penstock.testing import EmbeddedKafka
from spark.test_secrets import listed
from support.java_stores import store_options
from support.kdc import SERVICE, Kdc, by_keytab, kerberos_broker, kerberos_options
from support.signed_tokens import MODULE, checking_broker, new_key

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]

RUN_SECONDS = 600.0
ROWS = 100
TOKEN_SECONDS = 6
SKEW_SECONDS = 5
"""The broker refuses a token this long after its end: its default is half a minute."""

BATCHES = 25
"""Of a second at least: longer than a token or ticket is accepted."""

STORE, KEY, ENTRY = "zanzibar-4721", "zanzibar-4722", "zanzibar-4723"

FUNCTION = f"""
import json, os, time
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from support.signed_tokens import signed

HERE = Path(__file__).parent


def get(entries):
    assert entries == {{"password": "{ENTRY}"}}
    token = signed(load_pem_private_key((HERE / "key.pem").read_bytes(), None), exp=int(time.time()) + {TOKEN_SECONDS})
    with (HERE / "tokens").open("a") as file:
        file.write(json.dumps([os.getpid(), token]) + "\\n")
    return token
"""


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """For a driver that runs this Penstock, with these folders on its path and on that of its workers."""
    paths = [*folders, Path(penstock.__file__).parents[1], Path(__file__).parents[1]]
    return {"PYTHONPATH": os.pathsep.join(map(str, paths)), **more}


def fill(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("t", 2)
    with penstock.Writer(kafka.client_options() | {"topic": "t"}) as writer:
        writer.write(pa.table({"value": [f"value {i}" for i in range(ROWS)]}))


class Run:
    """A batch and a stream of many batches in one Spark, while records are written. Keeps what others can see of it."""

    def __init__(
        self,
        kafka: EmbeddedKafka,
        of_batch: dict[str, str],
        of_stream: dict[str, str],
        folder: Path,
        variables: dict[str, str],
    ) -> None:
        """Options of the batch and of the stream, and variables of the environment."""
        topic = {"subscribe": "t", "startingOffsets": "earliest"}
        steps = [
            {"do": "read", "format": "penstock", "options": of_batch | topic, "path": str(folder / "read")},
            {
                "do": "stream",
                "format": "penstock",
                "options": of_stream | topic,
                "path": str(folder / "stream"),
                "checkpoint": str(folder / "checkpoint"),
                "trigger": {"processingTime": "1 second"},
                "batches": BATCHES,
            },
        ]
        events = folder / "events"
        events.mkdir()
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
        }
        self.processes: set[str] = set()
        deadline = time.monotonic() + RUN_SECONDS
        with (
            Driver(steps, folder, settings=settings, environment=variables) as driver,
            penstock.Writer(kafka.client_options() | {"topic": "t"}) as writer,
        ):
            while driver.running:
                assert time.monotonic() < deadline, driver.log()[-3000:]
                self.processes |= listed(driver.members())
                writer.write(pa.table({"value": ["more", "and more"]}))
                writer.flush()
                time.sleep(0.2)
            self.log = driver.log()
            self.answers = driver.answered()
        kept = [path for name in ("events", "checkpoint") for path in (folder / name).rglob("*") if path.is_file()]
        self.kept = "".join(path.read_text(errors="replace") for path in kept)

    def check(self) -> None:
        assert len(self.answers) == 2, self.log[-4000:]
        read, batches = self.answers
        assert read >= ROWS
        assert len(batches) >= BATCHES
        assert sum(each["rows"] for each in batches) >= ROWS + BATCHES - 1

    def check_hidden(self, *secrets: str) -> None:
        assert "physicalPlanDescription" in self.kept
        assert any("pyspark.daemon" in each for each in self.processes)
        for secret in secrets:
            assert secret not in self.kept
            assert secret not in self.log
            assert not [each for each in self.processes if secret in each]


@pytest.fixture
def tokens(tmp_path) -> Iterator[Callable[[], list[tuple[int, str]]]]:
    """Puts the module `own_tokens` into a folder. Returns a function that lists process and token of each call."""
    (tmp_path / "own_tokens.py").write_text(FUNCTION)
    file = tmp_path / "tokens"

    def issued() -> list[tuple[int, str]]:
        return [tuple(json.loads(line)) for line in file.read_text().splitlines()]

    return issued


def test_javas_stores_and_a_function_that_returns_short_lived_tokens(tmp_path, tokens):
    """The batch with JKS, the stream with PKCS12."""
    key = new_key()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    settings, option = checking_broker(key, tmp_path)
    settings["listener.name.client.oauthbearer.sasl.oauthbearer.clock.skew.seconds"] = str(SKEW_SECONDS)
    with EmbeddedKafka(
        listener="SASL_SSL", users={"me": None}, client_auth=True, settings=settings, jvm_options=(option,)
    ) as kafka:
        fill(kafka)
        for kind in ("JKS", "PKCS12"):
            (tmp_path / kind).mkdir()
        jks = store_options(kafka, "JKS", tmp_path / "JKS", STORE, KEY)
        pkcs12 = store_options(kafka, "PKCS12", tmp_path / "PKCS12", STORE)
        login = {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": f'{MODULE} password="{ENTRY}";',
            "kafka.sasl.login.callback.handler.class": "own_tokens:get",
        }
        run = Run(kafka, jks | login, pkcs12 | login, tmp_path, environment(tmp_path))
    run.check()
    by_process: dict[int, set[str]] = {}
    for process, token in tokens():
        by_process.setdefault(process, set()).add(token)
    lived = sorted(map(len, by_process.values()))
    assert len(lived) >= 3, "a planner of the batch, one of the stream, and workers"
    assert lived[-2] >= 3, f"planner and worker of the stream outlive their tokens: {lived}"
    run.check_hidden(STORE, KEY, ENTRY, *(token.rpartition(".")[2] for _, token in tokens()))


def test_tickets_by_a_keytab_end_while_a_stream_runs(tmp_path, kdc: Kdc):
    reader, cache = "spark-reader", tmp_path / "cache"
    keytab = kdc.add(reader, "-maxlife", f"{TOKEN_SECONDS} seconds")
    variables = kdc.environment | {"KRB5CCNAME": f"FILE:{cache}"}
    with kerberos_broker(kdc, kdc.add(SERVICE), **{"connections.max.reauth.ms": 2000}) as kafka:
        fill(kafka)
        options = kerberos_options(kafka, by_keytab(keytab, reader))
        run = Run(kafka, options, options, tmp_path, environment(**variables))
    run.check()
    assert kdc.logins_of(reader) >= 7, "the batch, and several lifetimes of the stream's planner and worker"
    assert not cache.exists(), "no process wrote into the user's ticket cache"
