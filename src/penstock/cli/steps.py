"""Progress of a program of several steps: an animated line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

from penstock.cli import table
from penstock.progress import can_move

WHEEL = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
BAR = 24
TICK = 0.1
PLAIN_TICK = 5.0
"""For output that is not a terminal, such as a CI log."""


class Step:
    """A running step. The working thread sets `done` and `total`; another thread draws it."""

    def __init__(self, text: str, unit: str) -> None:
        self.text = text
        self.unit = unit
        self.done = 0
        self.total = 0
        self.note = ""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def status(self) -> str:
        if not self.total:
            return f"{self.text} ({self.seconds:.0f} s)"
        share = min(self.done / self.total, 1)
        filled = round(share * BAR)
        return f"{self.text} {'█' * filled}{'░' * (BAR - filled)} {share:.0%}, {self.done:,} {self.unit}"

    def result(self) -> str:
        return f"{self.text} ({self.seconds:.1f} s{', ' + self.note if self.note else ''})"


@contextlib.contextmanager
def step(text: str, unit: str = "") -> Iterator[Step]:
    """Show a step while the block runs, and how long it took."""
    current = Step(text, unit)
    moving = can_move(sys.stdout)
    ended = threading.Event()

    def draw() -> None:
        turn = 0
        while not ended.wait(TICK if moving else PLAIN_TICK):
            if moving:
                # Cut to the width: a line that wraps cannot be overwritten, and would scroll the window at every tick.
                [line] = table.lines(
                    [f"{WHEEL[turn % len(WHEEL)]} {current.status()}"], [], width=shutil.get_terminal_size().columns
                )
                print(f"\r\x1b[K{line}", end="", flush=True)
            else:
                print(f"  ... {current.status()}", flush=True)
            turn += 1

    drawing = threading.Thread(target=draw, name="penstock-progress", daemon=True)
    drawing.start()
    try:
        yield current
    except BaseException:
        ended.set()
        drawing.join()
        print(f"\r\x1b[K✗ {current.text}" if moving else f"✗ {current.text}", flush=True)
        raise
    ended.set()
    drawing.join()
    print(f"{chr(13)}\x1b[K" * moving + f"✓ {current.result()}", flush=True)
