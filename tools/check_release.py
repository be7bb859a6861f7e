"""Check that a tag, pyproject.toml, kernel/Cargo.toml and CHANGELOG.md name the same version; write its release notes.

    python tools/check_release.py v0.1.0 --notes notes.md

Run by the release workflow before anything is built, and by hand before the tag is pushed (see RELEASING.md).
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<date>.+)$", re.MULTILINE)
# No pre-releases: Python and Cargo write their versions differently, and the kernel's must equal the wheel's.
TAG = re.compile(r"v\d+\.\d+\.\d+")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag", help="tag of the release, such as v0.1.0")
    parser.add_argument("--notes", type=Path, help="file for the release notes, taken from CHANGELOG.md")
    arguments = parser.parse_args()
    problems = mismatches(arguments.tag, ROOT)
    for problem in problems:
        print(f"check_release: {problem}", file=sys.stderr)
    if problems:
        return 1
    if arguments.notes:
        arguments.notes.write_text(notes(arguments.tag.removeprefix("v"), changelog(ROOT)) + "\n")
    print(f"check_release: {arguments.tag} agrees with pyproject.toml, kernel/Cargo.toml and CHANGELOG.md")
    return 0


def mismatches(tag: str, root: Path) -> list[str]:
    """Everything that is wrong, so that one run shows all of it."""
    if not TAG.fullmatch(tag):
        return [f"the tag is {tag!r}. Use v and three numbers, such as v0.1.0"]
    version = tag.removeprefix("v")
    found = []
    for name, table in (("pyproject.toml", "project"), ("kernel/Cargo.toml", "package")):
        written = tomllib.loads((root / name).read_text())[table]["version"]
        if written != version:
            found.append(f"{name} has version {written}, the tag {tag}. Set the version there, or move the tag")
    newest = HEADING.search(changelog(root))
    if newest is None:
        found.append("CHANGELOG.md has no entry of the form '## [0.1.0] - 2026-01-31'")
    elif newest["version"] != version:
        found.append(f"the newest entry of CHANGELOG.md is {newest['version']}, the tag {tag}. Add an entry")
    elif not DATE.fullmatch(newest["date"]):
        found.append(f"CHANGELOG.md dates {version} {newest['date']!r}. Write the day of the release, as 2026-01-31")
    elif not notes(version, changelog(root)):
        found.append(f"the entry of {version} in CHANGELOG.md is empty")
    return found


def notes(version: str, text: str) -> str:
    """The text of a version's entry, without its heading."""
    headings = list(HEADING.finditer(text))
    for at, heading in enumerate(headings):
        if heading["version"] == version:
            end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
            return text[heading.end() : end].strip()
    return ""


def changelog(root: Path) -> str:
    return (root / "CHANGELOG.md").read_text()


if __name__ == "__main__":
    sys.exit(main())
