"""Penstock's Streamer into a Delta Lake table. A request names the topic, the folder of a new table, and the number of
threads; each run is a new group. The answer has the rows of the table, which are counted after the time is taken."""

from __future__ import annotations

import time
import uuid
from typing import Any

from deltalake import DeltaTable
from serving import serve_requests

from penstock import DeltaSink, Streamer


def run(request: dict[str, Any]) -> dict[str, Any]:
    config = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": f"bench-{uuid.uuid4().hex}",
        "auto.offset.reset": "earliest",
    }
    began = time.perf_counter()
    with Streamer(
        request["topic"], request["threads"], sink=DeltaSink(request["folder"]), config=config, until_end=True
    ) as streamer:
        streamer.wait()
    seconds = time.perf_counter() - began
    table = DeltaTable(request["folder"])
    return {"seconds": seconds, "rows": table.count(), "commits": table.version()}


if __name__ == "__main__":
    serve_requests(run)
