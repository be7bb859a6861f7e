"""The embedded broker: start, stop, single nodes, security, and cleaning up."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from fixtures.leaks import LEAKS
from penstock.errors import BrokerError, EmbeddedBrokerError, OptionError, UnknownTopic
from penstock.testing import EmbeddedKafka, get_distribution
from penstock.testing.distribution import Distribution, damage, pinned
from penstock.testing.node import _escape, free_ports
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.security import Security, parse_jaas
from penstock.wire.transport.tls import Tls

# kafka-python does not close a socket whose connection was refused or whose TLS handshake failed, and here that
# is what tests do to it.
pytestmark = [
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka_python_leaks"),
    pytest.mark.filterwarnings(f"ignore:{LEAKS}:ResourceWarning"),
]

SECONDS = 120.0


def eventually(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """A process that exists and is not a zombie (its parent may reap it later)."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(listed) and not listed.startswith("Z")


def client_settings(options: dict[str, str]) -> dict[str, Any]:
    """`client_options("")` in the words of kafka-python."""
    settings: dict[str, Any] = {
        "bootstrap_servers": options["bootstrap.servers"],
        "security_protocol": options["security.protocol"],
    }
    if "ssl.truststore.location" in options:
        settings["ssl_cafile"] = options["ssl.truststore.location"]
    if "ssl.keystore.location" in options:
        settings["ssl_certfile"] = settings["ssl_keyfile"] = options["ssl.keystore.location"]
    if "sasl.mechanism" in options:
        login = parse_jaas(options["sasl.jaas.config"])
        settings["sasl_mechanism"] = options["sasl.mechanism"]
        settings["sasl_plain_username"] = login["username"]
        settings["sasl_plain_password"] = login["password"]
    return settings


def write(kafka: EmbeddedKafka, topic: str, values: list[bytes], **login: Any) -> None:
    producer = KafkaProducer(**client_settings(kafka.client_options("", **login)), acks="all")
    try:
        for value in values:
            producer.send(topic, value)
        producer.flush(SECONDS)
    finally:
        producer.close()


