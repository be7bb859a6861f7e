"""Malformed JSON: each document affects its own row and no other."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from penstock._kernel import Format

ITEM = pa.struct([pa.field("name", pa.string()), pa.field("count", pa.int32())])
KIND = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("items", pa.list_(pa.field("element", ITEM))),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
        pa.field("data", pa.binary()),
    ]
)
DOCUMENT = (
    b'{"id": -12, "skipped": {"deep": [1, 2.5e3, "\\u00e9\\n", null, true]},'
    b'"text": "caf\xc3\xa9 \\"\\ud83d\\ude00\\"",'
    b'"price":12.34,"at":"2024-05-06T07:08:09.123Z","items":[{"name":"a","count":1},{"count":2}],"tags":{"k":"v"},'
    b'"data":"aGVsbG8="}'
)
PIECES = [b"", b"\x00", b'"', b"\\", b"\\u", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"-", b"e", b".", b"\xff"]
PIECES += [b"\xc3", b"\xf0\x9f", b"\n", b"null", b"1e999", b"[" * 50, b'{"' * 50, b"9" * 50]


def read(documents: list[bytes]) -> tuple[list[object], dict[int, str]]:
    result = Format.json(pa.field("", KIND)).decode(pa.array(documents, pa.binary()))
    column = pa.array(result)
    column.validate(full=True)
    rows = [row for row, _ in result.faults]
    assert rows == sorted(set(rows))
    assert all(reason and len(reason) < 200 for _, reason in result.faults)
    return column.to_pylist(), dict(result.faults)


[GOOD], _ = read([DOCUMENT])
NOTHING = {KIND.field(at).name: None for at in range(KIND.num_fields)}


def check(documents: list[bytes]) -> list[bool]:
    """Reads documents between good ones. Returns which of them are not JSON."""
    between = [DOCUMENT]
    for document in documents:
        between += [document, DOCUMENT]
    rows, faults = read(between)
    assert len(rows) == len(between)
    for at in range(0, len(rows), 2):
        assert rows[at] == GOOD
        assert at not in faults
    malformed = []
    for at in range(1, len(rows), 2):
        reason = faults.get(at, "")
        malformed.append(reason.startswith("is not JSON"))
        if malformed[-1]:
            assert rows[at] == NOTHING
        elif not reason:
            assert rows[at] is None or isinstance(rows[at], dict)
    return malformed


def test_the_document_is_good() -> None:
    assert isinstance(GOOD, dict)
    assert GOOD["text"] == 'café "\U0001f600"'
    assert None not in GOOD.values()


def test_every_truncation_is_found() -> None:
    assert check([DOCUMENT[:length] for length in range(1, len(DOCUMENT))]) == [True] * (len(DOCUMENT) - 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_affects_one_row_and_python_agrees(seed: int) -> None:
    chance = random.Random(seed)
    documents = []
    for _ in range(500):
        damaged = bytearray(DOCUMENT)
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            at = chance.randrange(len(damaged) + 1)
            match chance.randrange(4):
                case 0:
                    damaged[at:at] = chance.choice(PIECES)
                case 1:
                    damaged[at : at + chance.randrange(1, 8)] = chance.choice(PIECES)
                case 2 if at < len(damaged):
                    damaged[at] ^= 1 << chance.randrange(8)
                case _:
                    other = chance.randrange(len(damaged))
                    damaged[at:at] = damaged[other : other + chance.randrange(1, 20)]
        documents.append(bytes(damaged))
    for document, malformed in zip(documents, check(documents), strict=True):
        assert malformed == (not is_json_object(document)), document


def is_json_object(document: bytes) -> bool:
    """Python's verdict on the first value of a document, because the kernel ignores the text after it."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    text = document.decode(errors="replace").lstrip(" \t\r\n")
    try:
        json.JSONDecoder(parse_constant=refuse).raw_decode(text)
    except ValueError:
        return not text  # a blank document is null without a fault
    # A document of another type is not a JSON object, but it is JSON.
    return True


@pytest.mark.parametrize("name", ["skipped", "text", "id", "items", "tags"])
@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'[{"a":', b"[[],", b'{"a":1,"b":'])
def test_endless_nesting_is_rejected_early(name: str, piece: bytes) -> None:
    # A recursive parser would exhaust the stack; one that looked ahead at each bracket would take forever.
    endless = f'{{"{name}":'.encode() + piece * 1_000_000
    assert check([endless]) == [True]


def test_large_documents_are_read() -> None:
    long = b"x" * 20_000_000
    many = b",".join(b'{"count":%d}' % number for number in range(200_000))
    documents = [b'{"text":"%s","id":1}' % long, b'{"skipped":"%s","id":2}' % long, b'{"id":3,"items":[%s]}' % many]
    rows, faults = read([*documents, DOCUMENT])
    assert faults == {}
    assert [row["id"] for row in rows if isinstance(row, dict)] == [1, 2, 3, -12]
    assert isinstance(rows[2], dict)
    assert len(rows[2]["items"]) == 200_000


def test_endless_new_names_take_little_time_and_memory() -> None:
    documents = [b'{"n%d":1,"%s":2,"id":%d}' % (number, b"long" * (number % 40), number) for number in range(20_000)]
    rows, faults = read(documents)
    assert faults == {}
    assert [row["id"] for row in rows if isinstance(row, dict)] == list(range(20_000))
