"""The loop of a contestant. Standard library only: rivals' environments have nothing else in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

PREFIX = "ANSWER "


def answer_orders(run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer orders until standard input ends, which it does when the runner is gone."""
    for line in sys.stdin:
        answer = run(json.loads(line))
        sys.stdout.write(f"{PREFIX}{json.dumps(answer)}\n")
        sys.stdout.flush()
