"""`penstock topics VERB` against a real broker."""

from __future__ import annotations

import json
import uuid

import pytest

from fixtures.produce import Rec

pytestmark = pytest.mark.broker


@pytest.fixture
def name():
    return f"t-{uuid.uuid4().hex[:12]}"


def test_a_topic_is_created_described_listed_and_deleted(command, kafka, produce, name):
    settings = ("--setting", "retention.ms=86400000", "--setting", "cleanup.policy=compact,delete")
    code, out, err = command("topics", "create", name, "--partitions", "2", "--replicas", "1", *settings)
    assert (code, out, err) == (0, f"Created topic {name} with 2 partitions, 1 replica each.\n", "")
    produce(name, [Rec(b"v", b"k", partition=1)] * 3)

    code, out, _ = command("topics", "describe", name)
    lines = out.splitlines()
    assert code == 0
    assert lines[:3] == [
        f"Topic {name}: 2 partitions, 3 records",
        "  cleanup.policy = compact,delete",
        "  retention.ms = 86400000",
    ]
    assert lines[4].split() == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "FIRST", "END", "RECORDS"]
    assert [line.split() for line in lines[5:]] == [
        ["0", "1", "1", "1", "0", "0", "0"],
        ["1", "1", "1", "1", "0", "3", "3"],
    ]
    for arguments in (("describe", name, "--json"), ("--json", "describe", name)):
        found = json.loads(command("topics", *arguments)[1])
        assert found["settings"] == {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
        assert found["partitions"][1] == {
            "partition": 1,
            "leader": 1,
            "replicas": [1],
            "in_sync": [1],
            "first": 0,
            "end": 3,
            "records": 3,
        }
    for arguments in ((), ("list",)):
        (row,) = [line.split() for line in command("topics", *arguments)[1].splitlines() if line.startswith(name)]
        assert row == [name, "2", "3"]

    what = f"topic {name} with 2 partitions and 3 records"
    code, out, _ = command("topics", "delete", name)
    assert (code, out) == (0, f"Dry run: nothing was changed. To delete {what}, add --execute.\n")
    assert name in kafka.topics()
    code, out, _ = command("topics", "delete", name, "--execute")
    assert (code, out) == (0, f"Deleted {what}.\n")
    assert name not in kafka.topics()


def test_without_partitions_the_broker_decides(command, name):
    assert command("topics", "create", name)[:2] == (0, f"Created topic {name} with 1 partition, 1 replica each.\n")


def test_a_topic_that_exists_and_one_that_does_not(command, topic, name):
    existing = topic()
    code, _, err = command("topics", "create", existing)
    assert (code, f"topic {existing!r} exists. `penstock topics describe {existing}` shows it" in err) == (1, True)
    for verb in (("describe", f"{existing}x"), ("delete", f"{existing}x"), ("delete", f"{existing}x", "--execute")):
        code, _, err = command("topics", *verb)
        assert (code, f"did you mean {existing!r}" in err) == (1, True)


def test_what_the_broker_refuses_is_said(command, name):
    code, _, err = command("topics", "create", name, "--replicas", "5")
    assert code == 1
    assert "replication factor" in err.lower()
    code, _, err = command("topics", "create", name, "--setting", "no.such.setting=1")
    assert (code, "no.such.setting" in err) == (1, True)


@pytest.mark.parametrize("arguments", [("--partitions", "0"), ("--replicas", "x"), ("--setting", "retention.ms")])
def test_wrong_usage(command, name, arguments):
    code, _, err = command("topics", "create", name, *arguments)
    assert (code, arguments[0] in err) == (2, True)
