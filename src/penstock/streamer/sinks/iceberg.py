"""IcebergSink: appends rows to an Iceberg table, exactly once. Needs the package `pyiceberg` (extra `iceberg`).

Offsets are table properties: one for each log, with the next offset of each partition. A commit adds a snapshot and
sets the properties together, or neither. It requires that the branch `main` is still at the snapshot that this writer
has read, and each commit of a Streamer moves the branch, so the comparison of offsets and the commit are one step.

Why not in the summaries of snapshots alone: the newest snapshot may be another program's (compaction), and the one with
the offsets may be expired. Properties belong to the table, whatever becomes of its snapshots. Summaries have the
offsets too, for people.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import OptionError, SinkError
from penstock.masking import get_logger, masked
from penstock.streamer.sinks.sink import Limits, check_limits
from penstock.streamer.sinks.table import (
    TableWriter,
    by_log,
    checked_partition_by,
    fitted,
    new_schema,
    with_partition_columns,
)
from penstock.streamer.table_offsets import OffsetMoves, OffsetsMoved, TablePartition

log = get_logger(__name__)

SUMMARY = "penstock.offsets"
"""The entry of a snapshot's summary: the offsets that it begins and ends at, by log and partition."""

TRIES = 10
"""Tries of one commit against those of other writers, each with the files that are written already."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

NO_RETRIES = {"commit.retry.num-retries": "0"}

NOT_RETRIABLE = ("ForbiddenError", "UnauthorizedError", "BadRequestError", "NoSuchNamespaceError", "ValidationError")
"""Errors of PyIceberg that a retry does not fix. Its other errors may be those of the catalog or the storage."""


class IcebergSink:
    """Appends rows to an Iceberg table, with the offsets of their records in the same commit.

    `table` is the table's name with its namespace, `"shop.clicks"`. `catalog` is the name of a catalog that PyIceberg's
    configuration has, a mapping of a catalog's properties (`{"type": "sql", "uri": ..., "warehouse": ...}`), or a
    catalog of PyIceberg, which all threads then share.

    `create=True` creates the table with the first rows, and its namespace, partitioned by the values of the columns of
    `partition_by`. `date` is the UTC day of `timestamp` if the rows have no column `date`. An existing table keeps its
    own partition spec.

    Each write of a thread is one commit. It is due at the first of `commit_rows`, `commit_bytes` (in memory, as Arrow)
    and `commit_seconds`, unless the Streamer has limits of its own. `properties` are those of a table that is created.
    """

    needs_arrow = True
    stores_offsets = True

    def __init__(
        self,
        table: str,
        *,
        catalog: str | Mapping[str, str] | Any = "default",
        partition_by: Sequence[str] = (),
        create: bool = True,
        commit_rows: int = 1_000_000,
        commit_bytes: int = 128 << 20,
        commit_seconds: float = 60.0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(table, str) or "." not in table.strip("."):
            raise OptionError(
                "table", table, "must be a name with its namespace", 'Example: IcebergSink("shop.clicks")'
            )
        self.table = table
        self.catalog = catalog
        self.partition_by = checked_partition_by(partition_by)
        self.creates = create
        check_limits(
            {"commit_rows": commit_rows, "commit_bytes": commit_bytes}, {"commit_seconds": float(commit_seconds)}
        )
        self.limits = Limits(commit_rows, commit_bytes, commit_seconds)
        self.properties = dict(properties or {})

    def __repr__(self) -> str:
        return f"IcebergSink({self.table!r})"  # without the catalog's properties: they may have secrets

    def open(self, thread: str) -> TableWriter:
        writer = _IcebergWriter(self, self._open_catalog())
        writer.check()
        return writer

    def _open_catalog(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.io import pyarrow as _  # noqa: F401 (slow to import: now, and not during the first write)
        except ImportError as error:
            raise SinkError("pyiceberg is not installed. Install it: pip install 'penstock[iceberg]'") from error
        match self.catalog:
            case str() as name:
                properties: Mapping[str, str] = {}
            case Mapping() as properties:
                name = str(properties.get("name", "penstock"))
            case _:
                return self.catalog
        try:
            return load_catalog(name, **{key: value for key, value in properties.items() if key != "name"})
        except Exception as error:
            raise SinkError(
                f"the Iceberg catalog {name!r} cannot be opened. {type(error).__name__}: {masked(str(error))}. Set its "
                "properties with `catalog`, or in PyIceberg's configuration"
            ) from error


class _IcebergWriter:
    """One thread's access to the table. It loads the newest state before each commit."""

    def __init__(self, sink: IcebergSink, catalog: Any) -> None:
        self._sink = sink
        self._catalog = catalog
        self._shown = f"Iceberg table {sink.table}"

    def check(self) -> None:
        """Raise if the table cannot be used, or does not exist and is not to be created."""
        if self._newest() is None and not self._sink.creates:
            raise SinkError(f"{self._shown} does not exist. Create it, or set create=True")

    def write(self, rows: pa.Table | list[object]) -> None:
        assert isinstance(rows, pa.Table)
        self._fitted(rows, self._newest_or_new(rows))

    def offsets(self, partitions: Collection[TablePartition]) -> dict[TablePartition, int]:
        table = self._newest()
        return {} if table is None else offsets_in(table.properties, partitions)

    def commit(self, rows: pa.Table | None, moves: OffsetMoves) -> bool:
        """Files are written once. A try that loses against another writer's commit repeats the commit only."""
        from pyiceberg.exceptions import CommitFailedException

        written: list[Any] | None = None
        written_for: object = None
        pause = FIRST_PAUSE
        for attempt in range(1, TRIES + 1):
            table = self._newest() if rows is None else self._newest_or_new(rows)
            if table is None:
                return False
            newest = offsets_in(table.properties, moves.before)
            try:
                moves.check(newest)
            except OffsetsMoved:
                if was_not_made(moves, newest):
                    _delete(table, written or ())
                raise
            layout = (table.metadata.table_uuid, table.metadata.current_schema_id, table.metadata.default_spec_id)
            try:
                if written is None or written_for != layout:
                    written, written_for = self._files(table, rows), layout
                self._add(table, written, moves)
                return True
            except CommitFailedException as error:
                if attempt == TRIES:
                    raise
                log.info("%s: another writer was faster; try %d. %s", self._shown, attempt + 1, error)
            except Exception as error:
                raise self._translated(error) from error
            time.sleep(pause * (1 + random.random()))  # noqa: S311 (no secret: so that writers do not keep in step)
            pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("the last try raises")

    def close(self) -> None:
        pass

    def _files(self, table: Any, rows: pa.Table | None) -> list[Any]:
        """Data files with the rows, which no snapshot has yet."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        if rows is None:
            return []
        fitting = self._fitted(rows, table)
        return list(
            _dataframe_to_data_files(table_metadata=table.metadata, df=fitting, io=table.io, write_uuid=uuid.uuid4())
        )

    def _add(self, table: Any, files: Iterable[Any], moves: OffsetMoves) -> None:
        """One commit: a snapshot with the files, and the offsets. Without files too, so that the branch moves."""
        offsets = changed_properties(table.properties, moves.after)
        # Do not remove: PyIceberg would repeat a commit that has lost by itself, on top of the other one, and set the
        # offsets without comparing them again. This changes the table in memory only.
        metadata = table.metadata
        table.metadata = metadata.model_copy(update={"properties": {**metadata.properties, **NO_RETRIES}})
        transaction = table.transaction()
        with transaction.update_snapshot(snapshot_properties={SUMMARY: summary(moves)}).fast_append() as append:
            for file in files:
                append.append_data_file(file)
        transaction.set_properties(offsets)
        transaction.commit_transaction()

    def _newest(self) -> Any:
        """The newest state of the table; None if there is no table."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog.load_table(self._sink.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise self._translated(error) from error

    def _newest_or_new(self, rows: pa.Table) -> Any:
        from pyiceberg.exceptions import TableAlreadyExistsError

        table = self._newest()
        if table is not None:
            return table
        if not self._sink.creates:
            raise SinkError(f"{self._shown} does not exist any more. Create it, and start the Streamer again")
        rows = with_partition_columns(rows, self._sink.partition_by, self._shown)
        schema = new_schema(rows.schema, self._shown)
        try:
            self._create_namespace(self._sink.table.rpartition(".")[0])
            with (
                self._catalog.create_table_transaction(
                    self._sink.table, schema, properties=self._sink.properties
                ) as creation,
                creation.update_spec() as spec,
            ):
                for name in self._sink.partition_by:
                    spec.add_identity(name)
        except TableAlreadyExistsError:
            pass  # another thread or process has just created it
        except Exception as error:
            if type(error).__name__ != "CommitFailedException":
                raise self._translated(error) from error
        return self._newest()

    def _create_namespace(self, namespace: str) -> None:
        try:
            self._catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # two threads at once: the second one fails, with an error of the catalog's database
            if not self._catalog.namespace_exists(namespace):
                raise

    def _fitted(self, rows: pa.Table, table: Any) -> pa.Table:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = table.schema()
        target = schema_to_pyarrow(schema, include_field_ids=False)
        if "date" in target.names:
            rows = with_partition_columns(rows, self._identities(table), self._shown)
        return fitted(rows, target, self._shown)

    @staticmethod
    def _identities(table: Any) -> list[str]:
        """Columns by whose values the table is partitioned."""
        schema = table.schema()
        return [
            schema.find_column_name(field.source_id)
            for field in table.spec().fields
            if str(field.transform) == "identity"
        ]

    def _translated(self, error: Exception) -> Exception:
        """The error as the Streamer handles it: SinkError, or itself if a retry may help."""
        if type(error).__name__ in NOT_RETRIABLE or isinstance(error, NotImplementedError):
            return SinkError(f"{self._shown} cannot be written to: {masked(str(error))}")
        return error


