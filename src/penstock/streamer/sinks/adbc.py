"""Any database with an ADBC driver as a sink: Arrow goes in as it is, one transaction for each write."""

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
"""How long SQLite waits for a lock that another process holds."""

OLDEST_POSTGRESQL = (1, 13)

STAGE = "penstock_stage"


class AdbcSink:
    """Appends rows to a table of a database.

    `uri` says which database, and `driver` with what: `postgresql` and `sqlite` need the packages
    `adbc-driver-postgresql` and `adbc-driver-sqlite`, others are found as `adbc_driver_<name>` or as the driver manager
    finds them (a shared library, a manifest). `connect`, a function without arguments that returns a connection of
    `adbc_driver_manager.dbapi`, replaces both.

    `mode`: `append` wants the table to be there; `create_append` makes it, with the columns of the first rows, if it is
    not. Rows have to have the table's columns by name; those that the table has beyond them get its defaults. With
    PostgreSQL integers and floats are fitted to the width of the table's, and texts to `jsonb`.

    `skip_duplicates`: rows whose key the table has already are left out (`ON CONFLICT DO NOTHING`, which PostgreSQL,
    SQLite and others know). With a unique key over topic, partition and offset a record that comes twice is there once.
    Without it such a row is refused, and its message fails.
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
            raise OptionError("table", table, "which table? None was named", 'Example: table="clicks"')
        if mode not in MODES:
            raise OptionError("mode", mode, f"must be {' or '.join(MODES)}")
        if (uri is None) == (connect is None):
            # The value is left out: a URI may hold a password.
            raise OptionError("uri", None, "give either a uri or a connect function", "Example: postgresql://host/name")
        if uri is not None and driver is None:
            driver, uri = _driver_of(uri)
        self.table = table
        self.driver = driver
        self._schema = schema
        self.skips_duplicates = skip_duplicates
        self.creates = mode == "create_append"
        self._connect = connect or (lambda: open_connection(str(driver), str(uri)))
        self._creating = threading.Lock()
        # One writer at a time is all that SQLite knows. Threads that find it locked would wait for a retry.
        self._one_at_a_time: Any = threading.Lock() if driver == "sqlite" else contextlib.nullcontext()

    def __repr__(self) -> str:
        return f"AdbcSink(table={self.table!r}, driver={self.driver!r})"  # not the URI: it may hold a password

    def open(self, thread: str) -> Writer:
        writer = _Table(self)
        writer.look()  # a database or a table that is not there is found now, not after an hour
        return writer

    # What follows is for the writers alone.

    def connection(self) -> Any:
        connection = self._connect()
        if self.driver == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {SQLITE_WAIT_MS}")
                cursor.fetchall()
        return connection

    def create(self, connection: Any, schema: pa.Schema) -> None:
        """Make the table if it is not there. One thread at a time: PostgreSQL fails where two do it at once."""
        with self._creating:
            if not self.creates:
                return
            try:
                self.ingest(connection, pa.Table.from_batches([], schema), "create_append")
            except Exception as error:
                # Another process may have made it this moment, which PostgreSQL calls a broken constraint.
                try:
                    self.table_schema(connection)
                except Exception:
                    raise error from None
            self.creates = False

    def ingest(self, connection: Any, rows: pa.Table, mode: str = "append") -> None:
        options = {"db_schema_name": self._schema} if self._schema else {}
        with self._transaction(connection) as cursor:
            cursor.adbc_ingest(self.table, rows.to_reader(), mode=mode, **options)

    def make_stage(self, connection: Any, columns: Sequence[str]) -> None:
        """A table of this connection alone, with the types of the real one and none of its keys."""
        with self._transaction(connection) as cursor:
            chosen = f"SELECT {_names(columns)} FROM {self._full_name} WHERE 1 = 0"  # noqa: S608 (quoted names)
            cursor.execute(f"CREATE TEMPORARY TABLE {STAGE} AS {chosen}")

    def ingest_what_is_new(self, connection: Any, rows: pa.Table) -> None:
        names = _names(rows.schema.names)
        with self._transaction(connection) as cursor:
            cursor.adbc_ingest(STAGE, rows.to_reader(), mode="append", temporary=True)
            # `WHERE true`: without it SQLite takes ON for the beginning of a join.
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
                # Inside the lock: what is half done in SQLite keeps all others out.
                with contextlib.suppress(Exception):
                    connection.rollback()
                raise

    def table_schema(self, connection: Any) -> pa.Schema:
        options = {"db_schema_filter": self._schema} if self._schema else {}
        with self._one_at_a_time:
            found = connection.adbc_get_table_schema(self.table, **options)
            connection.rollback()  # the look has begun a transaction
        return found


class _Table:
    """One thread's connection, made anew after an error."""

    def __init__(self, sink: AdbcSink) -> None:
        self._sink = sink
        self._connection: Any = None
        self._target: pa.Schema | None = None
        self._has_stage = False

    def look(self) -> None:
        """Find out whether the database is there, and the table if it has to be."""
        try:
            self._connect()
            if not self._sink.creates:
                self._target = self._sink.table_schema(self._connection)
        except Exception as error:
            self.close()
            raise self._meaning(error) from error

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
                self._sink.make_stage(self._connection, rows.schema.names)
                self._has_stage = True
            self._sink.ingest_what_is_new(self._connection, rows)
        except SinkError:
            raise
        except Exception as error:
            meant = self._meaning(error)
            if not isinstance(meant, RowsRefused):
                self.close()
            if meant is error:
                raise
            raise meant from error

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._sink.connection()

    def close(self) -> None:
        connection, self._connection, self._target, self._has_stage = self._connection, None, None, False
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _meaning(self, error: Exception) -> Exception:
        """An error as the Streamer understands it."""
        where = f"table {self._sink.table!r}"
        if status_of(error) == "NOT_FOUND":
            return SinkError(f'{where} is not there. Create it, or give mode="create_append"')
        match kind_of(error):
            case "rows":
                return RowsRefused(f"{where} refuses rows: {in_one_line(error)}")
            case "setup":
                return SinkError(f"{where} cannot be written to: {in_one_line(error)}")
        return error


