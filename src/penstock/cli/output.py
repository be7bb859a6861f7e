"""Output of the command line, with control characters escaped.

Records, topics, groups, client ids and the brokers' errors are untrusted text. Printed unchanged, they could move the
cursor, set the window's title, reverse the direction of a line, or fake further lines. So every character that is not
printable is escaped, also in a pipe, whose content is often shown later.

`str.isprintable` decides by Unicode's categories. Not printable are control (Cc) and format characters (Cf:
bidirectional marks, zero width joiners), surrogates (Cs), private and unassigned ones (Co, Cn), separators of lines and
paragraphs (Zl, Zp), and blanks other than the space (Zs). So an emoji of several parts shows its joiners as \\u200d.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import IO, Any


def printable(text: str) -> str:
    """Text for one line: characters that are not printable are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, which may contain tabs."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def json_text(value: Any) -> str:
    """One line of JSON. Characters that are not printable are written as \\u escapes, which JSON reads as the same."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    # Outside strings this JSON is printable ASCII: every character to escape is in a string.
    return "".join(c if c.isprintable() else _numbered(c) for c in text)


def _numbered(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def say(text: str = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Print one or several lines. All output of the commands goes through here."""
    print(printable_lines(text), file=file or sys.stdout, flush=flush)


def number_or_dash(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def counted(count: int, noun: str) -> str:
    """1 offset, 2 offsets."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
