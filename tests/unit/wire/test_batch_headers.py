"""Batch headers, scanned: whole batches, cut ones, old messages and nonsense."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.batch_headers import is_record, largest_timestamp, producer_id, scan_headers
from support.encoded_batches import encoded

SENDER = (77, 3)


def batch(base, count=2, sender=None, magic=2, control=False):
    data = bytearray(encoded([b"v"] * count, [1000 + i for i in range(count)], sender))
    struct.pack_into(">q", data, 0, base)
    data[16] = magic
    data[22] |= 0x20 if control else 0
    return bytes(data)


def headers(data, position=0, **how):
    return list(scan_headers(memoryview(data), position, **how))


def test_headers_say_where_batches_lie_and_which_offsets_they_hold():
    first, second = batch(0), batch(5, 3)
    found = headers(first + second)
    assert [(each.at, each.size, each.first, each.last) for each in found] == [
        (0, len(first), 0, 1),
        (len(first), len(second), 5, 7),
    ]
    assert headers(first + second, at=len(first)) == found[1:]


def test_a_cut_batch_is_seen_by_its_header_unless_whole_ones_are_wanted():
    data = batch(0) + batch(2)[:40]
    assert len(headers(data)) == 2
    assert len(headers(data, whole=True)) == 1


def test_old_messages_end_a_scan_of_whole_batches():
    data = batch(0) + batch(2, magic=1)
    assert [each.magic for each in headers(data)] == [2, 1]
    assert [each.magic for each in headers(data, whole=True)] == [2]


def test_offsets_that_go_back_end_the_scan():
    assert len(headers(batch(5) + batch(4))) == 1
    assert headers(batch(-3)) == []
    assert headers(batch(0), position=9) == []


def test_markers_and_transactions_are_known_by_their_attributes():
    data = memoryview(batch(0) + batch(2, sender=SENDER) + batch(4, sender=SENDER, control=True))
    plain, written, marker = scan_headers(data, 0)
    assert [is_record(each, True) for each in (plain, written, marker)] == [True, False, False]
    assert [is_record(each, False) for each in (plain, written, marker)] == [True, True, False]
    assert [each.is_control for each in (plain, written, marker)] == [False, False, True]
    assert [producer_id(data, each) for each in (plain, written, marker)] == [-1, 77, 77]
    assert [largest_timestamp(data, each) for each in (plain, written, marker)] == [1001, 1001, -1]


@given(st.binary(max_size=400), st.booleans())
def test_garbage_ends_the_scan(garbage, whole):
    for header in scan_headers(memoryview(garbage), 0, whole=whole):
        assert 0 <= header.first <= header.last
        assert header.at + 27 <= len(garbage)
