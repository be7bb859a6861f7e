"""Typed batches for asyncio, of a stream fed with forged chunks: made in a thread, handed out in the loop's."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pytest

import penstock
from hostile.record_batches import Batch, record
from penstock.errors import RegistryUnavailable
from penstock.formats.plan import TypedSource
from penstock.formats.spec import Avro, RawBytes
from support.configs import format_options, registry_config
from support.fed_stream import Fed

WAIT = 60.0

pytestmark = pytest.mark.usefixtures("fresh_schemas")


class HeldRegistry:
    """Returns one schema for every id, once the test lets it answer."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.set()
                registry.may_answer.wait(WAIT)
                body = json.dumps({"schema": '"long"'}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="test-registry")
        self._thread.start()

    def stop(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join(WAIT)
        self._server.server_close()


@pytest.fixture
def registry():
    made = HeldRegistry()
    yield made
    made.stop()


def fed_with(url):
    """A stream of numbers, each its own offset, whose writer's schema has the registry alone."""
    options = format_options(registry=registry_config((url,), timeout=WAIT, retries=0))
    return Fed(timeout=None, typed=TypedSource(RawBytes(), Avro('"long"', pa.int64(), framed=True), options))


@pytest.fixture
def fed(registry):
    made = fed_with(registry.url)
    yield made
    made.stream.close()


def numbers(base, count=10):
    return Batch(base, [record(at, b"\0\0\0\0\7" + bytes([2 * (base + at)])) for at in range(count)])


def batches(fed):
    return penstock.AsyncStream(fed.stream).batches(["value"])


def values(batch):
    return batch.column("value").to_pylist()


def run(reading):
    return asyncio.run(asyncio.wait_for(reading(), 2 * WAIT))


def test_the_loop_goes_on_while_a_registry_is_asked(fed, registry):
    fed.put(fed.cursor(), numbers(0))

    async def reading():
        reader = asyncio.ensure_future(anext(batches(fed)))
        assert await asyncio.to_thread(registry.asked.wait, WAIT)
        assert not reader.done(), "and the loop runs"
        registry.may_answer.set()
        return values(await reader)

    assert run(reading) == list(range(10))


def test_who_is_cancelled_while_a_registry_is_asked_loses_nothing(fed, registry):
    cursor = fed.cursor()
    fed.put(cursor, numbers(0), numbers(10))

    async def reading():
        first = asyncio.ensure_future(anext(batches(fed)))
        assert await asyncio.to_thread(registry.asked.wait, WAIT)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert fed.reader.position(cursor) == 0
        second = asyncio.ensure_future(anext(batches(fed)))
        registry.may_answer.set()
        return values(await second)

    assert run(reading) == list(range(20))
    assert fed.reader.position(cursor) == 20


def test_what_a_registry_does_not_say_is_raised_and_met_again(refused_port):
    fed = fed_with(f"http://127.0.0.1:{refused_port}")
    fed.put(fed.cursor(), numbers(0))

    async def reading():
        for _ in range(2):
            with pytest.raises(RegistryUnavailable):
                await anext(batches(fed))

    run(reading)
    fed.stream.close()


def test_batches_come_until_a_shutdown_chunk_by_chunk(fed, registry):
    cursor = fed.cursor()
    fed.put(cursor, numbers(0))
    registry.may_answer.set()

    async def reading():
        seen = []
        async for batch in batches(fed):
            seen += values(batch)
            if len(seen) == 10:
                fed.put(cursor, numbers(10))
            if len(seen) == 20:
                threading.Timer(0.05, fed.stream.close).start()
        return seen

    assert run(reading) == list(range(20))


# --- prepared, and then not wanted ------------------------------------------------------------------------------------


@pytest.fixture
def prepared(fed, registry):
    """A batch that was made and not handed out: its cursor, and what would do that."""
    registry.may_answer.set()
    cursor = fed.cursor()
    fed.put(cursor, numbers(0))
    batches = fed.stream.prepared_batches(["value"])
    assert batches.open_next()
    return cursor, batches.prepare().result(WAIT)


def test_a_prepared_batch_that_was_not_taken_is_read_again(fed, prepared):
    cursor, take = prepared
    assert fed.reader.position(cursor) == 0
    assert next(fed.stream).offset == 0
    assert take() is None, "it was read by another meanwhile"
    assert next(fed.stream).offset == 1


@pytest.mark.parametrize("leave", ["revoke", "move", "pause", "close"])
def test_H8_a_prepared_batch_that_became_obsolete_is_not_handed_out(fed, prepared, leave):
    cursor, take = prepared
    {
        "revoke": lambda: fed.reader.revoke(cursor),
        "move": lambda: fed.reader.move(cursor, 5),
        "pause": lambda: fed.reader.pause(cursor),
        "close": fed.stream.close,
    }[leave]()
    assert take() is None
    if leave == "pause":
        fed.reader.resume(cursor)
        assert values(next(fed.stream.batches(["value"]))) == list(range(10))
    else:
        assert fed.given_back == 1


def test_an_error_of_fetching_waits_for_a_reader(fed):
    """It is raised once, so a thread whose caller was cancelled must not get it."""
    fed.reader.report(None, penstock.PenstockError("met"))
    assert fed.stream.prepared_batches(["value"]).prepare().result(WAIT) is None

    async def reading():
        with pytest.raises(penstock.PenstockError, match="met"):
            await anext(batches(fed))

    run(reading)
