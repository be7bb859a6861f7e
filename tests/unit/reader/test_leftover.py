"""What a range leaves for the next one: read from a broker made of forged batches, which counts what it is asked."""

import itertools
import logging
import random
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field, replace

import pytest

import penstock.reader.leftover as leftover_module
import penstock.reader.range_reader as reader_module
from hostile.record_batches import PARTITION, TOPIC, Batch, counted, marker
from penstock.model.offset_range import OffsetRange
from penstock.reader.leftover import LEFTOVERS, Leftover, Leftovers
from penstock.wire.api.fetch import FetchedPartition, FetchResponse
from support.configs import client_config
from support.reading import range_reader

CONFIG = client_config(bootstrap=(("localhost", 1),), retry_backoff=0.001, retry_backoff_max=0.001)
COMMITTED = replace(CONFIG, read_committed=True)
TOPIC_ID = uuid.UUID(int=7)
EPOCH = 3


@dataclass
class Log:
    """One partition, and what was asked of it. `aborted`: (producer, first offset, offset of its marker)."""

    batches: list[Batch]
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    readable: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    damage: dict[int, int] = field(default_factory=dict)
    """Bytes to damage in the next answer, by place."""

    def __post_init__(self):
        self._encoded = [batch.encode() for batch in self.batches]
        self._last = [b.base + (len(b.records) - 1 if b.last_delta is None else b.last_delta) for b in self.batches]

    @property
    def end(self):
        return self._last[-1] + 1

    def fetch(self, offset, size):
        self.asked.append((offset, size))
        first = next((i for i, last in enumerate(self._last) if last >= offset), len(self.batches))
        data = bytearray(b"".join(self._encoded[first:]))
        if first < len(self.batches):
            del data[max(size, len(self._encoded[first])) :]
        for place, bit in self.damage.items():
            data[place] ^= bit
        self.damage = {}
        aborted = [(producer, begin) for producer, begin, end in self.aborted if end >= offset]
        return bytes(data), self.end if self.readable is None else self.readable, aborted


class Connection:
    address = "forged"
    session_over = False
    last_used = float("inf")

    def abort(self):
        pass


class Pool:
    """One buffer for all requests: a leftover must not refer to it."""

    buffer = bytearray(1 << 22)

    def acquire(self, *_):
        return Connection()

    def release(self, _):
        pass

    def acquire_buffer(self, _):
        return self.buffer

    def release_buffer(self, buffer):
        buffer[:1000] = bytes(1000)


@pytest.fixture
def log_of(monkeypatch):
    """`log_of(batches)` is what every reader of the test reads."""
    LEFTOVERS.clear()
    monkeypatch.setattr(reader_module, "POOL", Pool())

    def make(batches, **more):
        log = Log(list(batches), **more)

        class Fetch:
            pending = False

            def __init__(self, *_):
                pass

            def ask(self, position, size, *, ahead=False):
                self.pending = True
                self._answer = log.fetch(position.offset, size)

            def answer(self, buffer, _):
                self.pending = False
                data, readable, aborted = self._answer
                buffer[: len(data)] = data
                view = memoryview(buffer)[: len(data)]
                fetched = FetchedPartition(TOPIC, PARTITION, 0, readable, readable, aborted, -1, view)
                return FetchResponse(0.0, 0, [fetched])

        monkeypatch.setattr(reader_module, "PartitionFetch", Fetch)
        return log

    yield make
    LEFTOVERS.clear()


def part(start, stop, **more):
    hint = {"topic_id": TOPIC_ID, "host": "localhost", "port": 1, "leader_epoch": EPOCH}
    return OffsetRange(TOPIC, PARTITION, start, stop, **(hint | more))


def read(start, stop, config=CONFIG, **more):
    reader = range_reader(part(start, stop, **more), ["offset", "value"], config, poll_timeout=60.0)
    rows = [row for batch in reader for row in batch.to_pylist()]
    assert all(row["value"] == b"offset %d" % row["offset"] for row in rows)
    assert reader.position == stop
    return [row["offset"] for row in rows]


def tens(count=10, **more):
    """Batches of ten records each."""
    return [counted(10 * i, 10, **more) for i in range(count)]


