"""The request loop of a program. Standard library only, because it runs in every rival's environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

PREFIX = "ANSWER "


def serve_requests(run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer requests until standard input ends, which happens at the latest when the runner ends."""
    for line in sys.stdin:
        answer = run(json.loads(line))
        sys.stdout.write(f"{PREFIX}{json.dumps(answer)}\n")
        sys.stdout.flush()
