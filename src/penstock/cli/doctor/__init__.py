"""`penstock doctor`: checks this machine and the way to a cluster, one line per check."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from penstock.cli.connection import BOOTSTRAP_VARIABLE, add_connection_arguments, connection_options
from penstock.cli.doctor.check import Check, skipped
from penstock.cli.doctor.cluster import check_cluster
from penstock.cli.doctor.environment import check_environment
from penstock.cli.output import Colour, Painted, counted, json_text, painted, printable, say, terminal_width
from penstock.config.source import parse_options
from penstock.errors import OptionError
from penstock.masking import masked

DESCRIPTION = """\
Check this machine (interpreter, kernel, PySpark, the interpreter of Spark's workers, Java) and, with -b, the way to a
cluster: brokers, certificates, Kerberos tickets, login, advertised listeners, schema registry and permissions. Nothing
is changed. A check that fails says what to do.
"""
EPILOG = """\
examples:
  penstock doctor
  penstock doctor -b localhost:9092
  penstock doctor -b broker:9093 --options-file client.properties --topic clicks --group billing
  penstock doctor -b localhost:9092 -o schemaRegistry.url=http://localhost:8081 --json

exit codes: 0 no check failed, 1 a check failed, 2 wrong usage, 130 Ctrl-C
"""

MARKS = {
    "ok": ("ok", Colour.GREEN),
    "warning": ("warning", Colour.YELLOW),
    "failed": ("FAILED", Colour.RED),
    "skipped": ("skipped", Colour.NONE),
}
MARK_WIDTH = max(len(word) for word, _ in MARKS.values())
NAME_WIDTH = len("certificates")
LEAST_TEXT = 30
"""Narrower columns of text are harder to read than lines that the terminal wraps."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("--topic", metavar="TOPIC", help="check that this topic can be read")
    parser.add_argument("--group", metavar="GROUP", help="check that this consumer group can be joined")
    parser.add_argument("--json", action="store_true", help="print one JSON object per check and line")
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    states = []
    for check in _checks(arguments):
        states.append(check.state)
        if arguments.json:
            say(json_text(asdict(check)), flush=True)
        else:
            show(check)
    failures = states.count("failed")
    if not arguments.json:
        say(f"\n{counted(failures, 'check')} failed." if failures else "\nNo check failed.")
    return 1 if failures else 0


def _checks(arguments: argparse.Namespace) -> Iterator[Check]:
    try:
        given = connection_options(arguments)
    except OptionError as error:
        if error.name != "--bootstrap-server" or arguments.topic or arguments.group:
            raise
        yield from check_environment()
        remedy = f"Add -b HOST:PORT or set {BOOTSTRAP_VARIABLE}; `penstock broker` starts a broker"
        yield skipped("broker", "no address of a broker is given", remedy)
        return
    # Before the first line: a wrong option ends the command.
    options = parse_options(_with_format(given) | {"subscribePattern": ".*"})
    yield from check_environment()
    yield from check_cluster(options, arguments.topic, arguments.group)


def _with_format(given: dict[str, str]) -> dict[str, str]:
    """The options, with a format that needs the registry if there is one: alone it would be refused."""
    names = {name.lower() for name in given}
    if "schemaregistry.url" not in names or not names.isdisjoint({"valueformat", "keyformat"}):
        return given
    return given | {"valueFormat": "avro"}


def show(check: Check) -> None:
    word, colour = MARKS[check.state]
    remedy = f". {check.remedy}" if check.remedy else ""
    mark = painted(f"{word:<{MARK_WIDTH}}", colour, sys.stdout)
    text = printable(masked(f"{check.found}{remedy}".replace("\n", " ")))
    name = f"  {check.check:<{NAME_WIDTH}}  "
    indent, width = MARK_WIDTH + len(name), terminal_width(sys.stdout)
    # In a pipe one line per check, for grep.
    lines = [text] if width is None else textwrap.wrap(text, max(width - indent, LEAST_TEXT), break_on_hyphens=False)
    say(Painted(mark + name + f"\n{' ' * indent}".join(lines)), flush=True)
