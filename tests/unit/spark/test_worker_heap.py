"""Workers of Spark exclude their modules from garbage collection; programs of users do not."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import gc
from penstock.spark.worker_heap import freeze_heap
freeze_heap()
print(gc.get_freeze_count() > 0)
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
freeze_heap()
print(gc.get_freeze_count() == first)
"""


@pytest.mark.parametrize("variable", ["PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR"])
def test_a_worker_freezes_its_heap_once(variable: str) -> None:
    assert _run({variable: "x"}) == ["True", "True"]


def test_the_heap_of_a_users_program_is_left_alone() -> None:
    assert _run({}) == ["False", "True"]


def _run(environment: dict[str, str]) -> list[str]:
    # A process of its own: a frozen heap stays frozen, and the modules of a user's program are not to be frozen.
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()
