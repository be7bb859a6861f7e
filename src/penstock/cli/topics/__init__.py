"""`penstock topics [VERB]`: one file per verb. Without a verb it lists the topics."""

from __future__ import annotations

import argparse

from penstock.cli.connection import add_connection_arguments
from penstock.cli.topics import create, delete, describe, list_topics
from penstock.cli.topics.lookup import EXIT_CODES

DESCRIPTION = """\
List topics with their partitions and records. The number of records is the end offset minus the first offset.
Compaction and transactions leave gaps, so there may be fewer records. With a verb: create, describe or delete a topic.
"""
EPILOG = f"""\
examples:
  penstock topics -b localhost:9092
  penstock topics -b broker:9093 --options-file client.properties --json
  penstock topics create clicks -b localhost:9092 --partitions 8 --setting retention.ms=86400000
  penstock topics describe clicks -b localhost:9092
  penstock topics delete clicks -b localhost:9092 --execute

{EXIT_CODES}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    list_topics.add_list_arguments(parser)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs (default: list)")
    for verb in (list_topics, create, describe, delete):
        verb.add_parser(verbs)


def run(arguments: argparse.Namespace) -> int:
    return list_topics.run(arguments)
