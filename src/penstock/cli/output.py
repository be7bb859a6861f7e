"""What the command line says, with nothing in it that a terminal obeys.

Records, topics, groups, client ids and the brokers' errors are other people's text. Written as they are, they could
move the cursor, set the window's title, reverse the direction of a line, or begin a line of their own. So everything
that is not printable is escaped, also where the output is a pipe: what is piped is often shown later.

`str.isprintable` decides by Unicode's categories. Not printable are control (Cc) and format characters (Cf:
bidirectional marks, zero width joiners), surrogates (Cs), private and unassigned ones (Co, Cn), separators of lines and
paragraphs (Zl, Zp), and blanks other than the space (Zs). An emoji made of several thus shows its joiners as \\u200d.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import IO, Any


def printable(text: str) -> str:
    """A text for one line: all that is not printable is escaped as Python does it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, which may be indented by tabs."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def json_text(value: Any) -> str:
    """A line of JSON. Characters that are not printable stand in it by their numbers, which JSON reads as the same."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    # Outside of strings JSON is ASCII, and has no blanks but the space here: all that is left to escape is in strings.
    return "".join(c if c.isprintable() else _numbered(c) for c in text)


def _numbered(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def say(text: str = "", *, file: IO[str] | None = None, flush: bool = False) -> None:
    """Print one or several lines: all that a command has to say passes here."""
    print(printable_lines(text), file=file or sys.stdout, flush=flush)


class PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
