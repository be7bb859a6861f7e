"""Checks that Spark's Python workers run the interpreter of this program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql.utils import is_remote

from penstock.masking import get_logger

log = get_logger(__name__)


def warn_of_other_python() -> None:
    """Warn with one sentence if the workers run another interpreter. Spark's own error takes 182 lines, and names no
    interpreter. For the driver's program; the workers of a Connect session are on the server."""
    if not is_remote() and (advice := other_python(os.environ, sys.executable)) is not None:
        log.warning(advice)


def other_python(environment: Mapping[str, str], executable: str) -> str | None:
    """What to do about workers that run another interpreter; None if they do not, or if the user has chosen one.

    Spark takes `python3` from the PATH unless PYSPARK_PYTHON is set. In an environment that is not activated, as in
    cron and some IDEs, that is the system's.
    """
    if "PYSPARK_PYTHON" in environment:
        return None
    found = shutil.which("python3", path=environment.get("PATH"))
    if found is not None and Path(found).parent == Path(executable).parent:
        return None
    where = "no python3 is in the PATH" if found is None else f"Spark's Python workers run {found}, not {executable}"
    return f"{where}: set PYSPARK_PYTHON={executable} before the session starts, or activate the environment"
