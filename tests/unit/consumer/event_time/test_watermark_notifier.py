"""Who is told of watermarks beside the readers: a listener, in a thread of its own."""

from __future__ import annotations

import threading
import time

from fixtures.consumer import eventually
from hostile.record_batches import BASE_TIME
from penstock import WatermarkStrategy
from penstock.consumer.event_time.batch import as_datetime
from penstock.consumer.event_time.watermark_notifier import MAX_WAITING, WatermarkNotifier
from support.fed_event_stream import ALIGNED, Fed, after, odd, started


def test_a_listener_is_told_of_each_watermark_of_a_punctuated_strategy_at_once():
    fed = Fed(WatermarkStrategy.punctuated(odd), partitions=1)
    told = []
    clock = started(fed, told.append, **{"auto.watermark.interval.ms": 600_000})
    for moment in (11, 12, 13, 9, 15):
        fed.put(0, moment)
    fed.messages()
    try:
        eventually(lambda: len(told) >= 3, "told")
    finally:
        clock.close(60)
    assert [after(moment) for moment in told] == [11, 13, 15]


def test_a_listener_is_told_every_interval_of_what_is_new_and_its_errors_stop_nothing():
    fed = Fed(partitions=1)
    told = []

    def listener(moment):
        told.append(after(moment))
        raise ZeroDivisionError

    clock = started(fed, listener, **{"auto.watermark.interval.ms": 10})
    try:
        for moment in (11, 13):
            fed.put(0, moment)
            fed.batches()
            eventually(lambda moment=moment: told[-1:] == [moment - 1], "told")
        time.sleep(0.05)
    finally:
        clock.close(60)
    assert told == [10, 12], "and not twice of the same"


def test_a_listener_that_is_slow_holds_up_nobody_and_is_told_what_is_newest():
    fed = Fed(ALIGNED.with_idleness("5s"))
    told, entered, goes_on = [], threading.Event(), threading.Event()

    def listener(moment):
        told.append(after(moment))
        entered.set()
        assert goes_on.wait(60)

    clock = started(fed, listener, **{"auto.watermark.interval.ms": 10})
    try:
        for partition in range(2):
            fed.put(partition, 11)
        fed.batches()
        assert entered.wait(60)
        fed.put(0, 500)
        fed.batches()
        fed.put(0, 900)
        assert fed.batches() == []
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: not fed.cursors[0].held_back, "let go on, though the listener has not returned")
        assert told == [10]
        fed.batches()
        for moment in range(1000, 5000, 100):
            fed.put(0, moment)
            fed.batches()
        eventually(lambda: list(clock.notifier._waiting) == [BASE_TIME + 4899], "one waits, and not each")
        goes_on.set()
        eventually(lambda: told == [10, 4899], "the newest")
    finally:
        goes_on.set()
        clock.close(60)


def test_a_listener_is_told_when_a_punctuated_watermark_moves_because_a_partition_is_idle():
    fed = Fed(WatermarkStrategy.punctuated(odd).with_idleness("5s"))
    told = []
    clock = started(fed, told.append, **{"auto.watermark.interval.ms": 600_000})
    try:
        fed.put(0, 11)
        fed.put(1, 5)
        fed.messages()
        eventually(lambda: [after(moment) for moment in told] == [5], "told")
        eventually(lambda: clock._notify_at > time.monotonic(), "not to be told again for long")
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: [after(moment) for moment in told] == [5, 11], "told")
    finally:
        clock.close(60)


def test_nobody_is_told_once_it_is_closed_and_of_those_that_wait_the_oldest_go():
    told, entered, goes_on = [], threading.Event(), threading.Event()
    notifier = WatermarkNotifier("g", each=True)
    notifier.notify(1)
    notifier.start()

    def listener(moment):
        told.append(moment)
        entered.set()
        assert goes_on.wait(60)

    notifier.listener = listener
    notifier.notify(2)
    assert entered.wait(60)
    for watermark in range(3, 3 + 2 * MAX_WAITING):
        notifier.notify(watermark)
    assert list(notifier._waiting) == list(range(3 + MAX_WAITING, 3 + 2 * MAX_WAITING))
    closing = threading.Thread(target=notifier.close, args=[60])
    closing.start()
    eventually(lambda: notifier._stopped, "closing")
    goes_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert told == [as_datetime(2)]
