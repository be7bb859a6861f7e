"""When a member of a share group sends its next heartbeat (Q1)."""

from __future__ import annotations

from penstock.consumer.share.share_membership import FIRST_SECONDS, seconds_to_next


def test_Q1_heartbeats_come_sooner_until_partitions_are_assigned():
    waits = [seconds_to_next(5.0, beats, is_assigned=False) for beats in range(8)]
    assert waits[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert waits == sorted(waits)
    assert waits[-1] == seconds_to_next(5.0, 10**9, is_assigned=False) == 5.0
    assert seconds_to_next(5.0, 0, is_assigned=True) == 5.0
    assert seconds_to_next(0.05, 0, is_assigned=False) == 0.05, "the broker's interval is shorter"
