"""The Rust kernel: fetch responses into Arrow columns or messages, and Arrow columns into record batches."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from typing_extensions import Buffer

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

@final
class Type:
    """An Arrow type. `pyarrow.field(it).type` converts it."""

    def __arrow_c_schema__(self) -> object: ...

@final
class Decoded:
    """A typed column. `pyarrow.array(it)` converts it."""

    @property
    def faults(self) -> list[tuple[int, str]]:
        """Rows that do not hold the values of their record, and why: (row, reason)."""

    @property
    def unknown_schemas(self) -> list[int]:
        """Ids of unknown writers' schemas. If there are any, nothing was decoded: add or refuse them and retry."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Format:
    """Decodes keys or values into one typed column.

    `wanted` is the Arrow type of the column. `framed` bytes begin with the zero byte and the schema id of a schema
    registry. Only one thread at a time may use it. Constructors raise ValueError.
    """

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
        """Adds the writer's schema of this id: Avro's JSON, or a Protobuf descriptor set.

        Raises ValueError if the reader's schema cannot read it.
        """

    def refuse_schema(self, schema_id: int, reason: str) -> None:
        """Makes all values of this id bad, with this reason."""

    def forget_refused(self) -> None:
        """Makes refused ids unknown again."""

    def assume_schema(self, schema: bytes) -> None:
        """Sets the writer's schema of all values, whatever their ids. Raises ValueError as `add_schema` does."""

    def decode(self, values: _ArrowArray) -> Decoded:
        """Decodes a binary column: one row per value.

        If all values together would take too much memory, decodes only the first ones, at least one. Decode the rest in
        another call.
        """

