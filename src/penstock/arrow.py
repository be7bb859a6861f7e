"""Kafka in plain Python: Arrow batches without Spark.

    for batch in penstock.read_batches(subscribe="words", **{"kafka.bootstrap.servers": "broker:9092"}):
        ...

The same options, the same planning and the same reading as the Spark source, one range after the other in this thread
with one more thread fetching ahead.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.config.source import SourceOptions, parse_options
from penstock.dead_letters.scope import LetterScope
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan
from penstock.model.columns import arrow_schema, checked_columns
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from penstock.reader.task import read_range
from penstock.sampling.typed_source import typed_source

Value: TypeAlias = str | int | bool | Sequence[str] | Mapping[str, Any]
"""What an option may be given as: options of Spark are texts, and Python has other ways to write a list."""


def read_batches(
    options: Mapping[str, Value] | None = None,
    *,
    columns: Sequence[str] | None = None,
    **more: Value,
) -> pa.RecordBatchReader:
    """Read Kafka as Arrow record batches, partition after partition.

    The reader knows its schema, iterates over batches as they arrive, and `read_all()` makes one table of them.

    `options` and `more` are those of the Spark source (docs/options.md): names with a dot go into the mapping, the
    others may be keywords; topics may be a list, and what is JSON there a dict. `columns` names what to build, in that
    order; fewer columns are read faster. Without it: key, value, topic, partition, offset, timestamp, timestampType,
    and headers if `includeHeaders` is true. With `valueFormat` or `keyFormat` columns are typed (docs/formats.md).

    What to read is settled by the call, wrong options and unknown topics fail there; records are fetched as the
    reader is advanced. Drop it to stop early.
    """
    parsed = parse_options({name: _text(name, value) for name, value in {**(options or {}), **more}.items()})
    if parsed.formats.typed:
        plan = typed_source(parsed).picked(columns, has_watermarks=True)
        ranges = plan_batch(parsed, whole_partitions=plan.may_end)
        return pa.RecordBatchReader.from_batches(plan.layout.schema, _read(ranges, plan, parsed))
    include_watermarks = parsed.event_time is not None and parsed.event_time.include_columns
    wanted = checked_columns(columns, parsed.include_headers, include_watermarks)
    return pa.RecordBatchReader.from_batches(arrow_schema(wanted), _read(plan_batch(parsed), wanted, parsed))


def _text(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return json.dumps(dict(value))
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return ",".join(value)
        case None | list() | tuple() | set():
            kind = "None: leave it out" if value is None else f"a {type(value).__name__} of other things"
            raise OptionError(
                name, None, f"must be text, a number, true or false, a list of texts or a dict, not {kind}"
            )
    return str(value)


def _read(
    ranges: list[OffsetRange], columns: list[str] | TypedPlan, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    scope = LetterScope("read", uuid.uuid4().hex)  # another read of the same records writes its own dead letters
    for range_ in ranges:
        yield from read_range(range_, columns, options, scope=scope)
