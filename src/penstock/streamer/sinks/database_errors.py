"""What a database's errors mean: of the rows, of the setup, or of something that may pass."""

from __future__ import annotations

from penstock.masking import masked

REFUSED_ROWS = ("22", "23", "44", "54000", "P0001")
"""SQLSTATEs, by their beginnings, that speak of the rows: a value that does not fit, a constraint or a view's check
that it breaks, a key too long for its index, and what a trigger raises."""

WRONG_SETUP = ("0A", "08P01", "28", "3D", "3F", "42")
"""SQLSTATE classes that no waiting cures: not supported, not allowed, no such database, schema, table or column; and
08P01, which is what comes of a value copied into a column of another type."""

WRONG_SETUP_STATUS = ("NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT", "NOT_IMPLEMENTED", "UNAUTHORIZED")
"""The same as ADBC's own status. ALREADY_EXISTS is what both drivers say of a column that the table does not have."""

REFUSED_WORDS = (
    " constraint failed",
    "datatype mismatch",
    "cannot store ",
    "out of range of int64_t",
    "Could not format timestamp",
)
"""What SQLite's driver says of rows. Of these it gives no code: it calls them internal errors, or input and output."""

NOT_PREPARED, LOCKED = "failed to prepare", "is locked"
"""What it says of a statement that can never be, and of one that only has to wait."""

SHOWN = 300
"""How much of a driver's error is shown."""


def kind_of(error: Exception) -> str:
    """Whether an error speaks of `rows`, of the `setup`, or of something that may `pass`."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(REFUSED_ROWS):
        return "rows"
    if state.startswith(WRONG_SETUP):
        return "setup"
    status, text = status_of(error), str(error)
    if status in ("INTEGRITY", "INVALID_DATA") or (status and any(words in text for words in REFUSED_WORDS)):
        return "rows"
    if status in WRONG_SETUP_STATUS or "Operation not supported" in text or "no such table" in text:
        return "setup"
    if status and NOT_PREPARED in text and LOCKED not in text:
        return "setup"
    return "pass"


def status_of(error: Exception) -> str:
    """ADBC's name for what went wrong; empty if it is no error of a driver."""
    name: str = getattr(getattr(error, "status_code", None), "name", "")
    return name


def in_one_line(error: Exception) -> str:
    """Cut before the statement that drivers repeat at the end."""
    text = masked(" ".join(str(error).split()) or type(error).__name__)  # before it is cut: a URI may be cut in two
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
