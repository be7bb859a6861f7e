"""DeltaSink: appends rows to a Delta Lake table, exactly once. Needs the package `deltalake` (extra `delta`).

Offsets are application transactions (action `txn` of the Delta protocol): an application id for each Kafka partition,
whose version is the next offset. A commit adds files and offsets together, or neither. Delta's own conflict check
refuses a commit if another one since the version that this writer has read set the same application id, so the
comparison of offsets and the commit are one step. Commits of other partitions, and compaction, do not conflict.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import OptionError, SinkError
from penstock.masking import get_logger, masked
from penstock.streamer.sinks.sink import Limits, check_limits
from penstock.streamer.sinks.table import (
    TableWriter,
    checked_partition_by,
    fitted,
    new_schema,
    with_partition_columns,
)
from penstock.streamer.table_offsets import OffsetMoves, TablePartition

log = get_logger(__name__)

TRIES = 5
"""Tries of one commit that conflicts. Most conflicts are solved by deltalake itself."""

RETENTION = "delta.setTransactionRetentionDuration"
"""The table property after which Delta forgets an application id that nothing has written to."""

NOT_RETRIABLE = ("SchemaMismatchError", "DeltaProtocolError")
"""Errors of deltalake that a retry does not fix. Its other errors may be those of the storage."""


class DeltaSink:
    """Appends rows to a Delta Lake table, with the offsets of their records in the same commit.

    `table` is a folder or a URI that `deltalake` knows (`s3://`, `abfss://`, `gs://`), `storage_options` its options.
    On S3 without conditional writes, `deltalake` needs a lock to commit safely: see its documentation.

    `create=True` creates the table with the first rows, partitioned by the columns of `partition_by`. `date` is the UTC
    day of `timestamp` if the rows have no column `date`. An existing table keeps its own partition columns.

    Each write of a thread is one commit. It is due at the first of `commit_rows`, `commit_bytes` (in memory, as Arrow)
    and `commit_seconds`, unless the Streamer has limits of its own. `configuration` has table properties for a table
    that is created. `options` go to `deltalake.write_deltalake`.
    """

    needs_arrow = True
    stores_offsets = True

    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        create: bool = True,
        commit_rows: int = 1_000_000,
        commit_bytes: int = 128 << 20,
        commit_seconds: float = 60.0,
        storage_options: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if not os.fspath(table):
            raise OptionError("table", table, "is missing", 'Example: DeltaSink("/data/clicks")')
        if RETENTION in (configuration or {}):
            raise OptionError("configuration", RETENTION, "would let the table forget its offsets", "Leave it out")
        self.table = os.fspath(table)
        self.partition_by = checked_partition_by(partition_by)
        self.creates = create
        check_limits(
            {"commit_rows": commit_rows, "commit_bytes": commit_bytes}, {"commit_seconds": float(commit_seconds)}
        )
        self.limits = Limits(commit_rows, commit_bytes, commit_seconds)
        self.storage_options = dict(storage_options or {})  # may have secrets: never shown
        self.configuration = dict(configuration or {})
        self.options = options

    def __repr__(self) -> str:
        return f"DeltaSink({masked(self.table)!r})"

    def open(self, thread: str) -> TableWriter:
        writer = _DeltaWriter(self, _package())
        writer.check()
        return writer


def _package() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise SinkError("deltalake is not installed. Install it: pip install 'penstock[delta]'") from error
    return deltalake


class _DeltaWriter:
    """One thread's access to the table. It reads the newest version before each commit."""

    def __init__(self, sink: DeltaSink, deltalake: Any) -> None:
        self._sink = sink
        self._lib = deltalake
        self._shown = f"Delta table {masked(sink.table)}"

    def check(self) -> None:
        """Raise if the table cannot be used, or does not exist and is not to be created."""
        table = self._newest()
        if table is None and not self._sink.creates:
            raise SinkError(f"{self._shown} does not exist. Create it, or set create=True")

    def write(self, rows: pa.Table | list[object]) -> None:
        assert isinstance(rows, pa.Table)
        self._fitted(rows, self._newest_or_new(rows))

    def offsets(self, partitions: Collection[TablePartition]) -> dict[TablePartition, int]:
        table = self._newest()
        return {} if table is None else self._offsets(table, partitions)

    def commit(self, rows: pa.Table | None, moves: OffsetMoves) -> bool:
        for attempt in range(1, TRIES + 1):
            try:
                return self._try_to_commit(rows, moves)
            except Exception as error:
                # Another commit of these partitions, or a change of the table: compare offsets and schema again.
                if type(error).__name__ != "CommitFailedError" or attempt == TRIES:
                    raise
                log.info("%s: another writer was faster; try %d. %s", self._shown, attempt + 1, error)
        raise AssertionError("the last try raises")

    def _try_to_commit(self, rows: pa.Table | None, moves: OffsetMoves) -> bool:
        table = self._newest() if rows is None else self._newest_or_new(rows)
        if table is None:
            return False
        # The table is at one version from here on. Do not update it: the conflict check compares with this version.
        moves.check(self._offsets(table, moves.before))
        schema = _schema_of(table)
        fitting = schema.empty_table() if rows is None else self._fitted(rows, table)
        transactions = [self._lib.Transaction(application_id(name), at) for name, at in moves.after.items()]
        try:
            self._lib.write_deltalake(
                table,
                fitting,
                mode="append",
                commit_properties=self._lib.CommitProperties(app_transactions=transactions),
                **self._sink.options,
            )
        except Exception as error:
            translated = self._translated(error)
            if translated is error:
                raise
            raise translated from error
        return True

    def close(self) -> None:
        pass

    def _offsets(self, table: Any, partitions: Collection[TablePartition]) -> dict[TablePartition, int]:
        found = {name: table.transaction_version(application_id(name)) for name in partitions}
        return {name: offset for name, offset in found.items() if offset is not None}

    def _newest(self) -> Any:
        """The newest version of the table; None if there is no table."""
        try:
            table = self._lib.DeltaTable(self._sink.table, storage_options=self._sink.storage_options or None)
        except Exception as error:
            if type(error).__name__ == "TableNotFoundError":
                return None
            raise self._translated(error) from error
        if retention := table.metadata().configuration.get(RETENTION):
            raise SinkError(
                f"{self._shown} has {RETENTION} = {retention!r}: Delta would forget the offset of a partition without "
                "new records, and its records would be stored again. Remove it: ALTER TABLE ... UNSET TBLPROPERTIES "
                f"('{RETENTION}')"
            )
        return table

    def _newest_or_new(self, rows: pa.Table) -> Any:
        table = self._newest()
        if table is not None:
            return table
        if not self._sink.creates:
            raise SinkError(f"{self._shown} does not exist any more. Create it, and start the Streamer again")
        by = self._sink.partition_by
        schema = new_schema(with_partition_columns(rows, by, self._shown).schema, self._shown)
        path = self._sink.table
        if "://" not in path:
            Path(path).mkdir(parents=True, exist_ok=True)
        try:
            # "ignore": another thread or process may create it at the same time.
            self._lib.DeltaTable.create(
                path,
                schema,
                mode="ignore",
                partition_by=list(by) or None,
                configuration=self._sink.configuration or None,
                storage_options=self._sink.storage_options or None,
            )
        except Exception as error:
            raise self._translated(error) from error
        return self._newest()

    def _fitted(self, rows: pa.Table, table: Any) -> pa.Table:
        rows = with_partition_columns(rows, table.metadata().partition_columns, self._shown)
        return fitted(rows, _schema_of(table), self._shown)

    def _translated(self, error: Exception) -> Exception:
        """The error as the Streamer handles it: SinkError, or itself if a retry may help."""
        if type(error).__name__ in NOT_RETRIABLE:
            return SinkError(f"{self._shown} cannot be written to: {masked(str(error))}")
        if isinstance(error, TypeError):
            return SinkError(f"deltalake.write_deltalake does not accept these options: {error}")
        return error


def application_id(name: TablePartition) -> str:
    """Durable: tables keep it."""
    return f"{name.log}/{name.number}"


def _schema_of(table: Any) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())
