"""Builds record batches of magic 2: valid ones, and ones with one fault and a correct CRC."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from kafka.record.util import calc_crc32c

from penstock._kernel import COLUMNS, Decoder

TOPIC = "orders"
PARTITION = 3
BASE_TIME = 1_700_000_000_000
FOREVER = 2**63 - 1

Header = tuple[bytes, bytes | None]


def varint(value: int) -> bytes:
    raw = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def nullable(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    delta: int,
    value: bytes | None = b"value",
    key: bytes | None = b"key",
    headers: Sequence[Header] = (),
    time_delta: int = 0,
) -> bytes:
    body = b"\0" + varint(time_delta) + varint(delta) + nullable(key) + nullable(value) + varint(len(headers))
    body += b"".join(varint(len(name)) + name + nullable(content) for name, content in headers)
    return varint(len(body)) + body


def snappy_raw(payload: bytes) -> bytes:
    return bytes(pa.compress(payload, codec="snappy", asbytes=True))


def snappy_xerial(payload: bytes, block: int = 1024) -> bytes:
    blocks = [snappy_raw(payload[at : at + block]) for at in range(0, len(payload), block)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def packed_by(codec: str) -> Any:
    return lambda payload: bytes(pa.compress(payload, codec=codec, asbytes=True))


CODECS: dict[str, tuple[int, Any]] = {
    "none": (0, bytes),
    "gzip": (1, packed_by("gzip")),
    "snappy": (2, snappy_raw),
    "xerial": (2, snappy_xerial),
    "lz4": (3, packed_by("lz4")),
    "zstd": (4, packed_by("zstd")),
}


@dataclass(frozen=True)
class Batch:
    base: int
    records: Sequence[bytes] = ()
    attributes: int = 0
    last_delta: int | None = None
    count: int | None = None
    codec: str = "none"
    producer: int = -1
    base_time: int = BASE_TIME
    max_time: int = BASE_TIME
    payload: bytes | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        number, pack = CODECS[self.codec]
        payload = pack(b"".join(self.records)) if self.payload is None else self.payload
        count = len(self.records) if self.count is None else self.count
        last_delta = max(len(self.records) - 1, 0) if self.last_delta is None else self.last_delta
        covered = (
            struct.pack(
                ">hiqqqhii",
                self.attributes | number,
                last_delta,
                self.base_time,
                self.max_time,
                self.producer,
                0,
                0,
                count,
            )
            + payload
        )
        head = struct.pack(">qiib", self.base, len(covered) + 9, 0, 2)
        return head + struct.pack(">I", calc_crc32c(covered)) + covered

    def changed(self, **changes: Any) -> bytes:
        return replace(self, **changes).encode()


def counted(base: int, count: int, **more: Any) -> Batch:
    """A batch whose values are their offsets."""
    return Batch(base, [record(at, b"offset %d" % (base + at)) for at in range(count)], **more)


def marker(base: int, producer: int, *, commit: bool) -> Batch:
    body = record(0, key=struct.pack(">hh", 0, commit), value=struct.pack(">hi", 0, 0))
    return Batch(base, [body], attributes=0x30, producer=producer)


def chunk(*batches: Batch) -> bytes:
    return b"".join(batch.encode() for batch in batches)


@dataclass(frozen=True)
class Read:
    rows: list[dict[str, Any]]
    next_offset: int
    position: int
    legacy: bool

    @property
    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.rows]


def read(
    data: Any,
    start: int = 0,
    stop: int = FOREVER,
    *,
    columns: Sequence[str] = COLUMNS,
    limit: int | None = None,
    high_watermark: int = FOREVER,
    aligned: bool = False,
    cut: bool = False,
    **more: Any,
) -> Read:
    """Read a whole chunk, and validate every Arrow batch."""
    decoder = Decoder(TOPIC, PARTITION, columns, **({} if limit is None else {"decompression_limit": limit}))
    decoder.open(data, start=start, stop=stop, high_watermark=high_watermark, aligned=aligned, cut=cut, **more)
    rows: list[dict[str, Any]] = []
    while (batch := decoder.next_batch()) is not None:
        arrow = pa.record_batch(batch)
        arrow.validate(full=True)
        assert arrow.num_rows == batch.num_rows > 0
        if "timestamp" in columns:
            # As integers: the range of Python's datetime is smaller than Arrow's.
            at = list(columns).index("timestamp")
            arrow = arrow.set_column(at, "timestamp", arrow.column(at).view(pa.int64()))
        rows += arrow.to_pylist()
    return Read(rows, decoder.next_offset, decoder.position, decoder.legacy)
