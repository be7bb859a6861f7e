"""kafka-python in a consumer group, message by message. It checks no CRCs: Java's tool and librdkafka do not either."""

from __future__ import annotations

from typing import Any

from answering import answer_orders
from group_reading import SILENCE_SECONDS, Stopwatch
from kafka import ConsumerRebalanceListener, KafkaConsumer


class Listener(ConsumerRebalanceListener):
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def on_partitions_assigned(self, assigned: object) -> None:
        self._watch.assigned()

    def on_partitions_revoked(self, revoked: object) -> None:
        pass


def run(order: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    consumer = KafkaConsumer(
        bootstrap_servers=order["bootstrap"],
        group_id=order["group"],
        auto_offset_reset=order["reset"],
        check_crcs=False,
        consumer_timeout_ms=SILENCE_SECONDS * 1000,
    )
    try:
        consumer.subscribe([order["topic"]], listener=Listener(watch))
        rows = size = 0
        for message in consumer:
            size += len(message.value)
            rows += 1
            if rows == order["rows"]:
                break
        return {**watch.stop(), "rows": rows, "value_bytes": size}
    finally:
        consumer.close()


if __name__ == "__main__":
    answer_orders(run)
