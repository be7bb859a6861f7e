"""`penstock groups VERB`: one file per verb."""

from __future__ import annotations

import argparse

from penstock.cli.connection import add_connection_arguments
from penstock.cli.groups import configure, delete, describe, list_groups, reset
from penstock.cli.groups.event_time import add_event_time_arguments
from penstock.cli.groups.lookup import EXIT_CODES

DESCRIPTION = """\
Show the consumer groups of a cluster, their members and their lag. Reset the offsets of a group, change
its settings, or delete it: these are a dry run unless --execute is given.
"""
EPILOG = f"""\
examples:
  penstock groups -b localhost:9092 list
  penstock groups -b localhost:9092 describe words
  penstock groups -b localhost:9092 --event-time describe words
  penstock groups -b localhost:9092 --event-time
  penstock groups -b localhost:9092 reset words --topic clicks --to earliest
  penstock groups -b localhost:9092 reset words --topic clicks:0,1 --by -100 --execute
  penstock groups -b localhost:9092 delete words --execute

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    add_connection_arguments(parser)
    add_event_time_arguments(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def run_without_verb(arguments: argparse.Namespace) -> int:
        if not arguments.event_time:
            parser.error("the following arguments are required: VERB")
        return list_groups.run(arguments)

    parser.set_defaults(run=run_without_verb, json=False)
    for verb in (list_groups, describe, reset, configure, delete):
        verb.add_parser(verbs)