def read(kafka: EmbeddedKafka, topic: str, count: int, **login: Any) -> list[bytes]:
    consumer = KafkaConsumer(
        **client_settings(kafka.client_options("", **login)), auto_offset_reset="earliest", group_id=None
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        end = time.monotonic() + SECONDS
        while len(values) < count and time.monotonic() < end:
            for records in consumer.poll(timeout_ms=200).values():
                values += [record.value for record in records]
        return values
    finally:
        consumer.close()


def refused(kafka: EmbeddedKafka, *without: str, **login: Any) -> None:
    """Through our cover of kafka-python: its own constructor leaks sockets when it fails."""
    options = kafka.client_options("", **login)
    for name in without:
        del options[name]
    settings = client_settings(options)
    security = Security(
        settings["security_protocol"],
        Tls(ca_file=settings.get("ssl_cafile"), certificate_file=settings.get("ssl_keyfile")),
        sasl_mechanism=settings.get("sasl_mechanism"),
        sasl_username=settings.get("sasl_plain_username"),
        sasl_password=settings.get("sasl_plain_password"),
    )
    with pytest.raises(BrokerError):
        Admin(kafka.bootstrap_servers, security).describe(seconds=2)


class TestLife:
    def test_stop_leaves_no_process_and_no_directory(self) -> None:
        kafka = EmbeddedKafka().start()
        pid, work_dir = kafka.pid(1), kafka._work_dir
        assert pid is not None
        assert work_dir is not None
        assert alive(pid)
        assert work_dir.is_dir()
        kafka.stop()
        assert not alive(pid)
        assert not work_dir.exists()
        kafka.stop()

    @pytest.mark.extended
    def test_options_of_the_environment_reach_its_java_machine(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        named, of_the_environment = tmp_path / "named.log", tmp_path / "two words.log"
        monkeypatch.setenv("PENSTOCK_KAFKA_OPTS", f"'-Xlog:gc:file={of_the_environment}'")
        with EmbeddedKafka(jvm_options=[f"-Xlog:startuptime:file={named}"]):
            assert named.exists()
            assert of_the_environment.exists()

    def test_a_stopped_broker_says_so(self) -> None:
        with pytest.raises(EmbeddedBrokerError, match=r"not running. Call start"):
            _ = EmbeddedKafka().bootstrap_servers

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
    def test_no_orphan_and_no_directory_after_the_parent_was_killed(self, tmp_path: Path, end: int) -> None:
        code = (
            "import sys, time\nfrom penstock.testing import EmbeddedKafka\n"
            "kafka = EmbeddedKafka(2).start()\n"
            "print(kafka.pid(1), kafka.pid(2), kafka._work_dir, flush=True)\nsys.stdin.read()\n"
        )
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        ) as parent:
            assert parent.stdout is not None
            first, second, work_dir = parent.stdout.readline().split()
            assert alive(int(first))
            assert Path(work_dir).is_dir()
            parent.send_signal(end)
            parent.wait(SECONDS)
        eventually(lambda: not alive(int(first)) and not alive(int(second)), "both brokers gone")
        eventually(lambda: not Path(work_dir).exists(), "directory gone")

    @pytest.mark.extended
    def test_a_broker_does_not_outlive_a_killed_supervisor(self) -> None:
        if sys.platform != "linux":
            pytest.skip("needs PR_SET_PDEATHSIG")
        with EmbeddedKafka() as kafka:
            pid = kafka.pid(1)
            supervisor = kafka._nodes[0]._supervisor
            assert pid is not None
            assert supervisor is not None
            supervisor.kill()
            eventually(lambda: not alive(pid), "broker gone")
            assert kafka.pid(1) is None

    def test_a_forked_child_does_not_stop_the_broker(self, kafka: EmbeddedKafka) -> None:
        code = (
            "import os, sys\nfrom penstock.testing import EmbeddedKafka\n"
            "kafka = EmbeddedKafka().start()\nchild = os.fork()\n"
            "if child == 0:\n    sys.exit(0)\n"
            "os.waitpid(child, 0)\nkafka.create_topic('still-here')\nprint('fine', flush=True)\n"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
        assert ran.stdout == "fine\n", ran.stderr

    def test_a_broker_that_dies_at_start_shows_its_log_at_once(self) -> None:
        began = time.monotonic()
        with pytest.raises(EmbeddedBrokerError, match=r"ended while starting(.|\n)*num\.io\.threads"):
            EmbeddedKafka(settings={"num.io.threads": -1}, start_seconds=600).start()
        assert time.monotonic() - began < 120, "not when its time to start is over"

    @pytest.mark.extended
    def test_a_taken_port_is_an_error_when_it_was_asked_for(self) -> None:
        taken_port = free_ports(1)[0]
        with (
            socket.create_server(("127.0.0.1", taken_port)),
            pytest.raises(EmbeddedBrokerError, match="Address already in use") as caught,
        ):
            EmbeddedKafka(port=taken_port).start()
        assert str(caught.value).startswith(f"port {taken_port} is used by another program")
        assert len(str(caught.value).splitlines()) == 1

    @pytest.mark.extended
    def test_a_port_taken_by_another_process_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from penstock.testing import cluster

        with socket.create_server(("127.0.0.1", free_ports(1)[0])) as taken:
            lost = [taken.getsockname()[1]]
            monkeypatch.setattr(
                cluster,
                "free_ports",
                lambda count: [lost.pop(), *free_ports(count - 1)] if lost else free_ports(count),
            )
            with EmbeddedKafka() as kafka:
                assert not lost
                assert str(taken.getsockname()[1]) not in kafka.bootstrap_servers


class TestTopicsAndSettings:
    def test_topics_are_made_listed_and_deleted(self, kafka: EmbeddedKafka, topic: Callable[..., str]) -> None:
        name = topic(3)
        assert name in kafka.topics()
        kafka.delete_topic(name)
        assert name not in kafka.topics()
        with pytest.raises(UnknownTopic):
            kafka.delete_topic(name)

    def test_topic_configs_reach_the_broker(self, kafka: EmbeddedKafka, topic: Callable[..., str]) -> None:
        name = topic(1, cleanup_policy="compact")
        tool = get_distribution().run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", kafka.bootstrap_servers, "--describe", "--topic", name),
        )
        assert tool.returncode == 0, tool.stderr
        assert "cleanup.policy=compact" in tool.stdout

    def test_broker_settings_pass_through(self) -> None:
        with EmbeddedKafka(settings={"num.partitions": 7, "auto.create.topics.enable": True}) as kafka:
            assert "log.retention.ms = -1\n" in kafka.logs(1), "retention would take the old timestamps of tests"
            write(kafka, "made-by-asking", [b"x"])
            consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
            try:
                assert consumer.partitions_for_topic("made-by-asking") == set(range(7))
            finally:
                consumer.close()

    def test_a_topic_that_cannot_be_created_raises_the_brokers_reason(self, kafka: EmbeddedKafka) -> None:
        with pytest.raises(BrokerError) as caught:
            kafka.create_topic("a/b")
        assert "Topic name is invalid: 'a/b' contains" in str(caught.value)
        assert "CreateTopicsRequest" not in str(caught.value)

    @pytest.mark.parametrize(
        ("wrong", "name"),
        [
            ({"nodes": 4}, "nodes"),
            ({"nodes": 2, "racks": ["a"]}, "racks"),
            ({"listener": "TLS"}, "listener"),
            ({"users": {"a": "b"}}, "users"),
            ({"listener": "SASL_SSL", "users": {"a b": "c"}}, "users"),
            ({"client_auth": True}, "client_auth"),
            ({"port": 0}, "port"),
            ({"settings": {"node.id": 3}}, "settings['node.id']"),
        ],
    )
    def test_wrong_arguments_fail_before_anything_starts(self, wrong: dict[str, Any], name: str) -> None:
        with pytest.raises(OptionError) as caught:
            EmbeddedKafka(**wrong)
        assert caught.value.name == name

    @pytest.mark.extended
    def test_data_directory_survives_a_stop(self, tmp_path: Path) -> None:
        with EmbeddedKafka(data_dir=tmp_path) as kafka:
            kafka.create_topic("kept")
            write(kafka, "kept", [b"one", b"two"])
        with EmbeddedKafka(data_dir=tmp_path) as kafka:
            assert read(kafka, "kept", 2) == [b"one", b"two"]

    def test_properties_are_escaped_for_java(self) -> None:
        assert _escape("a=b c\\d\né𝄞") == "a\\=b\\ c\\\\d\\n\\u00e9\\ud834\\udd1e"


@pytest.mark.extended
class TestNodes:
    def test_three_nodes_in_three_racks(self, kafka_cluster: EmbeddedKafka) -> None:
        brokers = kafka_cluster._admin().describe().brokers
        assert [(broker.id, broker.rack) for broker in brokers] == [(1, "r1"), (2, "r2"), (3, "r3")]
        assert len(kafka_cluster.bootstrap_servers.split(",")) == 3

    def test_data_outlives_a_killed_node_and_the_node_comes_back(self, kafka_cluster: EmbeddedKafka) -> None:
        name = f"kill-{time.time_ns()}"
        kafka_cluster.create_topic(name, replication_factor=3)
        write(kafka_cluster, name, [b"before"])
        address = kafka_cluster.bootstrap_servers
        kafka_cluster.kill_node(1)
        try:
            assert kafka_cluster.pid(1) is None
            write(kafka_cluster, name, [b"while down"])
        finally:
            kafka_cluster.restart_node(1)
        assert kafka_cluster.pid(1) is not None
        assert kafka_cluster.bootstrap_servers == address
        assert read(kafka_cluster, name, 2) == [b"before", b"while down"]
        assert "KafkaRaftServer" in kafka_cluster.logs(1)

    def test_a_single_node_keeps_its_data_over_a_restart(self) -> None:
        with EmbeddedKafka() as kafka:
            kafka.create_topic("again")
            write(kafka, "again", [b"kept"])
            before = kafka.pid(1), kafka.bootstrap_servers
            kafka.restart_node(1)
            assert kafka.bootstrap_servers == before[1]
            assert kafka.pid(1) != before[0]
            assert read(kafka, "again", 1) == [b"kept"]

    def test_a_paused_node_does_not_answer_until_resumed(self) -> None:
        with EmbeddedKafka() as kafka:
            for _ in range(5):
                kafka.pause_node(1)
                assert _state(kafka.pid(1)).startswith("T"), "it has stopped when the call returns"
                kafka.resume_node(1)
            kafka.create_topic("back")
            kafka.pause_node(1)  # and a paused one can be stopped

    def test_an_unknown_node_is_named(self, kafka: EmbeddedKafka) -> None:
        with pytest.raises(OptionError, match=r"node_id = 9: does not exist"):
            kafka.kill_node(9)


def _state(pid: int | None) -> str:
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    """Everything at once: TLS both ways, and users."""
    users = {"alice": None, "bob": 'p "\\=# ü'}
    with EmbeddedKafka(listener="SASL_SSL", users=users, client_auth=True) as kafka:
        kafka.create_topic("door")
        yield kafka


@pytest.mark.extended
class TestListeners:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("user", ["alice", "bob"])
    def test_users_log_in_over_tls_with_every_mechanism(
        self, secured: EmbeddedKafka, mechanism: str, user: str
    ) -> None:
        topic = f"{user}-{mechanism}"
        secured.create_topic(topic)
        write(secured, topic, [b"in"], mechanism=mechanism, user=user)
        assert read(secured, topic, 1, mechanism=mechanism, user=user) == [b"in"]

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_a_wrong_password_is_refused(self, secured: EmbeddedKafka, mechanism: str) -> None:
        refused(secured, mechanism=mechanism, user="alice", password="guess")

    def test_a_client_without_a_certificate_is_refused(self, secured: EmbeddedKafka) -> None:
        refused(secured, "ssl.keystore.location")

    def test_java_reads_the_same_options(self, secured: EmbeddedKafka, tmp_path: Path) -> None:
        properties = tmp_path / "client.properties"
        options = secured.client_options("", mechanism="SCRAM-SHA-512")
        properties.write_text("".join(f"{name}={_escape(value)}\n" for name, value in options.items()))
        tool = get_distribution().run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", secured.bootstrap_servers, "--list", "--command-config", str(properties)),
        )
        assert tool.returncode == 0, tool.stderr
        assert "door" in tool.stdout.split()

    @pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT"])
    def test_every_other_listener_connects(self, listener: str) -> None:
        with EmbeddedKafka(listener=listener) as kafka:
            kafka.create_topic("door")
            write(kafka, "door", [b"in"])
            assert read(kafka, "door", 1) == [b"in"]
            if listener == "SSL":
                refused(kafka, "ssl.truststore.location")
            else:
                refused(kafka, password="guess")

    def test_options_have_sparks_prefix_by_default(self, kafka: EmbeddedKafka) -> None:
        assert kafka.client_options() == {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.security.protocol": "PLAINTEXT",
        }
        assert kafka.client_options("").keys() == {"bootstrap.servers", "security.protocol"}

    def test_passwords_are_shown_nowhere(self, secured: EmbeddedKafka) -> None:
        listener = secured._listener
        assert listener is not None
        secrets = [*listener.users.values(), listener.internal_password]
        work_dir = secured._work_dir
        assert work_dir is not None
        command = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(secured.pid(1))], capture_output=True, text=True
        ).stdout
        for place in (
            repr(secured),
            repr(listener),
            repr(listener.node_security()),
            secured.logs(1),
            command,
        ):
            assert not [secret for secret in secrets if secret in place]
        assert work_dir.stat().st_mode & 0o077 == 0

    def test_random_passwords_differ_from_start_to_start(self) -> None:
        from penstock.testing.listeners import listener

        one, two = (listener("SASL_SSL", None, None, None) for _ in range(2))
        assert one.users["penstock"] != two.users["penstock"]


