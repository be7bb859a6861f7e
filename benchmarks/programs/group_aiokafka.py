"""aiokafka in a consumer group, message by message. It does not check CRCs, like Java's tool and librdkafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from group_reading import Stopwatch
from serving import serve_requests


class Listener(ConsumerRebalanceListener):
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def on_partitions_assigned(self, assigned: object) -> None:
        self._watch.assigned()

    def on_partitions_revoked(self, revoked: object) -> None:
        pass


async def read(request: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        auto_offset_reset=request["reset"],
        check_crcs=False,
    )
    consumer.subscribe([request["topic"]], listener=Listener(watch))
    try:
        await consumer.start()
        rows = size = 0
        async for message in consumer:
            size += len(message.value)
            rows += 1
            if rows == request["rows"]:
                break
        return {**watch.stop(), "rows": rows, "value_bytes": size}
    finally:
        await consumer.stop()


def run(request: dict[str, Any]) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(read(request), request["deadline"]))


if __name__ == "__main__":
    serve_requests(run)
