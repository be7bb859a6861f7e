"""States of the model of exactly-once (`protocol_model`): values only.

States hold neither epochs nor counters, so any number of crashes, restarts, time-outs and retries makes a finite number
of states. Instead of epochs, a reference to a transaction (of an attempt, an outcome or a request) is live or fenced:
taking a transactional id and a time-out fence all earlier references to the id.

Rows are bits, so the rows of a task, of a batch and of a reader are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Noted: TypeAlias = tuple[int, int]
"""A note: batch and rows."""

Intended: TypeAlias = tuple[int, int, int]
"""An intent: batch, number of tasks and rows."""

Division: TypeAlias = tuple[int, ...]
"""The rows of each task of a batch."""


@dataclass(frozen=True)
class Protocol:
    """The protocol as it is. A field that is changed makes a mutation."""

    takes_id_before_note: bool = True
    reads_note: bool = True
    note_in_transaction: bool = True
    tasks_read_stable: bool = True
    """A task's read of its note waits while a transaction with a note is open or its end is not visible (KIP-447)."""
    driver_reads_stable: bool = True
    driver_takes_ids: bool = True
    """Of tasks that hold no transaction, when a batch is replayed."""
    driver_reads_open: bool = False
    """The driver also reads the notes of tasks that hold a transaction."""
    driver_reads_intent: bool = True
    driver_waits: bool = True
    """For the answers to all its commits, before Spark records the batch."""
    driver_fences: bool = True
    """A driver fences older ones before it reads the intent, and writes the intent in a transaction of its own."""
    compares_hashes: bool = True


@dataclass(frozen=True)
class Setting:
    """What is explored."""

    batches: tuple[tuple[Division, ...], ...]
    """For each batch, the divisions into tasks that each attempt at the batch chooses from."""
    protocol: Protocol = Protocol()
    attempts: int = 2
    """Of one task at the same time, zombies included."""
    all_attempts: int = 2
    """Of all tasks at the same time, zombies included. Outcomes that the driver has collected do not count."""
    separate_note: bool = False
    """Rows and note are written in two steps."""
    late_notes: bool = True
    """Brokers may make a note visible after its transaction has ended, as they do without KIP-848's coordinator."""
    late_intents: bool = False
    """Brokers may write an intent after the driver that sent it has died."""
    zombie_driver: bool = False
    """And that driver may still be alive, and send its commits then."""

    @property
    def same_rows(self) -> bool:
        return all(len(divisions) == 1 for divisions in self.batches)

    @property
    def tasks(self) -> int:
        return max(len(division) for divisions in self.batches for division in divisions)


# Transactions of an id: none, open with rows and perhaps a note, or committed by its present holder.
ENDED, OPEN, COMMITTED = "ended", "open", "committed"


class Id(NamedTuple):
    """A transactional id, and the private group with the notes of its task."""

    state: str = ENDED
    rows: int = 0
    pending: Noted | None = None
    """The note in the open transaction."""
    late: Noted | None = None
    """Committed, but not visible yet."""
    note: Noted | None = None

    @property
    def is_stable(self) -> bool:
        return self.late is None and self.pending is None


# Steps of an attempt: what it has done.
LAUNCHED, TOOK, CHECKED, WROTE, NOTED = "launched", "took", "checked", "wrote", "noted"


class Attempt(NamedTuple):
    task: int
    batch: int
    rows: int
    step: str = LAUNCHED
    live: bool = False
    """Holds the transactional id."""
    current: bool = True
    """False for zombies: their driver is gone, or has finished the batch."""


# Outcomes of tasks on the driver.
MISSING, EMPTY, DONE, LIVE, FENCED = "missing", "empty", "done", "live", "fenced"


class Outcome(NamedTuple):
    kind: str = MISSING
    note: Noted | None = None


# Steps of the driver: what it does next.
RUN, TAKE, READ, CHECK, INTENT, END, LOG, ABORT = "run", "take", "read", "check", "intent", "end", "log", "abort"
REFUSED, FINISHED = "refused", "finished"


class Driver(NamedTuple):
    step: str
    batch: int
    division: Division = ()
    outcomes: tuple[Outcome, ...] = ()
    at: int = 0
    """The task whose id is taken, or whose note is read."""
    notes: tuple[tuple[int, Noted], ...] = ()
    commit: tuple[int, ...] = ()
    answered: frozenset[int] = frozenset()


class LateIntent(NamedTuple):
    intent: Intended
    tasks: frozenset[int] = frozenset()
    """Whose transactions a zombie driver commits afterwards. Fenced ones are left out."""


class State(NamedTuple):
    driver: Driver
    ids: tuple[Id, ...]
    attempts: tuple[Attempt, ...] = ()
    """Sorted: attempts at the same step are interchangeable."""
    requests: frozenset[tuple[int, bool]] = frozenset()
    """EndTxn on their way, also of drivers that died: task, and whether it commits. Fenced ones are left out: brokers
    refuse them."""
    intent: Intended | None = None
    late_intent: LateIntent | None = None
    seen: int = 0
    """Rows that a committed reader sees, now or soon: their commit is decided."""
    twice: int = 0
    """Rows that it sees twice."""


Step: TypeAlias = tuple[str, State]
"""What happens, and the state after it."""
