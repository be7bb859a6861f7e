"""Reads which principals a keytab has keys of, for errors. The keys themselves are skipped."""

from __future__ import annotations

import struct
from pathlib import Path

_MAGIC = b"\x05\x02"
_LARGEST = 1 << 20
"""Bytes of a keytab that are read: one key takes about 80."""


class NotAKeytab(ValueError):
    """The file has another content, or is damaged."""


def principals_in(path: Path) -> tuple[str, ...]:
    """The principals of a keytab, each once. Raises OSError and NotAKeytab."""
    with path.open("rb") as file:
        return principals(file.read(_LARGEST))


def principals(content: bytes) -> tuple[str, ...]:
    if content[:2] != _MAGIC:
        raise NotAKeytab("it is not a keytab")
    found: dict[str, None] = {}
    at = 2
    try:
        while at + 4 <= len(content):
            (size,) = struct.unpack_from(">i", content, at)
            at += 4
            if size > 0:
                found[_principal(content[at : at + size])] = None
            elif size == 0:
                break
            at += abs(size)  # negative: the place of an entry that was deleted
    except struct.error:
        raise NotAKeytab("it is damaged") from None
    return tuple(found)


def _principal(entry: bytes) -> str:
    (components,) = struct.unpack_from(">H", entry)
    texts, at = [], 2
    for _ in range(components + 1):  # the realm first
        (length,) = struct.unpack_from(">H", entry, at)
        text = entry[at + 2 : at + 2 + length]
        if len(text) < length:
            raise NotAKeytab("it is damaged")
        texts.append(text.decode("utf-8", "replace"))
        at += 2 + length
    realm, *names = texts
    return f"{'/'.join(names)}@{realm}"
