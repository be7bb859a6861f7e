"""Which topics and groups are monitored, by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import OptionError
from penstock.model.topic_pattern import matching


@dataclass(frozen=True, slots=True)
class Selection:
    """Names that contain a match of `include`, and none of `exclude`. None includes all, and excludes none."""

    include: str | None = None
    exclude: str | None = None

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            if (pattern := getattr(self, name)) is not None:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise OptionError(name, pattern, f"is not a regular expression: {error}") from None

    def of(self, names: Iterable[str]) -> set[str]:
        found = set(names)
        if self.include is not None:
            found = matching(self.include, found)
        if self.exclude is not None:
            found -= matching(self.exclude, found)
        return found
