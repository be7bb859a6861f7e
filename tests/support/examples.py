"""How many examples a property test tries."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """`count` examples under the profile `thorough`, and a third of them under the profile of `make test`."""
    return max(1, count * settings().max_examples // 100)
