"""The settings of a client as one frozen value: how to reach the cluster, and how much to fetch."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.wire.client_rack import rack_of
from penstock.wire.transport.security import Security


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client. Times in seconds. Hashable: connections are cached by it."""

    bootstrap: tuple[tuple[str, int], ...]
    security: Security = field(default_factory=Security)
    client_id: str
    client_rack: str = ""
    """As the user gave it: `rack` is what it stands for."""
    read_committed: bool
    request_timeout: float
    api_timeout: float
    connect_timeout: float
    retry_backoff: float
    retry_backoff_max: float
    idle_timeout: float
    rebootstrap: bool
    """Whether the bootstrap servers are asked when no known broker answers (KIP-899)."""
    rebootstrap_after: float
    """After so long without metadata, the known brokers are forgotten (KIP-1102)."""
    fetch_min_bytes: int
    fetch_max_wait: float
    fetch_max_bytes: int
    partition_max_bytes: int
    receive_buffer: int
    decompression_limit: int
    option_prefix: str = "kafka."
    """The prefix of Kafka's option names at the place of their definition: errors name options as the user wrote
    them."""

    @property
    def rack(self) -> str:
        """The rack of this process; empty for none. Only processes that read ask for it. Raises OptionError."""
        return rack_of(self.client_rack)

    def option(self, name: str) -> str:
        """The name of a Kafka setting as the user writes it."""
        return self.option_prefix + name

    @property
    def bootstrap_text(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)
