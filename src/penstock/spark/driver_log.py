"""Writes Penstock's log lines to the driver's log (H18).

Spark plans Python sources in separate processes on the driver's machine, and passes their stderr to the driver's. No
logging is configured in them: Python would write warnings without a format, and drop INFO. Spark 4.1 and newer can
record what these processes log (`spark.sql.pyspark.worker.logging.enabled`). Spark then adds a handler, which gets
these lines instead.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("penstock")

_handler: logging.Handler | None = None


def log_to_driver(level: int | None = None) -> None:
    """Configure logging in a planning process, unless Spark or the program has done so. `level`: option `logLevel`,
    which counts in any case. Spark reuses these processes: a later query sets its own level."""
    global _handler
    if not LOGGER.hasHandlers():
        _handler = logging.StreamHandler()
        _handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        LOGGER.addHandler(_handler)
    if level is not None:
        LOGGER.setLevel(level)
    elif _handler is not None and _handler in LOGGER.handlers:
        LOGGER.setLevel(logging.INFO)
