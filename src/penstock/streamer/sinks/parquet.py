"""ParquetSink: adds files to a Parquet dataset, which is a folder."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from penstock.errors import OptionError, RowsRefused, SinkError
from penstock.streamer.sinks.partition_columns import DATE, days_of
from penstock.streamer.sinks.sink import Limits, Rows, Writer, check_limits

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value, as Hive names it."""

UNFINISHED = "."
"""The prefix of files that readers of a dataset (Arrow, Spark, DuckDB, Hive) skip."""

ABANDONED_SECONDS = 3600.0
"""An unfinished file that has not changed for this long belongs to a killed process. A younger one may be in use by
another process: a file is written within seconds."""


class ParquetSink:
    """Adds files to a folder. A file is complete and on disk before it gets its name: readers see all of it or nothing.
    A crash leaves at most a hidden file, which is removed when a sink is next opened there.

    Each write of a thread is one file (for each value of `partition_by`). It is due at the first of `file_rows`,
    `file_bytes` and `file_seconds`, unless the Streamer has limits of its own. `file_bytes` is the size as Arrow in
    memory; compressed Parquet is a fraction of it. `partition_by` names columns that become folders, as in
    `topic=clicks/date=2025-01-31/`; `date` is the UTC day of `timestamp` if the rows have no column `date`. `options`
    go to `pyarrow.parquet.write_table`.
    """

    needs_arrow = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        file_rows: int = 1_000_000,
        file_bytes: int = 128 << 20,
        file_seconds: float = 60.0,
        compression: str = "zstd",
        **options: Any,
    ) -> None:
        if "://" in os.fspath(path):
            raise OptionError(
                "path", os.fspath(path), "is not a folder of this machine", "Mount it, or use a function as the sink"
            )
        if isinstance(partition_by, str):
            raise OptionError("partition_by", partition_by, "must be a list of columns", f'Example: ["{partition_by}"]')
        self.path = Path(path)
        self.partition_by = tuple(partition_by)
        check_limits({"file_rows": file_rows, "file_bytes": file_bytes}, {"file_seconds": file_seconds})
        self.limits = Limits(file_rows, file_bytes, file_seconds)
        self._options: dict[str, Any] = {"compression": compression, **options}
        self._swept = False

    def __repr__(self) -> str:
        return f"ParquetSink({str(self.path)!r})"

    def open(self, thread: str) -> Writer:
        import pyarrow.parquet as pq  # slow to import: now, and not during the first write

        try:
            pq.write_table(pa.table({"a": [0]}), io.BytesIO(), **self._options)
        except Exception as error:  # every write would fail like this
            raise SinkError(f"pyarrow.parquet.write_table does not accept these options: {error}") from error
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            trial = self.path / f"{UNFINISHED}part-{uuid.uuid4().hex}.unfinished"
            trial.touch()
            trial.unlink()
            if not self._swept:
                sweep(self.path)
                self._swept = True
        except OSError as error:
            raise SinkError(f"Parquet files cannot be written to {self.path}: {error.strerror or error}") from error
        return _FolderWriter(self.path, self.partition_by, self._options)


class _FolderWriter:
    def __init__(self, path: Path, partition_by: tuple[str, ...], options: dict[str, Any]) -> None:
        self._path = path
        self._partition_by = partition_by
        self._options = options
        self._token = uuid.uuid4().hex[:12]
        """Unique to this writer, on all machines."""
        self._files = 0

    def write(self, rows: Rows) -> None:
        assert isinstance(rows, pa.Table)
        if not rows.num_rows:
            return
        written: list[tuple[Path, Path]] = []
        try:
            # Write all files before any gets its name: an error leaves no visible file, and a retry repeats none.
            for folder, part in partitions(rows, self._partition_by):
                written.append(self._write(self._path / folder, part))
            for unfinished, path in written:
                unfinished.rename(path)
            for folder in {path.parent for _, path in written}:
                _sync(folder)
        except BaseException as error:
            for pair in written:
                for path in pair:
                    path.unlink(missing_ok=True)
            if isinstance(error, pa.ArrowInvalid | pa.ArrowNotImplementedError | pa.ArrowTypeError):
                raise SinkError(f"the rows cannot be written as Parquet: {error}") from error
            if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
                # A retry does not make it shorter; the rows of other folders are fine.
                raise RowsRefused(f"partition_by: a value is too long for the name of a folder: {error}") from error
            raise

    def _write(self, folder: Path, rows: pa.Table) -> tuple[Path, Path]:
        import pyarrow.parquet as pq

        made = [up for up in (folder, *folder.parents) if not up.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for new in made:
            _sync(new.parent)  # else a power cut may lose the folder with its files
        self._files += 1
        name = f"part-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{self._token}-{self._files:06}.parquet"
        unfinished = folder / f"{UNFINISHED}{name}.unfinished"
        try:
            with unfinished.open("wb") as file:
                pq.write_table(rows, file, **self._options)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return unfinished, folder / name

    def close(self) -> None:
        pass


def partitions(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of each folder. Columns in the folder's name are dropped from its files."""
    if not columns:
        yield Path(), rows
        return
    # Rows by number: a search for the values would miss NaN, which equals nothing.
    numbers = [str(at) for at in range(len(columns))]
    keys = pa.table([*(_key(rows, name) for name in columns), pa.array(range(rows.num_rows))], [*numbers, "row"])
    groups = keys.group_by(numbers, use_threads=False).aggregate([("row", "list")])
    kept = rows.drop_columns([name for name in columns if name in rows.column_names])
    if not kept.num_columns:
        raise SinkError("partition_by: no column is left for the files. Remove one, or write more columns")
    for at, chosen in enumerate(groups.column("row_list")):
        values = [_value(groups.column(number)[at]) for number in numbers]
        folder = Path(*(f"{name}={_folder_name(value)}" for name, value in zip(columns, values, strict=True)))
        yield folder, kept.take(chosen.values)


def _key(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name in rows.column_names:
        return rows.column(name)
    if name == DATE and "timestamp" in rows.column_names:
        return days_of(rows.column("timestamp"))
    raise SinkError(f"partition_by: the rows have no column {name!r}, only {', '.join(rows.column_names)}")


def _value(scalar: Any) -> object:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):  # a time beyond Python's range: use its number
        return scalar.cast(pa.int64()).as_py()


def _folder_name(value: object) -> str:
    if value is None or value == "":
        return NO_VALUE
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return quote(text, safe=" ")


def sweep(path: Path) -> None:
    """Remove the unfinished files of killed processes."""
    for unfinished in path.rglob(f"{UNFINISHED}part-*.unfinished"):
        with contextlib.suppress(FileNotFoundError):  # another thread may have removed it
            if time.time() - unfinished.stat().st_mtime > ABANDONED_SECONDS:
                unfinished.unlink()


def _sync(folder: Path) -> None:
    """Flush a folder to disk: a rename is durable only then."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some network file systems do not support it
            raise
    finally:
        os.close(handle)
