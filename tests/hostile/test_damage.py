"""Damaged responses: every truncation and every flipped bit of small responses, in every codec.

Each read ends in the rows that were sent or in CorruptBatch. A response that may be truncated can also end early, and
then `next_offset` is correct.
"""

from __future__ import annotations

import pytest

from hostile.record_batches import CODECS, PARTITION, TOPIC, Batch, Read, chunk, counted, marker, read, record
from penstock._kernel import COLUMNS
from penstock.errors import CorruptBatch
from penstock.wire.message_set import decode_legacy

START, END = 100, 112


def response(codec: str) -> tuple[bytes, list[int]]:
    """Four batches of several shapes, and the end of each."""
    batches = [
        counted(100, 3, codec=codec),
        Batch(
            103, [record(0, None, None, [(b"h", None), (b"g", b"x")]), record(2, b"", b"")], codec=codec, last_delta=2
        ),
        marker(106, 5, commit=True),
        counted(107, 5, codec=codec, attributes=8),
    ]
    ends, size = [], 0
    for batch in batches:
        size += len(batch.encode())
        ends.append(size)
    return chunk(*batches), ends


def read_all(data: bytes, *, cut: bool) -> Read:
    """As the fetch path: messages of magic 0 and 1 go to their own decoder."""
    found = read(data, START, END, high_watermark=END, aligned=True, cut=cut)
    if found.legacy:
        old, next_offset, position = decode_legacy(
            memoryview(data), found.position, TOPIC, PARTITION, COLUMNS, found.next_offset, END, 1 << 28
        )
        assert old is None, "bytes of magic 2 passed the CRC of magic 0"
        return Read(found.rows, next_offset, position, True)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_response_ends_at_a_batch_or_is_corrupt(codec: str) -> None:
    data, ends = response(codec)
    whole = read_all(data, cut=False)
    assert whole.next_offset == END
    for length in range(len(data)):
        if length == 0 or length in ends:
            assert read_all(data[:length], cut=False).position == length
        else:
            with pytest.raises(CorruptBatch):
                read_all(data[:length], cut=False)
        found = read_all(data[:length], cut=True)
        assert found.position == max([0, *(end for end in ends if end <= length)])
        assert found.rows == [row for row in whole.rows if row["offset"] < found.next_offset]


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_anywhere_changes_nothing_or_is_corrupt(codec: str) -> None:
    data, _ = response(codec)
    whole = read_all(data, cut=False)
    unharmed = 0
    for bit in range(len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << (bit % 8)
        try:
            found = read_all(bytes(bad), cut=False)
        except CorruptBatch:
            pass
        else:
            assert not found.legacy, f"bit {bit}: a message of magic 0 that ends nowhere"
            assert found == whole, f"bit {bit}"
            unharmed += 1
    # The leader epoch, 32 bits in each of the four headers, is the only field that is neither covered nor used.
    assert unharmed == 4 * 32


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_in_a_response_that_may_be_truncated_leaves_a_correct_prefix(codec: str) -> None:
    data, _ = response(codec)
    whole = read_all(data, cut=False)
    for bit in range(len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << (bit % 8)
        try:
            found = read_all(bytes(bad), cut=True)
        except CorruptBatch:
            continue
        assert START <= found.next_offset <= END, f"bit {bit}"
        assert found.rows == [row for row in whole.rows if row["offset"] < found.next_offset], f"bit {bit}"
