"""Pictures of the docs: they exist, say what they show, are small, load nothing, and drawings have one style."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "DESIGN.md", *sorted(DOCS.glob("*.md"))]
USED = {
    (page.parent / found["target"]).resolve(): found["alt"]
    for page in PAGES
    for found in PICTURE.finditer(page.read_text("utf-8"))
}
DRAWINGS = sorted(path for path in USED if path.suffix == ".svg" and path.parent == DOCS)
LARGEST = 150_000
COLOURS = {"#ffffff", "#f6f8fa", "#ddf4ff", "#fff8c5", "#1f2328", "#57606a", "#d0d7de"}
"""Of pages, boxes and texts in all drawings, by day."""


@pytest.mark.parametrize("path", sorted(USED), ids=lambda path: path.name)
def test_a_picture_exists_is_small_and_says_what_it_shows(path):
    assert path.is_file()
    assert path.stat().st_size < LARGEST
    assert len(USED[path].split()) >= 5, "the text for those who do not see it"


def test_every_picture_is_used():
    kept = {path for path in DOCS.rglob("*") if path.suffix in (".svg", ".png")}
    assert kept == USED.keys()


@pytest.mark.parametrize("path", [path for path in sorted(USED) if path.suffix == ".svg"], ids=lambda path: path.name)
def test_a_vector_picture_has_a_title_and_loads_nothing(path):
    text = path.read_text("utf-8")
    root = ElementTree.fromstring(text)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert root.get("role") == "img"
    assert title is not None
    assert title.text
    rest = text.replace("http://www.w3.org/2000/svg", "")
    assert "http" not in rest
    assert "<script" not in rest
    assert "@import" not in rest


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_drawings_have_one_style_by_day_and_by_night(path):
    text = path.read_text("utf-8")
    assert 'viewBox="0 0 860 ' in text
    assert "prefers-color-scheme: dark" in text
    day = text.partition("@media")[0]
    assert len(COLOURS & set(re.findall(r"#[0-9a-f]{6}", day))) >= 4
