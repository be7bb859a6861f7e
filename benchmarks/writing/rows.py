"""The rows that Spark generates for the write figures, as SQL over `id`: the same expressions for all sides."""

from __future__ import annotations

from benchmarks.programs.written_rows import COUNTRIES, EVENTS


def _choice(words: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"elt(cast(1 + id % {len(words)} as int), {listed})"


_USER = "concat('u', 1000000 + id * 7919 % 1000000)"

ROW = (
    f"{_USER} as key",
    f"""concat('{{"user":"', {_USER}, '","event":"', {_choice(EVENTS)}, '","item":', 10000 + id * 104729 % 80000,
    ',"country":"', {_choice(COUNTRIES)}, '","device":"mobile","ms":', 20 + id * 31 % 900, '}}') as value""",
)
"""A key of 8 bytes and a JSON text of about 94 bytes, like the records that the read figures read."""

ROW_BYTES = 101.6
"""Average size of key and value."""

_STRUCT = f"""named_struct(
    'id', id, 'user', {_USER}, 'page', concat('/catalogue/', {_choice(EVENTS)}, '/', 10000 + id * 104729 % 80000),
    'price', cast(100 + id * 31 % 90000 as double) / 100, 'time', 1767323045123 + 37 * id, 'returning', id % 3 = 0)"""

TYPED_ROW = (f"{_USER} as key", f"{_STRUCT} as value")
"""A struct of six fields."""

JSON_ROW = (f"{_USER} as key", f"to_json({_STRUCT}) as value")
"""The same as a JSON text, made by Spark."""

SIZE = "sum(length(key) + length(value))"
