"""The settings of a producer as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """The settings of a producer. Times in seconds, sizes in bytes."""

    acks: int = -1
    """-1: all in-sync replicas, 1: the leader, 0: no answer."""
    idempotent: bool = True
    """Needs acks = -1."""
    compression: str = "none"
    level: int | None = None
    """Of the compression. None: the codec's default."""
    batch_size: int
    """Before compression."""
    linger: float
    max_request_size: int
    buffer_size: int
    delivery_timeout: float
    delivery_option: str = "delivery.timeout.ms"
    """The option that sets `delivery_timeout`. Errors name it."""
    transaction_timeout: float
    max_in_flight: int
    """Requests that one broker has not answered."""
