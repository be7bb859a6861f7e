"""Explores every state of a protocol model, breadth first: the trace to a bad state is one of the shortest."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from support.protocol_model import Model
from support.protocol_state import FINISHED, REFUSED, Setting, State


@dataclass(frozen=True)
class Result:
    states: int
    steps: int
    problem: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{number:3} {line}" for number, line in enumerate(self.trace, 1)]
        return "\n".join([f"{self.problem or 'no problem'}: {self.states} states, {self.steps} steps", *lines])


class Invariant:
    """What must hold in every state."""

    def __init__(self, setting: Setting) -> None:
        self._refuses = not setting.same_rows
        self._whole = [{sum(division) for division in divisions} for divisions in setting.batches]
        self._all = [reduce(or_, whole) for whole in self._whole]

    def problem(self, state: State) -> str:
        if state.twice:
            return f"a committed reader sees rows {state.twice:b} twice"
        for batch in range(state.driver.batch):
            seen = state.seen & self._all[batch]
            if seen not in self._whole[batch]:
                return f"Spark has recorded batch {batch}, and a committed reader sees only its rows {seen:b}"
        if state.driver.step == REFUSED and not self._refuses:
            return "a replay with the same rows is refused"
        return ""


class Graph:
    """States found so far, and how each was reached first."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.numbers: dict[State, int] = {}
        self.sources, self.targets = array("q"), array("q")
        self._parents = array("q")
        self._labels: list[str] = []

    def add(self, state: State, parent: int, label: str) -> int:
        self.numbers[state] = number = len(self.states)
        self.states.append(state)
        self._parents.append(parent)
        self._labels.append(label)
        return number

    def trace(self, number: int) -> list[str]:
        lines = []
        while number >= 0:
            lines.append(self._labels[number])
            number = self._parents[number]
        return lines[::-1]

    def result(self, problem: str = "", at: int = -1) -> Result:
        return Result(len(self.states), len(self.targets), problem, self.trace(at))

    def dead_end(self) -> int | None:
        """A state from which the query cannot finish, if there is one."""
        before: list[list[int]] = [[] for _ in self.states]
        for source, target in zip(self.sources, self.targets, strict=True):
            before[target].append(source)
        reached = [state.driver.step == FINISHED for state in self.states]
        to_visit = [number for number, is_reached in enumerate(reached) if is_reached]
        while to_visit:
            for source in before[to_visit.pop()]:
                if not reached[source]:
                    reached[source] = True
                    to_visit.append(source)
        return next((number for number, is_reached in enumerate(reached) if not is_reached), None)


def explore(setting: Setting) -> Result:
    """Visit every reachable state, up to the first with a problem.

    From every state the query must be able to finish. A batch that was refused must become visible as a whole, if it is
    replayed with its first rows and tasks again.
    """
    with _no_garbage_collection():
        model, invariant, graph = Model(setting), Invariant(setting), Graph()
        for label, state in model.initial():
            graph.add(state, -1, label)
        for number, state in enumerate(graph.states):  # grows meanwhile
            for label, after in model.steps(state):
                target = graph.numbers.get(after)
                if target is None:
                    target = graph.add(after, number, label)
                    problem = invariant.problem(after)
                    if problem:
                        return graph.result(problem, target)
                graph.sources.append(number)
                graph.targets.append(target)
        dead_end = graph.dead_end()
        return graph.result() if dead_end is None else graph.result("the query can never finish", dead_end)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Millions of tuples without a cycle: the collector would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
