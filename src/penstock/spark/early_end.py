"""Ends a task without a traceback on the terminal when Spark has enough rows, as for `show` and `limit`.

Spark closes the connection to a worker as soon as it needs no more rows. The worker's next write fails, which ends the
task and the worker: PySpark stops every Python source in this way. The daemon's last step in such a worker is to flush
that connection. Since PySpark 4.1 it prints the error of this flush with its traceback, and then ends the worker.
"""

from __future__ import annotations

import builtins
import sys
import traceback
from types import SimpleNamespace
from typing import Any

DAEMON = "pyspark.daemon"


def expect_early_end() -> None:
    """Leave a closed connection out of what PySpark's daemon prints in this worker.

    Only the two names by which the daemon's own module prints are replaced, in the forked worker. The user's program is
    not such a process, so nothing changes there.
    """
    for name in ("__main__", DAEMON):
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.name == DAEMON:
            vars(module).update(
                print=_print, traceback=SimpleNamespace(**vars(traceback) | {"print_exc": _print_traceback})
            )


def _is_early_end() -> bool:
    """Whether the caller is handling the error of a connection that Spark has closed."""
    return isinstance(sys.exception(), BrokenPipeError | ConnectionResetError)


def _print(*values: Any, **named: Any) -> None:
    if not _is_early_end():
        builtins.print(*values, **named)  # noqa: T201


def _print_traceback(*values: Any, **named: Any) -> None:
    if not _is_early_end():
        traceback.print_exc(*values, **named)
