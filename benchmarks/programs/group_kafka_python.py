"""kafka-python in a consumer group, message by message. It does not check CRCs, like Java's tool and librdkafka."""

from __future__ import annotations

from typing import Any

from group_reading import SILENCE_SECONDS, Stopwatch
from kafka import ConsumerRebalanceListener, KafkaConsumer
from serving import serve_requests


class Listener(ConsumerRebalanceListener):
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def on_partitions_assigned(self, assigned: object) -> None:
        self._watch.assigned()

    def on_partitions_revoked(self, revoked: object) -> None:
        pass


def run(request: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    consumer = KafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        auto_offset_reset=request["reset"],
        check_crcs=False,
        consumer_timeout_ms=SILENCE_SECONDS * 1000,
    )
    try:
        consumer.subscribe([request["topic"]], listener=Listener(watch))
        rows = size = 0
        for message in consumer:
            size += len(message.value)
            rows += 1
            if rows == request["rows"]:
                break
        return {**watch.stop(), "rows": rows, "value_bytes": size}
    finally:
        consumer.close()


if __name__ == "__main__":
    serve_requests(run)
