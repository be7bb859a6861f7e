"""A consumer's stream that tests feed with chunks, without a broker."""

from __future__ import annotations

from hostile.record_batches import PARTITION, TOPIC
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.stream_factory import make_stream
from penstock.errors import ConsumerTimeout
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition
from support.configs import client_config

CONFIG = client_config(bootstrap=(("localhost", 1),))
TP = TopicPartition(TOPIC, PARTITION)


class Fed:
    """A stream and its cursors. The test plays the fetcher."""

    def __init__(self, **settings):
        self.room = 0
        self.given_back = 0
        self.stream = make_stream(
            "me-0", CONFIG, on_room=self._room, **{"timeout": 0.0, "queued_chunks": 2, **settings}
        )
        self.reader = self.stream.reader

    def _room(self):
        self.room += 1

    def cursor(self, tp=TP, position=0):
        return Cursor(tp, self.reader, position)

    def put(self, cursor, *batches, at=None, version=None, follows=None, damage=None):
        data = bytearray(b"".join(batch.encode() for batch in batches))
        if damage is not None:
            data[damage] ^= 1
        start = cursor.fetched if at is None else at
        end = batches[-1].base + len(batches[-1].records) if follows is None else follows
        fetched = FetchedPartition(cursor.tp.topic, cursor.tp.partition, 0, 10**6, 10**6, [], -1, memoryview(data))
        lease = Lease(data, lambda buffer: setattr(self, "given_back", self.given_back + 1))
        taken = self.reader.put(cursor, cursor.version if version is None else version, start, fetched, end, lease)
        lease.release()
        return taken

    def offsets(self, count=None):
        """The offsets of all messages, or of the first `count`."""
        found = []
        try:
            for message in self.stream:
                found.append(message.offset)
                if len(found) == count:
                    break
        except ConsumerTimeout:
            pass
        return found
