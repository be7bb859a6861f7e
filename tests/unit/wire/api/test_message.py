"""Declared messages against kafka-python's own: byte for byte, field for field, in every version that we speak."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace

import pytest

from fixtures.declared_apis import COMPARED, UNKNOWN_TO_THEM, as_theirs, declared, name_of, random_values, theirs
from penstock.wire.api.api_versions import API_VERSIONS
from penstock.wire.api.find_coordinator import FIND_COORDINATOR
from penstock.wire.api.metadata import METADATA, ListedPartition
from penstock.wire.api.offset_fetch import OFFSET_FETCH

ROUNDS = 20
NOT_READ = ("replica_nodes", "isr_nodes", "offline_replicas")
"""Of a partition in a Metadata response."""


def plain(value):
    """What was read, as what was written."""
    if isinstance(value, ListedPartition):
        return value._asdict() | dict.fromkeys(NOT_READ)
    if isinstance(value, SimpleNamespace):
        return {name: plain(each) for name, each in vars(value).items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def without_absent(read, written):
    """Fields that a version does not have are read as their defaults, and are not compared."""
    if isinstance(written, dict):
        return {name: each if name in NOT_READ else without_absent(read[name], each) for name, each in written.items()}
    if isinstance(written, list):
        return [without_absent(r, w) for r, w in zip(read, written, strict=True)]
    return read


def test_the_declarations_are_found():
    assert len(declared()) > 15
    assert METADATA in declared()


@pytest.mark.parametrize(("api", "version"), COMPARED, ids=name_of)
def test_a_request_is_the_one_of_kafka_python_byte_for_byte(api, version):
    draw = random.Random(version)
    for _ in range(ROUNDS):
        values = random_values(api.request_body.fields, version, draw)
        expected = as_theirs(f"{api.name}Request", api.request_body.fields, version, values)
        expected.with_header(correlation_id=2**31 - 1, client_id="penstöck")
        ours = api.request(version, **values)
        assert ours.encode(2**31 - 1, "penstöck") == expected.encode(framed=True, header=True)
        assert (ours.name, api.key) == (expected.name, expected.API_KEY)


@pytest.mark.parametrize(("api", "version"), COMPARED, ids=name_of)
def test_a_response_is_read_as_kafka_python_writes_it(api, version):
    draw = random.Random(version)
    for _ in range(ROUNDS):
        values = random_values(api.response_body.fields, version, draw)
        if api is API_VERSIONS:
            values["error_code"] = 0
        body = as_theirs(f"{api.name}Response", api.response_body.fields, version, values).encode()
        tags = b"\0" if version >= api.flexible and api is not API_VERSIONS else b""
        read = plain(api.read_response(memoryview(struct.pack(">i", 5) + tags + body), version, 5))
        assert without_absent(read, values) == values


@pytest.mark.parametrize("api", declared(), ids=name_of)
def test_kafka_python_knows_the_versions_that_we_send(api):
    if api.name not in UNKNOWN_TO_THEM:
        request = theirs(f"{api.name}Request")
        assert request.min_version <= api.lowest <= api.highest <= request.max_version
        first = request._flexible_versions[0]
        assert api.flexible == first or first < 0 <= api.flexible - api.highest


def test_null_arrays_ask_for_everything_and_are_read_as_empty():
    assert METADATA.request(8, topics=None, allow_auto_topic_creation=False).body[:4] == b"\xff\xff\xff\xff"
    assert METADATA.request(12, topics=None, allow_auto_topic_creation=False).body[:1] == b"\0"
    nothing = memoryview(struct.pack(">i", 5) + b"\0" + bytes(4) + b"\0\0")  # no coordinators, no tags
    assert FIND_COORDINATOR.read_response(nothing, 4, 5).coordinators == []


def test_a_value_that_is_missing_is_an_error_and_not_a_default():
    with pytest.raises(KeyError, match="require_stable"):
        OFFSET_FETCH.request(9, groups=[])


def test_a_broker_that_does_not_know_the_version_answers_in_version_0():
    frame = struct.pack(">ihi", 5, 35, 1) + struct.pack(">hhh", 18, 0, 2)
    read = API_VERSIONS.read_response(memoryview(frame), 4, 5)
    assert (read.error_code, [each.max_version for each in read.api_keys]) == (35, [2])


def test_enabled_features_are_read_from_their_tagged_field():
    features = b"\2\x14transaction.version" + struct.pack(">hh", 2, 0) + b"\0"
    body = struct.pack(">h", 0) + b"\1" + struct.pack(">i", 0)  # no keys
    tagged = body + b"\2" + b"\1\x08" + bytes(8) + b"\2" + bytes([len(features)]) + features
    for frame, expected in ((tagged, {"transaction.version": 2}), (body + b"\0", {})):
        assert API_VERSIONS.read_response(memoryview(struct.pack(">i", 5) + frame), 4, 5).features == expected


def test_tagged_fields_are_skipped():
    tags = b"\2\0\1x\7\2yz"
    frame = struct.pack(">i", 5) + tags + bytes(4) + b"\2" + b"\2g" + struct.pack(">i", 1) + b"\2h"
    frame += struct.pack(">ih", 9092, 0) + b"\0" + tags + tags
    (found,) = FIND_COORDINATOR.read_response(memoryview(frame), 4, 5).coordinators
    assert (found.host, found.port) == ("h", 9092)
