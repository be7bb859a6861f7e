"""`penstock topics create TOPIC`."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.output import counted, say
from penstock.cli.target_topic import partition_count
from penstock.cli.topics.lookup import EXIT_CODES, client_config, topic_admin
from penstock.cli.verb import add_verb
from penstock.errors import BrokerError

EPILOG = f"""\
examples:
  penstock topics create clicks -b localhost:9092 --partitions 8
  penstock topics create clicks -b localhost:9092 --replicas 3 --setting cleanup.policy=compact

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "create", "create a topic", EPILOG, run)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partitions", type=partition_count, metavar="N", help="number of partitions (default: the broker's)"
    )
    parser.add_argument("--replicas", type=_replicas, metavar="N", help="replication factor (default: the broker's)")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of the topic, such as retention.ms=86400000; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    client, name = client_config(arguments), arguments.topic
    admin = topic_admin(client)
    try:
        admin.create_topic(name, arguments.partitions or -1, arguments.replicas or -1, dict(arguments.setting))
    except BrokerError as error:
        if name in admin.topics():
            raise BrokerError(f"topic {name!r} exists. `penstock topics describe {name}` shows it") from error
        raise
    described = admin.describe_topic(name)
    replicas = max(len(partition.replicas) for partition in described.partitions)
    partitions = counted(len(described.partitions), "partition")
    say(f"Created topic {name} with {partitions}, {counted(replicas, 'replica')} each.")
    return 0


def _replicas(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of replicas")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value
