"""The parser of one verb of `penstock groups` and `penstock topics`."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.connection import add_connection_arguments
from penstock.cli.output import add_color_argument


def add_verb(verbs: Any, name: str, what: str, epilog: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection_arguments(parser, again=True)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add_color_argument(parser, argparse.SUPPRESS, argparse.SUPPRESS)
    parser.set_defaults(run=run)
    return parser
