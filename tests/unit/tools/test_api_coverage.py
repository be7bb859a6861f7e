"""The reference of the site: every public name has its place. Unlike the site's own check, this needs no MkDocs."""

from __future__ import annotations

import re
from pathlib import Path

import penstock

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "api"


def test_every_public_name_is_in_the_reference():
    texts = [path.read_text("utf-8") for path in REFERENCE.glob("*.md")]
    described = {name for text in texts for name in re.findall(r"^::: penstock\.(\w+)$", text, re.MULTILINE)}
    assert set(penstock.__all__) - {"__version__"} <= described
