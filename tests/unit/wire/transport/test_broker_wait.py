"""How long a client waits for one broker, on a clock set by hand."""

import pytest

import penstock.wire.transport.broker_wait as wait_module
from penstock.wire.transport.broker_wait import OVERDUE_SECONDS, BrokerWait, WaitEnded


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def monotonic(self):
        return self.now

    def wait(self, wait):
        """Wait like a socket that receives nothing."""
        seconds = wait.seconds_left()
        self.now += seconds
        return seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(wait_module, "time", made)
    return made


def wait_in_vain(clock, wait):
    while True:
        clock.wait(wait)


def test_without_a_check_only_the_deadline_counts(clock):
    wait = BrokerWait(clock.now + 30)
    assert clock.wait(wait) == 30
    with pytest.raises(WaitEnded, match="timed out"):
        wait.seconds_left()


def test_an_overdue_answer_is_checked_on_again_and_again_until_the_deadline(clock):
    checked = []
    wait = BrokerWait(clock.now + 10, lambda: checked.append(clock.now), allowed=5)
    with pytest.raises(WaitEnded, match="timed out"):
        wait_in_vain(clock, wait)
    assert clock.now == 110
    assert checked == [105 + OVERDUE_SECONDS, 105 + 2 * OVERDUE_SECONDS], "not while the broker may hold it back"


def test_a_reason_ends_the_wait_and_is_told(clock):
    reasons = iter([None, "another one leads now"])
    wait = BrokerWait(clock.now + 30, lambda: next(reasons))
    with pytest.raises(WaitEnded, match=r"nothing came for 4\.0 s, and another one leads now"):
        wait_in_vain(clock, wait)
    assert clock.now == 100 + 2 * OVERDUE_SECONDS


def test_a_broker_that_sends_is_not_checked_on(clock):
    wait = BrokerWait(clock.now + 30, lambda: pytest.fail("it is not silent"))
    for _ in range(10):
        assert wait.seconds_left() == OVERDUE_SECONDS
        clock.now += OVERDUE_SECONDS - 0.5
        wait.progressed()
    clock.now = 129.5
    wait.progressed()
    assert wait.seconds_left() == 0.5


def test_a_check_that_takes_long_does_not_stretch_the_deadline(clock):
    def overdue_check():
        clock.now += 4

    wait = BrokerWait(clock.now + 5, overdue_check)
    clock.wait(wait)
    assert wait.seconds_left() == pytest.approx(0.001)
    with pytest.raises(WaitEnded):
        wait.seconds_left()
