"""A model of exactly-once whose every interleaving can be checked: coordinator, tasks, driver and network.

Decisions are the real ones of `penstock.writer.decision`; everything around them is simulated. Each method yields the
steps that one actor can take in a state. `model_checker` explores all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.protocol_decision import decision
from support.protocol_state import (
    ABORT,
    CHECK,
    CHECKED,
    COMMITTED,
    DONE,
    EMPTY,
    END,
    FENCED,
    FINISHED,
    INTENT,
    LAUNCHED,
    LIVE,
    LOG,
    MISSING,
    NOTED,
    OPEN,
    READ,
    REFUSED,
    RUN,
    TAKE,
    TOOK,
    WROTE,
    Attempt,
    Division,
    Driver,
    Id,
    Intended,
    LateIntent,
    Outcome,
    Setting,
    State,
    Step,
)


def put(values: tuple[Any, ...], at: int, value: object) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


class Model:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.protocol = setting.protocol

    def initial(self) -> Iterator[Step]:
        nothing = State(Driver(RUN, 0), (Id(),) * self.setting.tasks)
        return self._start_batch(nothing, 0, "starts")

    def steps(self, state: State) -> Iterator[Step]:
        yield from self._broker_steps(state)
        for number, attempt in enumerate(state.attempts):
            gone = state._replace(attempts=state.attempts[:number] + state.attempts[number + 1 :])
            yield from self._attempt_steps(gone, attempt)
        yield from self._driver_steps(state)

    # --- broker -----------------------------------------------------------------------------------------------------

    def _broker_steps(self, state: State) -> Iterator[Step]:
        for task, id_ in enumerate(state.ids):
            if id_.late is not None:
                shown = id_._replace(late=None, note=id_.late)
                yield f"broker: the note of task {task} becomes visible", _with_id(state, task, shown)
            if id_.state == OPEN:
                yield f"broker: the transaction of task {task} times out", self._fence(state, task)
        for task, commits in state.requests:
            yield f"broker: EndTxn({'commit' if commits else 'abort'}) of task {task}", self._end(state, task, commits)
        if state.late_intent is not None:
            late = state.late_intent
            requests = state.requests | {(task, True) for task in late.tasks}
            written = state._replace(intent=late.intent, late_intent=None, requests=requests)
            yield f"broker: late intent {late.intent}", written

    def _fence(self, state: State, task: int) -> State:
        """Abort an open transaction, and fence all references to the id."""
        id_ = state.ids[task]
        driver = state.driver
        if task < len(driver.outcomes) and driver.outcomes[task].kind == LIVE:
            driver = driver._replace(outcomes=put(driver.outcomes, task, Outcome(FENCED)))
        attempts = []
        for attempt in state.attempts:
            if attempt.task == task and attempt.live:
                # Fenced attempts still report what they know. All else is refused.
                if not attempt.current or attempt.step in (CHECKED, WROTE):
                    continue
                attempt = attempt._replace(live=False)
            attempts.append(attempt)
        late = state.late_intent
        return state._replace(
            driver=driver,
            ids=put(state.ids, task, Id(late=id_.late, note=id_.note)),
            attempts=tuple(sorted(attempts)),
            requests=_without(state.requests, task),
            late_intent=None if late is None else late._replace(tasks=late.tasks - {task}),
        )

    def _end(self, state: State, task: int, commits: bool) -> State:
        """Handle a live EndTxn. Other requests for the same transaction change nothing then, so they are dropped."""
        id_ = state.ids[task]
        if id_.state == OPEN and commits:
            state = state._replace(seen=state.seen | id_.rows, twice=state.twice | state.seen & id_.rows)
            if self.setting.late_notes:
                id_ = Id(COMMITTED, late=id_.pending, note=id_.note)
            else:
                id_ = Id(COMMITTED, note=id_.pending or id_.note)
        elif id_.state == OPEN:
            id_ = Id(late=id_.late, note=id_.note)
        driver = state.driver
        if id_.state == COMMITTED and driver.step == END and task in driver.commit:
            driver = driver._replace(answered=driver.answered | {task})
        return state._replace(driver=driver, ids=put(state.ids, task, id_), requests=_without(state.requests, task))

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _attempt_steps(self, gone: State, attempt: Attempt) -> Iterator[Step]:
        """`gone`: the state without this attempt."""
        task, step = attempt.task, attempt.step
        who = f"task {task} of batch {attempt.batch}" + ("" if attempt.current else " (zombie)")
        yield f"{who}: dies", gone
        if step == (TOOK if self.protocol.takes_id_before_note else LAUNCHED):
            yield from self._read_note(gone, attempt, who)
        elif step in (LAUNCHED, CHECKED) and not attempt.live:
            taken = TOOK if step == LAUNCHED else CHECKED
            yield f"{who}: takes the id", _with_attempt(self._fence(gone, task), attempt, taken, live=True)
        elif step == CHECKED:
            what = "rows" if self.setting.separate_note else "rows and note"
            yield f"{who}: writes {what}", self._write(gone, attempt, is_last=not self.setting.separate_note)
        elif step == WROTE:
            yield f"{who}: adds its note", self._write(gone, attempt, is_last=True)
        elif step == NOTED and _misses(gone.driver, attempt):
            outcome = Outcome(LIVE if attempt.live else FENCED)
            yield f"{who}: returns its transaction", _collect(gone, task, outcome)

    def _read_note(self, gone: State, attempt: Attempt, who: str) -> Iterator[Step]:
        id_ = gone.ids[attempt.task]
        if self.protocol.tasks_read_stable and not id_.is_stable:
            return  # the broker makes it wait
        if self.protocol.reads_note and id_.note is not None and id_.note[0] >= attempt.batch:
            if _misses(gone.driver, attempt):
                yield f"{who}: finds note {id_.note}", _collect(gone, attempt.task, Outcome(DONE, id_.note))
        elif attempt.live or not self.protocol.takes_id_before_note:
            yield f"{who}: finds no note of this batch", _with_attempt(gone, attempt, CHECKED, attempt.live)

    def _write(self, gone: State, attempt: Attempt, is_last: bool) -> State:
        id_ = gone.ids[attempt.task]._replace(state=OPEN, rows=attempt.rows)
        if is_last:
            note = (attempt.batch, attempt.rows)
            id_ = id_._replace(pending=note) if self.protocol.note_in_transaction else id_._replace(note=note)
        return _with_attempt(_with_id(gone, attempt.task, id_), attempt, NOTED if is_last else WROTE, live=True)

    # --- driver -----------------------------------------------------------------------------------------------------

    def _start_batch(self, state: State, batch: int, what: str) -> Iterator[Step]:
        """Begin an attempt at a batch. Attempts at tasks that still run become zombies."""
        zombies = [
            attempt._replace(current=False)
            for attempt in state.attempts
            if attempt.step != NOTED and (attempt.live or attempt.step != TOOK)  # others change nothing any more
        ]
        state = state._replace(attempts=tuple(sorted(zombies)))
        if batch == len(self.setting.batches):
            yield f"driver: {what}", state._replace(driver=Driver(FINISHED, batch))
            return
        for division in self.setting.batches[batch]:
            outcomes = tuple(Outcome(MISSING if rows else EMPTY) for rows in division)
            driver = Driver(RUN, batch, division, outcomes)
            yield f"driver: {what}; batch {batch} with rows {shown(division)}", state._replace(driver=driver)

    def _driver_steps(self, state: State) -> Iterator[Step]:
        driver = state.driver
        step = driver.step
        if step == FINISHED:
            return
        yield from self._start_batch(state, driver.batch, "crashes and restarts")
        if step == ABORT:
            yield from self._start_batch(self._abort(state), driver.batch, "aborts and restarts")
        elif step == LOG:
            yield from self._start_batch(state, driver.batch + 1, "Spark writes its commit log")
        elif step != REFUSED:
            failed = _go(state, step=ABORT, at=0, notes=(), commit=(), answered=frozenset())
            yield "driver: the job or its commit fails", failed
            yield from self._next_steps(state)

    def _next_steps(self, state: State) -> Iterator[Step]:
        """Steps of a job that neither fails nor crashes."""
        driver = state.driver
        step = driver.step
        if step == RUN:
            yield from self._run(state)
        elif step == TAKE:
            yield f"driver: takes the id of task {driver.at}", _go(self._fence(state, driver.at), step=READ)
        elif step == READ:
            yield from self._read(state)
        elif step == CHECK:
            if all(driver.outcomes[task].kind == LIVE for task in driver.commit):
                yield "driver: finds all transactions open", _go(state, step=INTENT)
        elif step == INTENT:
            yield from self._write_intent(state)
        elif not self.protocol.driver_waits or driver.answered == set(driver.commit):
            yield "driver: commits are answered", state._replace(driver=Driver(LOG, driver.batch))

    def _run(self, state: State) -> Iterator[Step]:
        driver = state.driver
        if all(outcome.kind != MISSING for outcome in driver.outcomes):
            if self.protocol.driver_fences:
                state = state._replace(late_intent=None)
            intent = self._intent(state)
            if intent is not None and intent[0] == driver.batch:
                yield "driver: reads an intent of this batch", self._next_note(state, 0)
            else:
                yield "driver: reads no intent of this batch", self._decide(state)
            return
        if len(state.attempts) >= self.setting.all_attempts:
            return
        for task, outcome in enumerate(driver.outcomes):
            running = sum(attempt.task == task for attempt in state.attempts)
            if outcome.kind == MISSING and running < self.setting.attempts:
                attempt = Attempt(task, driver.batch, driver.division[task])
                yield f"driver: launches task {task}", _with_attempt(state, attempt, LAUNCHED, live=False)

    def _intent(self, state: State) -> Intended | None:
        return state.intent if self.protocol.driver_reads_intent else None

    def _next_note(self, state: State, at: int) -> State:
        """Go on to the next note that the driver has to read. Tasks that took their ids have read theirs."""
        driver = state.driver
        assert state.intent is not None
        notes = driver.notes
        for task in range(at, max(state.intent[1], len(driver.outcomes))):
            outcome = driver.outcomes[task] if task < len(driver.outcomes) else Outcome()
            if outcome.note is not None:
                notes = (*notes, (task, outcome.note))
            elif outcome.kind in (EMPTY, MISSING):
                return _go(state, step=TAKE if self.protocol.driver_takes_ids else READ, at=task, notes=notes)
            elif self.protocol.driver_reads_open:
                return _go(state, step=READ, at=task, notes=notes)
        return self._decide(_go(state, notes=notes))

    def _read(self, state: State) -> Iterator[Step]:
        driver = state.driver
        id_ = state.ids[driver.at]
        if id_.is_stable or not self.protocol.driver_reads_stable:
            notes = driver.notes if id_.note is None else (*driver.notes, (driver.at, id_.note))
            read = self._next_note(_go(state, notes=notes), driver.at + 1)
            yield f"driver: reads note {id_.note} of task {driver.at}", read

    def _decide(self, state: State) -> State:
        driver = state.driver
        commit, abort, is_refused = decision(driver, self._intent(state), False, self.protocol.compares_hashes)
        state = state._replace(requests=state.requests | _requests(driver, abort, False))
        if is_refused:
            return state._replace(driver=Driver(REFUSED, driver.batch))
        if not commit:
            return state._replace(driver=Driver(LOG, driver.batch))
        state = _go(state, at=0, notes=(), commit=commit)
        if any(note[0] == driver.batch for _, note in driver.notes):
            return _send_commits(state)
        return _go(state, step=CHECK)

    def _write_intent(self, state: State) -> Iterator[Step]:
        driver = state.driver
        intent = (driver.batch, len(driver.outcomes), sum(driver.division))
        yield "driver: writes its intent, sends EndTxn", _send_commits(state._replace(intent=intent))
        if self.setting.late_intents and state.late_intent is None:
            tasks = {task for task, _ in _requests(driver, driver.commit, True)} if self.setting.zombie_driver else ()
            sent = state._replace(late_intent=LateIntent(intent, frozenset(tasks)))
            yield from self._start_batch(sent, driver.batch, "sends its intent, is replaced")

    def _abort(self, state: State) -> State:
        driver, intent = state.driver, state.intent
        if intent is not None and intent[0] == driver.batch:
            ids = enumerate(state.ids[: intent[1]])
            driver = driver._replace(notes=tuple((task, id_.note) for task, id_ in ids if id_.note is not None))
        commit, abort, _ = decision(driver, intent, True, self.protocol.compares_hashes)
        requests = _requests(driver, abort, False) | _requests(driver, commit, True)
        return state._replace(requests=state.requests | requests)


# --- changes of a state -------------------------------------------------------------------------------------------


def _go(state: State, **changes: Any) -> State:
    return state._replace(driver=state.driver._replace(**changes))


def _with_id(state: State, task: int, id_: Id) -> State:
    return state._replace(ids=put(state.ids, task, id_))


def _with_attempt(gone: State, attempt: Attempt, step: str, live: bool) -> State:
    if step == NOTED and not attempt.current:
        return gone  # no driver waits for its outcome
    return gone._replace(attempts=tuple(sorted((*gone.attempts, attempt._replace(step=step, live=live)))))


def _misses(driver: Driver, attempt: Attempt) -> bool:
    return attempt.current and driver.step == RUN and driver.outcomes[attempt.task].kind == MISSING


def _collect(state: State, task: int, outcome: Outcome) -> State:
    return _go(state, outcomes=put(state.driver.outcomes, task, outcome))


def _requests(driver: Driver, tasks: tuple[int, ...], commits: bool) -> frozenset[tuple[int, bool]]:
    return frozenset((task, commits) for task in tasks if driver.outcomes[task].kind == LIVE)


def _without(requests: frozenset[tuple[int, bool]], task: int) -> frozenset[tuple[int, bool]]:
    return frozenset(each for each in requests if each[0] != task)


def _send_commits(state: State) -> State:
    """Send all at once. A crash before one is sent is the same as a request that never arrives."""
    requests = _requests(state.driver, state.driver.commit, True)
    return _go(state._replace(requests=state.requests | requests), step=END)


def shown(division: Division) -> str:
    return " | ".join(f"{rows:b}" if rows else "none" for rows in division)
