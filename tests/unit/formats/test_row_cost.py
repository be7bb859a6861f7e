"""What a row costs on its way to Spark."""

from __future__ import annotations

import logging

import pyarrow as pa

from penstock.formats.row_cost import log_row_cost, row_cost


def test_fixed_types_cost_their_width_and_others_at_least_their_offset():
    value = pa.struct([("id", pa.int64()), ("name", pa.string()), ("vip", pa.bool_())])
    assert row_cost(pa.schema([("value", value), ("offset", pa.int64())])) == "value 12.125+, offset 8"
    assert row_cost(pa.schema([("tags", pa.list_(pa.int32()))])) == "tags 4+"


def test_a_query_logs_its_columns_at_debug_only(caplog):
    with caplog.at_level(logging.INFO, "penstock"):
        log_row_cost(["key", "timestamp"])
    assert not caplog.messages
    with caplog.at_level(logging.DEBUG, "penstock"):
        log_row_cost(["key", "timestamp"])
    assert caplog.messages[0].startswith("columns shipped, in bytes per row: key 4+, timestamp 8 (")