def open_connection(driver: str, uri: str) -> Any:
    """A connection by a driver's own package, else by what the driver manager finds."""
    try:
        manager = importlib.import_module("adbc_driver_manager.dbapi")
    except ImportError as error:
        package = _package_of(driver, "'penstock[adbc]'")
        raise SinkError(f"ADBC is not installed. Get it: pip install {package}") from error
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
            raise SinkError(
                f"no ADBC driver {driver!r}. Get it: pip install {_package_of(driver)}. ({in_one_line(error)})"
            ) from error
        raise


def _package_of(driver: str, otherwise: str | None = None) -> str:
    """What to install for a driver, as a shell takes it."""
    return f"'penstock[{driver}]'" if driver in ("postgresql", "sqlite") else otherwise or f"adbc-driver-{driver}"


def _check_version(driver: str) -> None:
    """An older driver of PostgreSQL does not tell what a table's columns are, and `fitted` would fit nothing."""
    if driver == "postgresql":
        version = metadata.version("adbc-driver-postgresql")
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_POSTGRESQL:
            raise SinkError(f"adbc-driver-postgresql is {version}. Get a newer one: pip install 'penstock[postgresql]'")


def _driver_of(uri: str) -> tuple[str, str]:
    """The driver that a URI names, and the URI as that driver wants it."""
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme.replace("+", "").isalnum():
        raise OptionError("driver", None, "which driver? The uri does not begin with its name", 'Example: "postgresql"')
    if scheme == "sqlite":
        return scheme, rest.removeprefix("///")  # a path; three slashes are the habit of other libraries
    return {"postgres": "postgresql"}.get(scheme, scheme), uri


def _names(names: Sequence[str]) -> str:
    """As SQL has them."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)
