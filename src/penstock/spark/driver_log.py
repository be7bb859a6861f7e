"""Writes Penstock's log lines to the driver's log.

Spark plans Python sources in separate processes on the driver's machine, and passes their stderr to the driver's. No
logging is configured in them: Python would write warnings without a format, and drop INFO.
"""

from __future__ import annotations

import logging


def log_to_driver() -> None:
    """Configure logging in a planning process, unless Spark or the program has done so."""
    logger = logging.getLogger("penstock")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
