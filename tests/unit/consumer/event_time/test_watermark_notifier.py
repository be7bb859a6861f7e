"""The watermark listener, which a thread of its own calls."""

from __future__ import annotations

import threading
import time

from fixtures.consumer import eventually
from hostile.record_batches import BASE_TIME
from penstock import WatermarkStrategy
from penstock.consumer.event_time.batch import as_datetime
from penstock.consumer.event_time.watermark_notifier import MAX_WAITING, WatermarkNotifier
from support.fed_event_stream import ALIGNED, Fed, after, odd, started


def test_a_listener_gets_each_watermark_of_a_punctuated_strategy_at_once():
    fed = Fed(WatermarkStrategy.punctuated(odd), partitions=1)
    notified = []
    clock = started(fed, notified.append, **{"auto.watermark.interval.ms": 600_000})
    for moment in (11, 12, 13, 9, 15):
        fed.put(0, moment)
    fed.messages()
    try:
        eventually(lambda: len(notified) >= 3, "notified")
    finally:
        clock.close(60)
    assert [after(moment) for moment in notified] == [11, 13, 15]


def test_a_listener_gets_a_new_watermark_at_every_interval_and_its_errors_stop_nothing():
    fed = Fed(partitions=1)
    notified = []

    def listener(moment):
        notified.append(after(moment))
        raise ZeroDivisionError

    clock = started(fed, listener, **{"auto.watermark.interval.ms": 10})
    try:
        for moment in (11, 13):
            fed.put(0, moment)
            fed.batches()
            eventually(lambda moment=moment: notified[-1:] == [moment - 1], "notified")
        time.sleep(0.05)
    finally:
        clock.close(60)
    assert notified == [10, 12], "and no watermark twice"


def test_a_slow_listener_delays_nothing_else_and_gets_the_newest_watermark():
    fed = Fed(ALIGNED.with_idleness("5s"))
    notified, entered, may_return = [], threading.Event(), threading.Event()

    def listener(moment):
        notified.append(after(moment))
        entered.set()
        assert may_return.wait(60)

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
        eventually(lambda: not fed.cursors[0].held_back, "resumed, though the listener has not returned")
        assert notified == [10]
        fed.batches()
        for moment in range(1000, 5000, 100):
            fed.put(0, moment)
            fed.batches()
        eventually(lambda: list(clock.notifier._waiting) == [BASE_TIME + 4899], "one waits, and not each")
        may_return.set()
        eventually(lambda: notified == [10, 4899], "the newest")
    finally:
        may_return.set()
        clock.close(60)


def test_a_listener_is_called_when_a_punctuated_watermark_moves_because_a_partition_is_idle():
    fed = Fed(WatermarkStrategy.punctuated(odd).with_idleness("5s"))
    notified = []
    clock = started(fed, notified.append, **{"auto.watermark.interval.ms": 600_000})
    try:
        fed.put(0, 11)
        fed.put(1, 5)
        fed.messages()
        eventually(lambda: [after(moment) for moment in notified] == [5], "notified")
        eventually(lambda: clock._notify_at > time.monotonic(), "not due again for long")
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: [after(moment) for moment in notified] == [5, 11], "notified")
    finally:
        clock.close(60)


def test_a_closed_notifier_calls_nothing_and_the_oldest_waiting_watermarks_are_dropped():
    notified, entered, may_return = [], threading.Event(), threading.Event()
    notifier = WatermarkNotifier("g", each=True)
    notifier.notify(1)
    notifier.start()

    def listener(moment):
        notified.append(moment)
        entered.set()
        assert may_return.wait(60)

    notifier.listener = listener
    notifier.notify(2)
    assert entered.wait(60)
    for watermark in range(3, 3 + 2 * MAX_WAITING):
        notifier.notify(watermark)
    assert list(notifier._waiting) == list(range(3 + MAX_WAITING, 3 + 2 * MAX_WAITING))
    closing = threading.Thread(target=notifier.close, args=[60])
    closing.start()
    eventually(lambda: notifier._stopped, "closing")
    may_return.set()
    closing.join(60)
    assert not closing.is_alive()
    assert notified == [as_datetime(2)]
