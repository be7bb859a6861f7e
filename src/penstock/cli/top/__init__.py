"""`penstock top`: groups and topics of a cluster, live in a terminal, or once for a script."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli import table
from penstock.cli.connection import add_connection_arguments
from penstock.cli.exit_codes import FAILED, OK
from penstock.cli.monitoring import add_monitoring_arguments, make_collector
from penstock.cli.output import Colour, json_text, say
from penstock.errors import BrokerError, OptionError, PenstockError

if TYPE_CHECKING:
    from penstock.monitor.collector import Collector
    from penstock.monitor.snapshot import Snapshot

DESCRIPTION = """\
Show the consumer groups of a cluster: lag in records and in seconds, trend, and the time to catch up; and its topics.
The screen is renewed at an interval. It requires the package rich: pip install 'penstock[top]'. --once does not.
"""
EPILOG = """\
keys:
  q            quit                        g, t         groups, topics
  up, down     select a row                Enter, Esc   its partitions, back
  left, right  sort by another column      r            reverse the order
  /            filter by a part of the name

BEHIND is the age of the next record, by its timestamp. Where timestamps rise, no unread record is older. Before it, <
means at most (the next record is not looked up yet), > at least (it was deleted), ~ about (within a record batch).
TREND/S is how fast the lag grows, READ/S how fast committed offsets rise. DELETED counts records that were deleted
before the group read them. Rates are averages over about a minute.

examples:
  penstock top -b localhost:9092
  penstock top -b localhost:9092 --include-groups '^billing' --sort LAG
  penstock top -b localhost:9092 --once --json

exit codes: 0 done, 1 failed (--once: no broker answers), 2 wrong usage, 130 Ctrl-C
"""

INTERVAL = 3.0
TICK = 0.25
ONCE_ROUNDS = 5
"""Rounds in which --once waits for the lag in seconds of all positions."""
ONCE_SECONDS = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("--topics", action="store_true", help="begin with topics, not with groups")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by this column (default: BEHIND, or IN/S of topics)")
    parser.add_argument("--once", action="store_true", help="print one table and end; takes two rounds, for the rates")
    parser.add_argument(
        "--json", action="store_true", help="print JSON with all values: a line per round, or one with --once"
    )
    add_monitoring_arguments(parser, interval=INTERVAL)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from penstock.cli.top.view import Table, View

    view = View(Table.TOPICS if arguments.topics else Table.GROUPS)
    if arguments.sort is not None:
        column = next((each for each in view.columns if each.name == arguments.sort.upper()), None)
        if column is None:
            names = ", ".join(each.name for each in view.columns)
            raise OptionError("--sort", arguments.sort, f"is not a column. The columns are {names}")
        view.sort_by(column.name, largest_first=column.right)
    if arguments.once:
        return _once(arguments, view)
    if arguments.json:
        return _lines(arguments)
    return _live(arguments, view)


def _once(arguments: argparse.Namespace, view: Any) -> int:
    with make_collector(arguments) as collector:
        snapshot = complete_snapshot(collector)
    for problem in snapshot.problems:
        say(f"penstock top: {problem}", file=sys.stderr)
    if snapshot.answered_at is None:
        raise BrokerError("no broker answers. Check -b, and that the brokers run; `penstock doctor` finds out more")
    if arguments.json:
        _print_json(snapshot)
        return OK
    columns = view.columns
    rows = [[column.text(item) for column in columns] for item in view.rows(snapshot)]
    right = [column.name for column in columns if column.right]
    for line in table.shown([column.name for column in columns], rows, right=right, colour=_colour):
        say(line)
    return OK


def complete_snapshot(collector: Collector) -> Snapshot:
    """A snapshot with rates, and with the lag in seconds of all positions if that takes a few rounds. The first one if
    no broker answers."""
    deadline, number = time.monotonic() + ONCE_SECONDS, 0
    snapshot = None
    while (left := deadline - time.monotonic()) > 0:
        found = collector.wait_for(number, left)
        if found is None:
            break
        snapshot, number = found, found.number
        if not snapshot.is_reachable or (number >= 2 and not snapshot.lookups_left) or number >= ONCE_ROUNDS:
            break
    if snapshot is None:
        raise BrokerError(f"the cluster did not answer within {ONCE_SECONDS:g} s")
    return snapshot


def _lines(arguments: argparse.Namespace) -> int:
    with make_collector(arguments) as collector, terminated() as ended:
        number = 0
        while not ended:
            snapshot = collector.wait_for(number, TICK)
            if snapshot is not None:
                number = snapshot.number
                _print_json(snapshot)
    return OK


def _live(arguments: argparse.Namespace, view: Any) -> int:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise PenstockError("penstock top requires a terminal. For a script or a pipe, add --once or --json")
    try:
        from rich.console import Console
        from rich.live import Live

        from penstock.cli.top.keys import Keys
        from penstock.cli.top.screen import drawn
    except ImportError as error:
        if error.name == "termios":
            raise PenstockError("the live screen requires a Unix terminal. Add --once or --json") from None
        raise PenstockError(
            "the live screen requires the package rich: pip install 'penstock[top]'. Or add --once or --json"
        ) from None
    collector = make_collector(arguments)
    console = Console(no_color=arguments.color == "never" or None)
    quiet = logging.getLogger("penstock")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL)  # warnings would be printed into the screen, which has the problems
    try:
        with (
            Keys(sys.stdin) as keys,
            terminated() as ended,
            Live(console=console, screen=True, auto_refresh=False) as live,
            collector,
        ):
            while not view.is_over and not ended:
                snapshot = collector.snapshot
                live.update(drawn(view, snapshot, console, time.time()), refresh=True)
                key = keys.read(TICK)
                while key is not None:
                    view.press(key, snapshot)
                    key = keys.read(0)
    except EOFError:
        return FAILED  # the terminal is gone
    finally:
        quiet.setLevel(level)
    return OK


@contextmanager
def terminated() -> Iterator[list[int]]:
    """A list that is no longer empty after SIGTERM: the terminal is restored then."""
    received: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, previous)


def _print_json(snapshot: Snapshot) -> None:
    from penstock.monitor.document import document

    say(json_text(document(snapshot)), flush=True)


def _colour(column: str, row: Any) -> Colour:
    if column == "LAG" and row["LAG"] not in ("0", "-"):
        return Colour.YELLOW
    if column in ("DELETED", "NO LEADER") and row[column] != "0":
        return Colour.RED
    return Colour.GREEN if column == "STATE" and row["STATE"] == "Stable" else Colour.NONE
