"""Which acknowledgements go into one request, and what the broker's answers mean for them (Q4)."""

from __future__ import annotations

import threading
import time
import uuid
from types import SimpleNamespace

from penstock.consumer.fetch.lease import Lease
from penstock.consumer.share.share_acknowledgements import ShareAcknowledgements
from penstock.consumer.share.share_chunk import ShareChunk
from penstock.consumer.share.share_partition import SharePartition
from penstock.errors import BrokerError
from penstock.model.acknowledgement import AckBatch, AcknowledgeType, AcquiredRange, SharedPartition
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES

REFUSED = CODES["INVALID_RECORD_STATE"]
ACCEPT = AcknowledgeType.ACCEPT
FETCHER = SimpleNamespace(acknowledged=lambda chunk: None, flush=lambda: None, knows_renewals=True)


class Results:
    """Takes the place of a stream."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wanted = 10
        self.errors: list[object] = []

    def answered(self, chunk, error):
        self.errors.append(error)


def chunk_of(results, first, last, number=0):
    key = SharedPartition(uuid.UUID(int=1), number)
    partition = SharePartition(TopicPartition("t", number), key, "m", results)
    lease = Lease(bytearray(), lambda buffer: None)
    deadline = time.monotonic() + 60
    chunk = ShareChunk(partition, memoryview(b""), [AcquiredRange(first, last, 1)], lease, deadline, FETCHER)
    chunk.results = results
    return chunk


def accepted(*chunks):
    for chunk in chunks:
        chunk.acquired.settle(chunk.acquired.first, chunk.acquired.last + 1, ACCEPT)
        chunk.note_unsent()


def test_Q4_chunks_of_a_partition_share_a_request():
    results = Results()
    chunks = [chunk_of(results, 10, 19), chunk_of(results, 0, 9), chunk_of(results, 5, 6, 1)]
    accepted(*chunks)
    sent = ShareAcknowledgements.take(chunks)
    assert list(sent.batches().values()) == [
        [AckBatch(0, 9, [ACCEPT]), AckBatch(10, 19, [ACCEPT])],
        [AckBatch(5, 6, [ACCEPT])],
    ]
    sent.answered({})
    assert results.errors == [None] * 3
    assert all(chunk.is_done for chunk in chunks)


def test_Q4_chunks_that_are_refused_together_are_sent_again_alone():
    results = Results()
    chunks = [chunk_of(results, 0, 9), chunk_of(results, 10, 19)]
    key = chunks[0].partition.key
    accepted(*chunks)
    ShareAcknowledgements.take(chunks).answered({key: REFUSED})
    assert results.errors == []
    assert not any(chunk.is_done for chunk in chunks)
    for chunk, code in zip(chunks, (0, REFUSED), strict=True):
        sent = ShareAcknowledgements.take([each for each in chunks if each.unsent_since is not None])
        assert sent.batches() == {key: [AckBatch(chunk.acquired.first, chunk.acquired.last, [ACCEPT])]}
        sent.answered({key: code})
    assert results.errors[0] is None
    assert isinstance(results.errors[1], BrokerError)
    assert "share.record.lock.duration.ms" in str(results.errors[1])
    assert all(chunk.is_done for chunk in chunks)


def test_Q4_what_a_broker_without_the_session_got_is_sent_again():
    results = Results()
    chunk = chunk_of(results, 0, 9)
    accepted(chunk)
    ShareAcknowledgements.take([chunk]).send_again()
    assert results.errors == []
    assert ShareAcknowledgements.take([chunk]).batches() == {chunk.partition.key: [AckBatch(0, 9, [ACCEPT])]}


def test_Q4_a_request_without_an_answer_is_an_error_of_each_chunk():
    results = Results()
    chunk = chunk_of(results, 0, 9)
    accepted(chunk)
    ShareAcknowledgements.take([chunk]).fail(ConnectionError("gone"))
    assert "t-0 may be lost: gone" in str(results.errors[0])
    assert chunk.is_done


def test_Q4_a_session_that_ends_takes_its_locks_with_it():
    results = Results()
    chunk = chunk_of(results, 0, 9)
    chunk.acquired.acknowledge((0,), ACCEPT)
    chunk.note_unsent()
    error = BrokerError("gone")
    chunk.lose(error)
    assert results.errors == [error]
    assert chunk.is_done
    assert not ShareAcknowledgements.take([chunk])
