"""Which acknowledgements go into one request, and what the broker's answers mean for them (Q4)."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from penstock.consumer.fetch.lease import Lease
from penstock.consumer.share.share_chunk import ShareChunk
from penstock.consumer.share.share_fetcher import ShareFetcher
from penstock.consumer.share.share_partition import SharePartition
from penstock.errors import BrokerError
from penstock.model.acknowledgement import AckBatch, AcknowledgeType, AcquiredRange, SharedPartition
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES
from penstock.wire.api.metadata import Broker

REFUSED = CODES["INVALID_RECORD_STATE"]
ACCEPT = AcknowledgeType.ACCEPT


class Results:
    """Takes the place of a stream."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wanted = 10
        self.errors: list[object] = []

    def answered(self, chunk, error):
        self.errors.append(error)


@pytest.fixture
def fetcher():
    settings = {"group": "g", "member_id": "m", "max_records": 10, "acquire_mode": 0, "owner": None}
    return ShareFetcher(Broker(1, "b", 9092), None, **settings)


def chunk_of(fetcher, results, first, last, number=0):
    key = SharedPartition(uuid.UUID(int=1), number)
    partition = SharePartition(TopicPartition("t", number), key, "m", results)
    lease = Lease(bytearray(), lambda buffer: None)
    deadline = time.monotonic() + 60
    chunk = ShareChunk(partition, memoryview(b""), [AcquiredRange(first, last, 1)], lease, deadline, fetcher)
    chunk.results = results
    fetcher._chunks[chunk] = None
    return chunk


def accepted(*chunks):
    for chunk in chunks:
        chunk.acquired.settle(chunk.acquired.first, chunk.acquired.last + 1, ACCEPT)
        chunk.note_unsent()


def test_Q4_chunks_of_a_partition_share_a_request(fetcher):
    results = Results()
    chunks = [chunk_of(fetcher, results, 10, 19), chunk_of(fetcher, results, 0, 9), chunk_of(fetcher, results, 5, 6, 1)]
    accepted(*chunks)
    sent = fetcher._take(chunks)
    assert list(fetcher._batches(sent).values()) == [
        [AckBatch(0, 9, [ACCEPT]), AckBatch(10, 19, [ACCEPT])],
        [AckBatch(5, 6, [ACCEPT])],
    ]
    fetcher._note_answers(sent, {})
    assert results.errors == [None] * 3
    assert all(chunk.is_done for chunk in chunks)


def test_Q4_chunks_that_are_refused_together_are_sent_again_alone(fetcher):
    results = Results()
    chunks = [chunk_of(fetcher, results, 0, 9), chunk_of(fetcher, results, 10, 19)]
    key = chunks[0].partition.key
    accepted(*chunks)
    fetcher._note_answers(fetcher._take(chunks), {key: REFUSED})
    assert results.errors == []
    assert not any(chunk.is_done for chunk in chunks)
    for chunk, code in zip(chunks, (0, REFUSED), strict=True):
        sent = fetcher._take([each for each in chunks if each.unsent_since is not None])
        assert [each for each, _ in sent[key]] == [chunk]
        fetcher._note_answers(sent, {key: code})
    assert results.errors[0] is None
    assert isinstance(results.errors[1], BrokerError)
    assert "share.record.lock.duration.ms" in str(results.errors[1])
    assert all(chunk.is_done for chunk in chunks)


def test_Q4_a_record_that_is_acquired_again_counts_for_its_new_delivery_only(fetcher):
    results = Results()
    earlier = chunk_of(fetcher, results, 0, 9)
    fetcher._supersede(earlier.partition, [AcquiredRange(5, 20, 2)])
    assert not earlier.acquired.acknowledge((5,), ACCEPT)
    assert earlier.acquired.acknowledge((4,), ACCEPT)


def test_Q4_a_session_that_ends_takes_its_locks_with_it(fetcher):
    results = Results()
    chunk = chunk_of(fetcher, results, 0, 9)
    chunk.acquired.acknowledge((0,), ACCEPT)
    chunk.note_unsent()
    error = BrokerError("gone")
    chunk.lose(error)
    assert results.errors == [error]
    assert chunk.is_done
    assert fetcher._take([chunk]) == {}
