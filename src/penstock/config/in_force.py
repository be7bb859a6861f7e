"""The versions and options in force, as one line of the log shows them when a read or a write starts (H18)."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

Shown: TypeAlias = tuple[tuple[str, str], ...]
"""Options as their user wrote them. Secrets are masked, long texts are cut."""

PACKAGES = ("penstock", "pyspark", "pyarrow")


def versions() -> str:
    """`penstock 0.1.0, pyspark 4.3.0, pyarrow 21.0.0, Python 3.11.9`. A package that is not installed is left out."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {platform.python_version()}"])


def options_text(shown: Shown) -> str:
    return ", ".join(f"{name}={value}" for name, value in shown)
