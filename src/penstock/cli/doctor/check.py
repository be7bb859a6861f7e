"""The result of one check of `penstock doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    check: str
    state: State
    found: str
    remedy: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warning(name: str, found: str, remedy: str) -> Check:
    return Check(name, "warning", found, remedy)


def failed(name: str, found: object, remedy: str = "") -> Check:
    """`found` may be an error of Penstock, whose text ends with its remedy."""
    return Check(name, "failed", str(found), remedy)


def skipped(name: str, found: str, remedy: str = "") -> Check:
    return Check(name, "skipped", found, remedy)