@final
class Encoded:
    """A column of bytes. `pyarrow.array(it)` converts it."""

    @property
    def faults(self) -> list[tuple[int, str]]:
        """Rows that cannot be encoded, and why: (row, reason). Their bytes are null."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class FormatEncoder:
    """Encodes one typed column into the bytes of keys or values. Any number of threads may use it at once.

    `given` is the Arrow type of the column. With `schema_id`, the bytes begin with a zero byte and the id. Constructors
    raise a ValueError that names the field which the format cannot hold.
    """

    @staticmethod
    def json(
        given: _ArrowSchema,
        *,
        time_zone: str | None = None,
        ignore_null_fields: bool = True,
        schema_id: int | None = None,
    ) -> FormatEncoder: ...
    @staticmethod
    def avro(schema: str, given: _ArrowSchema, *, schema_id: int | None = None) -> FormatEncoder: ...
    @staticmethod
    def protobuf(
        descriptors: bytes, message: str, given: _ArrowSchema, *, schema_id: int | None = None
    ) -> FormatEncoder: ...
    def encode(self, column: _ArrowArray) -> Encoded:
        """One value per row; null stays null. Raises ValueError for a column of another type."""

def avro_type(schema: str) -> Type:
    """The column type of an Avro schema (JSON). Raises ValueError."""

def protobuf_type(descriptors: bytes, message: str) -> Type:
    """The column type of a message of a descriptor set. Raises ValueError."""

def protobuf_message(descriptors: bytes, message: str) -> str:
    """The full name of a message, by its full name or its last part. Raises ValueError.

    If `message` is empty: the name of the first message of the set's last file.
    """

def protobuf_file(descriptors: bytes) -> tuple[bytes, list[str]]:
    """The main file of a descriptor set, serialized, and the names of the files that it imports. Raises ValueError."""

def compile_protobuf(main: str, files: Sequence[tuple[str, str | bytes]]) -> bytes:
    """Compiles files into a serialized descriptor set. Raises ValueError.

    `files` are pairs of name and content: a `.proto` text, or a serialized FileDescriptorProto.
    """

class Decoder:
    """Decodes the record batches of one topic partition, chunk by chunk.

    A chunk is the records field of one partition in one fetch response. Usage: `open` a chunk, call `next_batch`
    until it returns None, then read `next_offset`, `position` and `legacy`. Only one thread at a time may use it.
    """

    def __init__(self, topic: str, partition: int, columns: Sequence[str], *, decompression_limit: int = ...) -> None:
        """`columns`: names from COLUMNS, in the order of the output.

        `decompression_limit`: the most bytes that one batch may take after decompression.
        """

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
        """Opens a chunk at byte `position` of `data`, to read the records with offsets in [start, stop).

        `aligned`: `start` is the first offset of a batch (the last batch read ended just before it), so the first batch
        must not begin below it. `cut`: the response was as long as the fetch allowed, so its last batch may be
        incomplete. `aborted`: (producer id, first offset) of the aborted transactions; None reads uncommitted.
        `high_watermark`: a batch after a gap must end below it.
        The decoder holds the buffer until the end of the chunk, the next `open`, or `close`.
        """

    def next_batch(self) -> Batch | None:
        """The next Arrow batch, or None at the end of the chunk. Raises penstock.errors.CorruptBatch."""

    def close(self) -> None:
        """Releases the buffer."""

    @property
    def next_offset(self) -> int:
        """The first offset that was not read yet. It exceeds `stop` only if there is a gap."""

    @property
    def position(self) -> int:
        """The byte at which the batch with `next_offset` begins, or the end of the last complete batch."""

    @property
    def legacy(self) -> bool:
        """Whether decoding stopped because a message set of magic 0 or 1 begins at `position`."""

class Batch:
    """One Arrow record batch, exported through the Arrow C data interface."""

    @staticmethod
    def from_arrow(data: _ArrowArray) -> Batch:
        """Imports a batch of another library, for example a pyarrow.RecordBatch, without a copy.

        It may have any of COLUMNS in any order, each of exactly the kernel's type. Otherwise raises a ValueError that
        names the column.
        """

    @property
    def num_rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Message:
    """One record of a partition. Messages creates it; user code cannot.

    It reads each value from its batch at the access, and keeps that whole batch in memory. To keep a few messages for a
    long time, keep their keys and values instead. Messages are immutable, and cannot be pickled or compared.
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
        """Milliseconds since 1970; None if the record has none.

        The timestamp, unless a watermark strategy reads the event time from another field.
        """

    @property
    def timestamp_type(self) -> int:
        """-1: none (magic 0), 0: create time, 1: log append time."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Pairs of name and value in the order of the record. Names may repeat. [] if the record has none."""

    @property
    def key(self) -> Any:
        """bytes or None, or the result of the key decoder; see `value`."""

    @property
    def value(self) -> Any:
        """bytes or None, or the result of the value decoder.

        The decoder runs at the first access, and its result is kept. If it raises, the access raises the same
        error, and the next access runs it again. It does not run for None: a tombstone has nothing to decode.
        """

@final
class Messages:
    """An iterator over the messages of one batch. Any number of threads may use it at once."""

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
        """`batch` needs the columns key, value, offset, timestamp, timestampType and headers, in any order; it may have
        more. A ValueError names missing ones.

        `end` is the offset after this batch. It may exceed the offset of the last row plus one, because a gap (of a
        compacted topic, or transaction markers) belongs to the batch before it. `event_times`: milliseconds since 1970,
        one per row, if they differ from the timestamps.
        """

    def __iter__(self) -> Messages: ...
    def __next__(self) -> Message: ...
    def stop(self) -> int:
        """Stops the iteration for all threads. Returns `position`, which does not change any more.

        Every message below it was handed out, and no message at or above it will be.
        """

    @property
    def position(self) -> int:
        """The offset of the next message; `end` after the last one."""

    @property
    def remaining(self) -> int:
        """The number of messages still to come; 0 after `stop`."""

