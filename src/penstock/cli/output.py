"""Output of the command line, with control characters escaped.

Records, topics, groups, client ids and the brokers' errors are untrusted text. Printed unchanged, they could move the
cursor, set the window's title, reverse the direction of a line, or fake further lines. So every character that is not
printable is escaped, also in a pipe, whose content is often shown later.

`str.isprintable` decides by Unicode's categories. Not printable are control (Cc) and format characters (Cf:
bidirectional marks, zero width joiners), surrogates (Cs), private and unassigned ones (Co, Cn), separators of lines and
paragraphs (Zl, Zp), and blanks other than the space (Zs). So an emoji of several parts shows its joiners as \\u200d.
"""

from __future__ import annotations

import argparse
import enum
import json
import logging
import os
import shutil
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
    shown = text if isinstance(text, Painted) else printable_lines(text)
    print(shown, file=file or sys.stdout, flush=flush)


class Colour(enum.Enum):
    """Colours of a terminal, by their number in an escape sequence."""

    NONE = 0
    BOLD = 1
    RED = 31
    GREEN = 32
    YELLOW = 33


class ColourMode(enum.Enum):
    """The choices of --color. AUTO: on a terminal, unless the environment has NO_COLOR (https://no-color.org) or
    TERM=dumb."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def add_color_argument(parser: argparse.ArgumentParser, default: str, help_text: str) -> None:
    choices = [mode.value for mode in ColourMode]
    parser.add_argument("--color", choices=choices, default=default, metavar="WHEN", help=help_text)


_mode = ColourMode.AUTO


def set_colour_mode(mode: ColourMode) -> None:
    """Called once, with the argument of the command line."""
    global _mode
    _mode = mode


def shows_colours(file: IO[str]) -> bool:
    if _mode is not ColourMode.AUTO:
        return _mode is ColourMode.ALWAYS
    return file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Painted(str):
    """Text that is escaped already, and may contain colours."""

    __slots__ = ()


def painted(text: str, colour: Colour, file: IO[str]) -> Painted:
    """A text in a colour, if `file` shows colours."""
    escaped = printable(text)
    return Painted(
        f"\x1b[{colour.value}m{escaped}\x1b[0m" if colour is not Colour.NONE and shows_colours(file) else escaped
    )


def terminal_width(file: IO[str]) -> int | None:
    """The columns of the terminal; None if `file` is not one."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def number_or_dash(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def counted(count: int, noun: str) -> str:
    """1 offset, 2 offsets."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
