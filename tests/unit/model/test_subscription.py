import pytest

from penstock.model.subscription import AssignedPartitions, TopicNames, TopicPattern, select_partitions, wanted_topics
from penstock.model.topic_partition import TopicPartition

LISTING = {"events": [0, 1], "events-old": [0], "__consumer_offsets": [0], "other": [0]}
INTERNAL = frozenset({"__consumer_offsets"})


@pytest.mark.parametrize(
    ("subscription", "topics", "partitions"),
    [
        (TopicNames(("other", "events")), ("other", "events"), ["events-0", "events-1", "other-0"]),
        (TopicPattern("events.*"), None, ["events-0", "events-1", "events-old-0"]),
        (TopicPattern("vent"), None, ["events-0", "events-1", "events-old-0"]),
        (TopicPattern("^event$"), None, []),
        (TopicPattern("^events$"), None, ["events-0", "events-1"]),
        (TopicPattern(".*"), None, ["events-0", "events-1", "events-old-0", "other-0"]),
        (AssignedPartitions((TopicPartition("events", 1),)), ("events",), ["events-1"]),
    ],
)
def test_F1_a_subscription_means_partitions(subscription, topics, partitions):
    assert wanted_topics(subscription) == topics
    assert [str(tp) for tp in select_partitions(subscription, LISTING, INTERNAL)] == partitions
