"""`penstock copy` against a real broker."""

from __future__ import annotations

import uuid

import pytest

from fixtures.produce import Rec

pytestmark = pytest.mark.broker

BASE = 1_738_324_800_000  # 2025-01-31T12:00Z


@pytest.fixture
def clicks(topic, produce):
    name = topic(partitions=3)
    produce(
        name,
        [
            Rec(b"v%d" % n, None if n % 5 == 0 else b"k%d" % n, [("h", b"%d" % n)], timestamp=BASE + n, partition=n % 3)
            for n in range(30)
        ],
    )
    return name


def test_copy_keeps_everything_but_the_partition(command, topic, clicks, read_topic):
    target = topic(partitions=5)
    code, out, err = command("copy", clicks, target)
    assert (code, err) == (0, "")
    assert out.startswith("30 records (")
    columns = ("timestamp", "key", "value", "headers")

    def by_value(name):
        return sorted(read_topic(name, *columns), key=lambda row: row["value"])

    assert by_value(target) == by_value(clicks)


def test_copy_keeps_partitions_if_asked_to(command, clicks, read_topic):
    target = f"copy-{uuid.uuid4().hex[:8]}"
    code, out, err = command("copy", clicks, target, "--keep-partitions", "--create", "3")
    assert (code, err) == (0, "")
    assert out.startswith(f"created topic {target} with 3 partitions")
    columns = ("partition", "offset", "timestamp", "key", "value", "headers")
    assert read_topic(target, *columns) == read_topic(clicks, *columns)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "8"], [24, 25, 26, 27, 28, 29]),
        (["--where", "headers['h'] IN ('7', '8', '11') AND key <> 'k8'"], [7, 11]),
        *(
            pytest.param(*each, marks=pytest.mark.extended)
            for each in [
                (["--from", "-1"], [27, 28, 29]),
                (["--until", "1"], [0, 1, 2]),
                (["--partition", "1", "--limit", "2"], [1, 4]),
                (["--limit", "0"], []),
                (["--from", str(BASE + 27)], [27, 28, 29]),
            ]
        ),
    ],
)
def test_copy_from_and_until(command, topic, clicks, read_topic, arguments, expected):
    target = topic()
    code, _, err = command("copy", clicks, target, *arguments)
    assert (code, err) == (0, "")
    assert sorted(int(row["value"][1:]) for row in read_topic(target)) == expected


def test_copy_leaves_out_aborted_transactions(command, topic, transaction, read_topic):
    source, target = topic(), topic()
    for n, commit in enumerate((True, False, True)):
        with transaction(f"t-{source}-{n}", commit=commit) as write:
            write(source, [Rec(b"%d" % n)])
    code, _, err = command("copy", source, target)
    assert (code, err) == (0, "")
    assert sorted(row["value"] for row in read_topic(target)) == [b"0", b"2"]


def test_a_topic_is_not_copied_into_itself(command, kafka, clicks):
    for more in ([], ["--to-bootstrap-server", kafka.bootstrap_servers]):
        code, _, err = command("copy", clicks, clicks, *more)
        assert code == 2
        assert "is the topic that is read" in err


def test_partitions_that_the_target_lacks_are_named(command, topic, clicks):
    code, _, err = command("copy", clicks, topic(partitions=2), "--keep-partitions")
    assert code == 2
    assert "has 2 partitions, and no partition 2" in err


def test_copy_needs_topics_that_exist(command, topic, clicks):
    code, _, err = command("copy", "no-such-topic", clicks)
    assert code == 1
    assert "no-such-topic" in err
    code, _, err = command("copy", clicks, "no-such-topic")
    assert code == 1
    assert "--create N creates it" in err
