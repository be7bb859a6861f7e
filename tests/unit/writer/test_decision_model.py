"""W5, W6: every interleaving of a model of exactly-once. The decisions in it are the real ones.

In every state: a committed reader sees no row twice; a batch that Spark has recorded is visible as a whole; a replay
with the same rows is never refused; and from there the query can still finish. The number of crashes, restarts,
time-outs, retries and lost answers is not bounded: states do not count them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.model_checker import explore
from support.protocol_state import Division, Protocol, Setting

ONE_BATCH: tuple[tuple[Division, ...], ...] = (((0b01, 0b10),),)
"""Two tasks with a row each."""
TWO_BATCHES = (*ONE_BATCH, ((0b0100, 0b1000),))
EMPTY_TASK = (*ONE_BATCH, ((0b0100, 0),))
OTHER_TASKS: tuple[tuple[Division, ...], ...] = (((0b01, 0b10), (0b11,)),)
"""Each attempt at the batch has either two tasks or one."""
OTHER_ROWS: tuple[tuple[Division, ...], ...] = (((0b0001, 0b0010), (0b0100, 0b1000)),)
"""Each attempt at the batch has either these rows or those."""
ANY_DIVISION: tuple[tuple[Division, ...], ...] = (((0b01, 0b10), (0b10, 0b01), (0b11,), (0, 0b11)),)
LATER_BATCH = ((0b10000,),)

UNSTABLE = Setting(ONE_BATCH, Protocol(tasks_read_stable=False), late_notes=False)
"""Reads do not wait for transactions that end, on brokers that make notes visible with the end."""
UNSTABLE_DRIVER = Setting(OTHER_TASKS, Protocol(driver_reads_stable=False), attempts=1, late_notes=False)


def changed(setting: Setting, **changes: bool) -> Setting:
    return replace(setting, protocol=replace(setting.protocol, **changes))


@pytest.mark.parametrize(
    ("setting", "states"),
    [
        pytest.param(
            Setting(ONE_BATCH, all_attempts=4), 57_000, id="two attempts at each task", marks=pytest.mark.extended
        ),
        pytest.param(Setting(TWO_BATCHES), 40_000, id="two batches"),
        pytest.param(Setting(EMPTY_TASK), 19_000, id="a later batch with an empty task"),
        pytest.param(Setting(ONE_BATCH, separate_note=True), 20_000, id="rows and note in two steps"),
        pytest.param(
            Setting((*OTHER_TASKS, LATER_BATCH)),
            50_000,
            id="replays with another number of tasks",
            marks=pytest.mark.extended,
        ),
        pytest.param(Setting(OTHER_ROWS, attempts=1), 42_000, id="replays with other rows"),
        pytest.param(Setting(ONE_BATCH, attempts=1, late_intents=True, zombie_driver=True), 6_500, id="zombie driver"),
        pytest.param(UNSTABLE, 9_000, id="unstable reads of tasks"),
        pytest.param(UNSTABLE_DRIVER, 9_000, id="unstable reads of the driver"),
    ],
)
def test_W6_no_interleaving_loses_or_repeats_a_row(setting, states):
    result = explore(setting)
    assert not result.problem, str(result)
    assert result.states >= states, f"the model has become smaller: {result}"


TWICE, LOST, STUCK = "twice", "sees only its rows", "the query can never finish"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        pytest.param(changed(UNSTABLE, takes_id_before_note=False), TWICE, id="task reads its note, then takes the id"),
        pytest.param(changed(Setting(ONE_BATCH, attempts=1), reads_note=False), TWICE, id="task ignores its note"),
        pytest.param(changed(Setting(ONE_BATCH), note_in_transaction=False), LOST, id="note outside the transaction"),
        pytest.param(
            changed(Setting(ONE_BATCH, attempts=1), tasks_read_stable=False), TWICE, id="task reads a note too early"
        ),
        pytest.param(changed(Setting(OTHER_TASKS, attempts=1), driver_reads_intent=False), LOST, id="no intent"),
        pytest.param(changed(UNSTABLE_DRIVER, driver_takes_ids=False), TWICE, id="driver does not take ids"),
        pytest.param(
            replace(UNSTABLE_DRIVER, late_notes=True), TWICE, id="driver reads the note of an id that it took too early"
        ),
        pytest.param(changed(Setting(ONE_BATCH), driver_waits=False), LOST, id="driver does not wait for answers"),
        pytest.param(
            changed(Setting(ONE_BATCH), driver_reads_open=True), STUCK, id="driver waits for notes that it must commit"
        ),
        pytest.param(changed(Setting(OTHER_ROWS, all_attempts=1), compares_hashes=False), LOST, id="rows only counted"),
    ],
)
def test_W6_the_model_finds_what_each_rule_prevents(setting, problem):
    result = explore(setting)
    assert problem in result.problem, str(result)


@pytest.mark.parametrize("zombie_driver", [False, True], ids=["late intent", "zombie driver"])
def test_W6_a_replaced_driver_does_no_harm_if_rows_are_divided_differently(zombie_driver):
    """A driver fences older ones before it reads the intent. Otherwise an intent that arrives after its driver was
    replaced hides the tasks of the newer intent."""
    setting = Setting(OTHER_TASKS, all_attempts=1, late_intents=True, zombie_driver=zombie_driver)
    fenced = explore(setting)
    assert not fenced.problem, str(fenced)
    assert TWICE in explore(changed(setting, driver_fences=False)).problem


@pytest.mark.soak
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(Setting(TWO_BATCHES, all_attempts=4, separate_note=True), id="two batches"),
        pytest.param(Setting((*OTHER_TASKS, LATER_BATCH), all_attempts=4), id="replays with another number of tasks"),
        pytest.param(Setting((*OTHER_ROWS, LATER_BATCH)), id="replays with other rows"),
        pytest.param(Setting(ANY_DIVISION), id="replays with any division"),
    ],
)
def test_W6_no_interleaving_of_a_larger_model_loses_or_repeats_a_row(setting):
    result = explore(setting)
    assert not result.problem, str(result)
