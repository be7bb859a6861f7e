"""`python -m tools.docs`: rewrite generated tables and figures in place."""

from __future__ import annotations

import sys

from tools.docs.charts import FIGURES
from tools.docs.pages import PARTS, ROOT, generated


def main() -> int:
    for file in PARTS:
        _write(file, generated(file, (ROOT / file).read_text("utf-8")))
    for file, draw in FIGURES.items():
        _write(file, draw())
    return 0


def _write(file: str, new: str) -> None:
    path = ROOT / file
    old = path.read_text("utf-8") if path.exists() else None
    if new != old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, "utf-8")
    print(f"{file}: {'up to date' if new == old else 'written'}")


if __name__ == "__main__":
    sys.exit(main())
