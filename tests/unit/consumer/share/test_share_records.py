"""Rows of a batch that are to be acknowledged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.consumer.share.share_records import row_numbers
from penstock.errors import OptionError


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        ([0, 2], [0, 2]),
        ((), []),
        (range(1, 3), [1, 2]),
        (slice(None, 2), [0, 1]),
        (slice(-1, None), [3]),
        ([True, False, False, True], [0, 3]),
        (pa.array([False, True, None, True]), [1, 3]),
        (pa.chunked_array([[0], [3]]), [0, 3]),
        (iter([1]), [1]),
    ],
)
def test_rows_are_numbers_a_mask_or_a_slice(rows, numbers):
    assert list(row_numbers(rows, 4)) == numbers


@pytest.mark.parametrize("rows", [3, "0", b"0", [4], [-1], [0.0], [True], [None, 1], ["a"], [True, 1, 2, 3]])
def test_other_rows_are_an_error(rows):
    with pytest.raises(OptionError, match="rows"):
        row_numbers(rows, 4)
