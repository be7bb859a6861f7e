"""How a transaction ends, with a producer and a consumer that answer as told."""

from __future__ import annotations

import pytest

from penstock.arrow.transaction import Transaction
from penstock.errors import BrokerUnavailable, CommitRefused, OptionError, TransactionLost
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember

TP = TopicPartition("t", 0)
MEMBER = GroupMember("m", 3)


class Calls(list):
    """What was called, in order; each call may be told to fail."""

    def __init__(self, **failures):
        self.failures = failures

    def __call__(self, name, *details):
        self.append((name, *details))
        if name in self.failures:
            raise self.failures.pop(name)


class FakeProducer:
    def __init__(self, calls):
        self.calls = calls

    def commit_offsets(self, group, offsets, member):
        self.calls("commit_offsets", group, offsets, member)

    def commit_transaction(self):
        self.calls("commit")

    def abort_transaction(self):
        self.calls("abort")


class FakeOffsets:
    group = "g"

    def __init__(self, calls, taken):
        self.calls = calls
        self.taken = taken

    def begin(self):
        self.calls("begin")

    def take(self, offsets=None):
        self.calls("take")
        return MEMBER, self.taken if offsets is None else dict(offsets)

    def committed(self, offsets):
        self.calls("committed", offsets)

    def outcome_unknown(self):
        self.calls("unknown")

    def rewind(self):
        self.calls("rewind")


class FakeConsumer:
    def __init__(self, offsets):
        self.transactional_offsets = offsets


def transaction(calls, taken=None, consumer=True):
    source = FakeConsumer(FakeOffsets(calls, {TP: 7} if taken is None else taken)) if consumer else None
    made = Transaction(
        FakeProducer(calls),
        source,
        write=lambda data, topic: calls("write"),
        flush=lambda: calls("flush"),
        on_end=lambda committed: calls("end", committed),
    )
    return made, source


def names(calls):
    return [name for name, *_ in calls]


def test_rows_come_before_offsets_and_offsets_before_the_commit():
    calls = Calls()
    with transaction(calls)[0] as made:
        made.write("rows")
    assert calls == [
        ("begin",),
        ("write",),
        ("take",),
        ("flush",),
        ("commit_offsets", "g", {TP: (7, "")}, MEMBER),
        ("flush",),
        ("commit",),
        ("end", True),
        ("committed", {TP: 7}),
    ]


def test_offsets_that_were_committed_in_the_block_are_not_committed_again():
    calls = Calls()
    made, consumer = transaction(calls)
    with made:
        made.commit_offsets(consumer, {TP: 5})
    assert names(calls).count("commit_offsets") == 1
    assert calls[-1] == ("committed", {TP: 5})


def test_nothing_consumed_commits_no_offsets():
    calls = Calls()
    with transaction(calls, taken={})[0]:
        pass
    assert "commit_offsets" not in names(calls)
    assert "commit" in names(calls)


def test_an_exception_aborts_and_rewinds():
    calls = Calls()
    with pytest.raises(ZeroDivisionError), transaction(calls)[0]:
        raise ZeroDivisionError
    assert names(calls) == ["begin", "end", "abort", "rewind"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("take", CommitRefused("g", "revoked")),
        ("commit_offsets", CommitRefused("g", "ILLEGAL_GENERATION")),
        ("flush", BrokerUnavailable("writing")),
    ],
)
def test_an_error_before_the_commit_aborts_and_rewinds(step, error):
    calls = Calls(**{step: error})
    with pytest.raises(type(error)), transaction(calls)[0]:
        pass
    assert "commit" not in names(calls)
    assert calls[-3:] == [("end", False), ("abort",), ("rewind",)]


def test_a_transaction_that_is_certainly_aborted_rewinds():
    calls = Calls(commit=TransactionLost("id", "timed out", aborted=True))
    with pytest.raises(TransactionLost), transaction(calls)[0]:
        pass
    assert names(calls)[-3:] == ["commit", "end", "rewind"]


@pytest.mark.parametrize("error", [TransactionLost("id", "fenced"), BrokerUnavailable("committing")])
def test_after_a_commit_without_an_answer_the_group_is_asked(error):
    calls = Calls(commit=error)
    with pytest.raises(type(error)), transaction(calls)[0]:
        pass
    assert names(calls)[-4:] == ["commit", "unknown", "end", "rewind"]


def test_a_rewind_that_fails_is_repeated_by_the_next_transaction(caplog):
    calls = Calls(rewind=BrokerUnavailable("asking"))
    with pytest.raises(ZeroDivisionError), transaction(calls)[0]:
        raise ZeroDivisionError
    assert names(calls)[-2:] == ["rewind", "unknown"]
    assert "are not set back yet" in caplog.text


def test_an_aborted_transaction_is_over():
    calls = Calls()
    made, _ = transaction(calls, consumer=False)
    made.abort()
    made.abort()
    with made:
        pass
    assert names(calls) == ["end", "abort"]
    with pytest.raises(RuntimeError, match="is over"):
        made.write("rows")


def test_a_consumer_that_commits_by_itself_is_refused_at_the_beginning():
    calls = Calls(begin=OptionError("enable.auto.commit", True, "commits"))
    with pytest.raises(OptionError):
        transaction(calls)
    assert names(calls) == ["begin"]
