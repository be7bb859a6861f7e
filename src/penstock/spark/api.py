"""What this PySpark offers to a Python source. All that depends on its version is decided here.

4.0   sources and writers, of Arrow batches too
4.1   filter pushdown, writers of streams that take Arrow batches, Unix sockets to workers
4.2   a stream reader gets the start and the limit of a batch, and reports the ends of logs
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pyspark

from penstock.errors import UnsupportedSpark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

VERSION = pyspark.__version__
OLDEST, BEFORE = (4, 0), (5, 0)


def numbers_of(version: str) -> tuple[int, ...]:
    """Major and minor number of a version."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def check_version(version: str) -> None:
    """Raise UnsupportedSpark unless Penstock runs with this PySpark."""
    if not OLDEST <= numbers_of(version) < BEFORE:
        raise UnsupportedSpark(f"Penstock needs PySpark 4.0 or newer 4.x, and this is PySpark {version}", INSTALL)


INSTALL = 'Install one with pip install "pyspark>=4.0,<5"'

# Before any other import from PySpark: 3.5 has no sources in Python, and an ImportError would not say so.
check_version(VERSION)

HAS_FILTERS = numbers_of(VERSION) >= (4, 1)
"""Whether Spark passes the filters of a query to a batch reader."""

HAS_UNIX_SOCKETS = numbers_of(VERSION) >= (4, 1)
"""Whether Spark can talk to its Python workers over Unix sockets. It uses TCP unless a setting says otherwise."""

PASSES_START = numbers_of(VERSION) >= (4, 2)
"""Whether Spark calls `latestOffset(start, limit)`. Before, it calls `latestOffset()`."""

if TYPE_CHECKING or numbers_of(VERSION) >= (4, 1):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """PySpark 4.0 has no such class. But it passes Arrow batches to every DataSourceArrowWriter, and looks at
        nothing else before it writes a stream."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types of Spark's types, with times in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # before 4.2: UTC is the default


def spark_schema(schema: StructType | pa.Schema) -> StructType:
    """The schema that an engine passes, as Spark's types. Sail, an engine without a JVM, passes Arrow's."""
    import pyarrow as pa

    if not isinstance(schema, pa.Schema):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def reports_ends(description: str) -> bool:
    """Whether `latestOffset` in the progress of a source is the end of the logs. `description`: from the progress.

    Before 4.2 it is the end of the batch if the source is in Python. Spark's class tells, not the version of this
    process, which may be a client of Spark Connect.
    """
    return ".PythonMicroBatchStream@" not in description
