"""Matches topic names with a regular expression, in time linear in the length of the names. Pure.

The user chooses the pattern, but any principal that may create a topic chooses a name. Python's `re` backtracks and
holds the GIL: `.*-.*-.*-.*-events` took 90 s for one name of 249 dashes, `([a-z]+-?)+$` does not end. RE2, which comes
with pyarrow, takes linear time. Its dialect differs from those of `re` and Java, so RE2 gets only patterns that mean
the same in all three. `re` matches the others, such as patterns with look-behind or back-references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

_ESCAPED = r"\\[dDwWsS.\-^$|*+?(){}\[\]\\/]"
_TOKEN = re.compile(
    rf"""
      [A-Za-z0-9_.^$|/:,=@~!%&;'"<>\#\ -]                 # literals, any character, anchors, "or"
    | {_ESCAPED} | \\[bB]
    | \((?!\?) | \(\?: | \)                               # groups
    | (?: [*+?] | \{{\d{{1,3}}(?:,\d{{0,3}})?\}} ) \?? (?![*+?{{])   # repetitions, also lazy; not possessive
    | \[\^? (?: [A-Za-z0-9_.$*+?()/:,=@!%;'"<>\#\ ] | -(?!-) | {_ESCAPED} )+ \]   # sets; not of sets
    """,
    re.VERBOSE | re.ASCII,
)
_IGNORE_CASE = "(?i)"
_NOT = "^(?!"
_REPETITIONS = ("*", "+", "?", "{")


def matching(pattern: str, topics: Iterable[str]) -> set[str]:
    """The topics whose name contains a match of a valid pattern."""
    names = list(topics)
    both = _for_re2(pattern) if names else None
    if both is None:
        found = re.compile(pattern)
        return {name for name in names if found.search(name) is not None}
    wanted, unwanted = both
    return _matching(wanted, names) - (set() if unwanted is None else _matching(unwanted, names))


def means_the_same_everywhere(pattern: str) -> bool:
    """Whether RE2, Java and Python match the same names with a pattern."""
    both = _for_re2(pattern)
    return both is not None and both[1] is None


def _matching(pattern: str, names: list[str]) -> set[str]:
    import pyarrow as pa
    import pyarrow.compute as pc  # 50 ms, only if a query subscribes to a pattern

    found = pc.match_substring_regex(pa.array(names, pa.string()), pattern)
    return {name for name, is_found in zip(names, found.to_pylist(), strict=True) if is_found}


@lru_cache(maxsize=64)
def _for_re2(pattern: str) -> tuple[str, str | None] | None:
    """The pattern for RE2: one that must match, and one that must not. None if only `re` can match it.

    The pattern alone decides: a topic name must not choose the engine.
    """
    options = _IGNORE_CASE if pattern.startswith(_IGNORE_CASE) else ""
    rest = pattern.removeprefix(options)
    unwanted: str | None = None
    if rest.startswith(_NOT):
        # ^(?!B)A, "starts with A, but not with B": the one look-around that is common in filters on topics.
        inner = _tokens(rest.removeprefix(_NOT)) or []
        end = _closing(inner)
        if end is None or _has_outer_or(inner[end + 1 :]) or "".join(inner[end + 1 :]).startswith(_REPETITIONS):
            return None
        unwanted = f"{options}^(?:{''.join(inner[:end])})"
        rest = "^" + "".join(inner[end + 1 :])
    if _tokens(rest) is None:
        return None
    try:
        for each in (options + rest, unwanted):
            if each is not None:
                _matching(each, [""])
    except ValueError:  # pyarrow's ArrowInvalid: perhaps more repetitions than RE2 allows
        return None
    return options + rest, unwanted


def _tokens(pattern: str) -> list[str] | None:
    """The tokens of a pattern that means the same in all dialects; None for other patterns."""
    tokens = _TOKEN.findall(pattern)
    return tokens if sum(map(len, tokens)) == len(pattern) else None


def _closing(tokens: list[str]) -> int | None:
    """The index of the token that closes the group in which these tokens start."""
    return next((at for at, depth in enumerate(_depths(tokens)) if depth < 0), None)


def _has_outer_or(tokens: list[str]) -> bool:
    return ("|", 0) in zip(tokens, _depths(tokens), strict=True)


def _depths(tokens: list[str]) -> Iterable[int]:
    """How many groups are open after each token."""
    return accumulate({"(": 1, "(?:": 1, ")": -1}.get(each, 0) for each in tokens)
