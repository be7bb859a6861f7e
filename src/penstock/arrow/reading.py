"""Kafka in plain Python: Arrow batches without Spark.

    for batch in penstock.read_batches(subscribe="words", **{"kafka.bootstrap.servers": "broker:9092"}):
        ...

Options, planning and reading are those of the Spark source. The caller's thread reads one range after the other, and
one more thread fetches ahead.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.config.parsers import column_names
from penstock.config.source import SourceOptions, parse_options
from penstock.dead_letters.scope import LetterScope
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan
from penstock.formats.row_cost import log_row_cost
from penstock.model.columns import arrow_schema, checked_columns
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from penstock.reader.task import read_range
from penstock.sampling.typed_source import typed_source

Value: TypeAlias = str | int | bool | Sequence[str] | Mapping[str, Any]
"""The Python types of an option: text as in Spark, or a number, a flag, a list or a dict."""


def read_batches(
    options: Mapping[str, Value] | None = None,
    *,
    columns: Sequence[str] | str | None = None,
    **more: Value,
) -> pa.RecordBatchReader:
    """Read Kafka as Arrow record batches, one partition after the other.

    The returned reader knows its schema and iterates over batches as they arrive; `read_all()` collects them into one
    table.

    `options` and `more` are the options of the Spark source (docs/options.md). Names with a dot go into the mapping;
    others may be keywords. Lists of topics may be Python lists, and JSON a dict. `columns` names the columns to read,
    in that order, as a list or as text like the option: "key, value.user". Fewer columns are faster. Default: key,
    value, topic, partition, offset, timestamp, timestampType, and headers if `includeHeaders` is true. With
    `valueFormat` or `keyFormat` columns are typed (docs/formats.md).

    The call plans the read: wrong options and unknown topics raise here. Records are fetched as the reader is advanced.
    Drop the reader to stop early.
    """
    parsed = parse_options({**(options or {}), **more})
    columns = _columns(columns, parsed.columns)
    if parsed.builds_columns:
        source = typed_source(parsed)
        plan = source.select(columns, has_watermarks=True, where=source.parse_where(parsed.where))
        log_row_cost(plan)
        ranges = plan_batch(parsed, whole_partitions=plan.may_end)
        return pa.RecordBatchReader.from_batches(plan.layout.schema, _read(ranges, plan, parsed))
    include_watermarks = parsed.event_time is not None and parsed.event_time.include_columns
    wanted = checked_columns(columns, parsed.include_headers, include_watermarks)
    log_row_cost(wanted)
    return pa.RecordBatchReader.from_batches(arrow_schema(wanted), _read(plan_batch(parsed), wanted, parsed))


def _columns(columns: Sequence[str] | str | None, option: Sequence[str] | None) -> Sequence[str] | None:
    """The columns that an argument or the option of this name selects."""
    given = column_names("columns", columns) if isinstance(columns, str) else columns
    if given is not None and option is not None and list(given) != list(option):
        raise OptionError("columns", ", ".join(option), f"contradicts the argument columns = {list(given)}")
    return option if given is None else given


def _read(
    ranges: list[OffsetRange], columns: list[str] | TypedPlan, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    scope = LetterScope("read", uuid.uuid4().hex)  # another read of the same records writes its own dead letters
    for range_ in ranges:
        yield from read_range(range_, columns, options, scope=scope)
