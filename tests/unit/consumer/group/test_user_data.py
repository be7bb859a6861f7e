"""User data of members, the protocol's own bytes, and arbitrary bytes of other clients."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from penstock.consumer.group.assignors import Thread
from penstock.consumer.group.join_and_sync import MAX_ASSIGNMENT_USER_DATA, encode_assignments, read_members
from penstock.consumer.group.user_data import (
    MAGIC,
    MAX_ID_LENGTH,
    MAX_USER_DATA,
    MAX_USER_DATA_OF_GROUP,
    AssignmentUserData,
    SubscriptionUserData,
    encode_for_members,
)
from penstock.consumer.subscription import MAX_STREAMS
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_protocol import (
    LARGEST_BYTES,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.wire.api.group_membership import JoinedMember

names = st.text(min_size=1, max_size=8)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))


PLAIN_NOTE = {"consumer": "c", "threads": 1, "fresh": True, "streams": {}}


def packed(value) -> bytes:
    return MAGIC + zlib.compress(json.dumps(value).encode())


def joined(member_id, sent, instance_id=None):
    return JoinedMember(member_id, instance_id, encode_subscription(sent))


def penstock(member_id, topics, fresh=False, owned=(), generation=-1, streams=None):
    value = SubscriptionUserData(f"consumer-{member_id}", topics, fresh, streams or {})
    return joined(member_id, Subscription(tuple(topics), value.encode(generation), tuple(owned), generation))


# --- the protocol's bytes ---------------------------------------------------------------------------------------------


@given(
    topics=st.lists(names, unique=True),
    user_data=st.binary(),
    owned=st.sets(partitions),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
)
def test_a_subscription_decodes_to_what_was_encoded(topics, user_data, owned, generation, rack):
    sent = Subscription(tuple(topics), user_data, tuple(sorted(owned)), generation, rack)
    assert decode_subscription(encode_subscription(sent)) == sent


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_of_every_version_is_read(version):
    owned = [ConsumerProtocolSubscription.TopicPartition(topic="a", partitions=[2, 1])]
    data = ConsumerProtocolSubscription(
        version=version, topics=["a"], user_data=None, owned_partitions=owned, generation_id=7, rack_id="r1"
    ).encode()
    read = decode_subscription(data)
    assert read.topics == ("a",)
    assert read.user_data == b""
    assert set(read.owned) == ({TopicPartition("a", 1), TopicPartition("a", 2)} if version >= 1 else set())
    assert read.generation == (7 if version >= 2 else -1)
    assert read.rack == ("r1" if version >= 3 else None)


def test_a_future_version_is_read_as_far_as_it_is_known():
    data = encode_subscription(Subscription(("a",), b"x", (TopicPartition("a", 1),), 3))
    assert decode_subscription(struct.pack(">h", 9) + data[2:] + b"more") == decode_subscription(data)


@given(st.sets(partitions), st.binary())
def test_an_assignment_decodes_to_what_was_encoded(given_partitions, user_data):
    assert decode_assignment(encode_assignment(given_partitions, user_data)) == (sorted(given_partitions), user_data)


def test_a_member_without_an_assignment_has_no_partitions():
    assert decode_assignment(b"") == ([], b"")


@given(st.binary(max_size=64))
@example(b"\xff\xff")
@example(b"\x00\x01\x7f\xff\xff\xff")
@example(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff")
def test_bytes_that_do_not_parse_raise_one_kind_of_error(data):
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(ValueError):
            decode(data)


# --- how other clients read it ----------------------------------------------------------------------------------------


def test_java_finds_a_generation_at_the_start_of_the_user_data():
    data = SubscriptionUserData("c", {"t": 1}).encode(41)
    assert struct.unpack_from(">i", data) == (41,)


def test_kafka_python_and_penstock_read_each_others_subscriptions():
    sent = Subscription(
        ("a", "b"), SubscriptionUserData("c", {"a": 2, "b": 1}).encode(3), (TopicPartition("a", 0),), 3, "r"
    )
    theirs = CooperativeStickyAssignor.parse_member_metadata(
        ConsumerProtocolSubscription.decode(encode_subscription(sent))
    )
    assert (theirs.generation, theirs.subscription) == (3, ["a", "b"])
    assert [tuple(tp) for tp in theirs.partitions] == [("a", 0)]
    read = decode_subscription(RangePartitionAssignor.metadata(["a", "b"]).encode())
    assert read == Subscription(("a", "b"))


def test_kafka_python_reads_penstocks_assignment():
    data = encode_assignment(
        [TopicPartition("a", 1), TopicPartition("a", 0)], AssignmentUserData("m", True, {}).encode()
    )
    assert [tuple(tp) for tp in ConsumerProtocolAssignment.decode(data).partitions()] == [("a", 0), ("a", 1)]


# --- user data --------------------------------------------------------------------------------------------------------


@given(
    consumer_id=names,
    threads=st.dictionaries(names, st.integers(1, 9)),
    fresh=st.booleans(),
    streams=st.dictionaries(partitions, st.integers(0, 9)),
    generation=st.integers(-1, 2**31 - 1),
)
def test_user_data_of_a_subscription_decodes_to_what_was_encoded(consumer_id, threads, fresh, streams, generation):
    value = SubscriptionUserData(consumer_id, threads, fresh, streams)
    assert SubscriptionUserData.decode(value.encode(generation), tuple(threads)) == value


@given(
    member_id=names,
    fresh=st.booleans(),
    streams=st.dictionaries(partitions, st.integers(0, 9)),
    others=st.dictionaries(partitions, names),
)
def test_user_data_of_an_assignment_decodes_to_what_was_encoded(member_id, fresh, streams, others):
    value = AssignmentUserData(member_id, fresh, streams, others)
    assert AssignmentUserData.decode(value.encode()) == value


HOSTILE = [
    b"",
    b"\x00\x00\x00\x07",
    MAGIC,
    MAGIC + b"rubbish",
    packed([]),
    packed(None),
    packed({}),
    packed("x"),
    packed({"consumer": 3, "threads": 1, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": 0, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": 10**9, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": MAX_STREAMS + 1, "fresh": True, "streams": {}}),
    packed({"consumer": "c" * (MAX_ID_LENGTH + 1), "threads": 1, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": {"t": None}, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": {}, "fresh": True, "streams": {}}),
    packed({"consumer": "c", "threads": 1, "fresh": True, "streams": {"t": 3}}),
    packed({"consumer": "c", "threads": 1, "fresh": True, "streams": {"t": {"x": 1}}}),
    packed({"member": "m", "fresh": True, "streams": {"t": []}, "others": {}}),
    MAGIC + zlib.compress(b"[" * 100_000),
    MAGIC + zlib.compress(b'"' + b" " * (MAX_USER_DATA + 1) + b'"'),
    MAGIC + zlib.compress(b"{}")[:-2],
    MAGIC + zlib.compress(b"[" + b"[]," * (MAX_USER_DATA // 3) + b"[]]"),
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_bytes_that_penstock_did_not_write_are_ignored(data):
    assert SubscriptionUserData.decode(b"\x00\x00\x00\x01" + data, ("t",)) is None
    assert AssignmentUserData.decode(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_user_data_or_none(data):
    SubscriptionUserData.decode(data, ("t",))
    AssignmentUserData.decode(data)
    SubscriptionUserData.decode(b"\x00\x00\x00\x01" + MAGIC + data, ("t",))
    AssignmentUserData.decode(MAGIC + data)


def test_the_format_of_user_data_is_that_of_earlier_versions():
    """Members of different versions meet in a group, so the format must not change."""
    owned = {TopicPartition("a", 0): 1}
    for value, text in (
        (
            SubscriptionUserData("c", {"a": 2, "b": 1}, True, owned),
            b'{"consumer":"c","threads":{"a":2,"b":1},"fresh":true,"streams":{"a":{"0":1}}}',
        ),
        (SubscriptionUserData("c", {"a": 2, "b": 2}), b'{"consumer":"c","threads":2,"fresh":false,"streams":{}}'),
    ):
        encoded = value.encode(7)
        assert encoded.startswith(b"\0\0\0\7penstock\1")
        assert zlib.decompress(encoded[13:]) == text
    encoded = AssignmentUserData("m", False, owned, {TopicPartition("a", 1): "d-0"}).encode()
    assert encoded.startswith(b"penstock\1")
    assert zlib.decompress(encoded[9:]) == (
        b'{"member":"m","fresh":false,"streams":{"a":{"0":1}},"others":{"a":{"1":"d-0"}}}'
    )


def test_own_threads_are_named_by_the_current_consumer_id():
    value = AssignmentUserData("m", False, {TopicPartition("t", 0): 1}, {TopicPartition("t", 1): "other-0"})
    assert value.threads_of_group("me") == {"t": {0: "me-1", 1: "other-0"}}


def test_members_get_their_own_partitions_only_if_the_user_data_would_not_fit():
    threads = {TopicPartition("t", p): Thread(f"m{p % 2}", p % 3) for p in range(600)}
    consumers = {"m0": "c0", "m1": "c1"}
    whole = encode_for_members(threads, consumers, frozenset(consumers), True, MAX_ASSIGNMENT_USER_DATA)
    size = sum(map(len, whole.values()))
    short = encode_for_members(threads, consumers, frozenset(consumers), True, size - 1)
    assert encode_for_members(threads, consumers, frozenset(consumers), True, size) == whole
    for encoded, others in ((whole, 300), (short, 0)):
        for member_id, data in encoded.items():
            value = AssignmentUserData.decode(data)
            assert value.member_id == member_id
            assert value.fresh
            assert value.streams == {tp: t.stream for tp, t in threads.items() if t.member_id == member_id}
            assert len(value.others) == others


def test_a_consumer_id_that_is_too_long_is_sent_by_its_end():
    value = SubscriptionUserData("group" * MAX_ID_LENGTH + "-unique", {"t": 1})
    decoded = SubscriptionUserData.decode(value.encode(1), ("t",))
    assert decoded.consumer_id.endswith("group-unique")
    assert len(decoded.consumer_id) == MAX_ID_LENGTH


def test_members_get_their_own_partitions_only_if_the_user_data_would_be_too_long_to_read():
    """Thread ids compress well: user data may fit into the coordinator's record, and be too long for members to
    read."""
    count = MAX_USER_DATA // MAX_ID_LENGTH
    threads = {TopicPartition("t", p): Thread(f"m{p % 2}", 0) for p in range(2 * count)}
    encoded = encode_for_members(
        threads, dict.fromkeys(("m0", "m1"), "c" * MAX_ID_LENGTH), frozenset({"m0"}), True, 1 << 40
    )
    value = AssignmentUserData.decode(encoded["m0"])
    assert len(value.streams) == count
    assert not value.others


# --- bombs: few bytes of a member that cost its leader much -----------------------------------------------------------


def test_a_leader_does_not_repeat_a_consumer_id_of_megabytes_for_every_partition():
    bomb = joined("m1", Subscription(("t",), b"\x00\x00\x00\x01" + packed(PLAIN_NOTE | {"consumer": "c" * 15_000_000})))
    assert len(bomb.subscription) < 20_000
    group = read_members([bomb, penstock("m2", {"t": 1})])
    assert {member.consumer_id for member in group.members} == {"m1", "consumer-m2"}
    assert sum(map(len, encode_assignments("range", group, {"t": 200}).values())) < 10_000


def test_a_leader_limits_the_user_data_of_all_members_and_reads_the_smallest_first():
    """Each is just short enough; reading all of them would take minutes."""
    padding = {"padding": "x" * (MAX_USER_DATA - 200)}
    data = b"\x00\x00\x00\x01" + packed(PLAIN_NOTE | padding)
    bombs = [joined(f"x{i}", Subscription(("t",), data)) for i in range(MAX_USER_DATA_OF_GROUP // MAX_USER_DATA + 5)]
    group = read_members([*bombs, penstock("m2", {"t": 2})])
    assert "m2" in group.penstocks
    assert len(group.penstocks) <= MAX_USER_DATA_OF_GROUP // MAX_USER_DATA + 2
    assert len(group.members) == len(bombs) + 1


def test_a_leader_assigns_nothing_to_a_subscription_of_megabytes(caplog):
    """A claimed partition takes four bytes, and a hundred once it is parsed."""
    sent = Subscription(("t",), bytes(LARGEST_BYTES), (TopicPartition("t", 0),))
    group = read_members([joined("x", sent), penstock("m2", {"t": 1})])
    assert [(member.member_id, member.owned, dict(member.threads)) for member in group.members] == [
        ("x", (), {}),
        ("m2", (), {"t": 1}),
    ]
    assert f"more than {LARGEST_BYTES}" in caplog.text


def test_an_assignment_of_megabytes_is_none():
    with pytest.raises(ValueError, match=f"more than {LARGEST_BYTES}"):
        decode_assignment(encode_assignment([TopicPartition("t", 0)], bytes(LARGEST_BYTES)))


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky", "penstock-fixed"])
def test_a_leader_spends_no_time_on_threads_without_partitions(assignor, monkeypatch):
    made = []

    def counted(*fields):
        made.append(fields)
        return Thread(*fields)

    monkeypatch.setattr("penstock.consumer.group.assignors.Thread", counted)
    members = [penstock(f"m{i}", {"t": MAX_STREAMS}) for i in range(20)] + [penstock("m", {"u": 1})]
    assignments = encode_assignments(assignor, read_members(members), {"t": 10, "u": 10})
    assert sum(len(decode_assignment(each)[0]) for each in assignments.values()) == 20
    assert len(made) <= 20


# --- the leader's part ------------------------------------------------------------------------------------------------


def test_H6_penstock_members_count_by_threads_and_other_clients_as_one_thread():
    group = read_members([penstock("m1", {"t": 3}), joined("m2", Subscription(("t",)))])
    assignments = encode_assignments("range", group, {"t": 8})
    mine, user_data = decode_assignment(assignments["m1"])
    assert mine == [TopicPartition("t", p) for p in range(6)]
    value = AssignmentUserData.decode(user_data)
    assert list(value.streams.values()) == [0, 0, 1, 1, 2, 2]
    assert value.others == {TopicPartition("t", 6): "m2-0", TopicPartition("t", 7): "m2-0"}
    assert decode_assignment(assignments["m2"]) == ([TopicPartition("t", 6), TopicPartition("t", 7)], b"")


@pytest.mark.parametrize(
    ("members", "fresh"),
    [
        ([penstock("m1", {"t": 1}, fresh=True)], True),
        ([penstock("m1", {"t": 1}, fresh=True), penstock("m2", {"t": 1}, fresh=True)], True),
        ([penstock("m1", {"t": 1}, fresh=True), penstock("m2", {"t": 1}, fresh=False)], False),
        ([penstock("m1", {"t": 1}, fresh=True), joined("m2", Subscription(("t",)))], False),
    ],
)
def test_a_group_is_fresh_if_all_members_have_just_started(members, fresh):
    assert read_members(members).fresh is fresh


def test_a_member_with_an_unreadable_subscription_gets_no_partitions(caplog):
    group = read_members([JoinedMember("odd", None, b"\x00\x01\x7f"), penstock("m1", {"t": 1})])
    assignments = encode_assignments("roundrobin", group, {"t": 2, "unused": 3})
    assert decode_assignment(assignments["odd"]) == ([], b"")
    assert decode_assignment(assignments["m1"])[0] == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert "odd" in caplog.text


def test_a_stream_survives_a_rebalance_through_the_leader():
    owned = {TopicPartition("t", p): 1 for p in range(3)}
    group = read_members([penstock("m1", {"t": 2}, owned=owned, generation=4, streams=owned)])
    value = AssignmentUserData.decode(
        decode_assignment(encode_assignments("cooperative-sticky", group, {"t": 5})["m1"])[1]
    )
    assert value.streams == owned | {TopicPartition("t", 3): 0, TopicPartition("t", 4): 0}


def test_an_older_java_client_sends_its_generation_in_user_data():
    sent = Subscription(("t",), struct.pack(">i", 12), (TopicPartition("t", 0),))
    (member,) = read_members([joined("m1", sent)]).members
    assert member.generation == 12
