"""Log records of Penstock alone. Other libraries log in the same process, from threads that outlive the last test."""

from __future__ import annotations

import logging

import pytest


def own_records(caplog: pytest.LogCaptureFixture, logger: str = "penstock") -> list[logging.LogRecord]:
    """The records of a logger and of its children."""
    return [record for record in caplog.records if f"{record.name}.".startswith(f"{logger}.")]
