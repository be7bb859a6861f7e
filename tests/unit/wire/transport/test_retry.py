import pytest

from penstock.errors import BrokerUnavailable
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.transport.retry import HISTORY_KEPT, Attempts, Interrupted


def test_pauses_grow_up_to_the_maximum():
    waits: list[float] = []
    attempts = Attempts("asking", 60, backoff=0.1, backoff_max=0.5, wait=waits.append)
    for _ in range(6):
        attempts.pause()
    for waited, expected in zip(waits, [0.1, 0.2, 0.4, 0.5, 0.5, 0.5], strict=True):
        assert expected * 0.75 <= waited <= expected * 1.25


def test_when_time_is_up_the_error_has_the_attempts_and_the_hint():
    attempts = Attempts("asking", 0, hint="Start the broker", wait=lambda _: None)
    cause = OSError("refused")
    attempts.failed("refused", cause)
    with pytest.raises(BrokerUnavailable, match=r"asking: not done within 0 s\. Start the broker") as caught:
        attempts.pause()
    assert "refused" in caught.value.history[0]
    assert caught.value.__cause__ is cause


def test_a_broker_that_answers_is_not_looked_for_in_vain():
    """A hint to check bootstrap.servers would lead the user to the wrong place."""
    attempts = Attempts("asking", 0, hint="Start the broker", hint_if_answered="Look at its answer")
    attempts.failed("refused", OSError("refused"))
    attempts.failed("t-0 has no leader", RetriableError("t-0 has no leader"))
    assert str(attempts.give_up()).startswith("asking: not done within 0 s. Look at its answer\n")
    attempts.failed("refused", OSError("refused"))
    assert str(attempts.give_up()).startswith("asking: not done within 0 s. Start the broker\n")


def test_a_long_history_keeps_its_beginning_and_its_end():
    attempts = Attempts("asking", 0, wait=lambda _: None)
    for i in range(100):
        attempts.failed(f"try {i}.")
    history = attempts.give_up().history
    assert len(history) == HISTORY_KEPT + 1
    assert "try 0." in history[0]
    assert "try 99." in history[-1]
    assert any(f"{100 - HISTORY_KEPT} more attempts" in line for line in history)


def test_a_success_begins_anew():
    attempts = Attempts("asking", 0, wait=lambda _: None)
    attempts.failed("once")
    attempts.reset()
    assert attempts.count == 0
    assert attempts.give_up().history == ()


def test_what_remains_is_never_zero_because_that_would_mean_do_not_block():
    assert Attempts("asking", 0).remaining() > 0
    assert Attempts("asking", 60).remaining(at_most=0.5) == 0.5


def test_F17_a_pause_ends_at_once_when_the_owner_is_closing():
    with pytest.raises(Interrupted):
        Attempts("asking", 60, wait=lambda _: True).pause()
