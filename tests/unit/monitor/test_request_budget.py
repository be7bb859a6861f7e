"""The limit on requests per second."""

from __future__ import annotations

import pytest

from penstock.monitor.request_budget import RequestBudget
from penstock.wire.transport.retry import Interrupted


class Clock:
    def __init__(self):
        self.now = 0.0
        self.is_closing = False

    def wait(self, seconds):
        self.now += seconds
        return self.is_closing


@pytest.mark.parametrize("counts", [[1] * 200, [40] * 5, [3, 30, 1, 66, 100]])
def test_no_more_than_the_rate_and_one_burst(counts):
    clock = Clock()
    budget = RequestBudget(10, clock.wait, lambda: clock.now)
    for count in counts:
        budget.spend(count)
        assert budget.spent <= 10 + 10 * clock.now + count
    assert budget.spent == sum(counts)


def test_a_quiet_time_is_saved_for_one_second_only():
    clock = Clock()
    budget = RequestBudget(10, clock.wait, lambda: clock.now)
    clock.now = 1000.0
    for _ in range(30):
        budget.spend(1)
    assert clock.now >= 1001.9


def test_closing_ends_the_wait():
    clock = Clock()
    budget = RequestBudget(10, clock.wait, lambda: clock.now)
    clock.is_closing = True
    budget.spend(10)
    with pytest.raises(Interrupted):
        budget.spend(10)
