"""What the page shows and does of one cluster."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.watch.feed import Feed
from penstock.watch.resets import Resets
from penstock.watch.search import Search


@dataclass(frozen=True, slots=True)
class WatchedCluster:
    feed: Feed
    search: Search
    resets: Resets | None = None
    """Resets offsets of groups; None refuses it."""
