"""Untrusted text is escaped before it reaches a terminal."""

import ast
import json
import logging
import sys
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock.cli as cli
from penstock.cli import table
from penstock.cli.output import PrintableFormatter, json_text, printable, printable_lines, say
from penstock.cli.records import RecordView, shown
from penstock.errors import BrokerError

OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode's categories of characters that are not text. A terminal may obey them, or show another text."""

HOSTILE = "a\x1b]0;title\x07\x7f\x9b2J\x9d\u2028\u2029\u202e\u200f\ufeff\udc80\U000e0041z"
PLANES = [range(0x3000), range(0xD7F0, 0x10100), range(0xE0000, 0xE0200), range(sys.maxunicode - 9, sys.maxunicode + 1)]
EVERYTHING = "".join(chr(code) for codes in PLANES for code in codes)
"""Of every category."""

texts = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


def obeyed(text, but=""):
    """The characters of a text that must not reach a terminal."""
    return {c for c in set(text) if unicodedata.category(c) in OBEYED and c not in but}


@pytest.mark.parametrize("escape", [printable, json_text])
def test_no_character_passes_that_a_terminal_may_obey(escape):
    assert {unicodedata.category(c) for c in EVERYTHING} >= OBEYED
    assert obeyed(escape(EVERYTHING)) == set()
    assert obeyed(printable_lines(EVERYTHING), "\n\t") == set()


def test_text_stays_as_it_is():
    said = "Zoë liest 東京 – naïve Ωμέγα, שלום, 👩"
    assert printable(said) == printable_lines(said) == said
    assert json_text({"said": said}) == '{"said": "' + said + '"}'


def test_escapes_are_those_of_the_output():
    assert printable("\x7f\x9b\u202e\U000e0041") == r"\x7f\x9b\u202e\U000e0041"
    assert json_text("\x7f\x9b\u202e\U000e0041\udc80") == r'"\u007f\u009b\u202e\udb40\udc41\udc80"'
    assert printable_lines("one\n\ttwo\r\x1b") == "one\n\ttwo\\r\\x1b"


@given(documents)
def test_escaped_json_means_the_same(document):
    line = json_text(document)
    assert json.loads(line) == document
    assert len(line.splitlines()) == 1
    assert obeyed(line) == set()


def test_records_as_json_lines(capsys):
    """What `read --json` and `stream --to stdout` print."""
    look = RecordView("t", headers=True)
    batch = pa.record_batch(
        {
            "partition": [0],
            "offset": [1],
            "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
            "key": [HOSTILE.encode("utf-8", "surrogatepass")],
            "value": [HOSTILE.encode("utf-8", "surrogatepass")],
            "headers": [[{"key": "\x9b\u202e", "value": b"\x7f\xc2\x9d"}]],
        }
    )
    (record,) = look.records(batch)
    say(look.json_line(record))
    printed = capsys.readouterr().out
    assert obeyed(printed, "\n") == set()
    assert json.loads(printed)["headers"] == [["\x9b\u202e", "\x7f\x9d"]]
    assert obeyed("".join(look.row(record)))
    assert obeyed("".join(table.lines(look.header, [look.row(record)]))) == set()


@pytest.mark.parametrize("data", [b"NaN", b"[Infinity]", b'{"a": -1e999}', b"[" * 100_000])
def test_what_json_cannot_hold_is_shown_as_text(data):
    assert shown(data, "json") == data.decode()
    assert shown(b'{"a": 1.5e3}', "json") == {"a": 1500.0}


def test_names_of_fields_come_from_schemas_that_others_wrote():
    assert obeyed("".join(table.lines(["\x1b[2J\u202ea"], [["b"]], right=["\x1b[2J\u202ea"]))) == set()


@pytest.mark.parametrize("error", [BrokerError(f"no: {HOSTILE}\nsecond line"), KeyError(HOSTILE)])
def test_errors_of_brokers(monkeypatch, capsys, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("penstock.cli.topics.list_topics.Cluster", fail)
    assert cli.main(["topics", "-b", "h:1"]) == 1
    said = capsys.readouterr().err
    assert "title" in said
    assert obeyed(said, "\n") == set()


def test_arguments_that_are_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["topics", "-b", "h:1", f"--{HOSTILE}"])
    assert obeyed(capsys.readouterr().err, "\n") == set()


def test_what_is_logged_and_tracebacks(capsys):
    record = logging.LogRecord("penstock", logging.WARNING, "", 0, "group %s", (HOSTILE,), None)
    assert obeyed(PrintableFormatter("penstock: %(message)s").format(record)) == set()
    try:
        raise BrokerError(HOSTILE)
    except BrokerError:
        cli._print_error("not this", debug=True)
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "title" in said
    assert obeyed(said, "\n") == set()


def test_every_command_speaks_through_say():
    """`print` writes as it is. Only what moves the cursor itself may use it."""
    package = Path(cli.__file__).parent
    printing = {
        path.stem
        for path in package.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and node.args
    }
    assert printing == {"demo_program", "output", "steps"}
