"""The progress of a query, from its checkpoint and its sink: planned, written and finished batches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Moment(Enum):
    """The state of a query, or its state when it was killed."""

    PLANNING = "no batch is open: offsets are looked up, the last ones committed to the group"
    READING = "a batch is planned and the sink does not have it"
    COMMITTING = "the sink has the batch and Spark has not noted that it is done"


@dataclass(frozen=True)
class Progress:
    """The newest batch of each log; -1 for none."""

    planned: int
    in_sink: int
    done: int

    @property
    def moment(self) -> Moment:
        if self.planned == self.done:
            return Moment.PLANNING
        return Moment.COMMITTING if self.in_sink == self.planned else Moment.READING


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    output: Path

    @property
    def begun(self) -> bool:
        """Whether a query has started here. It writes its id before it plans anything."""
        return (self.folder / "metadata").exists()

    def progress(self) -> Progress:
        # Read in the reverse order of writing: a batch that advances between two reads appears less finished.
        done = newest(self.folder / "commits")
        in_sink = newest(self.output / "_spark_metadata")
        return Progress(newest(self.folder / "offsets"), in_sink, done)

    def durable(self) -> dict[tuple[str, int], int]:
        """The end of the last finished batch: the group must not know more."""
        done = newest(self.folder / "commits")
        if done < 0:
            return {}
        # Spark's offset log: its version, the metadata of the batch, one line per source.
        state = json.loads((self.folder / "offsets" / str(done)).read_text().splitlines()[2])
        return {(topic, int(number)): end for topic, ends in state.items() for number, end in ends.items()}


def newest(folder: Path) -> int:
    if not folder.exists():
        return -1
    return max((int(path.name.partition(".")[0]) for path in folder.iterdir() if path.name[0].isdigit()), default=-1)
