"""Keys as terminals send them."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from penstock.cli.top.keys import Keys, keys_in
from penstock.errors import PenstockError


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B\x1bOC", ["up", "down", "right"]),
        ("\x1b", ["escape"]),
        ("\x1b[5~\x1b[6~\x1b[H", ["page-up", "page-down", "home"]),
        ("a\rü\x7f", ["a", "enter", "ü", "backspace"]),
        ("\x1b[1;5A\x00\x02\x1b[", []),
        ("\x1bq", ["escape", "q"]),
    ],
)
def test_sequences_are_named_and_unknown_ones_dropped(sent, keys):
    assert keys_in(sent) == keys


def test_keys_come_one_by_one_and_the_terminal_is_restored():
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        before = termios.tcgetattr(theirs)
        with Keys(terminal) as keys:
            assert not termios.tcgetattr(theirs)[3] & termios.ECHO
            os.write(ours, b"ab\x1b[A")
            assert [keys.read(10) for _ in range(3)] == ["a", "b", "up"]
            assert keys.read(0) is None
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


def test_what_is_no_terminal_is_an_error(tmp_path):
    with (tmp_path / "file").open("w+") as file, pytest.raises(PenstockError, match="cannot be used"), Keys(file):
        pass