def test_the_range_that_follows_needs_no_broker(log_of):
    log = log_of(tens())
    assert [read(at, at + 4) for at in range(0, 100, 4)] == [list(range(at, at + 4)) for at in range(0, 100, 4)]
    assert [offset for offset, _ in log.asked] == [0]
    assert LEFTOVERS.kept_bytes == 0, "the last range left nothing"


def test_every_range_that_begins_inside_a_leftover_is_served(log_of):
    log = log_of(tens())
    read(0, 5)
    assert read(20, 25) == list(range(20, 25)), "the worker next door got what lies between"
    assert read(67, 91) == list(range(67, 91))
    assert [offset for offset, _ in log.asked] == [0]
    assert read(10, 15) == list(range(10, 15)), "a range before the leftover"
    assert [offset for offset, _ in log.asked] == [0, 10]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_reading_goes_on_over_the_network_where_the_leftover_ends(log_of, monkeypatch, codec):
    monkeypatch.setattr(reader_module, "SMALLEST_FETCH", 1500)  # three to five batches and a piece
    monkeypatch.setattr(reader_module, "DEFAULT_BYTES_PER_OFFSET", 1.0)
    for step in range(1, 40):
        LEFTOVERS.clear()
        log = log_of(tens(codec=codec))
        found = [read(at, min(at + step, 100)) for at in range(0, 100, step)]
        assert list(itertools.chain(*found)) == list(range(100))
        assert [offset for offset, _ in log.asked] == sorted({offset for offset, _ in log.asked}), "asked twice"
        assert len(log.asked) < 100 / 20


def test_a_leftover_that_is_nothing_but_a_piece_of_a_batch_is_not_kept(log_of, monkeypatch):
    size = len(counted(0, 10).encode())
    monkeypatch.setattr(reader_module, "SMALLEST_FETCH", size + 50)
    monkeypatch.setattr(reader_module, "DEFAULT_BYTES_PER_OFFSET", 1.0)
    log_of(tens())
    read(0, 10)
    assert LEFTOVERS.kept_bytes == 0
    read(10, 19)
    assert LEFTOVERS.kept_bytes == size + 50


def gaps():
    """Compaction has taken records inside batches, whole batches, and left an empty one."""
    kept = counted(0, 10)
    return [
        kept,
        replace(counted(20, 5), last_delta=9),
        Batch(35, [], last_delta=4),
        replace(counted(50, 1), last_delta=9),
        counted(70, 10),
    ]


def test_gaps_wherever_the_ranges_are_cut(log_of):
    everything = [*range(10), *range(20, 25), 50, *range(70, 80)]
    log = log_of(gaps())
    for first, second in itertools.combinations(range(1, 80), 2):
        LEFTOVERS.clear()
        log.asked.clear()
        parts = [(0, first), (first, second), (second, 80)]
        assert [read(*each) for each in parts] == [[o for o in everything if a <= o < b] for a, b in parts]
        assert len(log.asked) == 1


def transactional(base, count, producer):
    return replace(counted(base, count), attributes=0x10, producer=producer)


def interleaved():
    """Three producers that commit and abort across one another, and records outside of any transaction."""
    batches, committed, aborted = [], set(), []
    open_since: dict[int, list[int]] = {}
    random_ = random.Random(8)
    at = 0
    while len(batches) < 50:
        producer = random_.choice([1, 2, 3])
        act = random_.choice(["write", "write", "commit", "abort", "plain"])
        if act == "write":
            count = random_.randrange(1, 4)
            batches.append(transactional(at, count, producer))
            open_since.setdefault(producer, []).extend(range(at, at + count))
            at += count
        elif act == "plain":
            batches.append(counted(at, 1))
            committed.add(at)
            at += 1
        elif producer in open_since:
            offsets = open_since.pop(producer)
            batches.append(marker(at, producer, commit=act == "commit"))
            if act == "commit":
                committed.update(offsets)
            else:
                aborted.append((producer, offsets[0], at))
            at += 1
    for producer, offsets in open_since.items():
        batches.append(marker(at, producer, commit=False))
        aborted.append((producer, offsets[0], at))
        at += 1
    return batches, sorted(committed), aborted


