"""The gate of the release workflow: a tag, two manifests and the change log name one version."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
SPEC = importlib.util.spec_from_file_location("check_release", ROOT / "tools" / "check_release.py")
assert SPEC is not None
assert SPEC.loader is not None
check_release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_release)

CHANGES = (
    "# Changes\n\n## [0.2.0] - 2026-01-31\n\nFaster.\n\n### Added\n- A thing.\n\n## [0.1.0] - 2025-12-01\n\nFirst.\n"
)


def sources(folder: Path, python: str = "0.2.0", kernel: str = "0.2.0", changes: str = CHANGES) -> Path:
    (folder / "kernel").mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{python}"\n')
    (folder / "kernel" / "Cargo.toml").write_text(f'[package]\nversion = "{kernel}"\n')
    (folder / "CHANGELOG.md").write_text(changes)
    return folder


def test_a_tag_that_agrees_with_all_sources_passes(tmp_path: Path) -> None:
    assert check_release.mismatches("v0.2.0", sources(tmp_path)) == []


def test_every_source_that_disagrees_is_named(tmp_path: Path) -> None:
    found = check_release.mismatches("v0.3.0", sources(tmp_path, kernel="0.1.0"))
    assert [re.findall(r"pyproject.toml|kernel/Cargo.toml|CHANGELOG.md", problem) for problem in found] == [
        ["pyproject.toml"],
        ["kernel/Cargo.toml"],
        ["CHANGELOG.md"],
    ]


@pytest.mark.parametrize("tag", ["0.2.0", "v0.2", "v0.2.0rc1", "v0.2.0\n", "version"])
def test_a_tag_is_v_and_three_numbers(tmp_path: Path, tag: str) -> None:
    (problem,) = check_release.mismatches(tag, sources(tmp_path))
    assert repr(tag) in problem


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("# Changes\n", "no entry"),
        (CHANGES.replace("2026-01-31", "unreleased"), "'unreleased'"),
        ("# Changes\n\n## [0.2.0] - 2026-01-31\n\n## [0.1.0] - 2025-12-01\n\nFirst.\n", "empty"),
    ],
)
def test_the_change_log_needs_a_dated_entry_with_text(tmp_path: Path, changes: str, reason: str) -> None:
    (problem,) = check_release.mismatches("v0.2.0", sources(tmp_path, changes=changes))
    assert reason in problem


def test_notes_are_the_text_of_one_entry() -> None:
    assert check_release.notes("0.2.0", CHANGES) == "Faster.\n\n### Added\n- A thing."
    assert check_release.notes("0.1.0", CHANGES) == "First."


def test_the_kernel_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert not [problem for problem in check_release.mismatches(f"v{version}", ROOT) if "Cargo.toml" in problem]