@final
class EncodedBatch:
    """One record batch of a partition, ready for a produce request."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def data(self) -> bytes:
        """The record batch (magic 2), compressed, with header and CRC."""

    @property
    def count(self) -> int:
        """The number of records."""

    @property
    def base_sequence(self) -> int:
        """The sequence of the first record; -1 without a producer."""

    @property
    def first_row(self) -> int:
        """The row of the first record, counted over all rows of the encoder."""

    @property
    def last_row(self) -> int:
        """The row of the last record. A batch of one record has the same first and last row."""

    @property
    def payload_bytes(self) -> int:
        """The bytes of the records before compression."""

    def split(self) -> tuple[EncodedBatch, EncodedBatch]:
        """Two batches with half of the records each, and with contiguous sequences.

        For a batch that the broker finds too large. Raises ValueError for a batch of one record.
        """

    def first_key(self) -> bytes | None:
        """The key of the first record."""

@final
class Encoder:
    """Encodes Arrow batches into record batches (magic 2), for the partitions of any number of topics.

    Each partition has one open batch, which grows until it is full. Only one thread at a time may use an encoder.
    """

    def __init__(
        self,
        *,
        compression: str = "none",
        level: int | None = None,
        batch_size: int,
        max_record_size: int,
        buffer_size: int,
        hashed: bool = False,
        seed: int = 0,
    ) -> None:
        """`compression`: none, gzip, snappy, lz4 or zstd. `level`: as in Kafka's `compression.<codec>.level`; for lz4,
        9 is the fast compressor, as in Java. Raises ValueError for others.

        `batch_size`: bytes before compression, header included, at which a batch is cut. `max_record_size`: a record
        is refused if a batch with it alone is larger than this, before compression. `buffer_size`: bytes of all open
        batches together, at which all of them are closed. `hashed`: keep `content_hash`. `seed`: the partition at
        which the rotation of rows without a key begins.
        """

    def set_producer(self, producer_id: int, epoch: int, transactional: bool) -> None:
        """Sets the producer of all further batches. The sequences of all partitions restart at 0.

        Raises ValueError while batches are open.
        """

    def add_topic(self, topic: str, partitions: int, available: Sequence[int] = ()) -> None:
        """Adds a topic, or changes its number of partitions.

        `available`: the partitions for rows that have neither key nor partition. Empty: all.
        """

    def append(self, batch: _ArrowArray, *, topic: str | None, timestamp: int) -> list[EncodedBatch]:
        """Encodes all rows of a record batch. Returns the batches that became full, in order per partition.

        Columns: value (required) and key of binary or string types; topic (string), read if `topic` is None; partition
        (int32), null for a choice by key; headers (list of structs of key and value); timestamp (a timestamp, or int64
        in milliseconds), null for `timestamp`, in milliseconds. Other columns are ignored.

        A row without partition goes where Java's producer puts its key. Rows without a key go to one partition until
        its batch is full, then to the next one.

        Raises ValueError for missing columns and wrong types, and penstock.errors.UnwritableRecord for a row without a
        known topic, with a partition that does not exist, above `max_record_size`, with a timestamp before 1970, or
        with a header without a name. After that the encoder must not be used any more.
        """

    def flush(self) -> list[EncodedBatch]:
        """Closes all open batches and returns them."""

    @property
    def open_bytes(self) -> int:
        """The bytes of all open batches, before compression."""

    @property
    def rows(self) -> int:
        """The number of rows appended so far."""

    @property
    def content_hash(self) -> int:
        """A hash of all rows appended so far, 64 bits. It does not depend on their order; 0 if not `hashed`.

        Covers topic, key, value and headers, and partition and timestamp of rows that have their own.
        """

def scan(data: Buffer, start: int) -> int:
    """The offset after the last complete batch of a chunk, from the batch headers alone.

    Returns `start` if the headers do not show it. The headers are not verified. Lets a caller send the next fetch
    request before it decodes the chunk.
    """

COLUMNS: tuple[str, ...]
"""key, value, topic, partition, offset, timestamp, timestampType, headers"""

__version__: str
