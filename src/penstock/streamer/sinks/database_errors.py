"""Classification of database errors: wrong rows, wrong setup, or retriable."""

from __future__ import annotations

from penstock.masking import masked

REFUSED_ROWS = ("22", "23", "44", "54000", "P0001")
"""Prefixes of SQLSTATEs that concern the rows: a value that does not fit, a broken constraint or check of a view, a key
too long for its index, an exception of a trigger."""

WRONG_SETUP = ("0A", "08P01", "28", "3D", "3F", "42")
"""SQLSTATE classes that a retry does not fix: not supported, not allowed, no such database, schema, table or column.
08P01 is the result of a value copied into a column of another type."""

WRONG_SETUP_STATUS = ("NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT", "NOT_IMPLEMENTED", "UNAUTHORIZED")
"""The same as ADBC statuses. Both drivers report ALREADY_EXISTS for a column that the table does not have."""

REFUSED_WORDS = (
    " constraint failed",
    "datatype mismatch",
    "cannot store ",
    "out of range of int64_t",
    "Could not format timestamp",
)
"""Texts of SQLite's driver about wrong rows. It has no code for these: their status is internal error or I/O error."""

NOT_PREPARED, LOCKED = "failed to prepare", "is locked"
"""Its texts about a statement that can never succeed, and about one that has to wait."""

SHOWN = 300
"""The largest number of characters of a driver's error in our errors."""


def kind_of(error: Exception) -> str:
    """The kind of an error: `rows`, `setup` or `retriable`."""
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
    return "retriable"


def status_of(error: Exception) -> str:
    """The name of the ADBC status; empty if the error is not a driver's."""
    name: str = getattr(getattr(error, "status_code", None), "name", "")
    return name


def in_one_line(error: Exception) -> str:
    """The text of an error, shortened: drivers repeat the statement at the end."""
    text = masked(
        " ".join(str(error).split()) or type(error).__name__
    )  # masked before it is cut: a cut may split a URI
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
