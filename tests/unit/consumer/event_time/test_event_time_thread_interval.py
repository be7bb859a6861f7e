"""When a consumer emits watermarks (E7): every `auto.watermark.interval.ms`, or at once if they are punctuated."""

import pytest

from fixtures.consumer import eventually
from penstock import WatermarkStrategy
from support.fed_event_stream import Fed, after, odd, started


class Rounds:
    """Counts how often the clock of a fed stream has come round."""

    def __init__(self, fed, monkeypatch):
        self.count = 0
        resume_caught_up = fed.event_time.resume_caught_up

        def counted():
            self.count += 1
            return resume_caught_up()

        monkeypatch.setattr(fed.event_time, "resume_caught_up", counted)

    def wait(self, rounds=3):
        until = self.count + rounds
        eventually(lambda: self.count >= until, "the clock comes round")


@pytest.mark.parametrize(("interval", "emitted"), [(600_000, [10]), (1, [10, 12])])
def test_E7_a_watermark_is_emitted_once_per_interval(monkeypatch, interval, emitted):
    fed, seen = Fed(WatermarkStrategy.monotonous(), partitions=1), []
    rounds = Rounds(fed, monkeypatch)
    clock = started(fed, lambda moment: seen.append(after(moment)), **{"auto.watermark.interval.ms": interval})
    try:
        fed.put(0, 11)
        fed.batches()
        eventually(lambda: seen == [10], "the first watermark")
        fed.put(0, 13)
        fed.batches()
        rounds.wait()
        eventually(lambda: len(seen) >= len(emitted), "what this interval allows")
    finally:
        clock.close(60)
    assert seen == emitted


def test_E7_a_punctuated_watermark_does_not_wait_for_the_interval():
    fed, seen = Fed(WatermarkStrategy.punctuated(odd), partitions=1), []
    clock = started(fed, lambda moment: seen.append(after(moment)), **{"auto.watermark.interval.ms": 600_000})
    try:
        for moment in (11, 13):
            fed.put(0, moment)
            fed.messages()
        eventually(lambda: seen == [11, 13], "each of them")
    finally:
        clock.close(60)
