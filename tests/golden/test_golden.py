"""Batches from a real broker, compared with the records that librdkafka read from the same topic. See capture.py."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from hostile.record_batches import read

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.bin"))
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def load(name: str) -> tuple[bytes, dict[str, Any]]:
    return (HERE / f"{name}.bin").read_bytes(), json.loads((HERE / f"{name}.json").read_text())


def as_expected(row: dict[str, Any]) -> dict[str, Any]:
    headers = row["headers"]
    return {
        "offset": row["offset"],
        "key": hexed(row["key"]),
        "value": hexed(row["value"]),
        "timestamp": row["timestamp"] // 1000,
        "timestampType": row["timestampType"],
        "headers": headers and [[header["key"], hexed(header["value"])] for header in headers],
    }


def hexed(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def headers_of(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """For each batch: base offset, attributes, record count, the first bytes of its records."""
    found, position = [], 0
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        (count,) = struct.unpack_from(">i", data, position + 57)
        found.append((base, attributes, count, data[position + 61 : position + 69]))
        position += 12 + length
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_reads_what_librdkafka_read(name: str) -> None:
    data, expected = load(name)
    end = expected["high_watermark"]
    aborted = expected["aborted"] and [tuple(pair) for pair in expected["aborted"]]
    found = read(data, 0, end, high_watermark=end, aborted=aborted)
    assert [as_expected(row) for row in found.rows] == expected["records"]
    assert (found.next_offset, found.position) == (end, len(data))


@pytest.mark.parametrize("name", NAMES)
def test_reading_in_pieces_gives_the_same(name: str) -> None:
    data, expected = load(name)
    end = expected["high_watermark"]
    aborted = expected["aborted"] and [tuple(pair) for pair in expected["aborted"]]
    rows, start, position = [], 0, 0
    while start < end:
        stop = min(start + 5, end)
        found = read(data, start, stop, high_watermark=end, aborted=aborted, position=position, batch_rows=2)
        rows += found.rows
        start, position = found.next_offset, found.position
    assert [as_expected(row) for row in rows] == expected["records"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("packer", ["broker", "librdkafka"])
def test_the_captures_hold_the_codecs_they_are_named_after(packer: str, codec: str) -> None:
    data, _ = load(f"{packer}-{codec}")
    assert headers_of(data)[0][1] & 7 == CODECS[codec]


def test_the_captures_hold_both_framings_of_snappy() -> None:
    assert headers_of(load("broker-snappy")[0])[0][3] == b"\x82SNAPPY\0"
    assert headers_of(load("librdkafka-snappy")[0])[0][3] != b"\x82SNAPPY\0"


def test_the_captures_hold_markers_and_aborted_records() -> None:
    data, committed = load("transactions-committed")
    assert sum(attributes & 0x20 != 0 for _, attributes, _, _ in headers_of(data)) == 4
    assert len(committed["aborted"]) == 2
    assert len(committed["records"]) < len(load("transactions-uncommitted")[1]["records"])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_captures_hold_gaps_and_a_batch_without_records(codec: str) -> None:
    data, expected = load(f"compacted-{codec}")
    offsets = [record["offset"] for record in expected["records"]]
    assert len(offsets) < expected["high_watermark"]
    assert any(count == 0 for _, _, count, _ in headers_of(data))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_captures_hold_log_append_time(codec: str) -> None:
    data, expected = load(f"log-append-time-{codec}")
    assert {record["timestampType"] for record in expected["records"]} == {1}
    assert headers_of(data)[0][1] & 0xF == CODECS[codec] | 8
