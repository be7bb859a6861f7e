"""Patterns of LIKE and RLIKE, translated to RE2, which Arrow searches with.

Spark searches with Java's regular expressions. Most of their syntax means the same in RE2, but some of it means
something else, silently: `.` and `$` know more line ends in Java, `\\s` includes the vertical tab, `[a&&b]` is an
intersection. So a pattern is read here, each part is written as the RE2 pattern with Java's meaning, and a part that is
not known is refused.

`$` is the one part without an equal. In Java it also matches before a line end at the end of the string, but not
between CR and LF. It is translated at the end of a pattern, in two ways: for strings that end with CR LF, and for
others.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

LINE_END = r"\n\r\x{85}\x{2028}\x{2029}"
DIGIT, WORD, SPACE = "0-9", "0-9A-Z_a-z", r"\t\n\x{b}\f\r "
CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
PUNCTUATION = frozenset(string.punctuation)

DOLLAR = "\0"
"""Stands for `$` until both translations are written: a pattern cannot contain it otherwise."""


class Patterns(NamedTuple):
    """A pattern of RE2."""

    usual: str
    before_line_end: str | None
    """For strings that end with CR LF; None: the same."""


def like(pattern: str, escape: str = "\\") -> Patterns:
    """The pattern of LIKE. Raises ValueError as Spark does."""
    parts = [r"(?s)\A"]
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            after = next(rest, None)
            if after is None:
                raise ValueError("the escape character stands at the end")
            if after not in ("_", "%", escape):
                raise ValueError(f"the escape character stands before {after!r}; only _, % and itself can be escaped")
            parts.append(_quoted(after))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or _quoted(character))
    return _checked(Patterns("".join(parts) + r"\z", None))


def rlike(pattern: str) -> Patterns:
    """The pattern of RLIKE. Raises ValueError for a part that is not supported."""
    translated = _Translation(pattern).whole()
    if DOLLAR not in translated:
        return _checked(Patterns(translated, None))
    usual, before = (translated.replace(DOLLAR, end) for end in (rf"[{LINE_END}]?\z", r"(?:\r\n)?\z"))
    return _checked(Patterns(usual, before))


def _checked(patterns: Patterns) -> Patterns:
    """Compile the patterns: RE2 has limits, of repetitions and of its program's size."""
    for each in patterns:
        try:
            if each is not None:
                pc.match_substring_regex(pa.array([""]), pattern=each)
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from None
    return patterns


def _quoted(character: str) -> str:
    if character == "\0" or not character.isprintable():
        return rf"\x{{{ord(character):x}}}"
    return "\\" + character if character in PUNCTUATION else character


