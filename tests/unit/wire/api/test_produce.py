"""Produce requests: batches are copied into the frame once, and the bytes are the same."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.api.produce import LAST_NAMED, PRODUCE, ProduceRequest, TopicBatches

TOPICS = st.lists(
    st.builds(
        TopicBatches,
        st.text(max_size=200),
        st.uuids(),
        st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=200)), max_size=3),
    ),
    max_size=3,
)


@pytest.mark.parametrize("version", range(PRODUCE.lowest, PRODUCE.highest + 1))
@given(TOPICS, st.none() | st.text(max_size=200), st.sampled_from([-1, 0, 1]))
def test_a_request_is_the_one_that_the_declaration_encodes(version, topics, transactional_id, acks):
    """The declaration is compared with kafka-python, see test_message.py."""
    expected = PRODUCE.request(
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partition_data": [{"index": number, "records": batch} for number, batch in topic.batches],
            }
            for topic in topics
        ],
    )
    ours = ProduceRequest(version, transactional_id, acks, 30_000, topics)
    assert ours.encode(77, "penstöck") == expected.encode(77, "penstöck")
    assert ours.name == "ProduceRequest"


def test_newer_versions_need_topic_ids():
    with pytest.raises(AssertionError, match="by id"):
        ProduceRequest(LAST_NAMED + 1, None, -1, 1, [TopicBatches("t", None, [])])
    assert ProduceRequest(LAST_NAMED, None, -1, 1, [TopicBatches("t", uuid.uuid4(), [])]).body
