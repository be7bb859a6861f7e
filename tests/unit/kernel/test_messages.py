"""Messages one by one, out of the kernel's batches and out of Arrow's."""

from __future__ import annotations

import copy
import gc
import itertools
import json
import pickle
import sys
import threading
import tracemalloc
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from hostile.record_batches import BASE_TIME, CODECS, FOREVER, PARTITION, TOPIC, Batch, chunk, counted, record
from penstock import _kernel
from penstock._kernel import COLUMNS, Decoder, Message, Messages
from penstock.model.columns import arrow_schema

NEEDED = ["key", "value", "offset", "timestamp", "timestampType", "headers"]


def decoded(*batches: Batch, columns: Sequence[str] = NEEDED) -> tuple[_kernel.Batch, int]:
    """All rows as one Arrow batch, and the offset after it."""
    decoder = Decoder(TOPIC, PARTITION, columns)
    decoder.open(
        chunk(*batches), start=0, stop=FOREVER, high_watermark=FOREVER, aligned=False, cut=False, batch_rows=1 << 20
    )
    batch = decoder.next_batch()
    assert batch is not None
    assert decoder.next_batch() is None
    return batch, decoder.next_offset


def messages(*batches: Batch, columns: Sequence[str] = NEEDED, **decoders: Any) -> Messages:
    batch, end = decoded(*batches, columns=columns)
    return Messages(batch, TOPIC, PARTITION, end, **decoders)


def many(count: int, **decoders: Any) -> Messages:
    return messages(counted(0, count), **decoders)


# --- what a message says ----------------------------------------------------------------------------------------------


def test_a_message_is_what_the_record_says() -> None:
    headers = [(b"trace", b"\x00\x01"), (b"empty", b""), (b"none", None), (b"trace", b"2")]
    (message,) = messages(Batch(40, [record(0, b"v", b"k", headers, time_delta=7)]))
    assert type(message) is Message
    assert (message.topic, message.partition, message.offset) == (TOPIC, PARTITION, 40)
    assert (message.timestamp, message.timestamp_type) == (BASE_TIME + 7, 0)
    assert (message.key, message.value) == (b"k", b"v")
    assert message.headers == [("trace", b"\x00\x01"), ("empty", b""), ("none", None), ("trace", b"2")]


@pytest.mark.parametrize("codec", CODECS)
def test_null_and_empty_stay_two_things_in_every_codec(codec: str) -> None:
    found = messages(Batch(0, [record(0, None, b""), record(1, b"", None), record(2)], codec=codec))
    assert [(message.key, message.value) for message in found] == [(b"", None), (None, b""), (b"key", b"value")]


def test_a_record_without_headers_has_an_empty_list_of_its_own() -> None:
    first, second = messages(Batch(0, [record(0), record(1, headers=[(b"h", b"x")])]))
    first.headers.append(("mine", None))
    assert first.headers == []
    assert second.headers == [("h", b"x")]


def test_a_record_without_a_timestamp_has_none() -> None:
    found = messages(counted(0, 1, base_time=-1), counted(1, 1, base_time=2**63 - 1), counted(2, 1, base_time=0))
    assert [message.timestamp for message in found] == [None, None, 0]


def test_the_event_time_is_the_timestamp_unless_others_are_given() -> None:
    batch, end = decoded(counted(0, 3))
    assert [message.event_time for message in Messages(batch, TOPIC, PARTITION, end)] == [
        message.timestamp for message in Messages(batch, TOPIC, PARTITION, end)
    ]
    times = pa.array([0, 7, None, -1])
    found = list(Messages(batch, TOPIC, PARTITION, end, event_times=times.slice(1)))
    del times
    assert [message.event_time for message in found] == [7, None, -1]
    assert None not in [message.timestamp for message in found]


