"""The batch reader with filter pushdown, of PySpark 4.1 and newer."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from penstock.formats.plan import TypedPlan
from penstock.spark.batch import BatchReader
from penstock.spark.filter_condition import with_filters
from penstock.spark.filters import narrowing_of


class FilteringBatchReader(BatchReader):
    """A batch reader with filter pushdown. A class of its own, because Spark refuses a reader that has `pushFilters`
    if spark.sql.python.filterPushdown.enabled is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        prefix = self._options.formats.prefix if self._options.formats.flatten else ""
        self.narrowing = narrowing_of(filters, prefix)
        if isinstance(self._columns, TypedPlan):
            self._columns = with_filters(self._columns, filters)
        return filters  # Spark applies all filters again
