"""Topic names by regular expression, in time that grows with the length of the names. Pure.

The pattern is the user's, the names are not: any principal that may create a topic chooses one. Python's `re`
backtracks, and holds the GIL while it does: `.*-.*-.*-.*-events` took 90 s for one name of 249 dashes, `([a-z]+-?)+$`
does not end. So patterns go to RE2, which comes with pyarrow and takes linear time. Its dialect differs from those of
`re` and Java: a pattern goes there only if all of its parts mean the same in all three. Others, such as patterns with
look-behind or back-references, are matched by `re`.
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
    """The topics in whose name a valid pattern is found."""
    names = list(topics)
    both = _for_re2(pattern) if names else None
    if both is None:
        found = re.compile(pattern)
        return {name for name in names if found.search(name) is not None}
    wanted, unwanted = both
    return _matching(wanted, names) - (set() if unwanted is None else _matching(unwanted, names))


def _matching(pattern: str, names: list[str]) -> set[str]:
    import pyarrow as pa
    import pyarrow.compute as pc  # 50 ms, only for those that subscribe to a pattern

    found = pc.match_substring_regex(pa.array(names, pa.string()), pattern)
    return {name for name, is_found in zip(names, found.to_pylist(), strict=True) if is_found}


@lru_cache(maxsize=64)
def _for_re2(pattern: str) -> tuple[str, str | None] | None:
    """The same for RE2: a pattern to be found, and one that must not be. None: only `re` knows what it means.

    Decided by the pattern alone, never by a name: a name must not choose the engine.
    """
    options = _IGNORE_CASE if pattern.startswith(_IGNORE_CASE) else ""
    rest = pattern.removeprefix(options)
    unwanted: str | None = None
    if rest.startswith(_NOT):
        # "Begins with A, but not with B", as ^(?!B)A: the one look-around that filters on topics are made of.
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
    except ValueError:  # pyarrow's ArrowInvalid: more repetitions than RE2 takes, perhaps
        return None
    return options + rest, unwanted


def _tokens(pattern: str) -> list[str] | None:
    """The parts of a pattern that means the same everywhere; None for other patterns."""
    tokens = _TOKEN.findall(pattern)
    return tokens if sum(map(len, tokens)) == len(pattern) else None


def _closing(tokens: list[str]) -> int | None:
    """Where the group ends inside of which these tokens begin."""
    return next((at for at, depth in enumerate(_depths(tokens)) if depth < 0), None)


def _has_outer_or(tokens: list[str]) -> bool:
    return ("|", 0) in zip(tokens, _depths(tokens), strict=True)


def _depths(tokens: list[str]) -> Iterable[int]:
    """How many groups are open after each token."""
    return accumulate({"(": 1, "(?:": 1, ")": -1}.get(each, 0) for each in tokens)
