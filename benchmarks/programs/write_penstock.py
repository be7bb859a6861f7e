"""An Arrow table into Kafka with `penstock.write_batches`, in one thread."""

from __future__ import annotations

import functools
import time
from typing import Any

from serving import serve_requests
from written_rows import rows_table

import penstock

table = functools.cache(rows_table)


def run(request: dict[str, Any]) -> dict[str, Any]:
    rows = table(request["rows"])
    if not request["keys"]:
        rows = rows.select(["value"])
    options = {"kafka.bootstrap.servers": request["bootstrap"], "topic": request["topic"], **request["settings"]}
    began = time.perf_counter()
    penstock.write_batches(options, rows)
    return {"seconds": time.perf_counter() - began}


if __name__ == "__main__":
    serve_requests(run)
