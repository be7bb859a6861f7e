"""The destinations of a Streamer's dead letters: a topic, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.dead_letters.letter import DeadLetter
from penstock.dead_letters.letter_writer import TopicWriter
from penstock.errors import OptionError
from penstock.wire.client_config import ClientConfig

__all__ = ["CallableDeadLetters", "DeadLetter", "DeadLetterTopic", "DeadLetters", "LetterWriter"]


class LetterWriter(Protocol):
    """Writes the letters of one thread."""

    def write(self, letters: list[DeadLetter]) -> None:
        """Store these letters, or raise. The Streamer retries after an error."""

    def close(self) -> None: ...


class DeadLetters(Protocol):
    """A destination of dead letters, shared by all threads."""

    def open(self, config: ClientConfig, group: str) -> LetterWriter: ...


class DeadLetterTopic:
    """Writes letters to an existing topic, and waits until all in-sync replicas have them.

    A letter has the key, value and headers of the record, followed by these headers: `penstock.topic`, `.partition`,
    `.offset`, `.timestamp` (ms), `.group`, `.stage` (`extractor` or `sink`), `.error` (a class) and `.reason`. Its
    timestamp is the time of the failure, because retention goes by it. A value that is too large for the topic is
    dropped, and `penstock.dropped` holds its size in bytes.

    `config`: Kafka's settings of another cluster. Default: the Streamer's cluster.
    """

    def __init__(self, topic: str, *, config: Mapping[str, object] | None = None) -> None:
        if not isinstance(topic, str) or not topic:
            raise OptionError("dead_letter", topic, "must be the name of a topic")
        self.topic = topic
        self._config = config

    def __repr__(self) -> str:
        return f"DeadLetterTopic({self.topic!r})"

    def open(self, config: ClientConfig, group: str) -> LetterWriter:
        if self._config is not None:
            from penstock.config.consumer import parse_config

            config = parse_config({"group.id": group, **self._config}).client
        writer = TopicWriter(config, self.topic, group)
        writer.connect()  # raises now if the topic does not exist
        return writer


class CallableDeadLetters:
    """Calls a function with a list of letters."""

    def __init__(self, function: Callable[[list[DeadLetter]], object]) -> None:
        self._function = function

    def open(self, config: ClientConfig, group: str) -> LetterWriter:
        return self

    def write(self, letters: list[DeadLetter]) -> None:
        self._function(letters)

    def close(self) -> None:
        pass
