"""Filters the rows of one partition by a predicate, and counts them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PredicateFailed
from penstock.model.expression import Where
from penstock.predicate.evaluate import RowError, evaluate


class RowFilter:
    """For one thread."""

    def __init__(self, where: Where, topic: str, partition: int) -> None:
        self._where = where
        self._place = (topic, partition)
        self.read = 0
        """Number of rows that the predicate was applied to."""
        self.passed = 0
        """Number of rows that met it."""

    def mask(self, rows: int, column: Callable[[str], pa.Array]) -> pa.Array | None:
        """Which of the rows pass; None if all do. Raises PredicateFailed for a row that is an error."""
        try:
            met = evaluate(self._where.condition, rows, column)
        except RowError as error:
            offset = None if error.row is None else column("offset")[error.row].as_py()
            raise PredicateFailed(*self._place, offset, self._where.text, error.reason, error.hint) from None
        passed = met.true_count
        self.read += rows
        self.passed += passed
        # Spark drops rows for which a condition is null.
        return None if passed == rows else pc.fill_null(met, False)
