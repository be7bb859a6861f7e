"""JSON lines as records, without a broker."""

from __future__ import annotations

import io
import json

import pytest

from penstock.cli.records import RecordView
from penstock.cli.write import json_lines
from penstock.cli.write.input_file import BadInput, InputFile
from penstock.cli.write.json_lines import JsonLines, as_bytes, line_blocks
from penstock.cli.write.layout import InputSettings
from penstock.errors import OptionError

FILE = InputFile("rows.jsonl", "jsonl")


def lines(text, **settings):
    data = text if isinstance(text, bytes) else text.encode()
    return JsonLines(FILE, io.BytesIO(data), InputSettings(**settings))


def rows(text, **settings):
    return [row for batch in lines(text, **settings).batches() for row in batch.to_pylist()]


# --- lines --------------------------------------------------------------------------------------------------------


def test_blank_lines_and_carriage_returns_do_not_count_as_lines():
    (block,) = line_blocks(io.BytesIO(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}\n'), FILE)
    assert block == [(1, b'{"a": 1}'), (4, b'{"a": 2}')]


def test_blocks_are_bounded_and_lines_cross_them(monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK", 7)
    blocks = list(line_blocks(io.BytesIO(b"".join(b"%d%d\n" % (n, n) for n in range(100, 150))), FILE))
    assert len(blocks) > 10
    assert [each for block in blocks for each in block] == [(n - 99, b"%d%d" % (n, n)) for n in range(100, 150)]


def test_a_line_without_end_fails_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK", 1 << 10)
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 1 << 12)
    with pytest.raises(BadInput, match=r"rows\.jsonl, line 2: is longer"):
        list(line_blocks(io.BytesIO(b"1\n" + b"x" * 100_000), FILE))


# --- rows ---------------------------------------------------------------------------------------------------------


def test_a_row_is_written_as_its_line():
    assert rows('{"user":  "a", "n": 1.50}\n[1]\n"text"\n') == [
        {"key": None, "value": b'{"user":  "a", "n": 1.50}'},
        {"key": None, "value": b"[1]"},
        {"key": None, "value": b'"text"'},
    ]


def test_a_field_is_the_key():
    found = rows('{"id": "a"}\n{"id": 7}\n{"id": {"x": 1}}\n{"id": null}\n{}', key="id")
    assert [row["key"] for row in found] == [b"a", b"7", b'{"x":1}', None, None]


def test_a_misspelt_key_fails_before_the_first_record():
    with pytest.raises(OptionError, match=r"--key = 'usr': is not a field of the first row. Did you mean user\?"):
        lines('{"user": 1}', key="usr")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('{"a": 1', r"rows\.jsonl, line 3: is not JSON: Expecting"),
        ("hello", "line 3: is not JSON"),
        ('{"a": NaN}', "line 3: is not JSON: NaN is not a JSON number"),
        ("[" * 100_000, "line 3: is not JSON"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(bad, said):
    with pytest.raises(BadInput, match=said):
        rows('{"a": 1}\n\n' + bad)


def test_the_records_before_a_bad_line_come_first():
    batches = lines('{"a": 1}\n\n{"a": 2}\nbad\n{"a": 3}').numbered_batches()
    batch, numbers = next(batches)
    assert batch.column("value").to_pylist() == [b'{"a": 1}', b'{"a": 2}']
    assert numbers == [1, 3]
    with pytest.raises(BadInput, match="line 4"):
        next(batches)


@pytest.mark.parametrize("text", ['[\n{"a": 1}\n]', '[{"a": 1}]'])
def test_a_json_array_is_refused_with_the_way_to_convert_it(text):
    with pytest.raises(BadInput, match=r"JSON array.*jq"):
        rows(text)


def test_an_empty_file_has_no_records():
    assert rows("") == rows("\n\n") == []


# --- records ------------------------------------------------------------------------------------------------------


def test_what_penstock_read_prints_is_read_as_records():
    source = lines(
        '{"topic": "t", "partition": 3, "offset": 7, "timestamp": "2025-01-31T12:00:00.000Z", "key": "k", '
        '"value": {"n": 1}, "headers": [["h", "1"], ["h", null]]}\n'
        '{"value": null, "key": null, "timestamp": 1738324800001}\n',
        keep_partitions=True,
    )
    assert source.layout == "records"
    (batch,) = source.batches()
    assert batch.column("value").to_pylist() == [b'{"n":1}', None]
    assert batch.column("key").to_pylist() == [b"k", None]
    assert batch.column("timestamp").cast("int64").to_pylist() == [1_738_324_800_000, 1_738_324_800_001]
    assert batch.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None]
    assert batch.column("partition").to_pylist() == [3, None]


def test_partitions_are_kept_only_if_asked_for():
    assert rows('{"partition": 3, "value": "x"}') == [{"key": None, "value": b"x"}]


@pytest.mark.parametrize("form", ["text", "json", "hex", "base64"])
def test_formats_of_penstock_read_are_read_back(form):
    data = b'{"caf\xc3\xa9":1}'
    view = RecordView("t", key_format=form, value_format=form)
    (shown,) = [view._values("value", _array([data]))]
    assert as_bytes("the value", json.loads(json.dumps(shown[0])), form) == data


def _array(values):
    import pyarrow as pa

    return pa.array(values, pa.binary())


def test_headers_may_be_objects():
    found = rows('{"value": "a", "headers": [{"key": "h", "value": "1"}]}\n{"value": "b", "headers": {"h": 2}}')
    assert [row["headers"] for row in found] == [[{"key": "h", "value": b"1"}], [{"key": "h", "value": b"2"}]]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('{"value": "a", "valeu": 1}', "has a field 'valeu'"),
        ('{"key": "a"}', "has no field 'value'"),
        ("7", "is not an object"),
        ('{"value": "a", "headers": 7}', "headers are not a list"),
        ('{"value": "a", "headers": [["h"]]}', "a header is not"),
        ('{"value": "a", "timestamp": "noon"}', "timestamp 'noon' is not a time"),
        ('{"value": "a", "timestamp": true}', "timestamp is neither"),
        ('{"value": "a", "timestamp": 1e300}', "timestamp is neither"),
        ('{"value": "a", "timestamp": 100000000000000000000}', "line 2"),
        ('{"value": "a", "partition": -1}', "partition -1 is not"),
        ('{"value": "\\ud800"}', "line 2"),
    ],
)
def test_a_record_that_is_not_one_is_named_by_its_line(bad, said):
    with pytest.raises(BadInput, match=said):
        rows('{"value": "first"}\n' + bad, keep_partitions=True)


@pytest.mark.parametrize(("form", "value"), [("hex", "xyz"), ("base64", "a"), ("hex", 7)])
def test_a_value_of_another_format_is_named_by_its_line(form, value):
    with pytest.raises(BadInput, match=rf"line 1: the value is not .*{form}"):
        rows(json.dumps({"value": value}), value_format=form)


def test_the_layout_can_be_chosen():
    assert rows('{"value": "a"}', layout="rows") == [{"key": None, "value": b'{"value": "a"}'}]
    with pytest.raises(OptionError, match="has no column value"):
        lines('{"a": 1}', layout="records")
    with pytest.raises(OptionError, match="--layout rows"):
        lines('{"value": 1, "key": 1}', key="key")
