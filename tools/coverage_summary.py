"""Print coverage.xml as a Markdown table, one row for each package. CI appends it to the summary of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree


def main() -> int:
    report = ElementTree.parse(Path(sys.argv[1])).getroot()  # noqa: S314 (written by the tests of the same run)
    print("### Coverage of the unit tests\n")
    print("| package | lines | covered | |\n| --- | ---: | ---: | ---: |")
    total_lines = total_covered = 0
    for name, lines, covered in packages(report):
        total_lines += lines
        total_covered += covered
        print(f"| `{name}` | {lines} | {covered} | {percent(covered, lines)} |")
    print(f"| **all** | {total_lines} | {total_covered} | **{percent(total_covered, total_lines)}** |")
    if total_lines == 0:
        print(f"coverage_summary: {sys.argv[1]} has no lines", file=sys.stderr)
        return 1
    return 0


def packages(report: ElementTree.Element) -> Iterator[tuple[str, int, int]]:
    """Name, lines and covered lines of each package that has lines, by name."""
    for package in sorted(report.iter("package"), key=lambda element: element.attrib["name"]):
        hits = [int(line.attrib["hits"]) for line in package.iterfind("classes/class/lines/line")]
        if hits:
            yield package.attrib["name"], len(hits), sum(hit > 0 for hit in hits)


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
