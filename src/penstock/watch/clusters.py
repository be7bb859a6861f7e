"""The table of clusters of a page that has several."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any


class ClusterRows:
    """The rows of all clusters of a page. Any thread may call it: each cluster's feed puts its own row."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Rises with each change; 0 without any row."""
        with self._lock:
            return self._version

    def put(self, row: Mapping[str, Any]) -> None:
        """Take a cluster's row, which replaces the earlier one of its name."""
        with self._lock:
            if self._rows.get(row["name"]) != row:
                self._rows[row["name"]] = dict(row)
                self._version += 1

    def rows(self) -> list[dict[str, Any]]:
        """In the order in which the clusters were first put."""
        with self._lock:
            return list(self._rows.values())
