"""HOW to reach the cluster and how hard to pull: the settings of a client as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.wire.transport.security import Security


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Everything the wire needs to know. Times in seconds. Hashable: connections are cached by it."""

    bootstrap: tuple[tuple[str, int], ...]
    security: Security = field(default_factory=Security)
    client_id: str = "penstock"
    client_rack: str = ""
    read_committed: bool = False
    request_timeout: float = 30.0
    api_timeout: float = 60.0
    connect_timeout: float = 10.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    idle_timeout: float = 60.0
    fetch_min_bytes: int = 1
    fetch_max_wait: float = 0.5
    fetch_max_bytes: int = 50 << 20
    partition_max_bytes: int = 4 << 20
    receive_buffer: int = -1
    decompression_limit: int = 256 << 20
    option_prefix: str = "kafka."
    """What stands before Kafka's names where this config came from: errors name options as their user wrote them."""

    def option(self, name: str) -> str:
        """How the user calls a setting of Kafka."""
        return self.option_prefix + name

    @property
    def bootstrap_text(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)
