"""`penstock doctor` with a real broker."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AclOperation
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from fixtures.produce import Rec
from penstock.cli.doctor.cluster import check_listener, check_reachable
from penstock.config.source import parse_options
from penstock.testing import EmbeddedKafka
from penstock.testing.node import free_ports
from penstock.wire.api.metadata import Broker
from penstock.wire.transport.connection import Connection
from support.acls import AUTHORIZER, allow

pytestmark = pytest.mark.broker


@pytest.fixture
def doctor(command):
    """Runs `penstock doctor --json`: the exit code, and the checks of the cluster by name."""

    def run(*arguments):
        code, out, err = command("doctor", "--json", *arguments)
        assert err == ""
        found = {}
        for check in map(json.loads, out.splitlines()):
            found.setdefault(check["check"], []).append(check)
        # The interpreter of Spark's workers depends on the PATH of the test run.
        failed = [each for name, checks in found.items() for each in checks if each["state"] == "failed"]
        assert code == (1 if failed else 0)
        return found

    return run


def states(checks):
    return [check["state"] for check in checks]


def test_a_healthy_cluster(doctor, topic, produce):
    name = topic(partitions=2)
    produce(name, [Rec(b"v")])
    found = doctor("--topic", name, "--group", "doctors")
    assert states(found["broker"]) == states(found["login"]) == states(found["listeners"]) == ["ok"]
    assert [check["found"] for check in found["permissions"]] == [
        f"may describe topic {name!r}, which has 2 partitions",
        f"may read topic {name!r}",
        "may read group 'doctors'",
    ]
    assert "certificates" not in found
    assert doctor("--topic", topic())["permissions"][1]["state"] == "ok"  # an empty topic


def test_lines_for_a_user(command):
    code, out, _ = command("doctor")
    lines = out.splitlines()
    assert lines[0].startswith("ok       interpreter   CPython 3.")
    assert any(line.startswith("ok       broker        ") for line in lines)
    assert any(line.endswith("of a topic are not checked. Add --topic NAME") for line in lines)
    assert lines[-1] == ("1 check failed." if code else "No check failed.")
    assert "\x1b" not in out


def test_a_topic_that_does_not_exist(doctor):
    (check, *_) = doctor("--topic", "no-such-topic")["permissions"]
    assert check["state"] == "failed"
    assert "penstock topics create" in check["remedy"]


def test_without_an_address_only_this_machine_is_checked(doctor, monkeypatch):
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP")
    found = doctor()
    assert set(found) <= {"interpreter", "kernel", "pyspark", "workers", "java", "broker"}
    assert states(found["broker"]) == ["skipped"]


def test_wrong_usage_has_its_own_exit_code(command):
    code, out, err = command("doctor", "-o", "kafka.securty.protocol=SSL")
    assert (code, out) == (2, "")
    assert "kafka.security.protocol" in err


def test_a_listener_that_advertises_an_unreachable_address(kafka):
    options = parse_options(kafka.client_options() | {"subscribe": "t"})
    host, port = options.client.bootstrap[0]
    assert check_reachable(host, port).state == "ok"
    connection = Connection(host, port, options.client, 60.0)
    try:
        (closed,) = free_ports(1)
        found = check_listener(Broker(7, "127.0.0.1", closed, None), connection)
        assert found.state == "failed"
        assert f"broker 7 advertises 127.0.0.1:{closed}, which this machine cannot use" in found.found
        assert "advertised.listeners" in found.remedy
        unknown = check_listener(Broker(8, "kafka.invalid", 9092, None), connection)
        assert (unknown.state, "kafka.invalid:9092" in unknown.found) == ("failed", True)
    finally:
        connection.close()


@pytest.fixture
def with_options(doctor, tmp_path):
    """Runs the doctor with options in a file."""

    def run(options, *arguments):
        file = tmp_path / "client.properties"
        file.write_text("\n".join(f"{name}={value}" for name, value in options.items()).replace("\\", "\\\\"))
        return doctor("-b", options["kafka.bootstrap.servers"], "--options-file", str(file), *arguments)

    return run


def test_login_and_permissions(with_options):
    users = dict.fromkeys(("nobody", "describer", "reader", "admin"))
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users=users, settings=AUTHORIZER) as kafka:
        kafka.create_topic("t")
        allow(
            kafka,
            ("describer", AclOperation.DESCRIBE, Resource.TOPIC, "t", Pattern.LITERAL),
            ("describer", AclOperation.DESCRIBE, Resource.GROUP, "g", Pattern.LITERAL),
            ("reader", AclOperation.READ, Resource.TOPIC, "t", Pattern.LITERAL),
            ("reader", AclOperation.READ, Resource.GROUP, "g", Pattern.LITERAL),
        )

        def run(user, **login):
            return with_options(kafka.client_options(user=user, **login), "--topic", "t", "--group", "g")

        found = run("reader")
        assert states(found["permissions"]) == ["ok", "ok", "ok"]
        assert found["login"][0]["found"].startswith("reader is logged in by ")

        found = run("describer")
        assert states(found["permissions"]) == ["ok", "failed", "failed"]
        assert "Read on topic 't'" in found["permissions"][1]["remedy"]
        assert "Read on group 'g'" in found["permissions"][2]["remedy"]

        assert states(run("nobody")["permissions"]) == ["failed", "failed"]

        found = run("reader", password="wrong")
        assert states(found["login"]) == ["failed"]
        assert "refused the login of reader" in found["login"][0]["found"]
        assert "permissions" not in found


def test_certificates(with_options):
    with EmbeddedKafka(listener="SSL", client_auth=True) as kafka:
        options = kafka.client_options()
        found = with_options(options)
        # Those of the embedded broker last for 30 days.
        assert states(found["certificates"]) == ["warning", "warning"]
        assert "the client's certificate expires on" in found["certificates"][0]["found"]
        assert found["certificates"][1]["found"].endswith("in 29 days")

        found = with_options({name: value for name, value in options.items() if "truststore" not in name})
        assert states(found["login"]) == ["failed"]
        assert "kafka.ssl.truststore.location" in found["login"][0]["found"]


def test_a_registry_that_does_not_answer(doctor):
    (closed,) = free_ports(1)
    (check,) = doctor("-o", f"schemaRegistry.url=http://127.0.0.1:{closed}", "-o", "schemaRegistry.retries=0")[
        "registry"
    ]
    assert check["state"] == "failed"
    assert f"127.0.0.1:{closed}" in check["found"]


def test_a_registry_that_answers(doctor, registry):
    (check,) = doctor("-o", f"schemaRegistry.url={registry.url}", "--topic", "no-such-topic")["registry"]
    assert check["state"] == "ok"
    assert "has no subject 'no-such-topic-value'" in check["found"]
