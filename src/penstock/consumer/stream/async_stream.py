"""A stream for asyncio: the same messages and batches, awaited.

    async for message in penstock.AsyncStream(stream):
        ...

Waiting takes no thread: a fetcher wakes the event loop. A batch is decoded in the loop's own thread, which takes a
millisecond or so, and its messages are then handed out one by one. A typed batch is made in a thread: it may ask a
schema registry, write letters, or run a user's own class.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from penstock._kernel import Message, Messages
from penstock.consumer.stream.stream import Stream
from penstock.errors import ConsumerTimeout

if TYPE_CHECKING:
    from penstock.consumer.stream.typed import TypedBatches

Handed = TypeVar("Handed")


class AsyncStream:
    """One stream, read by one task at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Message]:
        async def take() -> Messages | None:
            return self._stream.next_messages(0.0)

        while (messages := await self._next(take)) is not None:
            for message in messages:
                yield message

    async def batches(self, columns: Sequence[str] | None = None) -> AsyncIterator[Any]:
        """Arrow batches, as `Stream.batches`."""
        typed = self._stream.typed_batches(columns) if self._stream.prepares_typed else None
        if typed is not None:
            take_typed = partial(self._take_typed, typed)
            while typed.ended_at is None and (made := await self._next(take_typed)) is not None:
                if made.num_rows:
                    yield made
            return
        next_batch = self._stream.batch_source(columns)

        async def take() -> Any:
            return next_batch(0.0)

        while (batch := await self._next(take)) is not None:
            if batch.num_rows:
                yield batch

    async def _take_typed(self, typed: TypedBatches) -> pa.RecordBatch | None:
        while self._stream.open_next():
            # This goes on when we are cancelled; but it takes nothing from the stream.
            take = await asyncio.wrap_future(self._stream.prepare_typed(typed))
            if take is not None and (made := take()) is not None:
                return made
        return None

    async def _next(self, take: Callable[[], Awaitable[Handed]]) -> Handed:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ready.set)

        timeout = self._stream.timeout
        deadline = None if timeout is None else loop.time() + timeout
        # Others want their turn too: while chunks are waiting, nothing else here gives it to them. Not after the take,
        # because a task that is cancelled then would lose what it has.
        await asyncio.sleep(0)
        self._stream.on_ready = wake
        try:
            while True:
                ready.clear()
                # What takes from the stream runs here, and not in an executor: a call there goes on when we are
                # cancelled, and what it takes would be lost.
                with suppress(ConsumerTimeout):
                    return await take()
                try:
                    async with asyncio.timeout_at(deadline):
                        await ready.wait()
                except TimeoutError:
                    raise ConsumerTimeout(self._stream.thread_id, timeout or 0.0) from None
        finally:
            self._stream.on_ready = None
