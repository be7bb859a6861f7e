"""Count the words of a topic with four streams, one thread each, until Ctrl-C.

python examples/word_count.py localhost:9092 shop-events

Start it twice: the two processes share the partitions. When one ends, the other takes over.
"""

import argparse
import itertools
import re
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("--group", default="word-count", help="consumer group that shares the work (default: %(default)s)")
parser.add_argument("--streams", type=int, default=4)
arguments = parser.parse_args()

config = {
    "bootstrap.servers": arguments.address,
    "group.id": arguments.group,
    "auto.offset.reset": "earliest",  # first run only: later runs continue at the group's offsets
}


def count(stream: penstock.Stream) -> Counter[str]:
    """Count the words of one stream. Each thread has its own counter, so it needs no lock; the sum comes at the end."""
    words: Counter[str] = Counter()
    for message in stream:  # ends when the connector is shut down
        if message.value is not None:
            words.update(re.findall(r"\w+", message.value.decode("utf-8", "replace").lower()))
    return words


# In production the signal is often SIGTERM instead of Ctrl-C. The handler only sets a flag: an exception could
# interrupt code that holds a lock, and the lock would stay locked.
stop: list[int] = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: stop.append(number))

# Keep this order: the connector shuts down first, which ends the iterations that the pool waits for.
with ThreadPoolExecutor(arguments.streams) as pool, penstock.ConsumerConnector(config) as connector:
    streams = connector.create_message_streams({arguments.topic: arguments.streams})[arguments.topic]
    counts = [pool.submit(count, stream) for stream in streams]
    print(f"counting the words of {arguments.topic}, until Ctrl-C", flush=True)
    for tick in itertools.count(1):
        time.sleep(0.1)
        if stop or any(each.done() for each in counts):  # a count that is done has failed
            break
        if tick % 10 == 0:
            metrics = connector.metrics()
            print(
                f"{len(metrics.partitions)} partitions, {metrics.messages:,} messages, "
                f"{metrics.messages_per_second:,.0f} per second, {metrics.lag or 0:,} to go",
                flush=True,
            )
    print("\nleaving the group", flush=True)

total = sum((each.result() for each in counts), Counter())  # raises the error of a failed stream
for word, times in total.most_common(10):
    print(f"{times:10,}  {word}")
