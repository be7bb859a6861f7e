"""aiokafka in a consumer group, message by message. It checks no CRCs: Java's tool and librdkafka do not either."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from answering import answer_orders
from group_reading import Stopwatch


class Listener(ConsumerRebalanceListener):
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def on_partitions_assigned(self, assigned: object) -> None:
        self._watch.assigned()

    def on_partitions_revoked(self, revoked: object) -> None:
        pass


async def read(order: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=order["bootstrap"],
        group_id=order["group"],
        auto_offset_reset=order["reset"],
        check_crcs=False,
    )
    consumer.subscribe([order["topic"]], listener=Listener(watch))
    try:
        await consumer.start()
        rows = size = 0
        async for message in consumer:
            size += len(message.value)
            rows += 1
            if rows == order["rows"]:
                break
        return {**watch.stop(), "rows": rows, "value_bytes": size}
    finally:
        await consumer.stop()


def run(order: dict[str, Any]) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(read(order), order["deadline"]))


if __name__ == "__main__":
    answer_orders(run)
