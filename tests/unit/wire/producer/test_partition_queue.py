"""The batches of one partition: whatever a leader answers, records are written once and in order."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.partition_queue import REMEMBERED_BATCHES, PartitionQueue
from support.encoded_batches import FakeBatch, FakeEncoder
from support.examples import examples

TP = TopicPartition("t", 0)


def filled(count: int, idempotent: bool = True, records: int = 2) -> PartitionQueue:
    queue, encoder = PartitionQueue(TP, idempotent), FakeEncoder((1, 0, False) if idempotent else (-1, -1, False))
    for number in range(count):
        queue.add(encoder.batch("t", 0, [b"%d/%d" % (number, at) for at in range(records)]), 100.0)
    return queue


def sent(queue: PartitionQueue, now: float = 0.0) -> list:
    """Sends all that may be in flight."""
    found = []
    while (batch := queue.next(now)) is not None:
        queue.sent(batch)
        found.append(batch)
    return found


def proven(count: int) -> PartitionQueue:
    """A queue whose leader has accepted a batch."""
    queue = filled(count + 1)
    (first,) = sent(queue)
    queue.acknowledged(first)
    return queue


def test_W9_one_batch_is_in_flight_until_the_leader_knows_the_producer_and_then_five():
    queue = filled(9)
    (first,) = sent(queue)
    queue.acknowledged(first)
    assert len(sent(queue)) == REMEMBERED_BATCHES
    assert queue.waiting == 3


def test_W9_without_sequences_one_batch_is_in_flight():
    queue = filled(3, idempotent=False)
    for _ in range(3):
        (batch,) = sent(queue)
        queue.acknowledged(batch)
    assert len(queue) == 0


def test_W9_after_a_failure_nothing_is_sent_before_all_answers_are_here():
    queue = proven(6)
    first, second, *rest = sent(queue)
    queue.failed(first, 1.0)
    assert sent(queue, 2.0) == []
    queue.failed(second, 1.0)
    for batch in rest:
        queue.failed(batch, 1.0)
    assert sent(queue, 0.5) == [], "it backs off"
    assert sent(queue, 1.0) == [first]


def test_W9_a_later_batch_that_was_written_is_not_sent_again():
    """The leader had appended the batch before it, too, but could not replicate it in time."""
    queue = proven(3)
    first, second, third = sent(queue)
    queue.failed(first, 0.0)
    queue.acknowledged(second)
    queue.failed(third, 0.0)
    assert sent(queue) == [first]
    queue.acknowledged(first)
    assert sent(queue) == [third]


def test_W8_halves_of_a_batch_that_is_too_large_take_its_place():
    queue = proven(3)
    first, second, third = sent(queue)
    queue.acknowledged(first)
    added = queue.split(second)
    queue.failed(third, 0.0)
    halves = [each.batch for each in queue][:2]
    assert [(half.base_sequence, half.count) for half in halves] == [(4, 1), (5, 1)]
    assert added == sum(len(half.data) for half in halves) - len(second.data)
    assert list(queue)[2] is third


def test_the_deadline_is_that_of_the_oldest_batch():
    queue, encoder = PartitionQueue(TP, True), FakeEncoder((1, 0, False))
    for deadline in (5.0, 6.0):
        queue.add(encoder.batch("t", 0, [b"v"]), deadline)
    assert queue.deadline == 5.0


class Leader:
    """A broker's log of one partition and its checks of sequences, as in Kafka."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.next_sequence: int | None = None
        self.recent: deque[int] = deque(maxlen=REMEMBERED_BATCHES)

    def append(self, batch: FakeBatch) -> str:
        if batch.base_sequence in self.recent:
            return "duplicate"
        if self.next_sequence is not None and batch.base_sequence != self.next_sequence:
            return "out of order"
        self.log += batch.values
        self.recent.append(batch.base_sequence)
        self.next_sequence = batch.base_sequence + batch.count
        return "written"


@given(st.data())
@settings(max_examples=examples(300))
def test_W9_records_are_written_once_and_in_order_whatever_the_leader_answers(data):
    count = data.draw(st.integers(1, 12), "batches")
    queue, leader = filled(count, records=4), Leader()
    expected = [value for each in queue for value in each.batch.values]
    in_flight: deque = deque()
    steps = 0
    while len(queue):
        steps += 1
        happens = data.draw(st.sampled_from(["send", "answer", "lost"]), "step") if steps < 150 else "answer"
        if not in_flight or (happens == "send" and queue.next(0.0) is not None):
            batch = queue.next(0.0)
            assert batch is not None
            queue.sent(batch)
            in_flight.append(batch)
        elif happens == "lost":
            # The leader handles some of the requests, but no answer arrives.
            handled = data.draw(st.integers(0, len(in_flight)), "handled")
            for batch in list(in_flight)[:handled]:
                leader.append(batch.batch)
            while in_flight:
                queue.failed(in_flight.popleft(), 0.0)
        else:
            batch = in_flight.popleft()
            answers = ["appends", "refuses for now", "appends, but not in time"]
            if batch.batch.count > 1:
                answers.append("too large")
            answer = data.draw(st.sampled_from(answers), "answer") if steps < 150 else "appends"
            settle(queue, leader, batch, answer)
    assert leader.log == expected


def settle(queue: PartitionQueue, leader: Leader, batch, answer: str) -> None:
    if answer == "refuses for now":
        queue.failed(batch, 0.0)
        return
    if answer == "too large" and batch.batch.base_sequence not in leader.recent:
        queue.split(batch)
        return
    outcome = leader.append(batch.batch)
    if outcome == "out of order":
        assert not queue.is_first(batch), "a gap"
        queue.failed(batch, 0.0)
    elif answer == "appends, but not in time":
        queue.failed(batch, 0.0)
    else:
        queue.acknowledged(batch)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_queue_counts_what_waits_and_what_is_in_flight(idempotent):
    queue = filled(3, idempotent)
    assert (len(queue), queue.waiting, queue.in_flight) == (3, 3, 0)
    sent(queue)
    assert (len(queue), queue.waiting, queue.in_flight) == (3, 2, 1)
