"""`penstock topics delete TOPIC`: a dry run unless --execute is given."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.output import counted, say
from penstock.cli.topics.list_topics import listed
from penstock.cli.topics.lookup import EXIT_CODES, client_config, topic_admin
from penstock.cli.verb import add_verb
from penstock.wire.cluster import Cluster

EPILOG = f"""\
example:
  penstock topics delete clicks -b localhost:9092 --execute

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "delete", "delete a topic and its records (dry run by default)", EPILOG, run)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--execute", action="store_true", help="delete it; without it nothing is changed")


def run(arguments: argparse.Namespace) -> int:
    client, name = client_config(arguments), arguments.topic
    cluster = Cluster(client)
    (found,) = listed(cluster, [cluster.metadata((name,)).topics[name]])
    what = f"topic {name} with {counted(found.partitions, 'partition')} and {counted(found.records, 'record')}"
    if arguments.execute:
        topic_admin(client).delete_topic(name)
        say(f"Deleted {what}.")
    else:
        say(f"Dry run: nothing was changed. To delete {what}, add --execute.")
    return 0