def test_transactions_wherever_the_ranges_are_cut(log_of):
    batches, committed, aborted = interleaved()
    assert {producer for producer, _, _ in aborted} == {1, 2, 3}
    assert len(aborted) > 5
    log = log_of(batches, aborted=aborted)
    for first, second in itertools.combinations(range(1, log.end), 2):
        LEFTOVERS.clear()
        log.asked.clear()
        parts = [(0, first), (first, second), (second, log.end)]
        found = [read(*each, config=COMMITTED) for each in parts]
        assert found == [[o for o in committed if a <= o < b] for a, b in parts], (first, second)
        assert len(log.asked) == 1


def test_transactions_in_short_chunks_and_short_ranges(log_of, monkeypatch):
    monkeypatch.setattr(reader_module, "DEFAULT_BYTES_PER_OFFSET", 1.0)
    batches, committed, aborted = interleaved()
    for size, step in itertools.product([400, 700, 1500], [1, 2, 3, 5, 8]):
        monkeypatch.setattr(reader_module, "SMALLEST_FETCH", size)
        LEFTOVERS.clear()
        log = log_of(batches, aborted=aborted)
        edges = [*range(0, log.end, step), log.end]
        found = [read(a, b, config=COMMITTED) for a, b in itertools.pairwise(edges)]
        assert list(itertools.chain(*found)) == committed


def test_what_is_read_uncommitted_is_no_leftover_for_what_is_read_committed(log_of):
    batches, committed, aborted = interleaved()
    log = log_of(batches, aborted=aborted)
    read(0, 10)
    assert read(10, log.end, config=COMMITTED) == [o for o in committed if o >= 10]
    assert len(log.asked) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"topic_id": uuid.UUID(int=8)},
        {"topic_id": None},
        {"leader_epoch": EPOCH + 1},
        {"leader_epoch": EPOCH - 1},
        {"leader_epoch": -1},
        {"config": replace(CONFIG, client_id="somebody else")},
    ],
    ids=str,
)
def test_a_leftover_is_for_the_same_topic_epoch_and_client_only(log_of, other):
    log = log_of(tens())
    read(0, 5)
    assert read(5, 10, **other) == list(range(5, 10))
    assert [offset for offset, _ in log.asked] == [0, 5]


def test_a_leftover_of_another_epoch_is_dropped(log_of):
    log_of(tens())
    read(0, 5)
    assert LEFTOVERS.take(CONFIG, part(5, 10, leader_epoch=EPOCH + 1)) is None
    assert LEFTOVERS.kept_bytes == 0


@pytest.mark.parametrize("unknown", [{"topic_id": None}, {"leader_epoch": -1}], ids=str)
def test_nothing_is_kept_that_nobody_vouches_for(log_of, unknown):
    log_of(tens())
    read(0, 5, **unknown)
    assert LEFTOVERS.kept_bytes == 0


def test_a_leftover_ends_where_a_consumer_was_allowed_to_read(log_of):
    """A broker reads the high watermark before the records: those appended in between lie above it."""
    log = log_of(tens(), readable=60)
    read(0, 5)
    log.readable = 100
    assert read(5, 70) == list(range(5, 70))
    assert [offset for offset, _ in log.asked] == [0, 60]


def test_a_damaged_leftover_is_fetched_anew(log_of, caplog):
    log = log_of(tens())
    log.damage = {len(counted(0, 10).encode()) * 4 + 80: 1}  # in the batch of offsets 40 to 49
    assert read(0, 25) == list(range(25))
    with caplog.at_level(logging.WARNING):
        assert read(25, 75) == list(range(25, 75))
    assert "left over from an earlier fetch, fetching it again" in caplog.text
    assert [offset for offset, _ in log.asked] == [0, 40]
    assert read(75, 90) == list(range(75, 90))
    assert len(log.asked) == 2


