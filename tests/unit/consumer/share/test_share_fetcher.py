"""What a share fetcher does with records that it acquires again (Q4)."""

from __future__ import annotations

import threading
import time
import uuid
from types import SimpleNamespace

from penstock.consumer.fetch.lease import Lease
from penstock.consumer.share.share_chunk import ShareChunk
from penstock.consumer.share.share_fetcher import ShareFetcher
from penstock.consumer.share.share_partition import SharePartition
from penstock.model.acknowledgement import AcknowledgeType, AcquiredRange, SharedPartition
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Broker


def test_Q4_a_record_that_is_acquired_again_counts_for_its_new_delivery_only():
    settings = {"group": "g", "member_id": "m", "max_records": 10, "acquire_mode": 0, "owner": None}
    fetcher = ShareFetcher(Broker(1, "b", 9092), None, **settings)
    stream = SimpleNamespace(lock=threading.RLock(), wanted=10)
    key = SharedPartition(uuid.UUID(int=1), 0)
    partition = SharePartition(TopicPartition("t", 0), key, "m", stream)
    lease = Lease(bytearray(), lambda buffer: None)
    deadline = time.monotonic() + 60
    earlier = ShareChunk(partition, memoryview(b""), [AcquiredRange(0, 9, 1)], lease, deadline, fetcher)
    earlier.results = stream
    fetcher._chunks[earlier] = None
    fetcher._supersede(partition, [AcquiredRange(5, 20, 2)])
    assert not earlier.acquired.acknowledge((5,), AcknowledgeType.ACCEPT)
    assert earlier.acquired.acknowledge((4,), AcknowledgeType.ACCEPT)
