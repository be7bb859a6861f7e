"""Penstock's log lines in the driver's log.

Spark plans Python sources in processes of their own on the driver's machine, in which no logging is set up, and passes
their stderr on to the driver's. There Python alone would write warnings as bare sentences, and drop INFO.
"""

from __future__ import annotations

import logging


def log_to_driver() -> None:
    """Called in a planning process. Does nothing where logging is set up already, by Spark or by a program."""
    logger = logging.getLogger("penstock")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
