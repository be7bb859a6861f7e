"""Reads a table with DuckDB and its own extension for it, in an environment of its own: FORMAT PLACE. Prints what it
found, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    import duckdb

    kind, place = sys.argv[1:]
    packages = Path(duckdb.__file__).parent.parent
    connection = duckdb.connect()
    for name in ("parquet", "avro", kind):
        [extension] = packages.glob(f"duckdb_extension_{name}/**/*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.execute(
        f"""
        SELECT count(*) AS rows,
               count(DISTINCT (topic, partition, "offset")) AS distinct,
               sum(CAST(decode(value) AS INTEGER))::INTEGER AS values,
               sum(typed.n)::INTEGER AS typed,
               list(DISTINCT CAST(date AS VARCHAR)) AS days,
               list(DISTINCT [headers[1].key, decode(headers[1].value)]) AS headers
        FROM {kind}_scan(?)
        """,
        [place],
    )
    names = [column[0] for column in found.description]
    sys.stdout.write(json.dumps(dict(zip(names, found.fetchone(), strict=True))) + "\n")
