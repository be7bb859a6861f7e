"""A user's own deserializer, for the names of dead letters."""

from __future__ import annotations

from typing import Any


class Lines:
    def schema(self) -> str:
        return "line STRING"

    def deserialize_record(self, record: Any) -> dict[str, str]:
        return {"line": record.value.decode()}