def was_not_made(moves: OffsetMoves, newest: Mapping[TablePartition, int]) -> bool:
    """Whether no try to commit these offsets can have been made. `newest`: the table's offsets afterwards.

    Do not take a failed try for one that was not made: a catalog's client may repeat a request whose answer was lost,
    and the repetition fails because the first one was made. Then the offsets are these or higher ones, and the files
    are the table's.
    """
    return any(newest.get(name, -1) < offset for name, offset in moves.after.items())


def _delete(table: Any, files: Iterable[Any]) -> None:
    """Delete files that no snapshot has: each try to add them has certainly failed."""
    for file in files:
        with contextlib.suppress(Exception):  # the table's maintenance finds orphan files too
            table.io.delete(file.file_path)


def offsets_in(properties: Mapping[str, str], partitions: Collection[TablePartition]) -> dict[TablePartition, int]:
    """The offsets that a table's properties have of these partitions."""
    logs = {name.log: _parsed(name.log, properties.get(name.log)) for name in partitions}
    return {name: logs[name.log][name.number] for name in partitions if name.number in logs[name.log]}


def changed_properties(properties: Mapping[str, str], after: Mapping[TablePartition, int]) -> dict[str, str]:
    """The properties to set, so that they have these offsets and keep those of other partitions."""
    changed = {}
    for name, offsets in by_log(after).items():
        known = _parsed(name, properties.get(name)) | offsets
        changed[name] = json.dumps({str(partition): known[partition] for partition in sorted(known)})
    return changed


def summary(moves: OffsetMoves) -> str:
    """What a snapshot's summary says: the range of each partition."""
    logs = by_log(moves.after)
    return json.dumps(
        {
            name: {str(at): [moves.before[TablePartition(name, at)], end] for at, end in sorted(offsets.items())}
            for name, offsets in logs.items()
        }
    )


def _parsed(name: str, text: str | None) -> dict[int, int]:
    if text is None:
        return {}
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise SinkError(
            f"the table's property {name!r} has no offsets, but {text[:100]!r}. Restore it from an earlier version of "
            "the table's metadata"
        ) from error
