"""Random predicates, and rows with the values that are easy to get wrong. Spark and Penstock evaluate both."""

from __future__ import annotations

import functools
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from penstock.model.expression import ScopeColumn, Where
from penstock.model.types import TIMESTAMP, TIMESTAMP_NTZ, list_type, map_type, struct_type
from penstock.predicate.evaluate import evaluate
from penstock.predicate.parse import parse_where

INNER = struct_type({"n": pa.int32(), "Text": pa.string()})
TYPES: dict[str, pa.DataType] = {
    "tiny": pa.int8(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "price": pa.decimal128(10, 2),
    "s": pa.string(),
    "num": pa.string(),
    "raw": pa.binary(),
    "b": pa.bool_(),
    "ts": TIMESTAMP,
    "ntz": TIMESTAMP_NTZ,
    "day": pa.date32(),
    "st": struct_type({"n": pa.int32(), "inner": INNER}),
    "arr": list_type(INNER),
    "nums": list_type(pa.int64()),
    "m": map_type(pa.string(), pa.int32()),
    "byday": map_type(pa.int32(), pa.string()),
}

VALUES: dict[str, list[object]] = {
    "tiny": [-128, 127, 0, 1, -1, 5, None],
    "i": [0, 1, -1, 2, 7, 2**31 - 1, -(2**31), None],
    "l": [0, 1, -1, 2, 2**53 + 1, 2**63 - 1, -(2**63), None],
    "f": [0.0, -0.0, 1.5, 0.1, float("nan"), float("inf"), None],
    "d": [0.0, -0.0, 1.5, 0.1, 2.5, float("nan"), float("-inf"), 1e300, None],
    "price": [Decimal("1.50"), Decimal("0.00"), Decimal("-2.25"), Decimal("99999999.99"), Decimal("0.10"), None],
    "s": [
        "",
        "a",
        "abc",
        "ABC",
        "a%c",
        "a_c",
        "a\\c",
        "a\nb",
        "ab\n",
        "ab\r\n",
        "ab\r",
        "straße",
        "ΑΣ",
        "İx",
        "日本",
        None,
    ],
    "num": [
        "1",
        " 12 ",
        "+5",
        "-7",
        "1.5",
        "abc",
        "",
        "99999999999999999999",
        "1e3",
        "NaN",
        "inf",
        "true",
        "N",
        "0x1p3",
        None,
    ],
    "raw": [b"", b"abc", b"ABC", b"a\xff", b"A\xc3", b"\xe2\x82\x82", b"12", b"stra\xc3\x9fe", None],
    "b": [True, False, None],
    "ts": [datetime(2025, 1, 31, 12, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None],
    "ntz": [datetime(2025, 1, 31, 12), datetime(1970, 1, 1), None],
    "day": [date(2025, 1, 31), date(1969, 12, 31), None],
    "st": [
        {"n": 1, "inner": {"n": 2, "Text": "abc"}},
        {"n": None, "inner": None},
        {"n": 7, "inner": {"n": None}},
        None,
    ],
    "arr": [[], [{"n": 1, "Text": "a"}], [None, {"n": 2, "Text": None}], None],
    "nums": [[], [1], [1, None, 3], [5, 6, 7], None],
    "m": [[], [("k", 1)], [("k", None), ("x", 2)], [("x", 3)], None],
    "byday": [[], [(1, "a")], [(2, "b"), (1, None)], None],
}

SCOPE = {name: ScopeColumn(name, (), kind) for name, kind in TYPES.items()}


@functools.cache
def table(rows: int = 64) -> pa.Table:
    """Rows in which each value occurs, beside random others."""
    chance = random.Random(7)
    columns = []
    for name, kind in TYPES.items():
        cells = [VALUES[name][row % len(VALUES[name])] for row in range(rows)]
        chance.shuffle(cells)
        columns.append(pa.array(cells, kind))
    return pa.table(columns, schema=pa.schema(list(TYPES.items())))


def results(where: Where, data: pa.Table) -> list[bool | None]:
    """What Penstock makes of a predicate."""
    batch = data.combine_chunks().to_batches()[0]
    return evaluate(where.condition, batch.num_rows, batch.column).to_pylist()


def parsed(text: str) -> Where:
    return parse_where(text, SCOPE)


# --- random predicates ------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _one(texts: str) -> st.SearchStrategy[str]:
    """One of several texts, which two blanks separate."""
    return st.sampled_from([text.strip() for text in texts.split("  ") if text.strip()])


COMPARISONS = _one("=  ==  <>  !=  <  <=  >  >=  <=>")
WHOLE = _one("tiny  i  l  st.n  st.INNER.n  get(nums, 0)  get(nums, 2)  m['k']  m['x']  get(arr, 1).n")
WHOLE_LITERALS = _one("0  1  -1  2  7  127  -128Y  5S  2147483647  -2147483648  2147483648  3L  9007199254740993")
FRACTIONS = _one("f  d  try_cast(num AS DOUBLE)")
FRACTION_LITERALS = _one("0.0  1.5  -0.1  1.5D  1e-1  2.50  1e300  -0.0D  0.1D  .5")
BEYOND_LONG = st.just("123456789012345678901")
STRINGS = _one(
    "s  num  st.inner.text  byday[1]  get(arr, 0).Text  CAST(raw AS STRING)  raw::string  lower(s)  upper(s)  "
    "lower(raw)  UPPER(CAST(raw AS STRING))  cast(i as string)  cast(b AS STRING)"
)
BYTES = _one("s  raw  X'61FF'  cast(s AS BINARY)")
TEXTS = st.sampled_from(
    [text for name in ("s", "num") for text in VALUES[name] if isinstance(text, str)] + ["STRASSE", "ας", "12"]
).map(_quoted)
BOOLEANS = _one("b  true  false  try_cast(num AS BOOLEAN)  cast(i AS BOOLEAN)  (b IS TRUE)  (b IS NOT FALSE)")
LENGTHS = _one("length(s)  length(raw)  char_length(CAST(raw AS STRING))  length(lower(s))")
CASTS = _one(
    "try_cast(num AS INT)  try_cast(num AS BIGINT)  try_cast(l AS INT)  try_cast(d AS INT)  try_cast(d as bigint)  "
    "try_cast(i AS TINYINT)  cast(b AS INT)  cast(l AS DOUBLE)  cast(l AS FLOAT)  cast(d AS FLOAT)"
)
ANYTHING = st.sampled_from([*TYPES, "st.inner", "m['k']", "get(arr, 0)"])
TIMES = _one(
    "ts {} '2025-01-31T12:00:00Z'  ts {} TIMESTAMP '2025-01-31 13:00:00+01:00'  day {} DATE '2025-01-31'  "
    "day {} '1969-12-31'  ntz {} TIMESTAMP_NTZ '2025-01-31 12:00:00'  ntz {} '1970-01-01 00:00:00'  ts {} ts  "
    "day {} NULL"
)
LIKES = st.sampled_from(
    ["a%", "%c", "%b%", "a_c", "a\\%c", "a\\_c", "a\\\\c", "%", "_", "", "ab_", "ab__", "%ß%", "__", "日_", "%\n%"]
).map(_quoted)
REGEXES = st.sampled_from(
    [
        *("a", "^a", "c$", "^ab$", "b.", "a.b", "^a.c$", "[a-c]+", "[^a-z]", "(?i)ABC", "(?i)[x-z]|STRASSE", "a|b$"),
        *(r"\d+", r"^\s*\d", r"\.", "(ab)+$", "a{1,2}b?", "^$", r"\r", r"b\s", "ß|Σ", "^.*$", r"\W", r"b\r$", "x?"),
        *(r"[\d\s]$", r"^[^\w]*$", "b[\n]", r"\u00df", "(?:a|日)."),
    ]
).map(_quoted)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """A number without errors: operands are small, and divisors are constants."""
    match draw(st.integers(0, 7)):
        case 0:
            small = _one("length(s)  cast(tiny AS INT)  3  length(raw)  cast(cast(tiny AS SMALLINT) AS BIGINT)")
            return f"({draw(small)} {draw(_one('+  -  *'))} {draw(small)})"
        case 1:
            whole = st.one_of(WHOLE, LENGTHS, _one("try_cast(num AS INT)  try_cast(l AS INT)"))
            return f"({draw(whole)} {draw(_one('/  %  DIV'))} {draw(_one('2  -3  7L'))})"
        case 2:
            return f"({draw(_one('d  f'))} {draw(_one('+  -  *'))} {draw(st.one_of(FRACTIONS, _one('1.5D  2  0.5')))})"
        case 3:
            return draw(_one("-d  -length(s)  d / 4  f / 0.5D  - -1"))
        case _:
            return draw(st.one_of(WHOLE, WHOLE_LITERALS, FRACTIONS, LENGTHS, CASTS))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    """A predicate of the subset that no row makes an error."""
    if depth and draw(st.booleans()):
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        made = [f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})", f"{left} AND NOT {right}"]
        return draw(st.sampled_from(made))
    operator, negated = draw(COMPARISONS), draw(_one("IN  NOT IN"))
    match draw(st.integers(0, 11)):
        case 0 | 1:
            return f"{draw(numbers())} {operator} {draw(st.one_of(numbers(), WHOLE_LITERALS, FRACTION_LITERALS))}"
        case 2:
            others = st.one_of(WHOLE, WHOLE_LITERALS, FRACTION_LITERALS, FRACTIONS, BEYOND_LONG, st.just("price"))
            return f"price {operator} {draw(others)}"
        case 3:
            return f"{draw(STRINGS)} {operator} {draw(st.one_of(STRINGS, TEXTS))}"
        case 4:
            return f"raw {operator} {draw(st.one_of(TEXTS, BYTES))}"
        case 5:
            return draw(TIMES).format(operator)
        case 6:
            return f"{draw(st.one_of(STRINGS, st.just('raw')))} {draw(_one('LIKE  NOT LIKE'))} {draw(LIKES)}"
        case 7:
            word = draw(_one("RLIKE  NOT RLIKE  REGEXP"))
            return f"{draw(st.one_of(STRINGS, st.just('raw')))} {word} {draw(REGEXES)}"
        case 8:
            items = st.lists(st.one_of(WHOLE_LITERALS, FRACTION_LITERALS, st.just("NULL")), min_size=1, max_size=4)
            return f"{draw(st.one_of(WHOLE, FRACTIONS, st.just('price')))} {negated} ({', '.join(draw(items))})"
        case 9:
            items = st.lists(st.one_of(TEXTS, st.just("NULL"), STRINGS), min_size=1, max_size=4)
            return f"{draw(st.one_of(STRINGS, st.just('raw')))} {negated} ({', '.join(draw(items))})"
        case 10:
            high = draw(st.one_of(WHOLE_LITERALS, FRACTION_LITERALS))
            return f"{draw(numbers())} {draw(_one('BETWEEN  NOT BETWEEN'))} {draw(WHOLE_LITERALS)} AND {high}"
        case _:
            some, flag = draw(ANYTHING), draw(BOOLEANS)
            made = [f"{some} IS NULL", f"{some} IS NOT NULL", flag, f"{flag} <=> b", f"NOT {flag}", LIKE_WITH_ESCAPE]
            return draw(st.sampled_from(made))


LIKE_WITH_ESCAPE = "s LIKE 'a!_c' ESCAPE '!'"

ERRORS = {
    "cast(num AS INT) = 1": "CAST_INVALID_INPUT",
    "num = 1": "CAST_INVALID_INPUT",
    "num > 1.5D": "CAST_INVALID_INPUT",
    "cast(s AS BOOLEAN)": "CAST_INVALID_INPUT",
    "cast(i AS TINYINT) = 1": "CAST_OVERFLOW",
    "cast(d AS BIGINT) = 1": "CAST_OVERFLOW",
    "tiny + tiny = 1": "BINARY_ARITHMETIC_OVERFLOW",
    "i * 2 = 1": "ARITHMETIC_OVERFLOW",
    "-l = 1": "ARITHMETIC_OVERFLOW",
    "l DIV -1 = 1": "ARITHMETIC_OVERFLOW",
    "1 / i = 1": "DIVIDE_BY_ZERO",
    "d / 0 = 1": "DIVIDE_BY_ZERO",
    "i % i = 0": "REMAINDER_BY_ZERO",
    "nums[0] = 1": "INVALID_ARRAY_INDEX",
    "i = 0 OR 1 / i < 0 OR d / 0 > 1": "DIVIDE_BY_ZERO",
}
"""Predicates that some row makes an error, and Spark's name of the error."""

SHORT_CIRCUITS = (
    "i <> 0 AND 1 / i >= 0",
    "i = 0 OR 7 % i = 0",
    "i IS NULL OR i = 0 OR i = -2147483648 OR 10 / i > -1 / i",
    "b AND false AND cast(num AS INT) = 1",
    "num RLIKE '^[0-9]+$' AND length(num) < 9 AND cast(num AS INT) < 5",
    "cast(NULL AS INT) + cast(num AS INT) = 1",
    "cast(NULL AS INT) / 0 = 1",
    "cast(NULL AS INT) = cast(num AS INT)",
    "cast(NULL AS STRING) IN (num, s)",
)
"""Predicates without an error, because Spark does not evaluate the part that would be one."""
