"""JSON lines as typed columns, for formats other than JSON.

Lines are parsed into the types that a reader of the format would get: 3 is a double where the schema has one. Without a
schema, types are inferred from each block of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.cli.write.input_file import BadInput, InputFile
from penstock.cli.write.json_lines import JsonLines
from penstock.cli.write.layout import InputSettings
from penstock.config.client import KAFKA_OPTIONS
from penstock.config.formats import FORMAT_OPTIONS
from penstock.config.source import parse_options
from penstock.errors import OptionError, SchemaNotFound
from penstock.formats.decoding import open_decoder
from penstock.formats.inference import infer_json
from penstock.formats.spec import Json
from penstock.sampling.typed_source import typed_source


def type_to_write(options: Mapping[str, str], topic: str) -> pa.StructType | None:
    """The type of values by the schema of a write; None if there is no schema yet: the write derives one.

    A wrong option is reported by the writer.
    """
    reading = {
        name: value for name, value in options.items() if FORMAT_OPTIONS.declares(name) or KAFKA_OPTIONS.declares(name)
    }
    try:
        type_ = typed_source(parse_options(reading | {"subscribe": topic})).value.type
    except (OptionError, SchemaNotFound):
        return None
    return type_ if pa.types.is_struct(type_) else None


class TypedLines:
    """The records of one file of JSON lines, with values as structs."""

    needs_format = True

    def __init__(self, file: InputFile, lines: JsonLines, settings: InputSettings) -> None:
        self._file = file
        self._lines = lines
        self._schema = settings.schema
        if self._schema is not None:
            lines.fields = frozenset(field.name for field in self._schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch, numbers in self._lines.numbered_batches():
            values = batch.column("value")
            at = batch.schema.get_field_index("value")
            yield batch.set_column(at, "value", self._decoded(values, numbers))

    def share(self) -> float | None:
        return self._lines.share()

    def _decoded(self, values: pa.Array, numbers: list[int]) -> pa.Array:
        schema = self._schema
        if schema is None:
            # Of each block: a field may appear late, and a whole file does not fit into memory.
            try:
                schema = infer_json(values.to_pylist())
            except ValueError as error:
                raise BadInput(self._file, f"lines {numbers[0]} to {numbers[-1]}", str(error)) from None
        decoder = open_decoder("value", Json(schema), None)
        parts, row = [], 0
        while row < len(values):
            decoded = decoder.decode(pa.record_batch({"value": values[row:]}))
            if decoded.faults:
                bad, reason = decoded.faults[0]
                raise BadInput(self._file, f"line {numbers[row + bad]}", reason)
            parts.append(decoded.array)
            row += len(decoded.array)
        return pa.concat_arrays(parts)
