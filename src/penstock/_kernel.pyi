"""The Rust kernel: bytes of a fetch response in, Arrow columns (or their rows as messages) out."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from typing_extensions import Buffer

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

@final
class Type:
    """An Arrow type: `pyarrow.field(it).type`."""

    def __arrow_c_schema__(self) -> object: ...

@final
class Decoded:
    """A typed column: `pyarrow.array(it)`."""

    @property
    def faults(self) -> list[tuple[int, str]]:
        """Rows that do not say what their bytes said, and why."""

    @property
    def unknown_schemas(self) -> list[int]:
        """Ids of writers' schemas that were missing: then nothing was decoded. Add or refuse them, and try again."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Format:
    """Turns keys or values into one typed column. `wanted` is its Arrow type; `framed` bytes begin with the zero byte
    and the schema id of a schema registry. Not for two threads at once. Constructors raise ValueError."""

    @staticmethod
    def text(*, framed: bool = False) -> Format: ...
    @staticmethod
    def json(wanted: _ArrowSchema, *, time_zone: str = "UTC", framed: bool = False) -> Format: ...
    @staticmethod
    def avro(schema: str, wanted: _ArrowSchema, *, framed: bool = False) -> Format: ...
    @staticmethod
    def protobuf(descriptors: bytes, message: str, wanted: _ArrowSchema, *, framed: bool = False) -> Format: ...
    @property
    def type(self) -> Type: ...
    def add_schema(self, schema_id: int, schema: bytes) -> None:
        """What values of this id were written with: Avro's JSON, or Protobuf's descriptor set. Raises ValueError if it
        does not fit the reader's."""

    def refuse_schema(self, schema_id: int, reason: str) -> None:
        """Values of this id are bad."""

    def forget_refused(self) -> None:
        """Ids that were refused are unknown again."""

    def assume_schema(self, schema: bytes) -> None:
        """What all values were written with, whatever their ids say. Raises ValueError as `add_schema`."""

    def decode(self, values: _ArrowArray) -> Decoded:
        """A row for each value of a binary column; or for the first of them, one at least, if all together would take
        too much memory. Decode the rest in another call."""

def avro_type(schema: str) -> Type:
    """The type of the column that an Avro schema (JSON) makes. Raises ValueError."""

def protobuf_type(descriptors: bytes, message: str) -> Type:
    """The type of the column that a message of a descriptor set makes. Raises ValueError."""

def protobuf_message(descriptors: bytes, message: str) -> str:
    """The full name of a message given by any name; of the set's first, if that is empty. Raises ValueError."""

def compile_protobuf(main: str, files: Sequence[tuple[str, str | bytes]]) -> bytes:
    """A descriptor set out of files by name: `.proto` texts, or FileDescriptorProtos. Raises ValueError."""

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

    @staticmethod
    def from_arrow(data: _ArrowArray) -> Batch:
        """A batch that was made elsewhere (a pyarrow.RecordBatch, say), without a copy.

        It may have any of COLUMNS in any order, each of exactly the type that the kernel gives it: anything else is a
        ValueError that names the column.
        """

    @property
    def num_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Message:
    """One record of a partition. Not made by hand: Messages hands it out.

    It reads from its batch what is asked for when it is asked for, and keeps that whole batch in memory: who stores
    a few messages for long should store their parts instead. It cannot be pickled or compared, and does not change.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970; None if the record has none."""

    @property
    def event_time(self) -> int | None:
        """Milliseconds since 1970; None if the record has none. The timestamp, unless a watermark strategy has it read
        from elsewhere.
        """

    @property
    def timestamp_type(self) -> int:
        """-1: none (magic 0), 0: create time, 1: log append time."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In the record's order, a name as often as it is there; [] if the record has none."""

    @property
    def key(self) -> Any:
        """bytes or None, or what the key decoder makes of the bytes; see `value`."""

    @property
    def value(self) -> Any:
        """bytes or None, or what the value decoder makes of the bytes.

        The decoder runs at the first access, its result is kept, and its error is raised as it is (then it runs
        again at the next access). It is not called for None: a tombstone has nothing to decode.
        """

@final
class Messages:
    """Hands out the messages of one batch, one by one. For any number of threads at once."""

    def __init__(
        self,
        batch: Batch,
        topic: str,
        partition: int,
        end: int,
        key_decoder: Callable[[bytes], Any] | None = None,
        value_decoder: Callable[[bytes], Any] | None = None,
        event_times: _ArrowArray | None = None,
    ) -> None:
        """`batch` has the columns key, value, offset, timestamp, timestampType and headers, in any order and among
        others: a ValueError names those that are missing. `end` is the offset after this batch; it may lie beyond that
        of the last row plus one, as a gap (of a compacted topic, or transaction markers) belongs to the batch before.
        `event_times` has one for each row, in milliseconds since 1970, if they are not the timestamps.
        """

    def __iter__(self) -> Messages: ...
    def __next__(self) -> Message: ...
    def stop(self) -> int:
        """Hand out nothing more from now on. Returns `position`, which stays: every message below it was handed out and
        none at or above it will be, whatever another thread does meanwhile.
        """

    @property
    def position(self) -> int:
        """The offset of the next message to be handed out; `end` once all are."""

    @property
    def remaining(self) -> int:
        """How many messages will be handed out yet; 0 once stopped."""

def scan(data: Buffer, start: int) -> int:
    """The offset after the last whole batch of a chunk by its headers alone, unchecked; `start` if they do not tell.

    For asking the broker for what follows before the chunk is decoded.
    """

COLUMNS: tuple[str, ...]
"""key, value, topic, partition, offset, timestamp, timestampType, headers"""

__version__: str
