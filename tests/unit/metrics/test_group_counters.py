"""F26: the requests of a group's member."""

from penstock.metrics.group_counters import NO_GROUP, GroupCounters


def test_F26_heartbeats_joins_syncs_and_retries():
    now = [100.0]
    counters = GroupCounters(lambda: now[0])
    assert counters.snapshot() == NO_GROUP
    counters.heartbeat(0.5)
    counters.joins.add(3.0)
    counters.syncs.add(1.0)
    counters.retried()
    now[0] += 2.0
    found = counters.snapshot()
    assert (found.heartbeats.count, found.heartbeats.last, found.since_heartbeat) == (1, 0.5, 2.0)
    assert (found.joins.seconds, found.syncs.seconds, found.retries) == (3.0, 1.0, 1)
