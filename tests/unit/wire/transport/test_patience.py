"""How long one broker is waited for, on a clock set by hand."""

import pytest

import penstock.wire.transport.patience as patience_module
from penstock.wire.transport.patience import OVERDUE_SECONDS, Patience, Silence


class Clock:
    """Time passes when it is told to."""

    now = 100.0

    def monotonic(self):
        return self.now

    def wait(self, patience):
        """Wait as a socket does to which nothing comes."""
        seconds = patience.left()
        self.now += seconds
        return seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(patience_module, "time", made)
    return made


def wait_in_vain(clock, patience):
    while True:
        clock.wait(patience)


def test_without_a_doubt_only_the_deadline_counts(clock):
    patience = Patience(clock.now + 30)
    assert clock.wait(patience) == 30
    with pytest.raises(Silence, match="timed out"):
        patience.left()


def test_an_answer_is_doubted_when_it_is_overdue_and_then_again_until_the_deadline(clock):
    doubted = []
    patience = Patience(clock.now + 10, lambda: doubted.append(clock.now), allowed=5)
    with pytest.raises(Silence, match="timed out"):
        wait_in_vain(clock, patience)
    assert clock.now == 110
    assert doubted == [105 + OVERDUE_SECONDS, 105 + 2 * OVERDUE_SECONDS], "not while the broker may hold it back"


def test_a_reason_ends_the_wait_and_is_told(clock):
    reasons = iter([None, "another one leads now"])
    patience = Patience(clock.now + 30, lambda: next(reasons))
    with pytest.raises(Silence, match=r"nothing came for 4\.0 s, and another one leads now"):
        wait_in_vain(clock, patience)
    assert clock.now == 100 + 2 * OVERDUE_SECONDS


def test_a_broker_that_sends_is_not_doubted(clock):
    patience = Patience(clock.now + 30, lambda: pytest.fail("it is not silent"))
    for _ in range(10):
        assert patience.left() == OVERDUE_SECONDS
        clock.now += OVERDUE_SECONDS - 0.5
        patience.moved()
    clock.now = 129.5
    patience.moved()
    assert patience.left() == 0.5


def test_a_doubt_that_takes_long_does_not_stretch_the_deadline(clock):
    def doubt():
        clock.now += 4

    patience = Patience(clock.now + 5, doubt)
    clock.wait(patience)
    assert patience.left() == pytest.approx(0.001)
    with pytest.raises(Silence):
        patience.left()
