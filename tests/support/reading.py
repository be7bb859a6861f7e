"""A RangeReader with the default time-out of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.config.source import SOURCE_OPTIONS
from penstock.model.offset_range import OffsetRange
from penstock.reader.range_reader import RangeReader
from penstock.wire.client_config import ClientConfig

POLL_TIMEOUT: float = SOURCE_OPTIONS.default("kafkaConsumer.pollTimeoutMs")


def range_reader(range_: OffsetRange, columns: Sequence[str], config: ClientConfig, **more: Any) -> RangeReader:
    return RangeReader(range_, columns, config, **{"poll_timeout": POLL_TIMEOUT} | more)
