"""Responses that are cut, flipped or made up: each is read or refused, never a crash, a hang or much memory."""

import contextlib
import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.declared_apis import CASES, name_of, random_values
from penstock.wire.api.api_versions import API_VERSIONS
from penstock.wire.api.frame import READ_ERRORS
from penstock.wire.api.message import Structure
from penstock.wire.api.metadata import METADATA
from penstock.wire.api.offset_fetch import OFFSET_FETCH


def frame(api, version, seed=0, largest=2_000):
    """A response as a broker would write it: our own encoder is compared with kafka-python's elsewhere."""
    draw = random.Random(seed)
    while True:
        values = random_values(api.response_body.fields, version, draw)
        body = Structure(*api.response_body.fields).encode(version, version >= api.flexible, values)
        if len(body) <= largest:
            tagged = version >= api.flexible and api.tagged_response_header
            return struct.pack(">i", 5) + (b"\0" if tagged else b"") + body


def read(api, version, data):
    return api.read_response(memoryview(bytes(data)), version, 5)


@pytest.mark.parametrize(("api", "version"), CASES, ids=name_of)
def test_cut_anywhere_it_is_refused(api, version):
    whole = frame(api, version, seed=version)
    if api is API_VERSIONS:
        whole = whole[:4] + b"\0\0" + whole[6:]  # error code 35 is answered in another version
    read(api, version, whole)
    for length in range(len(whole)):
        with pytest.raises(READ_ERRORS):
            read(api, version, whole[:length])


@pytest.mark.parametrize(("api", "version"), [case for case in CASES if case[1] == case[0].highest], ids=name_of)
def test_any_bit_flipped_it_is_read_or_refused(api, version):
    whole = frame(api, version, largest=300)
    for position in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << (position % 8)
        with contextlib.suppress(*READ_ERRORS):
            read(api, version, flipped)


@given(st.binary(max_size=300), st.sampled_from(CASES))
def test_garbage_is_read_or_refused(garbage, case):
    with contextlib.suppress(*READ_ERRORS):
        read(*case, b"\0\0\0\5" + garbage)


@pytest.mark.parametrize(("api", "version"), [(METADATA, 8), (METADATA, 12), (OFFSET_FETCH, 7), (OFFSET_FETCH, 9)])
def test_counts_that_lie_take_no_memory(api, version):
    """A count is checked against the bytes that its elements take at least, before the first is read."""
    flexible = version >= api.flexible
    many = b"\xff\xff\xff\x7f" if flexible else struct.pack(">i", 2**28)
    head = struct.pack(">i", 5) + (b"\0" if flexible else b"") + bytes(4)
    data = head + many + bytes(1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(READ_ERRORS):
            read(api, version, data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("api", "version"), CASES, ids=name_of)
def test_the_answer_to_another_request_is_refused(api, version):
    with pytest.raises(ValueError, match="answers request 5, not 6"):
        api.read_response(memoryview(frame(api, version)), version, 6)
