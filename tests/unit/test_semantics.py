"""docs/semantics.md defines every rule code in use, and every rule has a test that carries its code."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "semantics.md"

CODE = re.compile(r"(?<![\w.#$])[FEHIQW]\d{1,2}(?!\w)")
"""Not part of a word, a hexadecimal number, a linter's rule (three digits) or an anchor."""

HEADING = re.compile(r"^### ([A-Z]\d+): \S", re.MULTILINE)
RULES = {"F": 28, "E": 7, "H": 18, "Q": 6, "I": 5, "W": 10}
"""How many there are of each letter. A new rule is the next number; the number of a dropped one is not used again."""


def defined() -> list[str]:
    return HEADING.findall(PAGE.read_text())


def python_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and docstrings, those of attributes too, with their lines. Other strings and names are not prose."""
    source = path.read_text()
    if not CODE.search(source):
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def rust_texts(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        _, slashes, comment = line.partition("//")
        if slashes:
            yield number, comment


def markdown_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Without blocks of code."""
    within_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            within_code = not within_code
        elif not within_code:
            yield number, line


def texts() -> Iterator[tuple[Path, int, str]]:
    python = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.pyi"), *ROOT.glob("tests/**/*.py")]
    rust = ROOT.glob("kernel/src/**/*.rs")
    markdown = [*ROOT.glob("docs/**/*.md"), ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md"]
    for read, paths in ((python_texts, python), (rust_texts, rust), (markdown_texts, markdown)):
        for path in paths:
            for line, text in read(path):
                yield path, line, text


def codes_of(test: str) -> list[str]:
    """The rules that a test proves, by its name: `test_F14_and_F15_a_pattern` has two."""
    parts = test.removeprefix("test_").split("_")
    return [part for part in takewhile(lambda part: part == "and" or CODE.fullmatch(part), parts) if part != "and"]


def named_tests() -> Iterator[tuple[Path, str]]:
    for path in ROOT.glob("tests/**/test_*.py"):
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            yield path, name


def test_rules_are_defined_once_and_in_order():
    assert defined() == [f"{letter}{number}" for letter, count in RULES.items() for number in range(1, count + 1)]


def test_every_code_that_the_repository_uses_is_defined():
    known = set(defined())
    unknown = [
        f"{path.relative_to(ROOT)}:{line}: {code}"
        for path, line, text in texts()
        for code in CODE.findall(text)
        if code not in known
    ]
    unknown += [f"{path.relative_to(ROOT)}: {name}" for path, name in named_tests() if not set(codes_of(name)) <= known]
    assert not unknown, "\n".join(["docs/semantics.md does not define:", *unknown])


def test_every_rule_has_a_test_that_carries_its_code():
    counts = Counter(code for _, name in named_tests() for code in codes_of(name))
    without = [code for code in defined() if not counts[code]]
    assert not without, f"no test is named after {', '.join(without)}"


def test_every_code_in_the_list_of_gaps_is_a_rule():
    gaps = re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text().partition("## Known gaps")[2], re.MULTILINE)
    assert set(gaps) <= set(defined())


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("as in Flink (F11), also E2, E3.", ["F11", "E2", "E3"]),
        ("H8: nothing of it", ["H8"]),
        ("F6 to F9, F6-F9", ["F6", "F9"] * 2),
        ("0xF1, #F1, noqa: F401, E501, KIP-392, F16le, docs.F1", []),
    ],
)
def test_what_counts_as_a_code(text, codes):
    assert CODE.findall(text) == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("test_F11_a_partition", ["F11"]),
        ("test_E2_E5_F19_every_row", ["E2", "E5", "F19"]),
        ("test_F14_and_F15_a_pattern", ["F14", "F15"]),
        ("test_a_column_of_I64_is_no_rule", []),
        ("test_and_nothing_else", []),
    ],
)
def test_which_rules_a_test_is_named_after(name, codes):
    assert codes_of(name) == codes
