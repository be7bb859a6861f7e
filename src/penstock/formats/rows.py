"""Converts Python dicts to a struct column, and explains why one does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.types import ddl_of

Check: TypeAlias = Callable[[Sequence[Any]], None]
"""Raises ValueError if one of the values does not fit."""

SHOWN = 40


def struct_array(rows: Sequence[dict[str, Any]], type_: pa.StructType, check: Check | None) -> pa.StructArray:
    """A row for each dict. Keys that the type does not have are dropped; missing keys are null."""
    if check is not None:
        check(rows)
    return pa.array(rows, type_)


def fraction_check(type_: pa.DataType) -> Check | None:
    """A check for fractions in columns of whole numbers or times; None if the type has no such column. Arrow silently
    converts 1.5 to 1, and a float of seconds to microseconds.

    It checks the types of a whole column at once: value by value costs as much as everything else together.
    """
    if pa.types.is_integer(type_):
        return _check_whole
    if pa.types.is_timestamp(type_):
        return _check_times
    if pa.types.is_struct(type_):
        checks = [(field.name, check) for field in type_ if (check := fraction_check(field.type))]
        return _check_struct(checks) if checks else None
    if pa.types.is_map(type_):
        key, value = fraction_check(type_.key_type), fraction_check(type_.item_type)
        return _check_map(key, value) if key or value else None
    if pa.types.is_list(type_):
        element = fraction_check(type_.value_type)
        return _check_list(element) if element else None
    return None


USUAL = {int, type(None)}


def _check_whole(values: Sequence[Any]) -> None:
    if not set(map(type, values)) <= USUAL:
        for value in values:
            if not isinstance(value, int | None) and int(value) != value:
                raise ValueError(f"{value!r} is not a whole number")


def _check_times(values: Sequence[Any]) -> None:
    # Floats of time.time() are seconds, but Arrow would take them for microseconds.
    if any(issubclass(kind, float) for kind in set(map(type, values))):
        raise ValueError("a float is not a time: convert it to a datetime")


def _check_struct(checks: Sequence[tuple[str, Check]]) -> Check:
    def check_struct(rows: Sequence[Any]) -> None:
        for name, check in checks:
            check([row.get(name) for row in rows if row is not None])

    return check_struct


def _check_map(key: Check | None, value: Check | None) -> Check:
    def check_map(maps: Sequence[Any]) -> None:
        pairs = [pair for each in maps if each for pair in (each.items() if isinstance(each, dict) else each)]
        for at, check in enumerate((key, value)):
            if check is not None:
                check([pair[at] for pair in pairs])

    return check_map


def _check_list(element: Check) -> Check:
    def check_list(lists: Sequence[Any]) -> None:
        element([value for each in lists if each is not None for value in each])

    return check_list


PARTS = 16


def misfits(rows: Sequence[dict[str, Any]], type_: pa.StructType) -> dict[int, str]:
    """The rows that do not fit, and the reasons. Arrow does not name the row: this bisects each column."""
    found: dict[int, str] = {}
    for field in type_:
        values = [row.get(field.name) for row in rows]
        check = fraction_check(field.type)
        ranges = [(0, len(values))]
        while ranges:
            start, stop = ranges.pop()
            try:
                _try(values[start:stop], field.type, check)
            except Exception:
                if stop - start == 1:
                    found.setdefault(start, misfit(values[start], field.type, field.name))
                else:
                    step = -(-(stop - start) // PARTS)
                    ranges += [(at, min(at + step, stop)) for at in range(start, stop, step)]
    return found


def _try(values: Sequence[Any], type_: pa.DataType, check: Check | None) -> None:
    if check is not None:
        check(values)
    pa.array(values, type_)


def misfit(value: Any, type_: pa.DataType, path: str = "") -> str:
    """Why a value does not fit a type, with the innermost field; "" if it fits."""
    try:
        _try([value], type_, fraction_check(type_))
    except Exception as error:
        inner = next(
            (reason for part, kind, name in _parts(value, type_) if (reason := misfit(part, kind, path + name))), ""
        )
        return inner or _reason(value, type_, path, error)
    return ""


def _parts(value: Any, type_: pa.DataType) -> list[tuple[Any, pa.DataType, str]]:
    if pa.types.is_struct(type_) and isinstance(value, dict):
        return [(value.get(field.name), field.type, f".{field.name}") for field in type_]
    if pa.types.is_map(type_) and isinstance(value, dict):
        keys = [(key, type_.key_type, ".key") for key in value]
        return keys + [(item, type_.item_type, f"[{key!r}]") for key, item in value.items()]
    if pa.types.is_list(type_) and isinstance(value, list | tuple):
        return [(item, type_.value_type, f"[{at}]") for at, item in enumerate(value)]
    return []


def _reason(value: Any, type_: pa.DataType, path: str, error: Exception) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."
    ddl = ddl_of(pa.list_(type_))[len("ARRAY<") : -1]
    # Arrow's own message, if it says more than that the types differ.
    more = "" if isinstance(error, TypeError) else f" ({str(error)[:120]})"
    return f"field {path.removeprefix('.')}: {shown} of type {type(value).__name__} does not fit {ddl}{more}"
