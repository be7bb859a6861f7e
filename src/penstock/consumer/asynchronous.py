"""A stream for asyncio: the same messages and batches, awaited.

    async for message in penstock.AsyncStream(stream):
        ...

Waiting takes no thread: a fetcher wakes the event loop. A batch is decoded in the loop's own thread, which takes a
millisecond or so, and its messages are then handed out one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from penstock._kernel import Message
from penstock.consumer.stream import Stream
from penstock.errors import ConsumerTimeout

Handed = TypeVar("Handed")


class AsyncStream:
    """One stream, read by one task at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (messages := await self._next(lambda: self._stream.next_messages(0.0))) is not None:
            for message in messages:
                yield message

    async def batches(self, columns: Sequence[str] | None = None) -> AsyncIterator[Any]:
        """Arrow batches, as `Stream.batches`."""
        take = self._stream.batch_source(columns)
        while (batch := await self._next(lambda: take(0.0))) is not None:
            if batch.num_rows:
                yield batch
            else:
                await asyncio.sleep(0)  # others want their turn too

    async def _next(self, take: Callable[[], Handed]) -> Handed:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ready.set)

        timeout = self._stream.timeout
        self._stream.on_ready = wake
        try:
            async with asyncio.timeout(timeout):
                while True:
                    ready.clear()
                    # Here, and not in the executor: a call there goes on when we are cancelled, and what it takes from
                    # the stream would be lost.
                    with suppress(ConsumerTimeout):
                        return take()
                    await ready.wait()
        except TimeoutError:
            raise ConsumerTimeout(self._stream.thread_id, timeout or 0.0) from None
        finally:
            self._stream.on_ready = None
