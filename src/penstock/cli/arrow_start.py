"""Keeps pyarrow from importing pandas, which takes longer than a short command does otherwise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


def without_pandas() -> None:
    """Let pyarrow look for pandas once, and not find it.

    With the first Python value that pyarrow converts it imports pandas, if that is installed, to recognize its types:
    0.3 s of CPU time. Commands have no such values. A later `import pandas` and `to_pandas` work as ever.
    """
    if "pandas" in sys.modules:
        return
    refusal = _RefusesPandas()
    sys.meta_path.insert(0, refusal)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(refusal)


class _RefusesPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not looked for now", name=fullname)