class _Translation:
    """Reads a pattern of Java and writes one of RE2."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignores_case = False

    def whole(self) -> str:
        if self._pattern.startswith("(?i)"):
            self._ignores_case = True
            self._at = 4
        translated = self._alternatives(depth=0)
        if self._at < len(self._pattern):
            raise self._error("a closing parenthesis without an opening one")
        return translated

    # Each method reads its part from the current position on, and returns the part in RE2.

    def _alternatives(self, depth: int) -> str:
        if depth > 50:
            raise self._error("groups are nested too deeply")
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        return "|".join(branches)

    def _sequence(self, depth: int) -> str:
        parts = []
        while (character := self._peek()) not in ("", "|", ")"):
            if character == "$":
                self._at += 1
                if self._peek() not in ("", "|") or depth:
                    raise self._error("$ is supported only at the end of the pattern or of one of its alternatives")
                parts.append(DOLLAR)
                break
            if character == "^":
                self._at += 1
                parts.append(r"\A")
                if self._peek() in ("*", "+", "?", "{"):
                    raise self._error("a quantifier after ^")
                continue
            parts.append(self._item(depth) + self._quantifier())
        return "".join(parts)

    def _item(self, depth: int) -> str:
        character = self._next()
        match character:
            case ".":
                return f"[^{LINE_END}]"
            case "[":
                return self._class()
            case "(":
                if self._peek() == "?":
                    self._at += 1
                    if not self._take(":"):
                        raise self._error(
                            "of the groups that begin with (? only (?:...) is supported, and (?i) at the start"
                        )
                inner = self._alternatives(depth + 1)
                if not self._take(")"):
                    raise self._error("a closing parenthesis is missing")
                return f"(?:{inner})"
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{" | "]" | "}":
                self._at -= 1
                raise self._error(f"{character} without anything before it, or not escaped")
        return self._literal(character)

    def _quantifier(self) -> str:
        character = self._peek()
        if character in ("*", "+", "?"):
            self._at += 1
            quantifier = character
        elif found := re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}").match(self._pattern, self._at):
            self._at = found.end()
            quantifier = found[0]
        else:
            return ""
        if self._take("?"):
            quantifier += "?"
        if self._peek() in ("*", "+", "?", "{"):
            raise self._error("possessive and repeated quantifiers are not supported")
        return quantifier

    def _escape(self) -> str:
        character = self._peek()
        if character.lower() in CLASSES and character:
            self._at += 1
            return f"[{'^' if character.isupper() else ''}{CLASSES[character.lower()]}]"
        return self._literal(self._escaped())

    def _escaped(self) -> str:
        """The character that an escape means, in a class or outside. The backslash is read already."""
        character = self._next()
        if character in CONTROLS:
            return CONTROLS[character]
        if character in PUNCTUATION:
            return character
        if character in ("u", "x"):
            digits = self._pattern[self._at : self._at + (4 if character == "u" else 2)]
            if re.fullmatch(r"[0-9a-fA-F]{4}" if character == "u" else r"[0-9a-fA-F]{2}", digits):
                self._at += len(digits)
                if not 0xD800 <= int(digits, 16) < 0xE000:
                    return chr(int(digits, 16))
        self._at -= 1
        raise self._error(f"\\{character} is not supported")

    def _literal(self, character: str) -> str:
        if self._ignores_case and character in string.ascii_letters:
            return f"[{character.lower()}{character.upper()}]"
        return _quoted(character)

    def _class(self) -> str:
        """A class of characters; the opening bracket is read already."""
        negated = self._take("^")
        parts: list[str] = []
        if self._peek() in ("]", ""):
            raise self._error("an empty class, or a ] in a class that is not escaped")
        while not self._take("]"):
            if self._peek() == "\\" and self._pattern[self._at + 1 : self._at + 2].lower() in tuple(CLASSES):
                self._at += 1
                if (name := self._next()).isupper():
                    raise self._error(f"\\{name} in a class is not supported")
                parts.append(CLASSES[name])
                continue
            low = high = self._member()
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                if self._peek() == "\\" and self._pattern[self._at + 1 : self._at + 2].lower() in tuple(CLASSES):
                    raise self._error("a range to a class")
                high = self._member()
                if high < low:
                    raise self._error("a range whose end comes before its start")
            parts.append(self._range(low, high))
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _member(self) -> str:
        character = self._next()
        if character == "\\":
            return self._escaped()
        if character == "[" or (character == "&" and self._peek() == "&"):
            self._at -= 1
            raise self._error("classes within classes are not supported")
        return character

    def _range(self, low: str, high: str) -> str:
        text = _ranged(low, high)
        if self._ignores_case:
            for letters, other in ((string.ascii_lowercase, str.upper), (string.ascii_uppercase, str.lower)):
                first, last = max(low, letters[0]), min(high, letters[-1])
                if first <= last:
                    text += _ranged(other(first), other(last))
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise self._error("the pattern ends too early")
        self._at += 1
        return character

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"the regular expression {self._pattern!r}, character {self._at + 1}: {reason}")


def _ranged(low: str, high: str) -> str:
    return _quoted(low) if low == high else f"{_quoted(low)}-{_quoted(high)}"
