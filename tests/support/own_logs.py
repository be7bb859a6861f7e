"""What Penstock itself has logged. Others in a test's process log too, from threads that outlive the test before."""

from __future__ import annotations

import logging

import pytest


def own_records(caplog: pytest.LogCaptureFixture, logger: str = "penstock") -> list[logging.LogRecord]:
    """The records of a logger and of those below it."""
    return [record for record in caplog.records if f"{record.name}.".startswith(f"{logger}.")]
