"""Which topics streams read (H2, H3)."""

import pytest

from penstock.consumer.subscription import MAX_STREAMS, AllowTopics, DenyTopics, FilteredTopics, NamedTopics
from penstock.errors import OptionError

LISTING = {"orders": 3, "orders-eu": 2, "payments": 1, "__consumer_offsets": 50}
INTERNAL = {"__consumer_offsets"}


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (AllowTopics("orders"), {"orders"}),  # the whole name, not a part of it
        (AllowTopics("orders.*"), {"orders", "orders-eu"}),
        (AllowTopics("orders|payments"), {"orders", "payments"}),
        (AllowTopics("orders, payments"), {"orders", "payments"}),  # as Kafka's own tools take it
        (AllowTopics("o.{5,7}"), {"orders"}),
        (AllowTopics(".*"), {"orders", "orders-eu", "payments"}),
        (AllowTopics("nothing"), set()),
        (DenyTopics("orders"), {"orders-eu", "payments"}),
        (DenyTopics("orders.*,pay.*"), set()),
        (DenyTopics("nothing"), {"orders", "orders-eu", "payments"}),
    ],
)
def test_H3_a_filter_matches_whole_names_and_leaves_internal_topics_out(chosen, wanted):
    assert FilteredTopics(chosen, 3).threads(LISTING, INTERNAL) == dict.fromkeys(wanted, 3)
    assert FilteredTopics(chosen, 3).names is None


@pytest.mark.parametrize("chosen", [AllowTopics("__.*"), DenyTopics("[a-z].*")])
def test_H3_internal_topics_are_read_if_they_are_not_excluded(chosen):
    assert FilteredTopics(chosen).threads(LISTING, ()) == {"__consumer_offsets": 1}
    assert FilteredTopics(chosen).threads(LISTING, INTERNAL) == {}


def test_H2_named_topics_are_subscribed_to_whether_they_exist_or_not():
    named = NamedTopics({"orders": 2, "later": 1})
    assert named.threads(LISTING, INTERNAL) == {"orders": 2, "later": 1}
    assert named.names == ("orders", "later")


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, None, MAX_STREAMS + 1])
def test_H2_a_stream_count_below_one_or_beyond_the_limit_is_refused(count):
    with pytest.raises(OptionError, match="streams of 'orders'"):
        NamedTopics({"orders": count})
    with pytest.raises(OptionError, match="from 1 to 1000"):
        FilteredTopics(AllowTopics("orders"), count)


@pytest.mark.parametrize("streams", [{}, {"": 1}, {3: 1}])
def test_H2_a_topic_without_a_name_is_refused(streams):
    with pytest.raises(OptionError, match="topics"):
        NamedTopics(streams)


@pytest.mark.parametrize("kind", [AllowTopics, DenyTopics])
@pytest.mark.parametrize("pattern", ["(", "a{2,1}", None])
def test_H3_an_invalid_pattern_is_refused_at_once(kind, pattern):
    with pytest.raises(OptionError, match="regular expression"):
        kind(pattern)


@pytest.mark.parametrize(
    ("chosen", "pattern"),
    [
        (AllowTopics("orders.*"), "(?:orders.*)"),
        (AllowTopics("orders, pay.*"), "(?:orders|pay.*)"),
        (AllowTopics("(?i)orders"), "(?i)(?:orders)"),
        (AllowTopics("(?!orders).*"), None),  # brokers read RE2
        (AllowTopics(r"(o)rders\1"), None),
        (DenyTopics("orders"), None),
    ],
)
def test_H3_brokers_get_a_pattern_that_means_the_same_there(chosen, pattern):
    assert FilteredTopics(chosen).pattern == pattern


def test_H3_brokers_get_named_topics_by_their_names():
    assert NamedTopics({"orders": 1}).pattern is None
