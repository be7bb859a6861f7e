"""Reads and writes the primitive types of Kafka's protocol.

Flexible versions of an API have compact lengths (the length plus one, as a varint) and tagged fields. Older versions
have lengths of a fixed size. Bytes from the network are hostile: each length and count is checked against the bytes
that are left.
"""

from __future__ import annotations

import struct

READ_ERRORS = (struct.error, IndexError, ValueError)
"""What a FrameReader raises for bytes that make no sense."""


def encode_count(count: int, flexible: bool) -> bytes:
    """The count of an array's elements."""
    return encode_varint(count + 1) if flexible else struct.pack(">i", count)


def encode_text(text: str, flexible: bool) -> bytes:
    data = text.encode()
    return (encode_varint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data


def encode_nullable_text(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    return encode_text(text, flexible)


def encode_length(length: int, flexible: bool) -> bytes:
    """The length of bytes."""
    return encode_varint(length + 1) if flexible else struct.pack(">i", length)


def encode_varint(number: int) -> bytes:
    if 0 <= number <= 0x7F:  # nearly always
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class FrameReader:
    """A position that moves over the bytes of one message. Raises READ_ERRORS for bytes that make no sense."""

    def __init__(self, frame: memoryview, flexible: bool) -> None:
        self.frame = frame
        self.at = 0
        self.flexible = flexible
        self.last_tags: dict[int, memoryview] = {}
        """The tagged fields that were read last, by their numbers: after a whole message, its own."""

    def response_header(self, expected: int, *, tagged: bool = True) -> None:
        """Read the header of a response: the correlation id, which must be the expected one, and tagged fields."""
        correlation_id = self.number(">i")
        if correlation_id != expected:
            raise ValueError(f"it answers request {correlation_id}, not {expected}")
        if tagged:
            self.tags()

    def number(self, layout: str) -> int:
        return int(self.numbers(layout)[0])

    def numbers(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.frame, self.at)
        self.at += struct.calcsize(layout)
        return values

    def compiled(self, layout: struct.Struct) -> tuple[int, ...]:
        """Numbers that follow each other, for messages that are read often."""
        values = layout.unpack_from(self.frame, self.at)
        self.at += layout.size
        return values

    def count(self, least: int = 1) -> int:
        """The count of an array's elements, each of which has at least `least` bytes. A null array has none."""
        count = self.varint() - 1 if self.flexible else self.number(">i")
        if count * least > len(self.frame) - self.at:
            raise ValueError(f"an array of {count} elements in {len(self.frame) - self.at} bytes")
        return max(count, 0)

    def text(self) -> str:
        return str(self.take(self._text_length()), "utf-8")

    def nullable_text(self) -> str | None:
        length = self._text_length()
        return None if length == -1 else str(self.take(length), "utf-8")

    def _text_length(self) -> int:
        return self.varint() - 1 if self.flexible else self.number(">h")

    def data(self) -> memoryview:
        """Bytes; null counts as empty."""
        length = self.varint() - 1 if self.flexible else self.number(">i")
        return self.take(max(length, 0))

    def tags(self) -> None:
        """Read the tagged fields into `last_tags`; versions that are not flexible have none."""
        if not self.flexible:
            return
        if self.last_tags:
            self.last_tags = {}
        if self.frame[self.at] == 0:  # as in nearly all messages
            self.at += 1
            return
        for _ in range(self.varint()):
            number = self.varint()
            self.last_tags[number] = self.take(self.varint())

    def varint(self) -> int:
        byte = self.frame[self.at]
        if byte < 0x80:  # nearly always
            self.at += 1
            return byte
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
