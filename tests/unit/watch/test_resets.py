"""What a browser sends to reset offsets, as plain values."""

from __future__ import annotations

import json

import pytest

from penstock.watch.resets import MAX_MOVES, PlannedMove, PlanRequest, parse_commit, parse_plan
from penstock.watch.search import BadRequest
from penstock.watch.server import MAX_BODY


def body(**given):
    return json.dumps(given).encode()


def test_a_plan_names_a_group_a_position_and_perhaps_a_topic():
    assert parse_plan(body(group="g", to="earliest")) == PlanRequest("g", "earliest")
    assert parse_plan(body(group="g", to="-1h", topic="t")) == PlanRequest("g", "-1h", "t")


@pytest.mark.parametrize(
    "given",
    [b"", b"[]", body(), body(group="g"), body(group="", to="latest"), body(group="g", to="latest", topic=5)],
)
def test_other_plans_are_refused(given):
    with pytest.raises(BadRequest):
        parse_plan(given)


def test_a_commit_has_the_moves_that_were_shown():
    moves = [["t", 0, 5, 7], ["t", 1, None, 0]]
    assert parse_commit(body(group="g", moves=moves)) == (
        "g",
        [PlannedMove("t", 0, 5, 7), PlannedMove("t", 1, None, 0)],
    )


@pytest.mark.parametrize(
    "moves",
    [
        *(None, [], {}, [["t", 0, 5]], [["t", -1, 5, 7]], [["t", 0, 5, -7]], [["t", 0, 5, "7"]], [["", 0, 5, 7]]),
        *([["t", 2**31, 5, 7]], [["t", 0, 2**63, 7]], [["t", 0, 5, 2**63]], [["\ud800", 0, 5, 7]]),
        *([["t", 0, True, 7]], [["t", 0, 5, 7.5]], [["t", 0, 5, 7], ["t", 0, 5, 8]], [["t", 0, 5, 7]] * MAX_MOVES * 2),
    ],
)
def test_other_commits_are_refused(moves):
    with pytest.raises(BadRequest):
        parse_commit(body(group="g", moves=moves))


def test_the_largest_reset_fits_a_request():
    longest = [["t" * 60, at, 10**9 + at, 10**9 + at] for at in range(MAX_MOVES)]
    assert len(body(group="g", moves=longest)) < MAX_BODY
