"""The files of the page: what is served, imported and packaged."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from penstock.watch.server import page_files

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "src" / "penstock" / "watch" / "page"
NAMES = sorted(path.name for path in PAGE.iterdir())


def test_every_file_of_the_page_is_served():
    assert sorted(path.removeprefix("/") or "index.html" for path in page_files()) == NAMES


def test_the_page_imports_and_names_only_files_that_it_has():
    texts = [(PAGE / name).read_text("utf-8") for name in NAMES if name.endswith((".js", ".html"))]
    named = {found for text in texts for found in re.findall(r'(?:from |src=|href=)"/([\w.]+)"', text)}
    assert {name for name in NAMES if name != "index.html"} == named


def test_modules_import_only_names_that_are_exported():
    exports = {
        name: set(
            re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", (PAGE / name).read_text(), re.MULTILINE)
        )
        for name in NAMES
        if name.endswith(".js")
    }
    for name in exports:
        text = (PAGE / name).read_text("utf-8")
        for wanted, module in re.findall(r'import \{([^}]*)\} from "/([\w.]+)"', text):
            names = {each.strip() for each in wanted.split(",") if each.strip()}
            assert names <= exports[module], name
            body = text.replace(wanted, "", 1)
            assert all(re.search(rf"\b{each}\b", body) for each in names), f"{name} imports what it does not use"


def test_no_file_of_the_page_is_ignored_by_git():
    """maturin leaves out ignored files, of the wheel and of the source distribution."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    ignored = subprocess.run(["git", "check-ignore", *PAGE.iterdir()], cwd=ROOT, capture_output=True, text=True)
    assert (ignored.returncode, ignored.stdout) == (1, "")


@pytest.mark.extended
def test_the_source_distribution_has_the_page(tmp_path):
    """`tools/smoke_wheel.py` checks the wheel, which takes minutes to build."""
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True, timeout=120)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        found = {Path(name) for name in opened.getnames()}
    assert sorted(path.name for path in found if path.parent.parts[-2:] == ("watch", "page")) == NAMES