@pytest.mark.parametrize("place", [0, 7, 8, 11, 16, 23, 26])
def test_a_damaged_header_in_a_leftover_loses_and_repeats_nothing(log_of, place):
    for bit in (1, 64, 128):
        LEFTOVERS.clear()
        log = log_of(tens())
        log.damage = {len(counted(0, 10).encode()) * 4 + place: bit}
        assert read(0, 25) == list(range(25))
        assert read(42, 61) == list(range(42, 61))


def test_small_ranges_ask_for_little_and_large_ones_for_full_chunks(log_of):
    log = log_of([counted(100 * i, 100) for i in range(300)])
    read(0, 20)
    assert log.asked == [(0, reader_module.SMALLEST_FETCH)]
    LEFTOVERS.clear()
    log.asked.clear()
    read(0, 29_990)
    assert log.asked[0] == (0, CONFIG.partition_max_bytes)
    weight = len(counted(100, 100).encode()) / 100
    left = 29_990 * weight * 1.1
    log.asked.clear()
    LEFTOVERS._kept.clear()
    read(0, 29_990)
    assert log.asked[0][1] == pytest.approx(left, rel=0.1), "what was seen of the partition is remembered"


# --- the store ------------------------------------------------------------------------------------------------------


def leftover_of(size, start=0, stop=10):
    chunk = FetchedPartition(TOPIC, 0, 0, 1000, 1000, [], -1, memoryview(bytes(size)))
    return Leftover(chunk, 0, start, stop, EPOCH)


def test_the_oldest_leftovers_make_room_for_new_ones(monkeypatch):
    monkeypatch.setattr(leftover_module, "KEPT_BYTES", 1000)
    leftovers = Leftovers()
    places = [replace(part(0, 5), partition=p) for p in range(5)]
    for place in places:
        leftovers.keep(CONFIG, place, leftover_of(300))
    assert leftovers.kept_bytes == 900
    leftovers.keep(CONFIG, places[4], leftover_of(200))
    assert leftovers.kept_bytes == 800, "one per partition"
    leftovers.keep(CONFIG, places[0], leftover_of(1001))
    assert leftovers.kept_bytes == 800, "one that is too large makes no room for itself"
    assert list(leftovers._kept) == [leftover_module._key(CONFIG, places[p]) for p in (2, 3, 4)]
    leftovers.clear()
    assert leftovers.kept_bytes == 0


def test_an_old_leftover_is_not_used(log_of, monkeypatch):
    log = log_of(tens())
    read(0, 5)
    monkeypatch.setattr(leftover_module, "KEPT_SECONDS", 0.0)
    assert read(5, 10) == list(range(5, 10))
    assert len(log.asked) == 2


def test_leftovers_go_when_their_time_has_come(monkeypatch):
    monkeypatch.setattr(leftover_module, "KEPT_SECONDS", 0.1)
    leftovers = Leftovers()
    for p in range(3):
        leftovers.keep(CONFIG, replace(part(0, 5), partition=p), leftover_of(100))
        time.sleep(0.04)
    deadline = time.monotonic() + 60
    while leftovers.kept_bytes or leftovers._sweeper is not None:
        assert time.monotonic() < deadline, "they stay forever"
        time.sleep(0.02)


def test_remembered_weights_are_bounded(monkeypatch):
    monkeypatch.setattr(leftover_module, "ESTIMATES_KEPT", 3)
    leftovers = Leftovers()
    for p in range(5):
        leftovers.note_bytes_per_offset(CONFIG, replace(part(0, 5), partition=p), float(p))
    remembered = [leftovers.bytes_per_offset(CONFIG, replace(part(0, 5), partition=p), -1.0) for p in range(5)]
    assert remembered == [-1.0, -1.0, 2.0, 3.0, 4.0]


def test_a_fork_begins_without_leftovers():
    program = """
import os
from unit.reader.test_leftover import CONFIG, part, leftover_of
from penstock.reader.leftover import LEFTOVERS
LEFTOVERS.keep(CONFIG, part(0, 5), leftover_of(100))
assert LEFTOVERS.kept_bytes == 100
child = os.fork()
if child == 0:
    os._exit(LEFTOVERS.kept_bytes)
assert os.waitpid(child, 0)[1] == 0
assert LEFTOVERS.kept_bytes == 100
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr
