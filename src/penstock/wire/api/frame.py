"""Bytes of Kafka's protocol read and written here, where kafka-python's own way is too slow.

Flexible versions of an API have compact lengths (one more than the length, as a varint) and tagged fields; older ones
have lengths of a fixed size. What is read is hostile: every length and count is held against the bytes that are there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct(">ihhih")


@dataclass(slots=True)
class EncodedRequest:
    """A request whose body is encoded already; `Connection.send` takes it as it takes kafka-python's."""

    name: str
    api_key: int
    version: int
    flexible: bool
    body: bytes
    _correlation_id: int = 0
    _client_id: str = ""

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self._correlation_id, self._client_id = correlation_id, client_id

    def encode(self, framed: bool, header: bool) -> bytes:
        assert framed, "there is no other form"
        assert header, "there is no other form"
        client = self._client_id.encode()
        tags = b"\0" if self.flexible else b""
        size = _HEADER.size - 4 + len(client) + len(tags) + len(self.body)
        start = _HEADER.pack(size, self.api_key, self.version, self._correlation_id, len(client))
        return b"".join((start, client, tags, self.body))


def encode_count(count: int, flexible: bool) -> bytes:
    """The count of an array's elements."""
    return encode_varint(count + 1) if flexible else struct.pack(">i", count)


def encode_text(text: str, flexible: bool) -> bytes:
    data = text.encode()
    return (encode_varint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data


def encode_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class FrameReader:
    """A position moving over one response frame. Raises ValueError, IndexError or struct.error where it makes no
    sense."""

    def __init__(self, frame: memoryview, flexible: bool, expected: int) -> None:
        self.frame = frame
        self.at = 0
        self.flexible = flexible
        correlation_id = self.number(">i")
        if correlation_id != expected:
            raise ValueError(f"it answers request {correlation_id}, not {expected}")
        self.tags()

    def number(self, layout: str) -> int:
        return int(self.numbers(layout)[0])

    def numbers(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.frame, self.at)
        self.at += struct.calcsize(layout)
        return values

    def count(self) -> int:
        """Elements of an array; null counts as none. Bounded by the bytes left, so that no count makes us loop long."""
        count = self.varint() - 1 if self.flexible else self.number(">i")
        if count > len(self.frame) - self.at:
            raise ValueError(f"an array of {count} elements in {len(self.frame) - self.at} bytes")
        return max(count, 0)

    def text(self) -> str:
        length = self.varint() - 1 if self.flexible else self.number(">h")
        return str(self.take(length), "utf-8")

    def data(self) -> memoryview:
        length = self.varint() - 1 if self.flexible else self.number(">i")
        return self.take(max(length, 0))

    def tags(self) -> None:
        """Step over the tagged fields; versions that are not flexible have none."""
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.take(self.varint())

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.frame[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError("a length of more than five bytes")

    def take(self, length: int) -> memoryview:
        if not 0 <= length <= len(self.frame) - self.at:
            raise ValueError(f"a field of {length} bytes where {len(self.frame) - self.at} are left")
        self.at += length
        return self.frame[self.at - length : self.at]
