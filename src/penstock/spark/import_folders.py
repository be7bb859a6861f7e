"""Folders from which a user's own classes and functions are imported, in Spark's planning processes.

Spark gives the folders of `addPyFile` to the process that creates a DataFrame and to tasks, but not to the one that
plans a stream. All processes of the driver share its machine, so the first one tells the others.
"""

from __future__ import annotations

import sys
from pathlib import Path


def known_folders() -> tuple[str, ...]:
    """The folders and archives of this process."""
    return tuple(folder for folder in sys.path if folder)


def add_folders(folders: tuple[str, ...]) -> None:
    """Look for modules there too, after this process's own folders."""
    sys.path.extend(folder for folder in folders if folder not in sys.path and Path(folder).exists())
