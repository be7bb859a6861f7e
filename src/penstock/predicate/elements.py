"""Elements of arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def has_element(lists: pa.ListArray, index: int) -> pa.BooleanArray:
    """Which arrays have an element at an index, counted from 0."""
    return pc.fill_null(pc.greater(pc.list_value_length(lists), index), False)


def elements(lists: pa.ListArray, index: int) -> pa.Array:
    """The element of each array at an index; null for arrays that do not have it."""
    starts = lists.offsets.slice(0, len(lists))
    return lists.values.take(pc.if_else(has_element(lists, index), pc.add(starts, index), None))
