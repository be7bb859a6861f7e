"""The principals of a keytab, and files that are none."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.transport.keytab import NotAKeytab, principals, principals_in


def counted(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def entry(realm: str, *names: str) -> bytes:
    key = struct.pack(">iiB", 1, 1_700_000_000, 3) + struct.pack(">hH", 18, 4) + b"hush"
    body = struct.pack(">h", len(names)) + counted(realm) + b"".join(map(counted, names)) + key
    return struct.pack(">i", len(body)) + body


def test_each_principal_is_listed_once(tmp_path):
    content = entry("R", "me") + entry("R", "me") + entry("R", "kafka", "host.example.org")
    (tmp_path / "k").write_bytes(b"\x05\x02" + content)
    assert principals_in(tmp_path / "k") == ("me@R", "kafka/host.example.org@R")


def test_deleted_entries_and_space_at_the_end_are_skipped():
    content = entry("R", "me") + struct.pack(">i", -7) + bytes(7) + entry("R", "you") + bytes(8)
    assert principals(b"\x05\x02" + content) == ("me@R", "you@R")


@pytest.mark.parametrize("content", [b"", b"\x05", b"\x05\x01\0\0", b"hello", b"\x05\x02\0\0\0\x01\0"])
def test_a_file_that_is_not_a_keytab_is_an_error(content):
    with pytest.raises(NotAKeytab, match=r"it is (not a keytab|damaged)"):
        principals(content)


@given(st.binary(max_size=200))
def test_damaged_bytes_are_an_error_or_some_names(content):
    with contextlib.suppress(NotAKeytab):
        principals(b"\x05\x02" + content)
