"""The level of what Penstock logs in Spark: one option, of reads and of writes."""

from __future__ import annotations

import logging

from penstock.config.option import Option
from penstock.config.parsers import one_of

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _level(name: str, value: str) -> int:
    return LEVELS[one_of(*LEVELS)(name, value)]


LOG_LEVEL = Option(
    "logLevel",
    _level,
    None,
    "The lowest level that Penstock logs to Spark's driver log: `debug`, `info`, `warning` or `error`. `info` shows "
    "the versions, options and topics of a query when it starts. A program without Spark configures the logger "
    "`penstock` instead. Default: `info`, or what the process has configured.",
    "log_level",
)
