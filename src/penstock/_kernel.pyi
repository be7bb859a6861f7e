"""The Rust kernel: bytes of a fetch response in, Arrow columns out."""

from collections.abc import Sequence

from typing_extensions import Buffer

class Decoder:
    """Decodes the record batches of one topic partition, chunk by chunk.

    A chunk is the records field of one partition in one fetch response. Usage: `open` a chunk, call `next_batch`
    until it returns None, then look at `next_offset`, `position` and `legacy`. Not for two threads at once.
    """

    def __init__(self, topic: str, partition: int, columns: Sequence[str], *, decompression_limit: int = ...) -> None:
        """`columns`: names out of COLUMNS, in order. `decompression_limit`: bytes one batch may unpack to."""

    def open(
        self,
        data: Buffer,
        *,
        start: int,
        stop: int,
        high_watermark: int,
        aligned: bool,
        cut: bool,
        aborted: Sequence[tuple[int, int]] | None = None,
        position: int = 0,
        batch_rows: int = ...,
        batch_bytes: int = ...,
    ) -> None:
        """Begin at byte `position` of `data`, emitting the records with offsets in [start, stop).

        `aligned`: `start` is known to be a batch's first offset (the last batch read ended just before it), so the
        first batch may not begin below it. `cut`: the response was as long as the fetch allowed, so its last batch
        may be incomplete. `aborted`: (producer id, first offset) of aborted transactions; None reads uncommitted.
        `high_watermark`: a batch that leaves a gap before it may not reach past it.
        The buffer is held until the chunk is used up, the next `open`, or `close`.
        """

    def next_batch(self) -> Batch | None:
        """The next Arrow batch, or None at the end of the chunk. Raises penstock.errors.CorruptBatch."""

    def close(self) -> None:
        """Let go of the buffer."""

    @property
    def next_offset(self) -> int:
        """The first offset that was not looked at yet; never above `stop` unless a gap lies there."""

    @property
    def position(self) -> int:
        """The byte where the batch holding `next_offset` begins, or the end of what was complete."""

    @property
    def legacy(self) -> bool:
        """Whether decoding stopped at `position` because a message set of magic 0 or 1 begins there."""

class Batch:
    """One Arrow record batch, handed over through the Arrow C data interface."""

    @property
    def num_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

def scan(data: Buffer, start: int) -> int:
    """The offset after the last whole batch of a chunk by its headers alone, unchecked; `start` if they do not tell.

    For asking the broker for what follows before the chunk is decoded.
    """

COLUMNS: tuple[str, ...]
"""key, value, topic, partition, offset, timestamp, timestampType, headers"""

__version__: str
