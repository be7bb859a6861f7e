"""Damaged and malicious JKS stores: an error that says so, soon, and nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.transport.jks import MAGIC, JksDamaged, SealedKey, WrongPassword, read_jks
from support.examples import examples

PASSWORD = "store password"
STORES = Path(__file__).parent.parent / "golden" / "key_stores"
WHOLE = (STORES / "client.jks").read_bytes()


def test_every_cut_is_noticed():
    for size in range(len(WHOLE)):
        with pytest.raises((JksDamaged, WrongPassword)):
            read_jks(WHOLE[:size], PASSWORD)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@settings(max_examples=examples(500))
def test_every_changed_byte_is_noticed(at, change):
    data = bytearray(WHOLE)
    data[at] ^= change
    with pytest.raises((JksDamaged, WrongPassword)):
        read_jks(bytes(data), PASSWORD)


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=8))
@settings(max_examples=examples(500))
def test_without_the_digests_check_no_other_error_comes(at, replacement):
    data = WHOLE[:at] + replacement + WHOLE[at + len(replacement) :]
    try:
        for key in read_jks(data, None).keys:
            key.open(PASSWORD)
    except (JksDamaged, WrongPassword):
        pass


@pytest.mark.timeout(10)
@pytest.mark.parametrize("tag", [1, 2, 3])
def test_sizes_from_the_file_reserve_nothing(tag):
    """Four billion entries, or certificates, of which none exists."""
    entry = struct.pack(">IH", tag, 1) + b"a" + bytes(8) + struct.pack(">I", 0xFFFFFFFF)
    with pytest.raises(JksDamaged):
        read_jks(MAGIC + struct.pack(">II", 2, 0xFFFFFFFF) + entry + bytes(20), None)
    entry = struct.pack(">IH", 1, 1) + b"a" + bytes(8) + struct.pack(">II", 0, 0xFFFFFFFF)
    with pytest.raises(JksDamaged, match="ends too early"):
        read_jks(MAGIC + struct.pack(">II", 1, 1) + entry + bytes(20), None)


@pytest.mark.parametrize("sealed", [b"", b"0", b"0\x84", b"0\x84\xff\xff\xff\xff", b"0\x02\x30\x00", b"0\x02\x05\x00"])
def test_a_strange_private_key_is_damaged(sealed):
    with pytest.raises(JksDamaged):
        SealedKey("a", (), sealed).open(PASSWORD)


def test_a_key_shows_nothing():
    (key,) = read_jks(WHOLE, PASSWORD).keys
    assert "sealed" not in repr(key)
