"""`penstock demo`: starts a broker, fills a topic, reads it with PySpark and writes the result to another topic."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Start a real Kafka, fill a topic with shop events, aggregate them with PySpark, write the result back into Kafka exactly
once, and show it and the speed.
Needs Java 17 or newer and PySpark. All data is removed at the end, also after Ctrl-C.
"""
EPILOG = """\
examples:
  penstock demo
  penstock demo --events 5000000
  penstock demo --keep          keep the broker for `penstock read` in another window

exit codes: 0 done, 1 failed (no Java, no PySpark), 2 wrong usage, 130 Ctrl-C
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--events", type=_positive, default=1_000_000, metavar="N", help="number of events (default 1,000,000)"
    )
    parser.add_argument(
        "--partitions", type=_positive, default=4, metavar="N", help="partitions of the topic (default 4)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the broker running at the end, until Ctrl-C")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from penstock.cli.demo_program import run_demo

    run_demo(arguments.events, arguments.partitions, keep=arguments.keep)
    return 0


def _positive(text: str) -> int:
    number = text.replace(",", "").replace("_", "")
    if not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(number)