class TestFetching:
    def test_missing_java_is_a_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(EmbeddedBrokerError, match=r"no java on the PATH.*Install Java 17"):
            EmbeddedKafka().start()

    def test_wrong_java_home_is_a_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(EmbeddedBrokerError, match=r"JAVA_HOME is .* no bin/java"):
            EmbeddedKafka().start()

    def test_old_java_is_a_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(EmbeddedBrokerError, match=r"is Java 8, too old"):
            EmbeddedKafka().start()

    def test_an_unreachable_repository_is_a_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        mirror = f"http://me:hidden@127.0.0.1:{free_ports(1)[0]}/maven"
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
        monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", mirror)
        with pytest.raises(EmbeddedBrokerError) as caught:
            EmbeddedKafka().start()
        message = str(caught.value)
        assert re.match(r"Apache Kafka 4.3.1 could not be downloaded from http://127.0.0.1:\d+/maven", message)
        assert "Connection refused" in message
        assert "\n" not in message
        assert "hidden" not in message
        assert not (tmp_path / "kafka-4.3.1").exists()

    def test_missing_pyspark_is_a_clear_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
        monkeypatch.delenv("SPARK_HOME", raising=False)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(EmbeddedBrokerError, match=r"PySpark is not installed.*pip install"):
            get_distribution()

    def test_a_cache_that_cannot_be_written_is_a_clear_error(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
        with pytest.raises(EmbeddedBrokerError, match=r"is not writable.*PENSTOCK_CACHE"):
            get_distribution()


@pytest.mark.extended
class TestCache:
    @pytest.fixture
    def copy(self, tmp_path: Path) -> Path:
        """A complete cache folder of the test's own."""
        folder = tmp_path / "kafka-4.3.1"
        shutil.copytree(get_distribution().folder, folder)
        assert damage(folder) is None
        return folder

    def test_damage_is_noticed(self, copy: Path) -> None:
        jar = copy / next(iter(pinned()))
        good = jar.read_bytes()
        jar.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        assert damage(copy) == f"{jar.name} is not the pinned one"
        jar.unlink()
        assert damage(copy) == f"{jar.name} is missing"
        jar.write_bytes(good)
        assert damage(copy) is None
        (copy / "bootstrap.checkpoint").write_bytes(b"")
        assert damage(copy) == "bootstrap.checkpoint is empty"

    @pytest.fixture
    def repository(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """A stand-in for Ivy that serves the jars we have; lists what it was asked to fill."""
        source = get_distribution().folder
        asked: list[Path] = []

        def retrieve(what: str, modules: str, into: Path, work_dir: Path, java: Path, tick: Any) -> None:
            asked.append(into)
            for name in pinned():
                shutil.copyfile(source / name, into / name)

        monkeypatch.setattr("penstock.testing.ivy.retrieve", retrieve)
        return asked

    def test_a_damaged_cache_is_fetched_again(
        self, copy: Path, repository: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PENSTOCK_CACHE", str(copy.parent))
        assert isinstance(get_distribution(), Distribution)
        assert not repository
        (copy / next(iter(pinned()))).write_bytes(b"half a jar")
        get_distribution()
        assert len(repository) == 1
        assert damage(copy) is None
        assert sorted(path.name for path in copy.parent.iterdir()) == ["kafka-4.3.1", "kafka-4.3.1.lock"]

    def test_another_jar_than_the_pinned_one_is_refused(
        self, tmp_path: Path, repository: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from penstock.testing import ivy

        honest = ivy.retrieve

        def forged(what: str, modules: str, into: Path, work_dir: Path, java: Path, tick: Any) -> None:
            honest(what, modules, into, work_dir, java, tick)
            (into / "re2j-1.8.jar").write_bytes(b"something else")

        monkeypatch.setattr(ivy, "retrieve", forged)
        monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
        with pytest.raises(EmbeddedBrokerError, match=r"pinned one: re2j-1.8.jar is not the pinned one"):
            get_distribution()
        assert not (tmp_path / "kafka-4.3.1").exists()


class TestCommand:
    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "penstock.cli", "broker", *arguments]

    @pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
    def test_runs_until_a_signal_and_cleans_up(self, tmp_path: Path, end: int, code: int) -> None:
        with subprocess.Popen(
            self.command("--topic", "words:3", "--setting", "num.partitions=2"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                said = ""
                while "Ctrl-C" not in said:
                    line = process.stdout.readline()
                    assert line, process.stderr.read()
                    said += line
                servers = re.search(r"ready at (\S+)", said)
                assert servers is not None
                assert f'.option("kafka.bootstrap.servers", "{servers[1]}")' in said
                consumer = KafkaConsumer(bootstrap_servers=servers[1])
                assert consumer.partitions_for_topic("words") == {0, 1, 2}
                consumer.close()
                os.killpg(process.pid, end)  # as a terminal does it: the whole group at once
                process.wait(SECONDS)
                assert process.stderr.read() == ""
                assert process.returncode == code
            finally:
                process.kill()  # nothing, when it has ended; else the `with` would wait forever
        assert list(tmp_path.iterdir()) == []

    def test_failure_is_one_line_and_exit_code_1(self, tmp_path: Path) -> None:
        environment = os.environ | {"JAVA_HOME": str(tmp_path)}
        ran = subprocess.run(self.command(), capture_output=True, text=True, env=environment, timeout=SECONDS)
        assert ran.returncode == 1
        assert ran.stdout == ""
        assert ran.stderr.startswith("penstock broker: JAVA_HOME is ")
        assert len(ran.stderr.splitlines()) == 1

    @pytest.mark.parametrize(
        "wrong", [("--topic", ":3"), ("--topic", "a:none"), ("--setting", "novalue"), ("--nodes", "9")]
    )
    def test_wrong_arguments_are_exit_code_2(self, wrong: tuple[str, ...]) -> None:
        ran = subprocess.run(self.command(*wrong), capture_output=True, text=True, timeout=SECONDS)
        assert ran.returncode == 2
        assert wrong[0] in ran.stderr
