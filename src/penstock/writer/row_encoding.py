"""Encodes typed rows before they are written (W2), and decides what happens to rows that cannot be encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from penstock.config.write_formats import WriteMode
from penstock.errors import UnwritableRecord
from penstock.formats.encodable_types import as_encodable, encodable_type
from penstock.formats.encoding import Encoding, EncodingFault, WriteJson, open_encoder

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ERROR = "UnencodableRow"
REASON_CHARACTERS = 1000


class EncodedRows(NamedTuple):
    """Rows with Kafka's columns."""

    rows: pa.RecordBatch
    letters: pa.RecordBatch | None
    """Rows for the dead-letter topic."""


class RowEncoder:
    """Encodes the batches of one task or Writer, and counts the rows that it leaves out. For one thread."""

    def __init__(self, encoding: Encoding, mode: WriteMode) -> None:
        self._encoding = encoding
        self._mode = mode
        self._seen = 0
        self.dropped = 0
        """Rows that are not written, those in dead letters included."""
        self.dead_letters = 0

    def encode(self, batch: pa.RecordBatch) -> EncodedRows:
        """Raises UnwritableRecord for the first row that cannot be encoded, if the mode is FAILFAST."""
        encoded, faults = self._encoding.encode(batch)
        before, self._seen = self._seen, self._seen + batch.num_rows
        if not faults:
            return EncodedRows(encoded, None)
        if self._mode == "FAILFAST":
            raise self._refusal(batch, faults[0], before)
        reasons: dict[int, list[EncodingFault]] = {}
        for fault in faults:
            reasons.setdefault(fault.row, []).append(fault)
        self.dropped += len(reasons)
        kept = encoded.take(pa.array([row for row in range(batch.num_rows) if row not in reasons], pa.int64()))
        if self._mode == "DROPMALFORMED":
            return EncodedRows(kept, None)
        self.dead_letters += len(reasons)
        return EncodedRows(kept, self._letters(batch, reasons))

    def _refusal(self, batch: pa.RecordBatch, fault: EncodingFault, before: int) -> UnwritableRecord:
        topic = self._column(batch, "topic", fault.row)
        assert topic is None or isinstance(topic, str), "columns are checked"
        key = self._column(batch, "key", fault.row)
        hint = "Set mode to DROPMALFORMED or DEADLETTER to write the other rows"
        reason = f"its {fault.column} cannot be encoded: {fault.reason}"
        shown = key if isinstance(key, bytes) or key is None else str(key).encode()
        return UnwritableRecord(topic, None, before + fault.row, shown, reason, hint)

    def _column(self, batch: pa.RecordBatch, column: str, row: int) -> object:
        name = self._encoding.kafka_columns(batch.schema).get(column)
        return None if name is None else batch.column(name)[row].as_py()

    def _letters(self, batch: pa.RecordBatch, reasons: Mapping[int, list[EncodingFault]]) -> pa.RecordBatch:
        """The rows as JSON, each with the reason in its headers."""
        rows = batch.take(pa.array(list(reasons), pa.int64()))
        headers = [_headers(faults) for faults in reasons.values()]
        return pa.RecordBatch.from_arrays([_as_json(rows), pa.array(headers, HEADERS)], names=["value", "headers"])


def _headers(faults: list[EncodingFault]) -> list[dict[str, object]]:
    fields = {
        "stage": ",".join(fault.column for fault in faults),
        "error": ERROR,
        "reason": "; ".join(f"{fault.column}: {fault.reason}" for fault in faults)[:REASON_CHARACTERS],
    }
    return [{"key": f"penstock.{name}", "value": value.encode("utf-8", "replace")} for name, value in fields.items()]


def _as_json(rows: pa.RecordBatch) -> pa.Array:
    """Rows as JSON, as far as JSON can hold them; as Python shows them otherwise."""
    struct = rows.to_struct_array()
    try:
        type_ = encodable_type(struct.type, "")
        encoded = open_encoder(WriteJson(ignore_null_fields=False), type_).encode(as_encodable(struct, type_))
    except ValueError:
        return pa.array([repr(row).encode() for row in rows.to_pylist()], pa.binary())
    texts = pa.array(encoded)
    if not encoded.faults:
        return texts
    shown = {row: repr(rows.slice(row, 1).to_pylist()[0]).encode() for row, _ in encoded.faults}
    return pa.array([shown.get(row, text.as_py()) for row, text in enumerate(texts)], pa.binary())
