"""The output of a streaming query: only the files that the sink's own log names.

A killed query leaves files that belong to no batch. Spark ignores them when it reads such a folder, by the log in
`_spark_metadata`: one file per batch, and every tenth (`9.compact`) with all earlier entries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

Record = tuple[str, int, int, bytes]


def written(folder: Path) -> Counter[Record]:
    """(topic, partition, offset, value) -> number of occurrences in the output."""
    return read_files(logged_files(folder))


def read_back(folder: Path) -> Counter[Record]:
    """The same for a batch query, which has no such log."""
    return read_files(sorted(folder.glob("*.parquet")))


def read_files(paths: Sequence[Path]) -> Counter[Record]:
    found: Counter[Record] = Counter()
    for path in paths:
        columns = pq.ParquetFile(path).read(["topic", "partition", "offset", "value"]).to_pydict()
        found.update(zip(*columns.values(), strict=True))
    return found


def values_of(records: Counter[Record]) -> Counter[bytes]:
    """Each value with its number of occurrences."""
    values: Counter[bytes] = Counter()
    for (_, _, _, value), times in records.items():
        values[value] += times
    return values


def logged_files(folder: Path) -> list[Path]:
    batches = {int(path.name.partition(".")[0]): path for path in (folder / "_spark_metadata").glob("[0-9]*")}
    compact = max((batch for batch, path in batches.items() if path.name.endswith(".compact")), default=-1)
    files = []
    for batch in sorted(batches):
        if batch >= compact:
            version, *entries = batches[batch].read_text().splitlines()
            assert version == "v1"
            files += [Path(unquote(urlparse(json.loads(entry)["path"]).path)) for entry in entries]
    return files
