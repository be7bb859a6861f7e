"""AdbcSink: appends Arrow rows to a table of any database with an ADBC driver, one transaction per write."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import pyarrow as pa

from penstock.errors import OptionError, RowsRefused, SinkError
from penstock.streamer.sinks.database_errors import in_one_line, kind_of, status_of
from penstock.streamer.sinks.database_types import fitted
from penstock.streamer.sinks.sink import Rows, Writer

MODES = ("append", "create_append")

SQLITE_WAIT_MS = 10_000
"""How long SQLite waits for a lock of another process."""

OLDEST_POSTGRESQL = (1, 13)

STAGE = "penstock_stage"


class AdbcSink:
    """Appends rows to a table of a database.

    `uri` names the database, and `driver` the ADBC driver. `postgresql` and `sqlite` need the packages
    `adbc-driver-postgresql` and `adbc-driver-sqlite`. Other drivers are imported as `adbc_driver_<name>`, or found by
    the driver manager (a shared library, a manifest). `connect`, a function without arguments that returns a
    connection of `adbc_driver_manager.dbapi`, replaces both.

    `mode`: `append` requires the table to exist; `create_append` creates it if needed, with the columns of the first
    rows. Columns of rows and table are matched by name; further columns of the table get their defaults. With
    PostgreSQL integers and floats are converted to the width of the table's column, and text to `jsonb`.

    `skip_duplicates`: rows whose key is already in the table are skipped (`ON CONFLICT DO NOTHING`, which PostgreSQL,
    SQLite and others support). With a unique key over topic, partition and offset a record that is read twice is stored
    once. Without `skip_duplicates` the table refuses such a row, and its message fails.
    """

    needs_arrow = True

    def __init__(
        self,
        uri: str | None = None,
        table: str | None = None,
        *,
        driver: str | None = None,
        connect: Callable[[], Any] | None = None,
        schema: str | None = None,
        mode: str = "append",
        skip_duplicates: bool = False,
    ) -> None:
        if not table:
            raise OptionError("table", table, "is missing", 'Example: table="clicks"')
        if mode not in MODES:
            raise OptionError("mode", mode, f"must be {' or '.join(MODES)}")
        if (uri is None) == (connect is None):
            # Without the value: a URI may contain a password.
            raise OptionError(
                "uri", None, "must be given, or a connect function, but not both", "Example: postgresql://host/name"
            )
        if uri is not None and driver is None:
            driver, uri = _driver_of(uri)
        self.table = table
        self.driver = driver
        self._schema = schema
        self.skips_duplicates = skip_duplicates
        self.creates = mode == "create_append"
        self._connect = connect or (lambda: open_connection(str(driver), str(uri)))
        self._creating = threading.Lock()
        # SQLite has one writer at a time. Threads that find the database locked would wait for a retry.
        self._one_at_a_time: Any = threading.Lock() if driver == "sqlite" else contextlib.nullcontext()

    def __repr__(self) -> str:
        return f"AdbcSink(table={self.table!r}, driver={self.driver!r})"  # without the URI: it may contain a password

    def open(self, thread: str) -> Writer:
        writer = _TableWriter(self)
        writer.check()  # raises now if the database or the table does not exist
        return writer

    # --- called by writers ------------------------------------------------------------------------------------------

    def connection(self) -> Any:
        connection = self._connect()
        if self.driver == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {SQLITE_WAIT_MS}")
                cursor.fetchall()
        return connection

    def create(self, connection: Any, schema: pa.Schema) -> None:
        """Create the table if it does not exist. One thread at a time: PostgreSQL fails if two do it at once."""
        with self._creating:
            if not self.creates:
                return
            try:
                self.ingest(connection, pa.Table.from_batches([], schema), "create_append")
            except Exception as error:
                # Another process may have just created it, which PostgreSQL reports as a broken constraint.
                try:
                    self.table_schema(connection)
                except Exception:
                    raise error from None
            self.creates = False

    def ingest(self, connection: Any, rows: pa.Table, mode: str = "append") -> None:
        options = {"db_schema_name": self._schema} if self._schema else {}
        with self._transaction(connection) as cursor:
            cursor.adbc_ingest(self.table, rows.to_reader(), mode=mode, **options)

    def create_stage(self, connection: Any, columns: Sequence[str]) -> None:
        """Create a temporary table of this connection, with the types of the real one and without its keys."""
        with self._transaction(connection) as cursor:
            chosen = f"SELECT {_names(columns)} FROM {self._full_name} WHERE 1 = 0"  # noqa: S608 (quoted names)
            cursor.execute(f"CREATE TEMPORARY TABLE {STAGE} AS {chosen}")

    def ingest_new_rows(self, connection: Any, rows: pa.Table) -> None:
        names = _names(rows.schema.names)
        with self._transaction(connection) as cursor:
            cursor.adbc_ingest(STAGE, rows.to_reader(), mode="append", temporary=True)
            # `WHERE true`: without it SQLite parses ON as the start of a join.
            cursor.execute(
                f"INSERT INTO {self._full_name} ({names}) SELECT {names} FROM {STAGE} WHERE true ON CONFLICT DO NOTHING"  # noqa: S608
            )
            cursor.execute(f"DELETE FROM {STAGE}")  # noqa: S608

    @property
    def _full_name(self) -> str:
        return ".".join(_names([name]) for name in (self._schema, self.table) if name)

    @contextlib.contextmanager
    def _transaction(self, connection: Any) -> Iterator[Any]:
        with self._one_at_a_time:
            try:
                with connection.cursor() as cursor:
                    yield cursor
                connection.commit()
            except BaseException:
                # Inside the lock: an open transaction in SQLite locks out all others.
                with contextlib.suppress(Exception):
                    connection.rollback()
                raise

    def table_schema(self, connection: Any) -> pa.Schema:
        options = {"db_schema_filter": self._schema} if self._schema else {}
        with self._one_at_a_time:
            found = connection.adbc_get_table_schema(self.table, **options)
            connection.rollback()  # reading the schema has begun a transaction
        return found


class _TableWriter:
    """The connection of one thread. It reconnects after an error."""

    def __init__(self, sink: AdbcSink) -> None:
        self._sink = sink
        self._connection: Any = None
        self._target: pa.Schema | None = None
        self._has_stage = False

    def check(self) -> None:
        """Raise if the database does not answer, or if the table does not exist and is not to be created."""
        try:
            self._connect()
            if not self._sink.creates:
                self._target = self._sink.table_schema(self._connection)
        except Exception as error:
            self.close()
            raise self._translated(error) from error

    def write(self, rows: Rows) -> None:
        assert isinstance(rows, pa.Table)
        try:
            self._connect()
            if self._target is None:
                self._sink.create(self._connection, rows.schema)
                self._target = self._sink.table_schema(self._connection)
            rows = fitted(rows, self._target)
            if not self._sink.skips_duplicates:
                self._sink.ingest(self._connection, rows)
                return
            if not self._has_stage:
                self._sink.create_stage(self._connection, rows.schema.names)
                self._has_stage = True
            self._sink.ingest_new_rows(self._connection, rows)
        except SinkError:
            raise
        except Exception as error:
            translated = self._translated(error)
            if not isinstance(translated, RowsRefused):
                self.close()
            if translated is error:
                raise
            raise translated from error

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._sink.connection()

    def close(self) -> None:
        connection, self._connection, self._target, self._has_stage = self._connection, None, None, False
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _translated(self, error: Exception) -> Exception:
        """The error as the Streamer handles it: SinkError, RowsRefused, or itself if a retry may help."""
        where = f"table {self._sink.table!r}"
        if status_of(error) == "NOT_FOUND":
            return SinkError(f'{where} does not exist. Create it, or set mode="create_append"')
        match kind_of(error):
            case "rows":
                return RowsRefused(f"{where} refuses rows: {in_one_line(error)}")
            case "setup":
                return SinkError(f"{where} cannot be written to: {in_one_line(error)}")
        return error


def open_connection(driver: str, uri: str) -> Any:
    """Connect with the driver's own package, else with a driver that the driver manager finds."""
    try:
        manager = importlib.import_module("adbc_driver_manager.dbapi")
    except ImportError as error:
        package = _package_of(driver, "'penstock[adbc]'")
        raise SinkError(f"ADBC is not installed. Install it: pip install {package}") from error
    try:
        module = importlib.import_module(f"adbc_driver_{driver}.dbapi") if driver.isidentifier() else None
    except ImportError:
        module = None
    if module is not None:
        _check_version(driver)
        return module.connect(uri)
    try:
        return manager.connect(driver=driver, uri=uri)
    except Exception as error:
        if status_of(error) in ("INTERNAL", "NOT_FOUND", "INVALID_ARGUMENT"):
            install = f"Install it: pip install {_package_of(driver)}"
            raise SinkError(f"there is no ADBC driver {driver!r}. {install}. ({in_one_line(error)})") from error
        raise


def _package_of(driver: str, otherwise: str | None = None) -> str:
    """The package of a driver, quoted for a shell."""
    return f"'penstock[{driver}]'" if driver in ("postgresql", "sqlite") else otherwise or f"adbc-driver-{driver}"


def _check_version(driver: str) -> None:
    """Refuse older drivers of PostgreSQL: they do not report the types of columns, and `fitted` would convert none."""
    if driver == "postgresql":
        version = metadata.version("adbc-driver-postgresql")
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_POSTGRESQL:
            raise SinkError(
                f"adbc-driver-postgresql {version} is too old. Install a newer one: pip install 'penstock[postgresql]'"
            )


def _driver_of(uri: str) -> tuple[str, str]:
    """The driver that a URI names, and the URI in the form that this driver expects."""
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme.replace("+", "").isalnum():
        raise OptionError(
            "driver", None, "is missing, and the uri does not begin with its name", 'Example: "postgresql"'
        )
    if scheme == "sqlite":
        return scheme, rest.removeprefix("///")  # a path; other libraries put three slashes before it
    return {"postgres": "postgresql"}.get(scheme, scheme), uri


def _names(names: Sequence[str]) -> str:
    """Quoted for SQL."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)
