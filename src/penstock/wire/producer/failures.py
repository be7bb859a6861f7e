"""Failed attempts at partitions: their history, the backoff, and the error at the end."""

from __future__ import annotations

import random

from penstock.errors import BrokerUnavailable
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.partition_queue import PartitionQueue
from penstock.wire.producer.producer_config import ProducerConfig
from penstock.wire.transport.retry import Attempts


class Failures:
    """Notes failed attempts in queues. For one thread."""

    def __init__(self, config: ClientConfig, settings: ProducerConfig) -> None:
        self._config = config
        self._settings = settings

    def note(self, queue: PartitionQueue, problem: Exception) -> float:
        """Note a failed attempt. Returns the seconds to back off."""
        if queue.attempts is None:
            queue.attempts = self._attempts(queue)
        queue.attempts.failed(str(problem), problem)
        config = self._config
        backoff = min(config.retry_backoff * float(1 << min(queue.attempts.count - 1, 20)), config.retry_backoff_max)
        return backoff * random.uniform(0.75, 1.25)  # noqa: S311 (jitter)

    def give_up(self, queue: PartitionQueue) -> BrokerUnavailable:
        """The error for a batch whose time is over."""
        return (queue.attempts or self._attempts(queue)).give_up()

    def _attempts(self, queue: PartitionQueue) -> Attempts:
        option = self._config.option
        longer = f"To wait longer, set {option(self._settings.delivery_option)}"
        return Attempts(
            f"writing to {queue.tp}",
            self._settings.delivery_timeout,
            hint=f"Check {option('bootstrap.servers')}, and that the brokers run. {longer}",
            hint_if_answered=f"The brokers answer, but refuse for now: the last attempt says why. {longer}",
        )
