"""The pictures of docs/figures can be taken, and look as they should in numbers; people look at them by eye."""

from __future__ import annotations

import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from fixtures.page import needs_browser

ROOT = Path(__file__).resolve().parents[3]
FIGURES = ROOT / "docs" / "figures"
PAGES = ("watch-group.png", "watch-overview.png", "watch-queries.png", "watch-query.png", "watch-records.png")

pytestmark = [pytest.mark.extended, pytest.mark.broker, pytest.mark.timeout(600)]


def size_of(path):
    """Width and height of a PNG."""
    with path.open("rb") as file:
        head = file.read(24)
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:])


def test_pictures_are_taken_as_they_are_in_the_docs(tmp_path):
    needs_browser()
    command = [sys.executable, "-m", "tools.screenshots", "--to", tmp_path]
    taken = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=480)
    assert taken.returncode == 0, taken.stdout + taken.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["top.svg", *PAGES]
    for name in PAGES:
        assert size_of(tmp_path / name) == size_of(FIGURES / name)
    text = "".join(ElementTree.parse(tmp_path / "top.svg").getroot().itertext())
    assert "billing" in text
    assert "http:" not in (tmp_path / "top.svg").read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
