"""Records as the page gets them: text of a bounded size."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.cli.shown_records import SHOWN_BYTES, TYPED_COLUMNS, _cuts, cut, shown
from penstock.config.source import parse_options
from penstock.formats.typed import TypedColumns
from penstock.model.columns import arrow_schema
from penstock.sampling.typed_source import typed_source
from penstock.watch.search import Cut


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, Cut(None, None)),
        (b"", Cut("", 0)),
        (b"<b>\x1b[2J\x00", Cut("<b>\x1b[2J\x00", 8)),
        (b"\xff\xfe", Cut("\\xff\\xfe", 2)),
        ("é".encode()[:1], Cut("\\xc3", 1)),
        (b"x" * SHOWN_BYTES, Cut("x" * SHOWN_BYTES, SHOWN_BYTES)),
        (b"x" * 10_000_000, Cut("x" * SHOWN_BYTES, 10_000_000, True)),
    ],
    ids=["none", "empty", "controls", "not utf-8", "half a character", "just as large", "10 MB"],
)
def test_a_value_is_text_and_cut_with_its_size(data, shown):
    assert cut(data) == shown
    assert _cuts(pa.array([data], pa.binary())) == [shown]
    assert _cuts(pa.array([data], pa.large_binary())) == [shown]


def test_a_character_at_the_cut_is_left_out():
    found = cut(b"x" * (SHOWN_BYTES - 1) + "é".encode() + b"y")
    assert found == Cut("x" * (SHOWN_BYTES - 1), SHOWN_BYTES + 2, True)


def typed(values, keys=None, **options):
    """Records as a search with these formats shows them."""
    given = {"bootstrap.servers": "localhost:9092", "subscribe": "t"} | options
    plan = typed_source(parse_options(given)).select(TYPED_COLUMNS)
    cells = {
        "key": keys or [None for _ in values],
        "value": values,
        "partition": [0 for _ in values],
        "offset": list(range(len(values))),
        "timestamp": [5_000 for _ in values],
        "headers": [[{"key": "h", "value": b"x"}] for _ in values],
    }
    schema = arrow_schema(plan.fetched)
    batch = pa.RecordBatch.from_arrays([pa.array(cells[each.name], each.type) for each in schema], schema=schema)
    return [record for each in TypedColumns(plan, "t", 0).batches([batch]) for _, record in shown(each)]


def test_typed_values_are_json():
    [record] = typed([b'{"n": 5, "unknown": 1, "s": "\\u202e"}'], valueFormat="json", valueSchema="n INT, s STRING")
    assert record.value == Cut('{"n": 5, "s": "\u202e"}', 20)
    assert (record.error, record.headers, record.timestamp) == (None, (("h", Cut("x", 1)),), "1970-01-01T00:00:00.005Z")


def test_strings_are_text():
    [record] = typed(["é".encode()], valueFormat="string")
    assert record.value == Cut("é", 2)


def test_large_typed_values_are_cut_too():
    [record] = typed([b'{"s": "%s"}' % (b"x" * 100_000)], valueFormat="json", valueSchema="s STRING")
    assert (len(record.value.text), record.value.size, record.value.is_cut) == (SHOWN_BYTES, 100_009, True)


def test_bytes_that_do_not_parse_are_shown_with_the_reason():
    [good, bad] = typed([b'{"n": 5}', b"<b>no json"], valueFormat="json", valueSchema="n INT")
    assert good.error is None
    assert bad.error.startswith("value: ")
    assert bad.value == Cut("<b>no json", 10)


def test_a_malformed_key_is_shown_beside_its_value():
    options = {"keyFormat": "json", "keySchema": "k INT", "valueFormat": "json", "valueSchema": "n INT"}
    [record] = typed([b'{"n": 5}'], [b"no"], **options)
    assert record.error.startswith("key: ")
    assert (record.key, record.value) == (Cut("no", 2), Cut('{"n": 5}', 8))


def test_a_tombstone_is_no_value():
    [record] = typed([None], valueFormat="json", valueSchema="n INT")
    assert (record.value, record.error) == (Cut(None, None), None)
