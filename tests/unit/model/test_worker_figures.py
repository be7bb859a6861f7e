"""What a worker reports about its requests."""

import math
from dataclasses import replace

import pytest

from penstock.model.worker_figures import WorkerFigures

FIGURES = WorkerFigures("node-1:17", 10, 4, 0.5, 0.25, 1.5, 3, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker": ""},
        {"worker": None},
        {"worker": "w" * 301},
        {"fetches": -1},
        {"awaited": 1.0},
        {"retries": True},
        {"connections": 2**60},
        {"fetch_seconds": -0.1},
        {"slowest_fetch": math.nan},
        {"throttle_seconds": math.inf},
        {"throttle_seconds": "1"},
    ],
    ids=str,
)
def test_figures_of_nonsense_cannot_be_made(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 # the words differ, the kind is what a server goes by
        replace(FIGURES, **wrong)
