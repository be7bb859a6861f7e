"""Sizes from batch headers: whole, cut, old and hostile ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock.wire.lookup.record_sizes import bytes_per_offset
from support.encoded_batches import encoded

FAR = 1 << 60


def batch(base, count, size=100, last_delta=None):
    data = bytearray(encoded([bytes(size)] * count, [0] * count))
    struct.pack_into(">q", data, 0, base)
    if last_delta is not None:
        struct.pack_into(">i", data, 23, last_delta)
    return bytes(data)


def old_messages(magic, offsets, codec=0):
    """Messages one by one, or one compressed set of them under the offset of its last."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for at, offset in enumerate(offsets):
        builder.append(at if codec else offset, timestamp=0, key=None, value=bytes(100))
    data = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", data, 0, offsets[-1])
    return bytes(data)


def sized(data, position=0, readable=FAR):
    return bytes_per_offset(memoryview(data), position, readable)


def test_the_average_over_all_batches():
    first, second = batch(0, 10), batch(10, 30, size=50)
    assert sized(first + second) == (len(first) + len(second)) / 40


def test_a_batch_cut_short_counts_by_its_header():
    first, second = batch(0, 10), batch(10, 10)
    for kept in (27, 61, len(second) - 1):
        assert sized(first + second[:kept]) == (len(first) + len(second)) / 20
    assert sized(first + second[:26]) == len(first) / 10, "a header that is not all there says nothing"
    assert sized(first[:61]) == len(first) / 10


def test_a_position_inside_the_first_batch():
    data = batch(100, 10)
    assert sized(data, position=105) == len(data) / 10


def test_gaps_weigh_nothing():
    first, second = batch(50, 10), batch(90, 10)
    assert sized(first + second, position=0) == (len(first) + len(second)) / 100
    compacted = batch(0, 2, last_delta=999)
    assert sized(compacted) == len(compacted) / 1000


@pytest.mark.parametrize("data", [b"", b"\0" * 26, bytes(100), b"\xff" * 100])
def test_nothing_to_go_by(data):
    assert sized(data) is None


def test_what_makes_no_sense_ends_the_sample_there():
    good = batch(0, 10)
    truth = len(good) / 10

    def then(base=10, length=None, magic=None, delta=None):
        bad = bytearray(batch(base, 5))
        if length is not None:
            struct.pack_into(">i", bad, 8, length)
        if magic is not None:
            bad[16] = magic
        if delta is not None:
            struct.pack_into(">i", bad, 23, delta)
        return bytes(bad)

    assert sized(good + then()) != truth, "the test's batch does make sense"
    assert sized(good + then(base=9)) == truth, "it overlaps the one before"
    assert sized(good + then(base=-5)) == truth
    assert sized(good + then(length=48)) == truth
    assert sized(good + then(length=-1)) == truth
    assert sized(good + then(length=2**31 - 1)) == truth
    assert sized(good + then(magic=3)) == truth
    assert sized(good + then(delta=-1)) == truth
    assert sized(good + then(delta=2**31 - 1), readable=1000) == truth, "it reaches past the end of the log"
    assert sized(batch(0, 10), position=10) is None, "it ends before the position"


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_one_by_one(magic):
    data = old_messages(magic, range(100, 110))
    assert sized(data, position=100) == len(data) / 10
    message = len(data) // 10
    assert sized(data[: message * 9 + 27], position=100) == message


@pytest.mark.parametrize("magic", [0, 1])
def test_old_compressed_sets_go_by_those_after_the_first(magic):
    sets = [old_messages(magic, range(start, start + 50), codec=1) for start in (0, 50, 100)]
    data = b"".join(sets)
    # The first set began before the position, at an unknown offset.
    assert sized(data, position=49) == (len(sets[1]) + len(sets[2])) / 100
    assert sized(sets[0], position=0) == len(sets[0]) / 50, "alone it is better than nothing"


def test_old_and_new_in_one_answer():
    old, new = old_messages(1, range(10)), batch(10, 10)
    assert sized(old + new) == (len(old) + len(new)) / 20


@given(st.binary(max_size=200), st.integers(0, 2**62), st.integers(0, 2**62))
def test_garbage_gives_a_size_or_none(garbage, position, readable):
    size = sized(garbage, position, readable)
    assert size is None or size > 0


@given(st.integers(0, 8 * 300 - 1))
def test_any_bit_flipped_gives_a_size_or_none(bit):
    data = bytearray(batch(0, 10) + batch(10, 10) + batch(20, 10))
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    size = sized(data, readable=30)
    assert size is None or size > 0