@pytest.mark.parametrize(
    ("times", "error", "says"),
    [
        (pa.array([1, 2]), ValueError, "3 rows have 2 event times"),
        (pa.array([1.0, 2.0, 3.0]), ValueError, "event_times must be int64"),
        (pa.array([1, 2, 3], pa.timestamp("ms")), ValueError, "event_times must be int64"),
        ([1, 2, 3], AttributeError, "__arrow_c_array__"),
    ],
    ids=["too few", "floats", "timestamps", "no Arrow"],
)
def test_event_times_that_are_none_are_refused(times: Any, error: type[Exception], says: str) -> None:
    batch, end = decoded(counted(0, 3))
    with pytest.raises(error, match=says):
        Messages(batch, TOPIC, PARTITION, end, event_times=times)


def test_log_append_time_is_said() -> None:
    found = messages(counted(0, 1), counted(1, 1, attributes=8, max_time=BASE_TIME + 99))
    assert [(message.timestamp_type, message.timestamp) for message in found] == [(0, BASE_TIME), (1, BASE_TIME + 99)]


def test_columns_may_come_in_any_order_and_among_others() -> None:
    (message,) = messages(counted(7, 1), columns=COLUMNS[::-1])
    assert (message.offset, message.key, message.value) == (7, b"key", b"offset 7")


def test_columns_that_are_missing_are_named() -> None:
    with pytest.raises(ValueError, match="messages need the columns key, timestampType, headers"):
        messages(counted(0, 1), columns=["value", "offset", "timestamp"])


