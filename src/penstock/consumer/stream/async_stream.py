"""A stream for asyncio: awaits the same messages and batches.

    async for message in penstock.AsyncStream(stream):
        ...

Waiting takes no thread: a fetcher wakes the event loop. The loop's thread decodes a batch, which takes about a
millisecond, and then hands out its messages. A typed batch is converted in a thread of its own, because converting may
ask a schema registry, write dead letters, or run the user's deserializer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from penstock._kernel import Message, Messages
from penstock.consumer.stream.prepared import PreparedBatches
from penstock.consumer.stream.stream import Stream
from penstock.errors import ConsumerTimeout

Handed = TypeVar("Handed")


class AsyncStream:
    """A stream that one asyncio task reads at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Message]:
        async def take() -> Messages | None:
            return self._stream.next_messages(0.0)

        while (messages := await self._next(take)) is not None:
            for message in messages:
                yield message

    async def batches(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> AsyncIterator[Any]:
        """Arrow batches, as `Stream.batches` yields them."""
        prepared = self._stream.prepared_batches(columns, where)
        if prepared is not None:
            take_prepared = partial(self._take_prepared, prepared)
            while not prepared.ended and (made := await self._next(take_prepared)) is not None:
                if made.num_rows:
                    yield made
            prepared.close()
            return
        next_batch = self._stream.batch_source(columns, where)

        async def take() -> Any:
            return next_batch(0.0)

        while (batch := await self._next(take)) is not None:
            if batch.num_rows:
                yield batch

    @staticmethod
    async def _take_prepared(prepared: PreparedBatches) -> pa.RecordBatch | None:
        while prepared.open_next():
            # The thread continues when this task is cancelled, but it takes nothing from the stream.
            take = await asyncio.wrap_future(prepared.prepare())
            if take is not None and (made := take()) is not None:
                return made
        return None

    async def _next(self, take: Callable[[], Awaitable[Handed]]) -> Handed:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(ready.set)

        timeout = self._stream.timeout
        deadline = None if timeout is None else loop.time() + timeout
        # Let other tasks run: while chunks are queued, nothing else here yields to the loop. Not after the take,
        # because a task that is cancelled there would lose what it took.
        await asyncio.sleep(0)
        queue = self._stream.reader.queue
        queue.on_ready = wake
        try:
            while True:
                ready.clear()
                # The take runs here, not in an executor: there it would continue after a cancellation, and lose what it
                # took.
                with suppress(ConsumerTimeout):
                    return await take()
                try:
                    async with asyncio.timeout_at(deadline):
                        await ready.wait()
                except TimeoutError:
                    raise ConsumerTimeout(self._stream.thread_id, timeout or 0.0, queue.wait_reason()) from None
        finally:
            queue.on_ready = None
