"""Where a Streamer's dead letters go: to a topic, or to a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.dead_letters.letter import DeadLetter, TopicWriter
from penstock.errors import OptionError
from penstock.wire.client_config import ClientConfig

__all__ = ["CalledWithLetters", "DeadLetter", "DeadLetterTopic", "DeadLetters", "LetterWriter"]


class LetterWriter(Protocol):
    """One thread's way to where letters go."""

    def write(self, letters: list[DeadLetter]) -> None:
        """Take these letters for good, or raise. What is raised is tried again."""

    def close(self) -> None: ...


class DeadLetters(Protocol):
    def open(self, config: ClientConfig, group: str) -> LetterWriter: ...


class DeadLetterTopic:
    """Writes letters to a topic, which has to exist, and waits until all replicas in sync have them.

    A letter is the record as it was, key, value and headers, with these headers after its own: `penstock.topic`,
    `.partition`, `.offset`, `.timestamp` (ms), `.group`, `.stage` (`extractor` or `sink`), `.error` (a class) and
    `.reason`. Its timestamp is that of the failure, because topics forget by it. A value that is too large for the
    topic is left out, and `penstock.dropped` says how many bytes it had.

    `config`: Kafka's settings of another cluster; without it, the Streamer's own.
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
        writer.connect()  # a topic that is not there is found now
        return writer


class CalledWithLetters:
    """Hands letters to a function, in a list."""

    def __init__(self, function: Callable[[list[DeadLetter]], object]) -> None:
        self._function = function

    def open(self, config: ClientConfig, group: str) -> LetterWriter:
        return self

    def write(self, letters: list[DeadLetter]) -> None:
        self._function(letters)

    def close(self) -> None:
        pass
