"""The stream reader for PySpark 4.0 and 4.1: Spark passes no start, so the reader tracks where the query stands.

    new query     latestOffset()     initialOffset()     partitions(initial, answer)
    restart       partitions(x, x)   [partitions(s, x)]  latestOffset()     partitions(x, answer)

Spark makes a batch of every answer that differs from the last one, and asks for the next answer when that batch has
finished. So the next batch starts at the last answer. After a restart it starts at x, the end in the offset log, with
which Spark calls `partitions` first. The call in brackets replays a batch that had not finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from penstock.config.source import SourceOptions
from penstock.errors import UnsupportedSpark
from penstock.formats.plan import TypedPlan
from penstock.masking import get_logger
from penstock.spark.api import VERSION
from penstock.spark.stream import StreamReader
from penstock.spark.tracebacks import without_traceback

log = get_logger(__name__)

WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


class TrackingStreamReader(StreamReader):
    """Plans each batch from the end of the one before, which it tracks. All methods are called on the driver.

    It cannot tell triggers apart: Trigger.Once and Trigger.AvailableNow are one batch within the limits.
    """

    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        super().__init__(options, columns)
        self._answer: dict[str, Any] | None = None
        """The last answer; None before the first one."""
        self._planned: dict[str, Any] | None = None
        """The end of the batch that Spark planned last, or the end in the offset log."""
        self._is_new = False
        """Whether Spark has asked where a new query starts."""

    def initialOffset(self) -> dict[str, Any]:
        self._is_new = True
        return super().initialOffset()

    @without_traceback
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # that of PySpark 4.2 is declared
        """Called at every poll, also of an idle query. The batch that was planned last has finished."""
        is_first, start = self._answer is None, self._answer
        if start is None:
            start = super().initialOffset() if self._planned is None else self._planned
        # A start that was not planned is that of a new query, or the end of a batch whose rows no task reads.
        self._answer = self._next(start, may_commit=start == self._planned)
        if is_first:
            self._warn_of_rest()
        return self._answer

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # In any other case, Spark tells the place before the first answer. Only the first batch of a new query can be
        # empty.
        if start == end and self._answer is not None and not self._is_new:
            raise UnsupportedSpark(
                f"{WRAPPER} is true: PySpark {VERSION} then asks a source for new records before it says where the "
                "query stands, and records would be read twice",
                "Set it to false, which is the default",
            )
        self._planned = end
        return super().partitions(start, end)

    def _warn_of_rest(self) -> None:
        """Say what the first batch leaves, because it may be the only one."""
        planner = self._driver.planner
        if planner.left:
            what = f"leaves {planner.left:,} records for later ones"
        elif self._planned is None and planner.pins_start and not planner.starts_at_end:
            what = "is empty, and records where the query starts"
        else:
            return
        log.warning(
            "the first batch of this run %s. With PySpark %s, Trigger.AvailableNow and Trigger.Once run one batch: "
            "start the query again to read on. Other triggers read on by themselves",
            what,
            VERSION,
        )
