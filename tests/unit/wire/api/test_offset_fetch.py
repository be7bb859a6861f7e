"""What a group has committed, as brokers of other ages are asked for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchRequest

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.message import Api
from penstock.wire.api.offset_fetch import ask_committed


class Old:
    """A broker that speaks no newer version, and has committed nothing."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.asked: Any = None

    def version(self, api: Api) -> int:
        return min(self._version, api.highest)

    def call(self, request: Any, timeout: float) -> Any:
        self.asked = OffsetFetchRequest.decode(request.body, version=self._version)
        group = SimpleNamespace(error_code=0, topics=[])
        return SimpleNamespace(groups=[group], error_code=0, topics=[])


@pytest.mark.parametrize("stable", [True, False], ids=["stable", "unstable"])
@pytest.mark.parametrize(("version", "can_wait"), [(5, False), (7, True), (8, True), (9, True)])
def test_commits_of_open_transactions_are_waited_for_by_all_who_can(version, can_wait, stable):
    broker = Old(version)
    assert ask_committed(broker, "g", [TopicPartition("t", 0)], 1.0, stable) == {}  # type: ignore[arg-type]
    assert broker.asked.require_stable is (can_wait and stable)
