"""H4: a stream that is not read does not block the others, and takes no more memory than its queue may hold."""

import json
import subprocess
import sys
import threading

import pytest

from fixtures.consumer import Reading, eventually
from fixtures.produce import Rec
from fixtures.stream import tp

MB = 1_000_000
CHUNK = 256 * 1024


def large(count, size=10_000, partition=0):
    return [Rec(bytes(size), partition=partition) for _ in range(count)]


@pytest.mark.parametrize("fetchers", [1, 2])
def test_H4_an_unread_stream_does_not_stop_other_streams_of_its_broker(consumers, topic, produce, fetchers):
    name = topic(partitions=4)
    for partition in range(4):
        produce(name, large(1000, partition=partition))
    connector = consumers.connector(max_partition_fetch_bytes=CHUNK, num_consumer_fetchers=fetchers)
    unread, read = connector.create_message_streams({name: 2})[name]
    reading = Reading(connector, [read])
    consumers.readings.append(reading)
    eventually(lambda: reading.count() == 2000, "everything of the other stream")
    produce(name, [Rec(b"new", partition=partition) for partition in range(4)])
    eventually(lambda: reading.count() == 2002, "and what came later")
    eventually(lambda: unread.reader.full, "as much of the unread one as may wait")
    waiting = unread.reader.queue.size
    # Two, and at most one more for each partition that was requested while there was room.
    assert 2 <= waiting <= 2 + 2
    assert connector.metrics().lag >= 2000  # a partition that is not fetched keeps the end of its last response
    requests = connector.metrics().fetch_requests
    late = Reading(connector, [unread])
    consumers.readings.append(late)
    eventually(lambda: late.count() == 2002, "everything of it, too")
    assert connector.metrics().fetch_requests > requests
    assert max(consumers.records().values()) == 1
    assert {partition for _, partition, _ in late.records()}.isdisjoint(p for _, p, _ in reading.records())


def test_H4_nothing_is_fetched_while_all_streams_are_full(consumers, topic, produce):
    name = topic(partitions=2)
    produce(name, large(200) + large(200, partition=1))
    connector = consumers.connector(max_partition_fetch_bytes=CHUNK)
    streams = connector.create_message_streams({name: 2})[name]
    eventually(lambda: all(stream.reader.full for stream in streams), "full queues")
    asked = connector.metrics().fetch_requests
    assert not threading.Event().wait(1.5)
    assert connector.metrics().fetch_requests - asked <= 1, "the one that was on its way"
    connector.shutdown()
    assert connector.position() == {}
    again = consumers.connector()
    again.create_message_streams({name: 2})
    eventually(lambda: len(again.position()) == 2, "positions")
    assert again.position() == {tp(name): 0, tp(name, 1): 0}, "what was fetched is not consumed"


PROGRAM = """
import json, sys, threading, time
from pathlib import Path
import penstock

def memory(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))

def eventually(condition):
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)

config, topic, total = json.loads(sys.argv[1])
connector = penstock.ConsumerConnector(config)
before = memory("VmRSS")
streams = connector.create_message_streams({topic: 4})[topic]
eventually(lambda: all(stream.reader.full for stream in streams))
requests = -1
while connector.metrics().fetch_requests != requests:
    requests = connector.metrics().fetch_requests
    time.sleep(0.5)
unread = memory("VmHWM") - before
rows = [0] * 4

def read(at):
    for batch in streams[at].batches():
        rows[at] += batch.num_rows

threads = [threading.Thread(target=read, args=[at]) for at in range(4)]
for thread in threads:
    thread.start()
eventually(lambda: sum(rows) == total)
connector.shutdown()
print(json.dumps({"unread": unread, "read": memory("VmHWM") - before, "rows": rows}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_H4_streams_take_no_more_memory_than_their_queues_may_hold(kafka, consumers, topic, produce):
    """A chunk holds its whole response. An unread stream holds as many chunks as its queue may hold, and a stream that
    is read holds one more. Measured: 12 MB unread, 80 MB read, of 240 MB and of 800 MB."""
    name = topic(partitions=8)
    for partition in range(8):
        produce(name, large(300, 100_000, partition))
    partition_bytes, queued, streams, slack = MB, 2, 4, 40 * MB
    config = {
        "group.id": consumers.group,
        "auto.offset.reset": "earliest",
        "max.partition.fetch.bytes": partition_bytes,
        "queued.max.message.chunks": queued,
        **kafka.client_options(prefix=""),
    }
    command = [sys.executable, "-c", PROGRAM, json.dumps([config, name, 2400])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    found = json.loads(ran.stdout)
    assert sum(found["rows"]) == 2400
    response = 8 * partition_bytes
    assert found["unread"] < queued * response + slack, found
    assert found["read"] < streams * (queued + 1) * response + slack < 2400 * 100_000, found
