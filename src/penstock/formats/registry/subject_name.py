"""The name of a subject in a schema registry, derived from a topic by one of Confluent's strategies."""

from __future__ import annotations

from penstock.errors import OptionError


def subject_name(strategy: str, topic: str, column: str, record_name: str | None = None) -> str:
    """The subject of a topic's key or value. `record_name` is the full name of an Avro record or a Protobuf message."""
    if strategy == "topic":
        return f"{topic}-{column}"
    if not record_name:
        raise OptionError(
            "subjectNameStrategy", strategy, f"needs the name of the {column}'s record", f"Set {column}Subject"
        )
    return record_name if strategy == "record" else f"{topic}-{record_name}"