def test_a_message_is_not_made_or_changed_by_hand() -> None:
    (message,) = many(1)
    for make in (Message, lambda: object.__new__(Message), lambda: copy.copy(message), lambda: pickle.dumps(message)):
        with pytest.raises(TypeError):
            make()
    for name in ("topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "key", "value"):
        with pytest.raises(AttributeError):
            setattr(message, name, None)
        with pytest.raises(AttributeError):
            delattr(message, name)
        assert getattr(Message, name).__doc__
    with pytest.raises(AttributeError):
        message.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Message.value = 1  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        type("Mine", (Message,), {})
    with pytest.raises(TypeError):
        message.__class__ = type("Other", (), {"__slots__": ("a", "b", "c", "d")})  # type: ignore[assignment]


def test_messages_outlive_their_batch_and_iterator() -> None:
    found = list(many(100))
    gc.collect()
    last = found.pop()
    del found
    gc.collect()
    assert (last.offset, last.value, last.topic) == (99, b"offset 99", TOPIC)


# --- repr -------------------------------------------------------------------------------------------------------------


def test_a_repr_shows_binary_data_as_python_writes_it() -> None:
    value = b"\x00\xff'\n"
    (message,) = messages(Batch(5, [record(0, value, None)]))
    said = f"topic={TOPIC!r}, partition={PARTITION}, offset=5, key=None, value="
    assert repr(message) == f"Message({said}{value!r})"


@pytest.mark.parametrize(("size", "shown"), [(64, repr(b"x" * 64)), (65, f"{b'x' * 64!r}... (65 bytes)")])
def test_a_repr_shows_the_first_bytes_only(size: int, shown: str) -> None:
    (message,) = messages(Batch(0, [record(0, b"x" * size)]))
    assert repr(message).endswith(f" value={shown})")


def test_a_repr_runs_no_decoder() -> None:
    (message,) = many(1, key_decoder=lambda _: 1 / 0, value_decoder=lambda _: 1 / 0)
    assert repr(message).endswith("key=b'key', value=b'offset 0')")


def test_a_repr_takes_a_topic_that_no_broker_would() -> None:
    batch, end = decoded(counted(0, 1))
    (message,) = Messages(batch, "a'\ud800\n", 0, end)
    assert message.topic == "a'\ud800\n"
    assert repr(message).startswith(f"Message(topic={message.topic!r}, ")


# --- decoders ---------------------------------------------------------------------------------------------------------


def test_decoders_make_key_and_value() -> None:
    found = messages(Batch(0, [record(0, b'{"a": 1}', b"7")]), key_decoder=int, value_decoder=json.loads)
    assert [(message.key, message.value) for message in found] == [(7, {"a": 1})]


def test_a_decoder_gets_bytes_and_runs_once_at_the_first_access() -> None:
    calls: list[bytes] = []

    def decode(value: bytes) -> dict[str, int]:
        calls.append(value)
        return {}

    first, second = messages(counted(0, 2), value_decoder=decode)
    assert calls == []
    first.value["mine"] = 1
    assert first.value == {"mine": 1}
    assert first.value is first.value
    assert second.value == {}
    assert calls == [b"offset 0", b"offset 1"]
    assert first.key == b"key"


def test_a_decoder_may_make_none_of_something() -> None:
    calls: list[bytes] = []
    (message,) = many(1, value_decoder=calls.append)
    assert message.value is None
    assert message.value is None
    assert calls == [b"offset 0"]


def test_null_is_not_decoded() -> None:
    found = messages(Batch(0, [record(0, None, None)]), key_decoder=lambda _: 1 / 0, value_decoder=lambda _: 1 / 0)
    assert [(message.key, message.value) for message in found] == [(None, None)]


def test_a_decoders_error_is_raised_as_it_is_at_each_access() -> None:
    errors = [KeyError("first"), KeyError("second")]

    def decode(value: bytes) -> str:
        if errors:
            raise errors.pop(0)
        return value.decode()

    found = many(2, value_decoder=decode)
    message = next(found)
    for said in ("first", "second"):
        with pytest.raises(KeyError, match=said):
            _ = message.value
    assert message.value == "offset 0"
    assert next(found).value == "offset 1"


def test_a_decoder_that_is_none_is_none_and_any_other_is_callable() -> None:
    assert [message.value for message in many(1, key_decoder=None, value_decoder=None)] == [b"offset 0"]
    for name in ("key_decoder", "value_decoder"):
        with pytest.raises(TypeError, match=f"{name} must be callable, not str"):
            many(1, **{name: "utf-8"})


def test_two_threads_that_decode_one_value_see_the_same() -> None:
    both = threading.Barrier(2, timeout=60)

    def decode(value: bytes) -> list[bytes]:
        both.wait()
        return [value]

    (message,) = many(1, value_decoder=decode)
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(message.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [[b"offset 0"]] * 2
    assert seen[0] is seen[1]


# --- position and stop ------------------------------------------------------------------------------------------------


def test_the_position_is_the_next_offset_and_reaches_over_gaps() -> None:
    found = messages(Batch(0, [record(3), record(7)], last_delta=9), Batch(10, last_delta=4))
    seen = [(found.position, found.remaining)]
    for message in found:
        assert found.position > message.offset
        seen.append((found.position, found.remaining))
    assert seen == [(3, 2), (7, 1), (15, 0)]
    assert found.stop() == found.position == 15


def test_iterating_again_goes_on_where_it_was_left() -> None:
    found = many(5)
    assert iter(found) is found
    assert [message.offset for message, _ in zip(found, range(2), strict=False)] == [0, 1]
    assert found.position == 3  # zip took one more
    assert [message.offset for message in found] == [3, 4]
    assert list(found) == []
    with pytest.raises(StopIteration):
        next(found)


def test_a_generator_that_is_left_early_stops_nothing() -> None:
    found = many(5)

    def delegating() -> Iterator[Message]:
        yield from found

    reader = delegating()
    next(reader)
    reader.close()
    assert (found.position, found.remaining) == (1, 4)


def test_a_stopped_iterator_hands_out_nothing_and_stays_where_it_is() -> None:
    found = many(5)
    first = next(found)
    assert found.stop() == 1
    assert (found.position, found.remaining, list(found), found.stop()) == (1, 0, [], 1)
    assert first.value == b"offset 0"


def test_an_empty_batch_is_at_its_end() -> None:
    empty = pa.RecordBatch.from_pylist([], arrow_schema(NEEDED))
    found = Messages(_kernel.Batch.from_arrow(empty), TOPIC, 0, 7)
    assert (found.position, found.remaining, list(found), found.stop()) == (7, 0, [], 7)


def test_the_end_lies_behind_the_last_message() -> None:
    batch, end = decoded(counted(0, 3))
    assert Messages(batch, TOPIC, 0, end + 5).position == 0
    with pytest.raises(ValueError, match="end is 2, but the last row has offset 2"):
        Messages(batch, TOPIC, 0, end - 1)


def test_H8_a_stop_in_another_thread_falls_between_two_messages() -> None:
    """What was handed out lies below the position that stop returned, and nothing else does."""
    batch, end = decoded(*(counted(1000 * at, 1000) for at in range(20)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        stopped_within = 0
        for turn in range(60):
            found = Messages(batch, TOPIC, 0, end)
            begun = threading.Event()
            seen: list[list[int]] = [[], []]

            def read(mine: list[int], found: Messages = found, begun: threading.Event = begun) -> None:
                for message in found:
                    mine.append(message.offset)
                    begun.set()

            readers = [threading.Thread(target=read, args=(mine,)) for mine in seen[: 1 + turn % 2]]
            for reader in readers:
                reader.start()
            assert begun.wait(60)
            positions = [found.position for _ in range(turn)]
            stopped = found.stop()
            after = found.position
            for reader in readers:
                reader.join(60)
            assert sorted(seen[0] + seen[1]) == list(range(stopped))
            assert all(mine == sorted(mine) for mine in seen)
            assert positions == sorted(positions)
            assert found.position == after == stopped >= (positions or [0])[-1]
            stopped_within += stopped < end
        assert stopped_within > 0
    finally:
        sys.setswitchinterval(interval)


# --- memory -----------------------------------------------------------------------------------------------------------


def references(things: Iterable[object]) -> list[int]:
    return [sys.getrefcount(thing) for thing in things]


@pytest.mark.parametrize("decoder", [None, zlib.crc32, lambda value: [value]])
def test_nothing_is_left_behind_by_100_000_messages(decoder: Any) -> None:
    batch, end = decoded(*(counted(1000 * at, 1000) for at in range(100)))
    topic = "a topic of its own".replace("own", "mine")
    # Not None, which other threads of the process take and leave as they like.
    shared = [thing for thing in (topic, batch, Message, Messages, decoder) if thing is not None]

    def read(most: int) -> None:
        kept = []
        for message in itertools.islice(Messages(batch, topic, 0, end, None, decoder), most):
            _ = message.key, message.value, message.headers, message.topic, message.timestamp, repr(message)
            kept.append(message)
        assert len(kept) == most

    read(1000)
    gc.collect()
    before = references(shared)
    tracemalloc.start()
    try:
        read(100_000)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert references(shared) == before
    assert left < 100_000


def test_a_decoder_that_fails_leaves_nothing_behind() -> None:
    class Refused(Exception):
        pass

    refused = Refused("not this")

    def decode(_: bytes) -> None:
        raise refused

    def read() -> None:
        for message in many(1000, value_decoder=decode):
            with pytest.raises(Refused):
                _ = message.value
        refused.__traceback__ = None

    read()
    gc.collect()  # what other tests have left refers to these too
    before = references([refused, decode, Message])
    read()
    gc.collect()
    assert references([refused, decode, Message]) == before


@pytest.mark.parametrize("kept", ["message", "messages"])
def test_a_cycle_through_a_decoder_is_collected(kept: str) -> None:
    class Application:
        def decode(self, value: bytes) -> bytes:
            return value

    application = Application()
    found = many(3, value_decoder=application.decode)
    application.kept = next(found) if kept == "message" else found  # type: ignore[attr-defined]
    gone = weakref.ref(application)
    del application, found
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_decoded_value_is_collected() -> None:
    class Value:
        pass

    (message,) = many(1, value_decoder=lambda _: Value())
    message.value.message = message
    gone = weakref.ref(message.value)
    del message
    gc.collect()
    assert gone() is None


def test_the_collector_knows_messages_only_where_they_could_be_in_a_cycle() -> None:
    assert [gc.is_tracked(message) for message in many(1)] == [False]
    assert [gc.is_tracked(message) for message in many(1, key_decoder=bytes)] == [True]
