"""`penstock groups` against a real broker, with consumers of another client as members."""

from __future__ import annotations

import json
import logging
import time
import uuid
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient

from fixtures.cluster import await_nodes, cluster_of, elect_preferred
from fixtures.consumer import eventually
from fixtures.produce import Rec
from fixtures.share import taken
from penstock import cli
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import GroupAdmin

JOIN_SECONDS = 60
BASE = 1_738_324_800_000  # 2025-01-31T12:00Z


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def penstock(kafka, capsys, monkeypatch):
    """Runs `penstock groups ...`; returns exit code, output and errors."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)

    def run(*arguments, broker=kafka):
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker.bootstrap_servers)
        code = cli.main(["groups", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def clicks(topic, produce):
    """Three partitions of ten records, a minute apart."""
    name = topic(partitions=3)
    produce(name, [Rec(b"v", timestamp=BASE + at * 60_000, partition=p) for p in range(3) for at in range(10)])
    return name


@contextmanager
def members(kafka, group, topic, protocol="classic", count=2):
    """Consumers that share the topic's three partitions. The first one is a static member."""
    consumers = []
    try:
        for number in range(count):
            config = {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": f"reader-{number}",
                "enable.auto.commit": False,
            }
            consumers.append(Consumer(config | ({"group.instance.id": f"{group}-static"} if number == 0 else {})))
            consumers[-1].subscribe([topic])
        deadline = time.monotonic() + JOIN_SECONDS
        while sorted(len(consumer.assignment()) for consumer in consumers) != [1, 2]:
            assert time.monotonic() < deadline, "the consumers did not share the partitions"
            for consumer in consumers:
                consumer.poll(0.05)
        # Members of the newer protocol have their partitions a moment before the coordinator knows that they do.
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        eventually(lambda: is_stable(admin, group), "a stable group")
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


def is_stable(admin, group):
    listed = admin.list_consumer_groups().result(30).valid
    return any(each.group_id == group and each.state is ConsumerGroupState.STABLE for each in listed)


def committed(kafka, group, topic, partitions=3):
    """As another client sees it."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        found = consumer.committed([RdPartition(topic, p) for p in range(partitions)], timeout=30)
    finally:
        consumer.close()
    return [None if each.offset < 0 else each.offset for each in found]


def rows(out):
    return [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("protocol", "assignor"), [("classic", "range"), ("consumer", "uniform")], ids=["classic", "consumer"]
)
def test_a_group_in_use_is_described_and_left_alone(penstock, kafka, clicks, group, protocol, assignor):
    with members(kafka, group, clicks, protocol) as consumers:
        owned = {f"reader-{n}": sorted(tp.partition for tp in c.assignment()) for n, c in enumerate(consumers)}
        owner = next(c for c in consumers if any(tp.partition == 0 for tp in c.assignment()))
        owner.commit(offsets=[RdPartition(clicks, 0, 4)], asynchronous=False)

        _, out, _ = penstock("list")
        assert [group, protocol, "Stable", "consumer", "6"] in rows(out)

        code, out, _ = penstock("describe", group, "--json")
        seen = json.loads(out)
        assert (code, seen["kind"], seen["state"], seen["assignor"]) == (0, protocol, "Stable", assignor)
        assert f"{seen['coordinator']['host']}:{seen['coordinator']['port']}" == kafka.bootstrap_servers
        assert seen["coordinator"]["id"] >= 0
        found = {m["client_id"]: [tp["partition"] for tp in m["partitions"]] for m in seen["members"]}
        assert found == owned
        assert {m["host"] for m in seen["members"]} == {"127.0.0.1"}
        assert sorted(m["instance_id"] or "" for m in seen["members"]) == ["", f"{group}-static"]
        names = {m["member_id"]: m["client_id"] for m in seen["members"]}
        assert [(p["partition"], p["committed"], p["end"], p["lag"]) for p in seen["partitions"]] == [
            (0, 4, 10, 6),
            (1, None, 10, None),
            (2, None, 10, None),
        ]
        assert all(p["partition"] in owned[names[p["member_id"]]] for p in seen["partitions"])
        assert seen["lag"] == 6

        _, out, _ = penstock("describe", group)
        assert f"Group {group} ({protocol}): Stable, assignor {assignor}, 2 members" in out
        assert [clicks, "0", "4", "10", "6"] in [row[:5] for row in rows(out)]
        assert "Total: lag 6 over 3 partitions, 2 without a committed offset" in out

        for verb in (["reset", group, "--all-topics", "--to", "latest"], ["delete", group]):
            for execute in ([], ["--execute"]):
                code, out, err = penstock(*verb, *execute)
                assert (code, out) == (1, "")
                assert f"group {group!r} is in use by 2 members" in err
                assert "reader-0 on 127.0.0.1" in err
                assert "Stop them first" in err
        assert committed(kafka, group, clicks) == [4, None, None]


def test_a_dry_run_changes_nothing_and_execute_does_what_it_showed(penstock, cluster, kafka, clicks, group):
    cluster.commit(group, {TopicPartition(clicks, 0): 7, TopicPartition(clicks, 1): 2})
    code, dry, _ = penstock("reset", group, "--topic", clicks, "--to", "5")
    assert code == 0
    assert rows(dry)[:4] == [
        ["TOPIC", "PARTITION", "OLD", "NEW", "CHANGE"],
        [clicks, "0", "7", "5", "-2"],
        [clicks, "1", "2", "5", "+3"],
        [clicks, "2", "-", "5"],
    ]
    assert "Dry run: nothing was changed" in dry
    assert "--execute" in dry
    assert committed(kafka, group, clicks) == [7, 2, None]

    code, done, _ = penstock("reset", group, "--topic", clicks, "--to", "5", "--execute")
    assert code == 0
    assert rows(done)[:4] == rows(dry)[:4]
    assert f"Committed 3 offsets of group {group}." in done
    assert committed(kafka, group, clicks) == [5, 5, 5]


@pytest.mark.parametrize(
    ("where", "new"),
    [
        (["--to", "earliest"], [0, 0, 3]),
        (["--to", "latest"], [10, 10, 3]),
        (["--to", "-2"], [8, 8, 3]),
        (["--to", "2025-01-31T12:03:30Z"], [4, 4, 3]),
        (["--to", f"{BASE + 3 * 60_000}"], [3, 3, 3]),
        (["--to", "2033-01-01T00:00Z"], [10, 10, 3]),
        (["--by", "-2"], [1, 1, 3]),
        (["--by", "100"], [10, 10, 3]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_ways_to_say_where(penstock, cluster, kafka, clicks, group, where, new):
    cluster.commit(group, {TopicPartition(clicks, partition): 3 for partition in range(3)})
    code, out, _ = penstock("reset", group, "--topic", f"{clicks}:0,1", *where, "--execute", "--json")
    assert code == 0
    moved = [json.loads(line) for line in out.splitlines()]
    assert [(move["partition"], move["old"], move["new"]) for move in moved] == [(0, 3, new[0]), (1, 3, new[1])]
    assert all(move["executed"] for move in moved)
    assert committed(kafka, group, clicks) == new, "the partition that was not named stays"


def test_a_file_makes_a_group_that_did_not_exist(penstock, kafka, clicks, group, tmp_path):
    (tmp_path / "offsets.csv").write_text(f'"{clicks}",0,4\n"{clicks}",2,99\n')
    code, out, _ = penstock("reset", group, "--from-file", str(tmp_path / "offsets.csv"))
    assert code == 0
    assert "which creates the group" in out
    assert penstock("describe", group)[0] == 1, "not by a dry run"
    code, out, _ = penstock("reset", group, "--from-file", str(tmp_path / "offsets.csv"), "--execute")
    assert code == 0
    assert "99 is not written yet" in out
    assert committed(kafka, group, clicks) == [4, None, 10]


def test_a_group_without_members_is_listed_described_and_deleted(penstock, cluster, kafka, clicks, group):
    cluster.commit(group, {TopicPartition(clicks, 1): 4})
    _, out, _ = penstock("list", "--json")
    listed = {each["group"]: each for each in map(json.loads, out.splitlines())}
    assert (listed[group]["kind"], listed[group]["state"], listed[group]["lag"]) == ("classic", "Empty", 6)
    _, out, _ = penstock("list")
    assert [group, "classic", "Empty", "6"] in [row for row in rows(out) if row[0] == group]
    _, out, _ = penstock("describe", group)
    assert f"Group {group} (classic): Empty, 0 members" in out
    assert [clicks, "1", "4", "10", "6", "-"] in rows(out)
    assert "Total: lag 6 over 1 partition\n" in out

    code, out, _ = penstock("delete", group)
    assert (code, "Dry run" in out) == (0, True)
    assert committed(kafka, group, clicks) == [None, 4, None]
    code, out, _ = penstock("delete", group, "--execute")
    assert (code, out) == (0, f"Deleted group {group} with 1 committed offset.\n")
    code, _, err = penstock("describe", group)
    assert code == 1
    assert f"group {group!r} does not exist" in err


def test_a_consumer_group_without_members_can_be_reset_and_deleted(penstock, kafka, clicks, group):
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": "consumer"})
    try:
        reader.subscribe([clicks])
        deadline = time.monotonic() + JOIN_SECONDS
        while not reader.assignment():
            assert time.monotonic() < deadline, "the consumer got no partition"
            reader.poll(0.05)
        reader.commit(offsets=[RdPartition(clicks, 0, 4)], asynchronous=False)
    finally:
        reader.close()
    _, out, _ = penstock("describe", group)
    assert f"Group {group} (consumer): Empty" in out
    code, _, _ = penstock("reset", group, "--all-topics", "--to", "earliest", "--execute")
    assert (code, committed(kafka, group, clicks)) == (0, [0, None, None])
    assert penstock("delete", group, "--execute")[0] == 0


def test_a_name_nearly_right_is_suggested(penstock, cluster, clicks, group):
    cluster.commit(group, {TopicPartition(clicks, 0): 1})
    code, _, err = penstock("describe", f"{group}x")
    assert code == 1
    assert f"Did you mean {group!r}" in err


def test_partitions_that_do_not_exist_are_refused(penstock, clicks, group):
    code, _, err = penstock("reset", group, "--topic", f"{clicks}:1,3", "--to", "latest")
    assert code == 1
    assert f"partition {clicks}-3 does not exist: the topic has 3 partitions" in err


def test_groups_of_all_brokers_are_listed(penstock, kafka_cluster):
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka_cluster.create_topic(name, 1)
    admin = GroupAdmin(cluster_of(kafka_cluster).config)
    await_nodes(kafka_cluster)  # a fenced broker would lead no partition of the offsets topic
    admin.commit("first-group", {TopicPartition(name, 0): 0})  # creates the offsets topic
    groups = {f"g-{uuid.uuid4().hex[:12]}" for _ in range(20)}

    def have_several_coordinators():
        elect_preferred(kafka_cluster, "__consumer_offsets")  # a busy machine may fence brokers, which lose theirs
        for group in groups:
            admin.commit(group, {TopicPartition(name, 0): 0})
        return len({admin.coordinator(group).node_id for group in groups}) > 1

    eventually(have_several_coordinators, "groups of several coordinators: else one list would be enough")
    code, out, _ = penstock("list", broker=kafka_cluster)
    assert code == 0
    assert groups <= {row[0] for row in rows(out)}


# --- event time -------------------------------------------------------------------------------------------------------


def test_E2_event_time_of_what_is_committed(penstock, cluster, topic, produce, clicks, group):
    """Partition 0 is slow, 1 is read to its end, 2 is five minutes ahead of 0; another topic's first record is late."""
    other = topic()
    produce(other, [Rec(b"v", timestamp=BASE + at * 60_000) for at in (8, 1, 2, 9)])  # its second one is out of order
    offsets = dict(
        zip([*(TopicPartition(clicks, p) for p in range(3)), TopicPartition(other, 0)], (2, 10, 7, 3), strict=True)
    )
    cluster.commit(group, offsets)
    code, out, err = penstock("describe", group, "--event-time", "--max-drift", "6m")
    assert (code, err) == (0, "")
    assert "Event time: watermark 2025-01-31T12:00:59.999Z, " in out
    assert f" behind now, slowest {clicks}-0, 1 idle, 1 held back by a drift of 6 min\n" in out
    seen = {(row[0], row[1]): row for row in rows(out) if len(row) > 4}
    assert seen[clicks, "0"][2:7] == ["2", "8", "2025-01-31T12:00:59.999Z", "8", "min"]
    assert seen[clicks, "1"][2:7] == ["10", "0", "2025-01-31T12:08:59.999Z", "0", "s"]
    assert seen[clicks, "2"][2:7] == ["7", "3", "2025-01-31T12:05:59.999Z", "3", "min"]
    assert seen[other, "0"][2:7] == ["3", "1", "2025-01-31T12:07:59.999Z", "1", "min"]
    assert [seen[key][-1] for key in ((clicks, "0"), (clicks, "1"), (other, "0"))] == ["slowest", "idle", "back"]
    assert seen[clicks, "2"][-2:] == ["5", "min"]

    code, out, _ = penstock("describe", group, "--event-time", "--out-of-orderness", "10s", "--json")
    found = json.loads(out)["event_time"]
    assert (code, found["watermark_ms"], found["slowest"]) == (0, BASE + 60_000 - 10_000 - 1, f"{clicks}-0")
    assert found["behind_now_ms"] > 0
    assert {p["ahead_ms"] for p in found["partitions"]} == {0, None, 5 * 60_000, 7 * 60_000}


@pytest.mark.parametrize("where", [["--event-time"], ["list", "--event-time"], ["--event-time", "list", "--json"]])
def test_E2_event_time_of_all_groups(penstock, cluster, kafka, topic, clicks, group, where):
    gone = topic()
    cluster.commit(group, {TopicPartition(clicks, 0): 2, TopicPartition(clicks, 1): 9, TopicPartition(gone, 0): 1})
    kafka.delete_topic(gone)
    code, out, _ = penstock(*where)
    assert code == 0
    if "--json" in where:
        (seen,) = (line for line in map(json.loads, out.splitlines()) if line["group"] == group)
        assert (seen["watermark_ms"], seen["slowest"]) == (BASE + 60_000 - 1, f"{clicks}-0")
    else:
        (seen,) = (line for line in rows(out) if line[0] == group)
        assert seen[1] == "2025-01-31T12:00:59.999Z"
        assert seen[-4] == f"{clicks}-0"


def test_E2_a_member_that_has_committed_nothing_has_no_watermark(penstock, kafka, clicks, group):
    with members(kafka, group, clicks) as consumers:
        consumers[0].commit(
            offsets=[RdPartition(clicks, consumers[0].assignment()[0].partition, 4)], asynchronous=False
        )
        code, out, _ = penstock("describe", group, "--event-time")
    assert code == 0
    assert "Event time: no watermark yet: no committed record has a timestamp in" in out
    assert "and 1 more" in out


def test_a_share_group_is_configured_listed_and_described(penstock, share, clicks):
    code, out, _ = penstock("configure", share.group, "share.delivery.count.limit=3", "share.isolation.level=")
    assert code == 0
    assert "share.delivery.count.limit: 3\nshare.isolation.level: the default of the brokers\nDry run" in out
    assert penstock("configure", share.group, "share.delivery.count.limit=3", "--execute")[0] == 0
    stream = share.stream(clicks, client_id="reader")
    taken(stream, 30)
    stream.commit()
    _, out, _ = penstock("list")
    assert [share.group, "share", "Stable", "share", "-"] in rows(out)
    code, out, _ = penstock("describe", share.group)
    assert code == 0
    assert f"Group {share.group} (share): Stable, assignor simple, 1 member" in out
    assert [(row[1], row[3], row[4]) for row in rows(out) if row[:1] == [clicks]] == [
        (f"{partition}", "0", "1") for partition in range(3)
    ]
    assert "Total: lag 0 over 3 partitions" in out
    _, out, _ = penstock("describe", share.group, "--json")
    seen = json.loads(out)
    assert (seen["kind"], seen["lag"], len(seen["partitions"])) == ("share", 0, 3)
    assert [member["client_id"] for member in seen["members"]] == ["reader"]


def test_what_share_groups_cannot_do_is_said(penstock, share, clicks):
    share.stream(clicks)
    eventually(lambda: [share.group, "share"] in [row[:2] for row in rows(penstock("list")[1])], "the group")
    code, _, err = penstock("delete", share.group)
    assert (code, "kafka-share-groups.sh" in err) == (1, True)
    code, _, err = penstock("describe", share.group, "--event-time")
    assert (code, "has no positions" in err) == (2, True)
    code, _, err = penstock("configure", share.group, "share.no.such=1")
    assert code == 1
    assert "share.no.such" in err
    code, _, err = penstock("configure", share.group, "share.isolation.level")
    assert (code, "is not a setting" in err) == (2, True)
