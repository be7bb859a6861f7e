"""How often a collector asks, and for how much."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.monitor.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Times in seconds."""

    topics: Selection = field(default_factory=Selection)
    groups: Selection = field(default_factory=Selection)
    interval: float = 5.0
    """From the start of one round to the start of the next. A round that takes longer delays the next one."""
    requests_per_second: float = 20.0
    """To all brokers together. A round of a cluster of three brokers takes about 15 requests."""
    positions_per_round: int = 20_000
    """Committed offsets that are asked for in one round. Groups beyond that take turns."""
    descriptions_per_round: int = 250
    """Groups whose members are asked for in one round. Groups whose state has changed come first."""
    lookups_per_second: float = 200.0
    """Next records that are looked up, on average. Each takes up to 16 KB of the network."""
    topics_interval: float = 30.0
    begins_interval: float = 30.0
    sizes_interval: float = 60.0
    settings_interval: float = 300.0

    @property
    def lookups_per_round(self) -> int:
        return max(1, round(self.lookups_per_second * self.interval))
