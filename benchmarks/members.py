"""Four streams of a group of the protocol `consumer`, as one member or as four: `python -m benchmarks.members`.

One member is one connector with four streams, which is how Penstock does it. Four members are four connectors with a
stream each, in the same process. Both read the same topic as Arrow batches, in turns, from a broker of their own. The
first round of each is not counted. Afterwards both are left alone for a while, to count what an idle group costs.
"""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from contextlib import ExitStack

import pyarrow as pa

from penstock import ConsumerConnector, EmbeddedKafka, Stream, write_batches

STREAMS, PARTITIONS, ROWS, VALUE = 4, 16, 4_000_000, 100
ROUNDS, IDLE_SECONDS, DEADLINE = 7, 20.0, 120.0
WAYS = {"one member": (1, STREAMS), "four members": (STREAMS, 1)}


class Count:
    """Counts rows; the reader that takes the last one stops the clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows = 0
        self.first = self.last = 0.0
        self.complete = threading.Event()

    def read(self, stream: Stream) -> None:
        for batch in stream.batches():
            with self._lock:
                self.first = self.first or time.monotonic()
                self.rows += batch.num_rows
                if self.rows >= ROWS and not self.complete.is_set():
                    self.last = time.monotonic()
                    self.complete.set()


def run(kafka: EmbeddedKafka, topic: str, connectors: int, streams: int, idle: float) -> dict[str, float]:
    config = {**kafka.client_options(prefix=""), "group.id": f"members-{uuid.uuid4().hex}"}
    config |= {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
    count, threads = Count(), []
    with ExitStack() as stack:
        began, cpu = time.monotonic(), time.process_time()
        made = [stack.enter_context(ConsumerConnector(config)) for _ in range(connectors)]
        for connector in made:
            for stream in connector.create_message_streams({topic: streams})[topic]:
                threads.append(threading.Thread(target=count.read, args=[stream], daemon=True))
        for thread in threads:
            thread.start()
        if not count.complete.wait(DEADLINE):
            raise SystemExit(f"{count.rows} of {ROWS} rows came")
        found = {
            "M rows/s": count.rows / (count.last - began) / 1e6,
            "s to the first row": count.first - began,
            "CPU s": time.process_time() - cpu,
            "rows twice": count.rows - ROWS,
        }
        if idle:
            cpu = time.process_time()
            before = sum(each.metrics().heartbeats.count for each in made)
            time.sleep(idle)
            found["idle CPU ms/s"] = (time.process_time() - cpu) / idle * 1000
            found["heartbeats/min"] = (sum(each.metrics().heartbeats.count for each in made) - before) / idle * 60
            found["threads"] = threading.active_count()
        stopping = time.monotonic()
    found["s to leave"] = time.monotonic() - stopping
    return found


def main() -> None:
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with EmbeddedKafka() as kafka:
        topic = "members"
        kafka.create_topic(topic, PARTITIONS)
        rows = ROWS // PARTITIONS
        for partition in range(PARTITIONS):
            batch = pa.record_batch(
                {"value": pa.array([b"v" * VALUE] * rows), "partition": pa.array([partition] * rows, pa.int32())}
            )
            write_batches({**kafka.client_options(prefix=""), "topic": topic}, [batch])
        for turn in range(ROUNDS + 1):
            for way in list(WAYS) if turn % 2 else list(reversed(WAYS)):
                answer = run(kafka, topic, *WAYS[way], idle=IDLE_SECONDS if turn == ROUNDS else 0.0)
                if turn:
                    found[way].append(answer)
                print(way, {key: round(value, 3) for key, value in answer.items()}, flush=True)
    for way, answers in found.items():
        medians = {key: statistics.median(each[key] for each in answers if key in each) for key in answers[-1]}
        print(f"{way}: {', '.join(f'{key} {value:.3g}' for key, value in medians.items())}")


if __name__ == "__main__":
    main()
